"""The query language of `clerk search`, the dashboard, `clerk serve` and alerts.

    parse(text)                a Query; raises InvalidQuery, which says what to write instead
    Query.matches(page_text)   whether a page matches
    Query.highlight(page_text) the page with HIGHLIGHT marks around the matches
    Query.snippet(page_text)   an extract around the matches, with the same marks
    Query.as_fts(form)         the FTS5 query for the search tables of an archive

docs/search.md describes the language. A word matches all words with its stem, in English or Spanish. A phrase in double
quotes and a prefix* match as written, except for case, accents and the form of numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from clerk.archive import page_match, query_parser
from clerk.archive.query_nodes import And, Near, Node, Or, Term
from clerk.archive.query_parser import InvalidQuery
from clerk.archive.terms import PageTerms

__all__ = ["HIGHLIGHT", "ArchiveForm", "InvalidQuery", "Query", "parse"]

HIGHLIGHT = page_match.HIGHLIGHT


class ArchiveForm(StrEnum):
    """What an archive has to search in."""

    TERMS = "terms"
    """A table such as `minutes_search` for each table of pages, with the columns `words` and `stems`."""
    TEXT = "text"
    """Only tables such as `minutes_fts`: built by an older version of clerk. Words match as written."""


@dataclass(frozen=True)
class Query:
    text: str
    root: Node

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The terms to find, without the excluded ones, in the order of the query."""
        return tuple(_positive_terms(self.root))

    def matches(self, page_text: str) -> bool:
        return page_match.matches(self.root, PageTerms.of(page_text))

    def highlight(self, page_text: str) -> str:
        return page_match.highlight(page_text, self.terms)

    def snippet(self, page_text: str) -> str:
        return page_match.snippet(page_text, self.terms)

    def as_fts(self, form: ArchiveForm = ArchiveForm.TERMS) -> str:
        return _as_fts(self.root, form)


def parse(text: str) -> Query:
    return Query(text, query_parser.parse(text))


def _positive_terms(node: Node) -> list[Term]:
    if isinstance(node, Term):
        return [node]
    nodes = node.terms if isinstance(node, Near) else node.nodes if isinstance(node, Or) else node.required
    return [term for child in nodes for term in _positive_terms(child)]


def _as_fts(node: Node, form: ArchiveForm) -> str:
    if isinstance(node, Term):
        return _alternatives([_fts_phrase(words, node.is_prefix) for words in _term_phrases(node, form)], node, form)
    if isinstance(node, Near):
        groups = [
            " ".join(_fts_phrase(words, term.is_prefix) for words, term in zip(phrases, node.terms, strict=True))
            for phrases in (node.alternatives() if form is ArchiveForm.TERMS else node.text_alternatives())
        ]
        return _alternatives([f"NEAR({group}, {node.distance})" for group in groups], node, form)
    if isinstance(node, Or):
        return "(" + " OR ".join(_as_fts(child, form) for child in node.nodes) + ")"
    assert isinstance(node, And)
    required = " AND ".join(_as_fts(child, form) for child in node.required)
    if not node.excluded:
        return f"({required})"
    return f"(({required}) NOT ({' OR '.join(_as_fts(child, form) for child in node.excluded)}))"


def _alternatives(queries: list[str], node: Term | Near, form: ArchiveForm) -> str:
    joined = f"({' OR '.join(queries)})"
    return f"({{{node.column}}} : {joined})" if form is ArchiveForm.TERMS else joined


def _term_phrases(term: Term, form: ArchiveForm) -> tuple[tuple[str, ...], ...]:
    return term.alternatives(term.column) if form is ArchiveForm.TERMS else term.text_alternatives()


def _fts_phrase(words: tuple[str, ...], is_prefix: bool) -> str:
    # The words are letters and digits only, so nothing needs escaping.
    return f'"{" ".join(words)}"' + " *" * is_prefix
