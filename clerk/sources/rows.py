"""The rows of a listing in an HTML page, as the parser process returns them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_COLUMN = ("headers", "data-th", "data-title", "data-label")
"""Attributes of a cell that name its column."""
_WORD_BOUNDARY = re.compile(r"[\W_]+|(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True)
class RowLink:
    url: str
    """The address of the link, or the one that its script opens."""
    text: str
    title: str = ""
    label: str = ""
    """Its aria-label."""
    css_class: str = ""
    cell: int | None = None
    """Index of the cell that contains it."""


@dataclass(frozen=True)
class Cell:
    label: str
    """Header of its column, if it is in a table with headers."""
    text: str
    moment: str = ""
    """Date and time in an attribute, such as `datetime`."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    """What the page says about its meaning: headers, data-th, class and the like."""

    def is_named(self, *names: str) -> bool:
        """Whether its label or one of its attributes contains one of these words."""
        content = _words(self.text)
        # An id that repeats the content, such as `Agenda-Review-Board`, says nothing about the column.
        said = [text for name, text in self.attributes.items() if name != "id" or not _words(text) <= content]
        return not set().union(_words(self.label), *map(_words, said)).isdisjoint(names)


def _words(text: str) -> set[str]:
    return {word.lower() for word in _WORD_BOUNDARY.split(text)} - {""}


@dataclass(frozen=True)
class Row:
    section: str
    """The nearest heading before the row."""
    text: str
    cells: list[Cell]
    links: list[RowLink]
    attributes: Mapping[str, str]
    plain: str = ""
    """The text outside its links."""

    def cell(self, *names: str) -> Cell | None:
        """The first cell with one of these words in its label or attributes; labels come before attributes."""
        by_label = (cell for cell in self.cells if Cell(cell.label, "").is_named(*names))
        return next(by_label, None) or next((cell for cell in self.cells if cell.is_named(*names)), None)

    def column_of(self, link: RowLink) -> str:
        """Name of the column of a link: its header, or what the cell says about it."""
        if link.cell is None or link.cell >= len(self.cells):
            return ""
        cell = self.cells[link.cell]
        return cell.label or next((cell.attributes[name] for name in _COLUMN if cell.attributes.get(name)), "")


@dataclass(frozen=True)
class RowPage:
    url: str
    title: str
    rows: list[Row]
    fields: Mapping[str, str]
    """Form fields with their values, if they were asked for."""
    containers: int
    """Number of elements that match the container's selector."""
    too_long: int
    documents: int = 0
    """Number of links that match the pattern for documents, if one was given."""

    @classmethod
    def from_response(cls, url: str, response: Mapping[str, Any]) -> RowPage:
        rows = list(_parse_rows(response["rows"]))
        return cls(
            url,
            response["title"],
            rows,
            response["fields"],
            response["containers"],
            response["too_long"],
            response["documents"],
        )


def _parse_rows(rows: list[dict[str, Any]]) -> Iterator[Row]:
    for row in rows:
        cells = [Cell(cell["label"], cell["text"], cell["moment"], cell["attributes"]) for cell in row["cells"]]
        links = [
            RowLink(link["url"], link["text"], link["title"], link["label"], link["class"], link["cell"])
            for link in row["links"]
        ]
        yield Row(row["section"], row["text"], cells, links, row["attributes"], row["plain"])
