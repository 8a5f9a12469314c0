"""What to try if a search finds nothing: another spelling, any word instead of all, no filters."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from clerk.archive.query import InvalidQuery, Query, parse
from clerk.archive.query_nodes import And, Node, Term
from clerk.archive.spelling import correct_words
from clerk.archive.terms import fold
from clerk.object_storage.path import StoragePath
from clerk.publish.published_search import search_published
from clerk.publish.search_form import SearchForm
from clerk.publish.versions import published_archives

_SPELLING_SECONDS = 0.5
_SPELLING = "Another spelling"
_ANY_WORD = "Any of the words instead of all"
_SECONDS = 2.0
"""For all suggestions together."""


@dataclass(frozen=True)
class Suggestion:
    label: str
    form: SearchForm
    total: int
    """Number of pages that the search finds; a part of them if `is_partial`."""
    is_partial: bool = False


def suggest(publish_dir: StoragePath, form: SearchForm, query: Query) -> list[Suggestion]:
    """Searches like `form` that find something, the most similar first."""
    deadline = time.monotonic() + _SECONDS
    suggestions: list[Suggestion] = []
    for label, candidate in _candidates(publish_dir, form, query):
        if label == _ANY_WORD and any(known.label == _SPELLING for known in suggestions):
            continue  # one of the words is misspelled
        remaining = deadline - time.monotonic()
        other, _ = candidate.parse_query()
        if other is None or remaining <= 0 or any(candidate == known.form for known in suggestions):
            continue
        request = replace(candidate.request(other), limit=0)
        request = replace(candidate.request(other), limit=0)
        result = search_published(publish_dir, request, candidate.site or None, remaining)
        if result.total:
            suggestions.append(Suggestion(label, candidate, result.total, bool(result.unreached)))
    return suggestions


def _candidates(publish_dir: StoragePath, form: SearchForm, query: Query) -> Iterator[tuple[str, SearchForm]]:
    form = replace(form, page=1)
    unfiltered = SearchForm(form.q, sort=form.sort)
    if corrected := _correct_spelling(publish_dir, form, query):
        yield _SPELLING, replace(form, q=corrected)
        yield "Another spelling, without filters", replace(unfiltered, q=corrected)
    if unfiltered != form:
        yield "Without filters", unfiltered
    if separate := _without_quotes(query.root):
        yield "The words of the phrase, anywhere on the page", replace(form, q=separate)
    if any_word := _any_word(query.root):
        yield _ANY_WORD, replace(form, q=any_word)


def _correct_spelling(publish_dir: StoragePath, form: SearchForm, query: Query) -> str | None:
    words = [token for term in query.terms if not term.is_prefix for token in term.tokens]
    corrections = correct_words(words, published_archives(publish_dir, form.site or None), _SPELLING_SECONDS)
    if not corrections:
        return None
    corrected = re.sub(r"[^\W\d_]+", lambda match: corrections.get(fold(match[0]), match[0]), query.text)
    try:
        parse(corrected)
    except InvalidQuery:
        return None
    return corrected


def _without_quotes(root: Node) -> str | None:
    return root.text if isinstance(root, Term) and root.is_quoted and len(root.tokens) > 1 else None


def _any_word(root: Node) -> str | None:
    """`tree "bike lanes" -school` → `(tree OR "bike lanes") -school`. None for queries with other operators."""
    if not isinstance(root, And) or len(root.required) < 2:
        return None
    nodes = (*root.required, *root.excluded)
    if not all(isinstance(node, Term) for node in nodes):
        return None
    terms = [_as_text(node) for node in nodes if isinstance(node, Term)]
    required, excluded = terms[: len(root.required)], terms[len(root.required) :]
    joined = " OR ".join(required)
    return f"({joined}) {' '.join(f'-{term}' for term in excluded)}" if excluded else joined


def _as_text(term: Term) -> str:
    quoted = f'"{term.text}"' if term.is_quoted else term.text
    return quoted + "*" * (term.is_prefix and not term.is_quoted)
