"""What listings have in common: dates written in many ways, words that tell agendas from minutes, links of a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from html.parser import HTMLParser
from urllib.parse import urljoin

from clerk.documents.sanitize import clean_text

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
    """The first date in a text that exists in the calendar. `03-04-2025` is the 4th of March unless `day_first`."""
    return next((day for day, _ in dates_in(text, day_first)), None)


def dates_in(text: str, day_first: bool = False) -> Iterator[tuple[date, re.Match[str]]]:
    for pattern in (*_DATES, _SHORT_YEAR):
        for match in pattern.finditer(text):
            if (day := _as_date(match, day_first)) is not None:
                yield day, match


def _as_date(match: re.Match[str], day_first: bool) -> date | None:
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


def without_dates(text: str) -> str:
    for _, match in list(dates_in(text)):
        text = text.replace(match[0], " ")
    return text


def find_kind(*texts: str) -> str | None:
    """The first text that names one of them decides."""
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
    heading: str
    """The heading that it stands under."""
    around: str
    """The row or list item that it stands in."""


class _Links(HTMLParser):
    _HEADINGS = ("h1", "h2", "h3", "caption", "legend", "summary")
    _ROWS = ("tr", "li", "p")
    _SILENT = ("script", "style", "template", "noscript")

    def __init__(self, url: str) -> None:
        super().__init__()
        self.base = url
        self.title = ""
        self.heading = ""
        self.links: list[Link] = []
        self._open: list[str] = []
        self._heading: list[str] | None = None
        self._anchor: tuple[str, list[str]] | None = None
        self._row: list[str] = []
        self._row_links: list[tuple[str, str]] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if tag == "base" and values.get("href"):
            self.base = urljoin(self.base, values["href"])
        elif tag in self._SILENT:
            self._silent += 1
        elif tag in self._HEADINGS or tag == "title":
            self._end_row()
            self._heading = []
        elif tag in ("tr", "li"):
            self._end_row()
        elif tag == "a" and values.get("href"):
            self._end_anchor()
            label = " ".join(values.get(name, "") for name in ("title", "aria-label"))
            self._anchor = (values["href"], [label])
        elif tag == "img":
            self.handle_data(values.get("alt", ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in self._SILENT:
            self._silent = max(self._silent - 1, 0)
        elif (tag in self._HEADINGS or tag == "title") and self._heading is not None:
            # Arrows and bullets that open and close a section are not part of its name.
            text = clean_text("".join(self._heading)).strip("▲▼►◄▶◀•·+- ")
            if tag == "title":
                self.title = text
            else:
                self.heading = text or self.heading
            self._heading = None
        elif tag == "a":
            self._end_anchor()
        elif tag in self._ROWS:
            self._end_row()

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        if self._heading is not None:
            self._heading.append(data)
        if self._anchor is not None:
            self._anchor[1].append(data)
        self._row.append(data)

    def close(self) -> None:
        super().close()
        self._end_row()

    def _end_anchor(self) -> None:
        if self._anchor is not None:
            address, texts = self._anchor
            self._row_links.append((address, clean_text(" ".join(texts))))
            self._anchor = None

    def _end_row(self) -> None:
        self._end_anchor()
        around = clean_text(" ".join(self._row), 1000)
        for address, text in self._row_links:
            try:
                url = urljoin(self.base, address.strip())
            except ValueError:
                continue  # such as http://[broken
            self.links.append(Link(url, text, self.heading, around))
        self._row, self._row_links = [], []


def links_of(url: str, html: str) -> tuple[str, list[Link]]:
    """The page's title, and its links in order."""
    parser = _Links(url)
    parser.feed(html)
    parser.close()
    return parser.title, parser.links
