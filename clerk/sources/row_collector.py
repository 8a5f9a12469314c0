"""Collects the rows of a listing in an HTML page: cells with their column, and links. Used in `parser_process` only."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from clerk.documents.html_tree import PageRejected, check_nesting, walk
from clerk.documents.sanitize import clean_text
from clerk.sources.html_tree import HEADING_SYMBOLS, HEADINGS, MAX_LINKS, AddressResolver, base_url
from clerk.sources.link_groups import GroupedLinks, group_links

MAX_ROWS = 20_000
_MAX_TEXT = 500
_MAX_SCRIPT = 5000
_OPENED = re.compile(
    r"(?:\bopen|\.assign|\.replace)\s{0,9}\(\s{0,9}(['\"])(.*?)\1|\.?location(?:\.href)?\s{0,9}=\s{0,9}(['\"])(.*?)\3"
)
"""The address that a script opens: `window.open('//town.example/AgendaViewer.php?…', …)`."""
_NO_ADDRESS = ("", "#")
_IS_ADDRESS = re.compile(r"^(?:https?:)?/|\.(?:php|as[hp]x|pdf|docx?|html?)(?:\?|$)", re.IGNORECASE)
"""Of the value of an option."""
_POSTBACK = re.compile(r"__doPostBack\(\s{0,9}['\"]([^'\"]{1,300})['\"]\s{0,9},\s{0,9}['\"]([^'\"]{0,300})['\"]")
"""What a link of ASP.NET sends when it is followed: the event's target and argument."""
_CELL_ATTRIBUTES = ("headers", "data-th", "data-title", "data-label", "data-sortable-type", "class", "id")
_ROW_ATTRIBUTES = ("id", "class")
_MOMENTS = ("datetime", "content", "data-date", "data-sortable-label")
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_HEADING_CLASS = re.compile(
    r"(?:^|\s)(?:CollapsiblePanelTab|panel-(?:heading|title)|accordion-(?:header|title|button|heading)|ui-accordion-header)"
    r"(?:\s|$)",
    re.IGNORECASE,
)
"""Elements that are not headings by their name, but that a click on opens a section."""


@dataclass
class _Table:
    labels: list[str] = field(default_factory=list)
    """Of its columns, from its latest header row."""
    header: list[str] = field(default_factory=list)
    """Labels of the row that is being read."""
    has_data: bool = False
    """Whether the row that is being read has a data cell."""
    column: int = 0


def extract_rows(
    url: str, html: str, rows: str, container: str, cells: str, fields: bool | str, links: str = ""
) -> dict[str, Any]:
    """The response for one page. `rows`, `container` and `cells` are CSS selectors. `fields`: with the hidden form
    fields, or with those that match a selector.

    `links` is a regular expression for the addresses of documents. Such links outside the rows are put into further
    rows: see `group_links`.
    """
    check_nesting(html)
    parser = LexborHTMLParser(html)
    if len(parser.css("a, option")) > MAX_LINKS:
        raise PageRejected(f"has more than {MAX_LINKS:,} links")
    row_ids = {node.mem_id for node in parser.css(rows)} if rows else set()
    grouped = group_links(parser, row_ids, re.compile(links, re.IGNORECASE), find_address) if links else GroupedLinks()
    collector = _RowCollector(
        AddressResolver(base_url(url, parser)),
        row_ids | grouped.rows,
        {node.mem_id for node in parser.css(cells)},
    )
    for node, is_start in walk(parser.root):
        if is_start:
            collector.start(node)
        else:
            collector.end(node)
    sent = parser.css("input[type=hidden]" if fields is True else fields) if fields else []
    return {
        "title": collector.title,
        "containers": len(parser.css(container)) + grouped.count,
        "documents": grouped.count,
        "rows": collector.rows,
        "fields": {name: _value(node) for node in sent if (name := node.attributes.get("name"))},
        "too_long": collector.addresses.too_long,
    }


