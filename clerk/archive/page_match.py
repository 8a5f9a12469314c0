"""Matches a query with the terms of one page, and marks the matches in its text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from clerk.archive.query_nodes import And, Near, Node, Or, Phrase, Term
from clerk.archive.terms import PageTerms

HIGHLIGHT = ("\x02", "\x03")
"""Start and end marks of a match. The caller replaces these control characters."""
_WITHOUT_MARKS = {ord(mark): " " for mark in HIGHLIGHT}
_SNIPPET_WORDS = 24
_WORDS_BEFORE = 4


class _Column:
    """The positions of the terms of a column."""

    def __init__(self, terms: Sequence[str]) -> None:
        self.terms = terms
        self.positions: dict[str, list[int]] = defaultdict(list)
        for position, term in enumerate(terms):
            self.positions[term].append(position)

    def find(self, phrase: Phrase, is_prefix: bool) -> list[int]:
        """The positions where the phrase begins."""
        if is_prefix and len(phrase) == 1:
            return [at for at, term in enumerate(self.terms) if term.startswith(phrase[0])]
        return [at for at in self.positions.get(phrase[0], ()) if self._continues(at, phrase, is_prefix)]

    def _continues(self, at: int, phrase: Phrase, is_prefix: bool) -> bool:
        found = tuple(self.terms[at : at + len(phrase)])
        if is_prefix and len(found) == len(phrase):
            return found[:-1] == phrase[:-1] and found[-1].startswith(phrase[-1])
        return found == phrase


class _Page:
    def __init__(self, terms: PageTerms) -> None:
        self._terms = terms
        self._columns: dict[str, _Column] = {}

    def _column(self, name: str) -> _Column:
        """Made when a term needs it: most queries use one of the two."""
        if name not in self._columns:
            self._columns[name] = _Column(self._terms.words if name == "words" else self._terms.stems)
        return self._columns[name]

    def find(self, term: Term) -> list[tuple[int, int]]:
        """First and last position of each match of the term."""
        column = self._column(term.column)
        return [
            (at, at + len(phrase) - 1)
            for phrase in term.alternatives(term.column)
            for at in column.find(phrase, term.is_prefix)
        ]

    def matches(self, node: Node) -> bool:
        if isinstance(node, Term):
            return bool(self.find(node))
        if isinstance(node, Near):
            return any(self._is_near(node, phrases) for phrases in node.alternatives())
        if isinstance(node, Or):
            return any(map(self.matches, node.nodes))
        assert isinstance(node, And)
        return all(map(self.matches, node.required)) and not any(map(self.matches, node.excluded))

    def _is_near(self, node: Near, phrases: tuple[Phrase, ...]) -> bool:
        column = self._column(node.column)
        found = [column.find(phrase, term.is_prefix) for phrase, term in zip(phrases, node.terms, strict=True)]
        return any(
            all(
                any(at <= last and last - at - len(phrase) <= node.distance for at in positions)
                for positions, phrase in zip(found, phrases, strict=True)
            )
            for last in {at for positions in found for at in positions}
        )


def matches(node: Node, terms: PageTerms) -> bool:
    return _Page(terms).matches(node)


def highlight(text: str, terms: Iterable[Term]) -> str:
    return _mark(text, _spans(text, PageTerms.of(text), terms), 0, len(text))


def snippet(text: str, terms: Iterable[Term]) -> str:
    """About 24 words around the matches, from where most different terms are close together."""
    page = PageTerms.of(text)
    tokens = sorted(page.tokens, key=lambda token: token.start)
    if not tokens:
        return ""
    starts = {token.start: number for number, token in reversed(list(enumerate(tokens)))}
    spans = _spans(text, page, terms)
    best, first = 0, 0
    for start, _, _ in spans:
        at = starts[start]
        inside = [span for span in spans if at <= starts[span[0]] < at + _SNIPPET_WORDS - _WORDS_BEFORE]
        weight = 1000 * len({term for _, _, term in inside}) + len(inside)
        if weight > best:
            best, first = weight, max(0, at - _WORDS_BEFORE)
    last = min(first + _SNIPPET_WORDS, len(tokens)) - 1
    begin = 0 if first == 0 else tokens[first].start
    end = len(text) if last == len(tokens) - 1 else tokens[last].end
    marked = _mark(text, spans, begin, end).strip()
    return f"{'… ' if begin else ''}{marked}{' …' if end < len(text) else ''}"


def _spans(text: str, page: PageTerms, terms: Iterable[Term]) -> list[tuple[int, int, int]]:
    """Start, end and number of the term of each match, sorted. Matches do not overlap: the first and longest stays."""
    found = _Page(page)
    spans = []
    for number, term in enumerate(terms):
        for first, last in found.find(term):
            start, end = page.tokens[first].start, page.tokens[last].end
            if start < end:
                spans.append((start, end, number))
    separate: list[tuple[int, int, int]] = []
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        if not separate or span[0] >= separate[-1][1]:
            separate.append(span)
    return separate


def _mark(text: str, spans: Iterable[tuple[int, int, int]], begin: int, end: int) -> str:
    text = text.translate(_WITHOUT_MARKS)
    parts: list[str] = []
    at = begin
    for start, stop, _ in spans:
        if begin <= start and stop <= end:
            parts += [text[at:start], HIGHLIGHT[0], text[start:stop], HIGHLIGHT[1]]
            at = stop
    return "".join([*parts, text[at:end]])
