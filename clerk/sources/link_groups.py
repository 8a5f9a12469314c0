"""Finds the rows of a listing by its links, in any markup: tables, lists, nested boxes. Used in `parser_process` only.

The links to the documents of one meeting have its number in common. The row of a meeting is the largest element that
has links of no other meeting.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from selectolax.lexbor import LexborHTMLParser, LexborNode

from clerk.documents.html_tree import walk

_LIMITS = frozenset({"html", "body", "main", "form", "table", "thead", "tbody", "ul", "ol", "dl", "section", "article"})
"""Elements that contain rows and are none, also if they have links of one meeting only."""
_SEVERAL = "several meetings"
_MAX_ADDRESS = 2000


@dataclass
class GroupedLinks:
    rows: set[int] = field(default_factory=set)
    """Ids of the elements that are rows."""
    count: int = 0
    """Number of links to documents on the page, inside and outside of the given rows."""


@dataclass
class _Open:
    """An element whose end was not reached yet."""

    id: int
    group: str = ""
    """The meeting to which the links in it belong; empty without links."""
    parts: list[int] = field(default_factory=list)
    """Elements directly in it that have links of one meeting."""


def group_links(
    parser: LexborHTMLParser,
    given: set[int],
    documents: re.Pattern[str],
    find_address: Callable[[str, str], str | None],
) -> GroupedLinks:
    """The rows of the links to documents that are not in one of the `given` rows."""
    grouped = GroupedLinks()
    groups = {node.mem_id: group for node in parser.css("a") if (group := _group(node, documents, find_address))}
    grouped.count = len(groups)
    if all(_is_in_row(node, given) for node in parser.css("a") if node.mem_id in groups):
        return grouped
    stack = [_Open(0)]
    row = 0
    """Id of the given row that is open."""
    for node, is_start in walk(parser.root):
        if node.is_text_node:
            continue
        if is_start:
            stack.append(_Open(node.mem_id))
            row = row or (node.mem_id if node.mem_id in given else 0)
            if not row and (group := groups.get(node.mem_id)):
                _add(stack[-1], f"? {node.mem_id}" if group == "?" else group)
        else:
            element, parent = stack.pop(), stack[-1]
            if element.id == row:
                element.group, row = _SEVERAL, 0
            _close(element, parent, is_limit=node.tag in _LIMITS, rows=grouped.rows)
    return grouped


def _group(node: LexborNode, documents: re.Pattern[str], find_address: Callable[[str, str], str | None]) -> str | None:
    """The meeting to which a link belongs; `?` if its address does not say. None: it is no link to a document."""
    address = find_address(node.attributes.get("href") or "", node.attributes.get("onclick") or "")
    match = documents.search(address[:_MAX_ADDRESS]) if address else None
    return next((value for value in match.groups() if value), "?") if match else None


def _is_in_row(node: LexborNode, given: set[int]) -> bool:
    element: LexborNode | None = node
    while element is not None:
        if element.mem_id in given:
            return True
        element = element.parent
    return False


def _add(element: _Open, group: str) -> None:
    element.group = group if element.group in ("", group) else _SEVERAL


def _close(element: _Open, parent: _Open, *, is_limit: bool, rows: set[int]) -> None:
    if not element.group:
        return
    if is_limit or element.group == _SEVERAL:
        rows.update(element.parts)
        parent.group = _SEVERAL
    else:
        _add(parent, element.group)
        parent.parts.append(element.id)