class _RowCollector:
    """State of a walk through a page: the current heading, table, row, cell and anchor, and the rows so far."""

    def __init__(self, addresses: AddressResolver, row_ids: set[int], cell_ids: set[int]) -> None:
        self.addresses = addresses
        self.title = ""
        self.rows: list[dict[str, Any]] = []
        self._row_ids, self._cell_ids = row_ids, cell_ids
        self._heading = ""
        self._heading_texts: list[str] | None = None
        self._tables: list[_Table] = []
        self._row: dict[str, Any] | None = None
        self._row_id = self._cell_id = self._hidden_id = self._heading_id = 0
        self._row_texts: list[str] = []
        self._plain_texts: list[str] = []
        self._is_in_anchor = False
        self._cell: dict[str, Any] | None = None
        self._cell_texts: list[str] = []
        self._header_texts: list[str] | None = None
        self._link: dict[str, Any] | None = None
        self._link_texts: list[str] = []

    def start(self, node: LexborNode) -> None:
        if node.is_text_node:
            if not self._hidden_id:
                self._add_text(node.text_content or "")
            return
        attributes = node.attributes
        if not self._hidden_id and _HIDDEN.search((attributes.get("style") or "")[:_MAX_SCRIPT]):
            self._hidden_id = node.mem_id
        if self._row is None and self._heading_id == 0 and _is_heading(node):
            self._heading_texts, self._heading_id = [], node.mem_id
        elif node.tag == "table":
            self._tables.append(_Table())
        elif node.tag == "tr" and self._tables:
            table = self._tables[-1]
            table.header, table.has_data, table.column = [], False, 0
        if node.mem_id in self._row_ids and self._row is None:
            self._start_row(node)
        if node.tag in ("td", "th") and self._tables:
            self._start_column(node)
        elif self._row is not None and self._cell is None and node.mem_id in self._cell_ids:
            self._start_cell(node, "")
        if node.tag in ("a", "option") and self._row is not None:
            self._is_in_anchor = True
            self._start_link(node)
        elif node.tag == "img":
            self._add_text(attributes.get("alt") or "")
        elif node.tag == "br":
            self._add_text(" ")
        if self._cell is not None and not self._cell["moment"]:
            moments = (attributes.get(name) for name in _MOMENTS)
            self._cell["moment"] = clean_text(next((moment for moment in moments if moment), "")[:_MAX_TEXT])

    def end(self, node: LexborNode) -> None:
        if node.mem_id == self._hidden_id:
            self._hidden_id = 0
        if node.mem_id == self._heading_id and self._heading_texts is not None:
            text = clean_text("".join(self._heading_texts)).strip(HEADING_SYMBOLS)
            if node.tag == "title":
                self.title = text
            else:
                self._heading = text or self._heading
            self._heading_texts, self._heading_id = None, 0
        elif node.tag in ("a", "option"):
            self._is_in_anchor = False
            self._end_link()
        elif node.tag == "th" and self._header_texts is not None and self._tables:
            self._tables[-1].header[-1] = clean_text(" ".join(self._header_texts)) or self._tables[-1].header[-1]
            self._header_texts = None
        if node.mem_id == self._cell_id:
            self._end_cell()
        if node.mem_id == self._row_id:
            self._end_row()
        if node.tag == "tr" and self._tables:
            table = self._tables[-1]
            if table.header and not table.has_data:
                table.labels = table.header
        elif node.tag == "table" and self._tables:
            self._tables.pop()

    def _start_row(self, node: LexborNode) -> None:
        if len(self.rows) == MAX_ROWS:
            raise PageRejected(f"has more than {MAX_ROWS:,} rows")
        values = {name: node.attributes.get(name) or "" for name in _ROW_ATTRIBUTES}
        values |= {name: value or "" for name, value in node.attributes.items() if name.startswith("data-")}
        attributes = {name: clean_text(value[:_MAX_TEXT]) for name, value in values.items()}
        self._row = {"section": self._heading, "attributes": attributes, "cells": [], "links": []}
        self._row_id, self._row_texts, self._plain_texts = node.mem_id, [], []
        self._is_in_anchor = False

    def _start_column(self, node: LexborNode) -> None:
        table = self._tables[-1]
        span = node.attributes.get("colspan") or "1"
        count = int(span) if span.isascii() and span.isdecimal() and 1 <= int(span[:4]) <= 100 else 1
        if node.tag == "th":
            # A header without text, as of a column of icons, has its class or id.
            label = node.attributes.get("aria-label") or node.attributes.get("class") or node.attributes.get("id") or ""
            table.header += [clean_text(label[:_MAX_TEXT])] * count
            self._header_texts = []
        else:
            table.has_data = True
        if self._row is not None and self._cell is None and node.mem_id in self._cell_ids:
            label = table.labels[table.column] if table.column < len(table.labels) else ""
            self._start_cell(node, label)
        table.column += count

    def _start_cell(self, node: LexborNode, label: str) -> None:
        attributes = {name: clean_text((node.attributes.get(name) or "")[:_MAX_TEXT]) for name in _CELL_ATTRIBUTES}
        # The first one is the column's, further ones are the row's: `headers="Date City-Council-Meeting"`.
        attributes["headers"] = attributes["headers"].partition(" ")[0]
        named = {name: value for name, value in attributes.items() if value}
        self._cell = {"label": label, "attributes": named, "moment": "", "text": ""}
        self._cell_id, self._cell_texts = node.mem_id, []

    def _start_link(self, node: LexborNode) -> None:
        self._end_link()
        attributes = node.attributes
        if node.tag == "option":
            # A choice between documents: a script opens the value that was selected.
            value = (attributes.get("value") or "").strip()
            address = value if _IS_ADDRESS.search(value[:_MAX_SCRIPT]) else None
        else:
            address = find_address(attributes.get("href") or "", attributes.get("onclick") or "")
        if address is None or (url := self.addresses.resolve(address)) is None or self._row is None:
            return
        title = clean_text((attributes.get("title") or "")[:2000], _MAX_TEXT)
        label = attributes.get("aria-label") or ""
        cell = len(self._row["cells"]) if self._cell is not None else None
        kind = clean_text((attributes.get("class") or "")[:_MAX_TEXT])
        self._link = {"url": url, "text": "", "title": title, "label": clean_text(label), "class": kind, "cell": cell}
        self._link_texts = []

    def _end_link(self) -> None:
        if self._link is None or self._row is None:
            return
        self._link["text"] = clean_text(" ".join(self._link_texts))
        # The HTML parser repeats an anchor that is not closed, without its text, in the blocks that follow.
        links = self._row["links"]
        if self._link["text"] or not links or links[-1]["url"] != self._link["url"]:
            links.append(self._link)
        self._link = None

    def _end_cell(self) -> None:
        self._end_link()
        if self._cell is not None and self._row is not None:
            self._cell["text"] = clean_text(" ".join(_without_repeats(self._cell_texts)), _MAX_TEXT)
            self._row["cells"].append(self._cell)
        self._cell, self._cell_id = None, 0

    def _end_row(self) -> None:
        self._end_cell()
        if self._row is not None:
            self._row["text"] = clean_text(" ".join(self._row_texts), 2 * _MAX_TEXT)
            self._row["plain"] = clean_text(" ".join(self._plain_texts), 2 * _MAX_TEXT)
            self.rows.append(self._row)
        self._row, self._row_id = None, 0

    def _add_text(self, text: str) -> None:
        for texts in (self._heading_texts, self._header_texts):
            if texts is not None:
                texts.append(text)
        if self._row is not None:
            self._row_texts.append(text)
            if not self._is_in_anchor:
                self._plain_texts.append(text)
            if self._cell is not None:
                self._cell_texts.append(text)
            if self._link is not None:
                self._link_texts.append(text)


