"""Parsers that several fetchers use: dates, document kinds and the links of an HTML page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from clerk.documents.sanitize import clean_text
from clerk.errors import SourceUnreadable

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = r"(?P<word>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DATES = (
    re.compile(rf"(?<!\d){_YEAR}[-_. /](?P<month>\d\d?)[-_. /](?P<day>\d\d?)(?!\d)"),
    re.compile(rf"(?<!\d)(?P<month>\d\d?)[-_. /](?P<day>\d\d?)[-_. /]{_YEAR}(?!\d)"),
    re.compile(rf"(?<!\d){_YEAR}(?P<month>\d\d)(?P<day>\d\d)(?!\d)"),
    re.compile(rf"(?<!\d)(?P<month>\d\d)(?P<day>\d\d){_YEAR}(?!\d)"),
    re.compile(rf"(?<![a-z]){_MONTH}[-_. ]*(?P<day>\d\d?)(?:st|nd|rd|th)?[-_, .]+{_YEAR}(?!\d)", re.IGNORECASE),
    re.compile(rf"(?<!\d)(?P<day>\d\d?)(?:st|nd|rd|th)?[-_. ]*{_MONTH}[-_, .]*{_YEAR}(?!\d)", re.IGNORECASE),
    re.compile(rf"(?<![a-z0-9]){_YEAR}[-_. ]*{_MONTH}[-_. ]*(?P<day>\d\d?)(?!\d)", re.IGNORECASE),
)
_SHORT_YEAR = re.compile(r"(?<!\d)(?P<month>\d\d?)[-_./](?P<day>\d\d?)[-_./](?P<year>\d\d)(?!\d)")


def find_date(text: str, day_first: bool = False) -> date | None:
    """Return the first valid date in a text. `03-04-2025` is 4 March unless `day_first` is true."""
    return next((day for day, _ in find_dates(text, day_first)), None)


def find_dates(text: str, day_first: bool = False) -> Iterator[tuple[date, re.Match[str]]]:
    for pattern in (*_DATES, _SHORT_YEAR):
        for match in pattern.finditer(text):
            if (day := _parse_date(match, day_first)) is not None:
                yield day, match


def _parse_date(match: re.Match[str], day_first: bool) -> date | None:
    parts = match.groupdict()
    year = int(parts["year"])
    year += 2000 if year < 70 else 1900 if year < 100 else 0
    day = int(parts["day"])
    if word := parts.get("word"):
        month = _MONTHS.index(word.lower()) + 1
    else:
        month = int(parts["month"])
        if day_first and match.start("month") < match.start("year"):
            month, day = day, month
    try:
        return date(year, month, day)
    except ValueError:
        return None


def remove_dates(text: str) -> str:
    for _, match in list(find_dates(text)):
        text = text.replace(match[0], " ")
    return text


def find_kind(*texts: str) -> str | None:
    """Return `minutes` or `agenda`, whichever the first matching text contains; None if no text contains either."""
    for text in texts:
        words = text.lower()
        if "minute" in words:
            return "minutes"
        if "agenda" in words:
            return "agenda"
    return None


@dataclass(frozen=True)
class Link:
    url: str
    text: str
    """The link text, with its title, aria-label and image alternatives."""
    heading: str
    """The nearest heading before the link."""
    context: str
    """The text of the table row, list item or paragraph that contains the link."""


def parse_links(url: str, html: str) -> tuple[str, list[Link]]:
    """Return the title of a page and its links in document order."""
    _check_nesting(url, html)
    parser = LexborHTMLParser(html)
    collector = _LinkCollector(_base_url(url, parser))
    for node, is_start in _walk(parser.root):
        if is_start:
            collector.start(node)
        else:
            collector.end(node)
    collector.end_row()
    return collector.title, collector.links


_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
_MAX_NESTING = 20_000
_VOID = frozenset(
    {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
)
_END_TAG_OPTIONAL = frozenset({"dd", "dt", "li", "option", "p", "tbody", "td", "tfoot", "th", "thead", "tr"})
_UNNESTED = _VOID | _END_TAG_OPTIONAL


def _check_nesting(url: str, html: str) -> None:
    """Reject a page that would block the worker: the HTML parser needs quadratic time for nested elements."""
    open_tags: Counter[str] = Counter()
    depth = 0
    for match in _TAG.finditer(html):
        is_end, tag = bool(match[1]), match[2].lower()
        if is_end and open_tags[tag]:
            open_tags[tag] -= 1
            depth -= 1
        elif not is_end and tag not in _UNNESTED:
            open_tags[tag] += 1
            depth += 1
            if depth > _MAX_NESTING:
                raise SourceUnreadable(f"{url}: the page has more than {_MAX_NESTING:,} nested elements")


def _base_url(url: str, parser: LexborHTMLParser) -> str:
    base = parser.css_first("base[href]")
    return url if base is None else _join_url(url, base.attributes["href"] or "") or url


def _join_url(base: str, address: str) -> str | None:
    try:
        return urljoin(base, address.strip())
    except ValueError:  # for example http://[broken
        return None


_IGNORED = frozenset({"script", "style", "template", "noscript"})
_HEADINGS = frozenset({"h1", "h2", "h3", "caption", "legend", "summary", "title"})
_ROWS = frozenset({"tr", "li", "p"})
_HEADING_SYMBOLS = "▲▼►◄▶◀•·+- "
"""Arrows and bullets that collapse a section are not part of its heading."""


def _walk(root: LexborNode | None) -> Iterator[tuple[LexborNode, bool]]:
    """Yield each node at its start (True) and end (False). Iterative, because a hostile page can be nested deeply."""
    node, depth = root, 0
    while node is not None:
        yield node, True
        if node.tag not in _IGNORED and (child := node.first_child) is not None:
            node, depth = child, depth + 1
            continue
        yield node, False
        while depth and node is not None and node.next is None:
            node, depth = node.parent, depth - 1
            if node is not None:
                yield node, False
        node = node.next if depth and node is not None else None


class _LinkCollector:
    """State of a walk through a page: the current heading, row and anchor, and the links so far."""

    def __init__(self, base_url: str) -> None:
        self.base_url = base_url
        self.title = ""
        self.heading = ""
        self.links: list[Link] = []
        self._heading: list[str] | None = None
        self._anchor: tuple[str, list[str]] | None = None
        self._row: list[str] = []
        self._row_links: list[tuple[str, str]] = []
        self._last_address = ""

    def start(self, node: LexborNode) -> None:
        if node.is_text_node:
            self._add_text(node.text_content or "")
        elif node.tag in _HEADINGS:
            self.end_row()
            self._heading = []
        elif node.tag in ("tr", "li"):
            self.end_row()
        elif node.tag == "a" and (address := node.attributes.get("href")):
            self._end_anchor()
            label = " ".join(node.attributes.get(name) or "" for name in ("title", "aria-label"))
            self._anchor = (address, [label])
        elif node.tag == "img":
            self._add_text(node.attributes.get("alt") or "")

    def end(self, node: LexborNode) -> None:
        if node.tag in _HEADINGS and self._heading is not None:
            text = clean_text("".join(self._heading)).strip(_HEADING_SYMBOLS)
            if node.tag == "title":
                self.title = text
            else:
                self.heading = text or self.heading
            self._heading = None
        elif node.tag == "a":
            self._end_anchor()
        elif node.tag in _ROWS:
            self.end_row()

    def end_row(self) -> None:
        self._end_anchor()
        context = clean_text(" ".join(self._row), 1000)
        for address, text in self._row_links:
            if (url := _join_url(self.base_url, address)) is not None:
                self.links.append(Link(url, text, self.heading, context))
        self._row, self._row_links = [], []

    def _add_text(self, text: str) -> None:
        if self._heading is not None:
            self._heading.append(text)
        if self._anchor is not None:
            self._anchor[1].append(text)
        self._row.append(text)

    def _end_anchor(self) -> None:
        if self._anchor is None:
            return
        address, texts = self._anchor
        text = clean_text(" ".join(texts))
        # The HTML parser repeats an anchor that is not closed, without its text, in the blocks that follow.
        if text or address != self._last_address:
            self._row_links.append((address, text))
        self._anchor, self._last_address = None, address
