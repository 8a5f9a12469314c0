"""Adds the title of its column to each cell of a table, for narrow windows, where CSS shows each row as a card."""

from __future__ import annotations

import re

from markupsafe import Markup

# Only templates can write these tags: other text is escaped. No table contains another.
_TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
_HEADING = re.compile(r"<th\b([^>]*)>(.*?)</th>", re.DOTALL)
_OWN_LABEL = re.compile(r'data-label="([^"]*)"')
"""A heading that is too long for a card has a shorter one."""
_ROW = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<(t[dh])\b(?=([^>]*)>)")
_ARROWS = " ▲▼\n"
"""The order of the rows is shown beside a title."""


def label_cells(html: str) -> Markup:
    return Markup(_TABLE.sub(lambda table: _label_table(table[0]), html))  # noqa: S704 (the template's own markup)


def _label_table(table: str) -> str:
    head, separator, body = table.partition("</thead>")
    titles = [_title(attributes, text) for attributes, text in _HEADING.findall(head)]
    return head + separator + _ROW.sub(lambda row: _label_row(row[0], titles), body)


def _title(attributes: str, text: str) -> str:
    own = _OWN_LABEL.search(attributes)
    return Markup(own[1] if own else text).striptags().strip(_ARROWS)  # noqa: S704 (the template's own markup)


def _label_row(row: str, titles: list[str]) -> str:
    columns = iter(titles)

    def label(cell: re.Match[str]) -> str:
        # A cell over several columns has no title of its own.
        title = next(columns, "") if "colspan" not in cell[2] else ""
        return f'<{cell[1]} data-label="{Markup.escape(title)}"' if title else cell[0]

    return _CELL.sub(label, row)
