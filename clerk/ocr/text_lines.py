"""Collects the text of a web page or a Word document as lines, and divides it into pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

FULL, LONGEST = 20_000, 40_000
"""Characters: a page ends before the first heading after so many, and at the latest after so many."""
_SPACE = re.compile(r"\s+")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff\ud800-\udfff]")
_CELL_SEPARATOR = "  "


class _Kind(Enum):
    TEXT = "text"
    HEADING = "heading"
    PAGE_BREAK = "page break"


class Line(NamedTuple):
    text: str
    kind: _Kind = _Kind.TEXT


class TextLines:
    """Builds lines from texts, breaks and table cells in the order of the document.

    A row of a table becomes one line. If a cell has several lines, its first continues the line of the cells before it,
    so that the number of an item stays with its title.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._kind = _Kind.TEXT
        self._lines: list[Line] = []
        self._rows: list[list[list[Line]]] = []
        """Cells of the open rows, which are nested."""
        self._outer: list[list[Line]] = []
        """Lines around the open cells."""

    def text(self, text: str) -> None:
        self._parts.append(text)

    def end_line(self) -> None:
        text = _SPACE.sub(" ", _CONTROL.sub("", "".join(self._parts))).strip()
        self._parts.clear()
        if text:
            self._lines.append(Line(text, self._kind))

    def start_heading(self) -> None:
        self.end_line()
        self._kind = _Kind.HEADING

    def end_heading(self) -> None:
        self.end_line()
        self._kind = _Kind.TEXT

    def break_page(self) -> None:
        self.end_line()
        self._lines.append(Line("", _Kind.PAGE_BREAK))

    def start_row(self) -> None:
        self.end_line()
        self._rows.append([])

    def start_cell(self) -> None:
        self.end_line()
        self._outer.append(self._lines)
        self._lines = []

    def end_cell(self) -> None:
        self.end_line()
        cell, self._lines = self._lines, self._outer.pop()
        if self._rows:
            self._rows[-1].append(cell)
        else:  # a cell without a row
            self._lines.extend(cell)

    def end_row(self) -> None:
        self.end_line()
        self._lines.extend(_join_cells(self._rows.pop()))

    def pages(self) -> list[str]:
        """The text of each page, without empty ones."""
        self.end_line()
        return [text for lines in _divide(self._lines) if (text := "\n".join(lines))]


def _join_cells(cells: list[list[Line]]) -> Iterator[Line]:
    pending: list[str] = []
    for first, *rest in filter(None, cells):
        if first.kind is _Kind.PAGE_BREAK:
            rest = [first, *rest]
        else:
            pending.append(first.text)
        if rest:
            if pending:
                yield Line(_CELL_SEPARATOR.join(pending))
                pending = []
            yield from rest
    if pending:
        yield Line(_CELL_SEPARATOR.join(pending))


def _divide(lines: list[Line]) -> Iterator[list[str]]:
    page: list[str] = []
    length = 0
    for line in lines:
        is_end = line.kind is _Kind.PAGE_BREAK or (line.kind is _Kind.HEADING and length > FULL)
        if is_end or length + len(line.text) > LONGEST:
            yield page
            page, length = [], 0
        # A single line can be longer than a page.
        parts = [line.text[start : start + LONGEST] for start in range(0, len(line.text), LONGEST)]
        for full in parts[:-1]:
            yield [full]
        page += parts[-1:]
        length += sum(map(len, parts[-1:]))
    yield page
