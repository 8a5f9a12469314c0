"""The RSS feeds of a view of Granicus (`ViewPublisherRSS.php`): the latest agendas or minutes, about a hundred."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from clerk.sources.vendors.portal import body_of, parse_day

MAX_ITEMS = 5000
"""Of one feed. A longer one is no feed of Granicus."""
_MAX_ITEM = 20_000
_TITLE = re.compile(r"<title\b[^<>]{0,100}>(.{0,2000}?)</title>", re.DOTALL)
_LINK = re.compile(r"<link\b[^<>]{0,100}>(.{0,2000}?)</link>", re.DOTALL)
_CDATA = re.compile(r"^\s*<!\[CDATA\[(.*)\]\]>\s*$", re.DOTALL)
_DAY = re.compile(r"<gran:pubDateParts\s+yr=['\"](\d{4})['\"]\s+mo=['\"](\d\d?)['\"]\s+day=['\"](\d\d?)['\"]")
_VIEWER = re.compile(
    r"(?:https?:)?//[\w.:-]{1,200}/(?:[\w-]{1,50}/){0,3}(?:Generated)?(?:Agenda|Minutes)Viewer\.php\?[^\s\"'<>\])]{1,500}",
    re.IGNORECASE,
)
_MODE = re.compile(r"\s[-\u2013\u2014]\s(?:agenda|minutes)(?=\s*(?:[-\u2013\u2014]|$))", re.IGNORECASE)
"""In titles such as `City Council - Agenda - Jan 13, 2026`."""


@dataclass(frozen=True)
class FeedItem:
    title: str
    url: str
    meeting: str
    date: date | None


def is_feed(text: str) -> bool:
    start = text[:2000].lower()
    return "<rss" in start or "<feed" in start


def parse_items(text: str) -> Iterator[FeedItem]:
    """The items of a feed that have the address of a document."""
    for part in re.split(r"<item\b", text, maxsplit=MAX_ITEMS + 1)[1:]:
        item = part[:_MAX_ITEM].partition("</item>")[0]
        title, link = _content(_TITLE.search(item)), _content(_LINK.search(item))
        viewer = _VIEWER.search(html.unescape(item))
        parts = _DAY.search(item)
        # The title has the day of the meeting; the parts are that of its publication in some towns.
        day = parse_day(title) or (parse_day("-".join(parts.groups())) if parts else None)
        url = viewer[0] if viewer else link
        yield FeedItem(title, f"https:{url}" if url.startswith("//") else url, body_of(_MODE.sub("", title)), day)


def _content(match: re.Match[str] | None) -> str:
    if match is None:
        return ""
    cdata = _CDATA.match(match[1])
    return " ".join((cdata[1] if cdata else html.unescape(match[1])).split())
