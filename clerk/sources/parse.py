"""Parsers that several fetchers use: dates, document kinds and the links of an HTML page.

A page comes from outside, so it is parsed in another process with limits (`link_parser`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from clerk.sources.link_parser import Link, LinkParser

__all__ = ["Link", "find_date", "find_dates", "find_kind", "parse_links", "remove_dates"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FRENCH_MONTHS = {"fév": 2, "fev": 2, "avr": 4, "mai": 5, "juin": 6, "juil": 7, "aoû": 8, "aou": 8, "déc": 12}
"""Those whose first letters are not those of the English month."""
_MONTH = (
    rf"(?P<word>{'|'.join(_FRENCH_MONTHS)}|{'|'.join(_MONTHS)})"
    r"(?:(?<!mai)[a-zéû]*)?\.?"
)
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DATES = (
    re.compile(rf"(?<!\d){_YEAR}[-_. /](?P<month>\d\d?)[-_. /](?P<day>\d\d?)(?!\d)"),
    re.compile(rf"(?<!\d)(?P<month>\d\d?)[-_. /](?P<day>\d\d?)[-_. /]{_YEAR}(?!\d)"),
    re.compile(rf"(?<!\d){_YEAR}(?P<month>\d\d)(?P<day>\d\d)(?!\d)"),
    re.compile(rf"(?<!\d)(?P<month>\d\d)(?P<day>\d\d){_YEAR}(?!\d)"),
    re.compile(rf"(?<![a-z]){_MONTH}[-_. ]*(?P<day>\d\d?)(?:st|nd|rd|th)?[-_, .]+{_YEAR}(?!\d)", re.IGNORECASE),
    re.compile(rf"(?<![a-z]){_MONTH}(?P<day>\d\d){_YEAR}(?!\d)", re.IGNORECASE),
    re.compile(rf"(?<!\d)(?P<day>\d\d?)(?:st|nd|rd|th|er)?[-_. ]*{_MONTH}[-_, .]*{_YEAR}(?!\d)", re.IGNORECASE),
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
    if word := (parts.get("word") or "").lower():
        month = _FRENCH_MONTHS.get(word) or _MONTHS.index(word) + 1
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


_KIND_WORDS = (
    ("minutes", r"minute|(?<![a-z])actas?(?![a-z])"),
    ("packet", r"packet"),
    ("agenda", r"agenda|orden del d[ií]a"),
    ("ordinance", r"ordinance|ordenanza|(?<![a-z])ord[-_. ]{0,2}(?:no[-_. ]{0,2})?[#_]?\d"),
    ("resolution", r"resolution|resoluci[oó]n|(?<![a-z])res(?:o|ol)?[-_. ]{0,2}(?:no[-_. ]{0,2})?[#_]?\d"),
    ("notice", r"(?<![a-z])notices?(?![a-z])|convocatoria|(?<![a-z])aviso"),
    ("report", r"reports?(?![a-z])|(?<![a-z])memo(?:randum)?(?![a-z])"),
)
_KIND_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KIND_WORDS)


def find_kind(*texts: str) -> str | None:
    """Return the kind that the first matching text names; None if no text names one.

    `Notice and agenda` is an agenda, `agenda packet` is a packet.
    """
    for text in texts:
        for kind, pattern in _KIND_PATTERNS:
            if pattern.search(text):
                return kind
    return None


def parse_links(url: str, html: str) -> tuple[str, list[Link]]:
    """Return the title of a page and its links in document order; raises SourceUnreadable for a page that exceeds a
    limit. It starts a process and waits for it: a fetcher calls its own `parse_links`, which reuses one process."""
    with LinkParser() as parser:
        page = parser.parse(url, html)
    return page.title, page.links