def _value(node: LexborNode) -> str:
    """The value of a form field, as a browser sends it."""
    if node.tag == "select":
        chosen = node.css_first("option[selected]") or node.css_first("option")
        return "" if chosen is None else chosen.attributes.get("value") or ""
    return node.text(deep=True) if node.tag == "textarea" else node.attributes.get("value") or ""


def _without_repeats(texts: list[str]) -> list[str]:
    """The texts of a cell. Pages for large and small screens have some twice, of which one is hidden."""
    said = [text for text in texts if text.strip()]
    return [text for at, text in enumerate(said) if at == 0 or text.split() != said[at - 1].split()]


def _is_heading(node: LexborNode) -> bool:
    return node.tag in HEADINGS or _HEADING_CLASS.search((node.attributes.get("class") or "")[:_MAX_TEXT]) is not None


def find_address(href: str, onclick: str) -> str | None:
    """The address of a link: its href, or what its script opens. One that sends a form: `postback:TARGET#ARGUMENT`."""
    href = href.strip()
    if href not in _NO_ADDRESS and not href[:20].lower().startswith("javascript:"):
        return href
    for script in (onclick, href):
        if match := _OPENED.search(script[:_MAX_SCRIPT]):
            return match[2] or match[4]
    for script in (href, onclick):
        if match := _POSTBACK.search(script[:_MAX_SCRIPT]):
            return f"postback:{match[1]}#{match[2]}"
    return None
