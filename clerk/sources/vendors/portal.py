"""What the fetchers of vendors' portals share: settings, dates, kinds, names of bodies, windows of dates."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from clerk.documents.kinds import KINDS
from clerk.documents.media_types import PDF
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.documents.sanitize import clean_text
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher, Site, check_since
from clerk.sources.http.client import RateLimitedClient
from clerk.sources.parse import find_date, find_kind, remove_dates
from clerk.sources.rows import Cell, Row
from clerk.sources.site_keys import SITE_KEYS

MAX_PAGES = 1000
"""Of one listing. A portal that always has a further page is an error."""
DEFAULT_YEARS = 20
"""Years to list for sites without `since` and start year, where a listing needs a first date."""
OLD = timedelta(days=400)
"""Age of meetings of which no further documents are expected. A listing by one request per meeting leaves them out."""
_LOOKAHEAD = timedelta(days=120)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_UTC = re.compile(r"\d(?:Z|[+-]00:?00)$")
_INSTANT = re.compile(r"/Date\((-?\d{1,15})([+-]\d{4})?\)/")
_AMERICA = timezone(timedelta(hours=-4))
"""For an instant without an offset: from midnight in the east until 8 pm in the west it gives the town's own day."""
_NOT_AN_AGENDA = re.compile(r"cover(?: ?page| ?sheet)?\b|table of contents", re.IGNORECASE)
_MINUTES = re.compile(
    r"(?<!\d )\bmins?\b|\b(?:action|meeting) summary\b|\bsummary (?:of )?(?:action|proceeding)"
    r"|\brecap\b|\bproceedings\b",
    re.IGNORECASE,
)
_ADDENDUM = re.compile(r"\baddend(?:um|a|ums)\b", re.IGNORECASE)
_FRENCH = (
    ("minutes", re.compile(r"proc[eè]s[- ]verba", re.IGNORECASE)),
    ("agenda", re.compile(r"ordres? du jour", re.IGNORECASE)),
)
_PACKET = re.compile(r"\bpackage\b|\bpkt\b|\bbackup\b|\bboard ?book\b", re.IGNORECASE)
_STATUS = (
    r"(?:(?:meeting|has been|is|was|note|notice|of)\s+){0,3}"
    r"(?:cancell?ed|cancellation(?: notice)?|postponed|rescheduled|revised|amended|updated|no meeting"
    r"|annul[ée]e?|report[ée]e?|modifi[ée]e?|r[ée]vis[ée]e?)"
)
_EDGES = " \t-\u2013\u2014:;,.*|/@&"
_STATUS_AT_EDGE = re.compile(
    rf"^[\s*(\[]{{0,5}}{_STATUS}[\s*)\]!]{{0,5}}[-\u2013\u2014:*|]{{1,3}}"
    rf"|[-\u2013\u2014:*(\[|]{{1,3}} ?{_STATUS}[\s*)\]!]{{0,5}}$"
    rf"|[-\u2013\u2014:*|]{{1,3}} ?{_STATUS} (?:due|for|because|until|to|from|by)\b.{{0,100}}$"
    rf"|[(\[]{{1,3}}\s?{_STATUS}\b[^()\[\]]{{0,100}}[)\]]{{1,3}}"
    r"|^(?:cancell?ed|postponed|rescheduled) (?=\S)"
    r"| \*{0,3}(?:cancell?ed|postponed|rescheduled)\*{0,3}$"
    r"|[-\u2013\u2014 (\[]{1,3} ?(?:amended|revised|updated|draft|final) (?:agenda|minutes)[)\]]?$",
    re.IGNORECASE,
)
_EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]")
_TAG = re.compile(r"</?[a-z][^<>]{0,200}>", re.IGNORECASE)
_TIME = re.compile(
    r"(?:\bat\s+|@\s*)?(?<![\d:])\d{1,2}(?::\d\d(?::\d\d)?(?:\s*[ap]\.?\s?m\b\.?)?|\s*[ap]\.?\s?m\b\.?)"
    r"(?: (?:[ECMP][SD]?T|AK[SD]T|H[SD]?T)\b)?",
    re.IGNORECASE,
)
_DURATION = re.compile(r"(?<![\w:])\d{1,3} ?h(?:rs?|ours?)?\.?,? ?\d{1,2} ?m(?:ins?|inutes?)?\b\.?", re.IGNORECASE)
_SHORT_YEAR = re.compile(
    r"(?<![a-z])(?P<month>jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
    r" {0,2}(?P<day>\d\d?),? '?(?P<year>\d\d)"
    r"(?=\s*(?:$|[-\u2013\u2014|()]|\bat\b|\d\d?:\d\d))",
    re.IGNORECASE,
)
"""`Nov 09, 22`. Only at the end, or before a time: `March 12, 15 and 19` are three days."""
_CONNECTION_AT_END = re.compile(r"\s(?:of|on|for|from|at|held on|dated)$", re.IGNORECASE)
_DAY_NAME = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_WEEKDAY = re.compile(
    rf"^{_DAY_NAME}\.?\s*(?:[-\u2013\u2014,:]|$)|[-\u2013\u2014,(]\s*{_DAY_NAME}\.?[,)]?\s*$", re.IGNORECASE
)

_OTHER_COLUMNS = (
    *("date", "time", "datetime", "when", "duration", "location", "venue", "place", "address", "status", "details"),
    *("agenda", "agendas", "packet", "packets", "minutes", "video", "videos", "audio", "media", "multimedia"),
    *("link", "links", "download", "ecomment", "ecomments", "documents", "attachments", "ical", "export"),
)
"""Words that name columns without the name of a meeting."""
_NO_NAME = re.compile(
    r"(?:view|watch|listen|play|download|open|html|pdf|video|audio|media|details|e-?comments?|n/a|not available"
    r"|[\W\d])*"
    r"|(?:\d{1,3} ?h(?:rs?|ours?)?\.?,? ?)?(?:\d{1,3} ?m(?:ins?|inutes?)?\.?)?"
    r"|\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]\.?m\.?)?",
    re.IGNORECASE,
)

_SINCE_HELP = "date of the oldest documents, such as 2020-01-01; default: the site's start year, or {years} years ago"
_KINDS_HELP = f"kinds to fetch, a list of {', '.join(KINDS)}"


class PortalFetcher(Fetcher):
    """Base of the fetchers of vendors' portals. A subclass has its own settings in `settings`."""

    settings: ClassVar[Mapping[str, str]] = {}
    """Description of each key of `extra` that only this vendor has."""
    extra_help: ClassVar[Mapping[str, str]] = {}
    """All settings; set by the class itself."""
    urls: ClassVar[tuple[str, ...]] = ("portal",)
    """Settings that are URLs."""
    names: ClassVar[tuple[str, ...]] = ("client",)
    """Settings that are a part of a host name or path."""
    extra_types: ClassVar[Mapping[str, type]] = {"kinds": list}
    address: ClassVar[str] = "portal"
    """The setting that can be given instead of `client`."""
    default_kinds: ClassVar[tuple[str, ...]] = ("agenda", "minutes")
    """Of sites without `kinds`."""

    def __init__(self, site: Site, client: RateLimitedClient) -> None:
        super().__init__(site, client)
        self._listed: set[str] = set()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        since = _SINCE_HELP.format(years=DEFAULT_YEARS)
        kinds = f"{_KINDS_HELP}; default: {', '.join(cls.default_kinds)}"
        cls.extra_help = {**cls.settings, "since": since, "kinds": kinds}

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        if "client" in cls.required and not extra.get("client") and not extra.get(cls.address):
            raise ValueError(f"extra needs 'client' ({cls.extra_help['client']}) or {cls.address!r}")
        for key in cls.required:
            if key != "client" and not extra.get(key):
                raise ValueError(f"extra needs {key!r}: {cls.extra_help[key]}")
        unknown = sorted(set(extra) - set(cls.extra_help) - set(SITE_KEYS))
        if unknown:
            raise ValueError(f"extra has unknown keys: {', '.join(unknown)}; known are {', '.join(cls.extra_help)}")
        for key in cls.urls:
            check_url_setting(extra, key)
        for key in cls.names:
            if extra.get(key) is not None and not _NAME.fullmatch(str(extra[key])):
                raise ValueError(f"extra {key!r} must be {cls.extra_help[key]}; {str(extra[key])[:80]!r} is not")
        kinds = extra.get("kinds", list(cls.default_kinds))
        if not isinstance(kinds, list) or not kinds or not set(map(str, kinds)) <= set(KINDS):
            raise ValueError(f"extra 'kinds' must be a list of {', '.join(KINDS)}")
        check_since(extra)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that the site wants."""
        return frozenset(self.site.extra.get("kinds") or self.default_kinds)

    @property
    def listed_from(self) -> date:
        """The first day of listings that need one."""
        return self.first_day or date(self.today.year - DEFAULT_YEARS, 1, 1)

    def is_wanted(self, kind: str | None, day: date | None) -> bool:
        """Whether the site wants documents of this kind and day. One without a date is wanted: it may be in the PDF."""
        return kind in self.kinds and (day is None or self.first_day is None or day >= self.first_day)

    def is_old_and_stored(self, day: date | None, *keys: str) -> bool:
        """Whether no further documents of a meeting are expected, and one of those with these keys is stored."""
        return day is not None and day < self.today - OLD and not self.known.isdisjoint(keys)

    def years(self) -> Iterator[tuple[date, date]]:
        """The first day of each year to list, and the day after its last: some portals leave the last day out."""
        first, last = self.listed_from, self.today + _LOOKAHEAD
        for year in range(first.year, last.year + 1):
            yield max(first, date(year, 1, 1)), min(last, date(year, 12, 31)) + timedelta(days=1)

    def once(self, refs: Iterable[DocumentRef]) -> Iterator[DocumentRef]:
        """Those of the documents that this fetch has not listed before. Windows, pages and sections overlap."""
        for ref in refs:
            if ref.identity not in self._listed:
                self._listed.add(ref.identity)
                yield ref

    def covers(self, tracked: TrackedDocument) -> bool:
        """A document of another kind or of other years may still be there: the listing leaves it out."""
        is_listed = self.listed_from <= tracked.date <= self.today + _LOOKAHEAD
        return is_listed and tracked.kind in self.kinds

    def skip_malformed(self, what: str, problem: str, url: str = "") -> None:
        """Skip a malformed entry of the listing: `MEETING 12 has no date`."""
        name = clean_text(what, 120) or "an entry"
        self.skip(f"{name} {problem}", name=name, url=url)


def check_url_setting(extra: Mapping[str, Any], key: str) -> None:
    """Raise ValueError if `extra` has this key with a value that is no web address."""
    if extra.get(key) is None:
        return
    parts = urlsplit(str(extra[key]))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"extra {key!r} must be a URL that begins with https://; {str(extra[key])[:80]!r} is not")


def require_list(value: object, url: str, what: str = "a list of meetings") -> list[Any]:
    """The value, if it is a list; otherwise SourceUnreadable."""
    if not isinstance(value, list):
        found = (
            f"an object with {', '.join(map(str, list(value)[:5])) or 'nothing'}"
            if isinstance(value, dict)
            else repr(value)[:80]
        )
        raise SourceUnreadable(f"the answer of {url[:200]} is not {what}, but {found}")
    return value


def parse_number(value: object) -> int | None:
    """A number that an answer has as a number or as text; None if it is something else."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    text = str(value)
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None


def parse_day(value: object) -> date | None:
    """The day of a date in any form that vendors use: ISO with or without an offset, 9/27/22, January 10, 2022 5:30 PM,
    20240219, /Date(1645084800000)/. A time with an offset is local time, so its date counts as it is written."""
    if isinstance(value, bool) or value is None:
        return None
    text = str(value)[:200]
    if match := _INSTANT.search(text.replace("\\", "")):
        return _day_of_instant(int(match[1]), match[2])
    text = " ".join(text.split())
    day = find_date(_SHORT_YEAR.sub(r"\g<month> \g<day>, 20\g<year>", text))
    # Dates that stand for "none" in databases.
    return day if day is not None and 1900 < day.year < 2200 else None


def _day_of_instant(milliseconds: int, offset: str | None) -> date | None:
    zone: timezone = _AMERICA
    if offset:
        sign = -1 if offset[0] == "-" else 1
        zone = timezone(sign * min(timedelta(hours=int(offset[1:3]), minutes=int(offset[3:])), timedelta(hours=23)))
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    is_whole_day = offset is None and (moment.hour, moment.minute) == (0, 0) and milliseconds % 86_400_000 == 0
    day = moment.date() if is_whole_day else moment.astimezone(zone).date()
    return day if 1900 < day.year < 2200 else None


def kind_of(*texts: str) -> str | None:
    """The kind that the first matching text names, as in `find_kind`; None for covers and recordings. An addendum is
    one to the agenda, if nothing else is said."""
    for text in (text[:500] for text in texts):
        if _NOT_AN_AGENDA.search(text):
            return None
        if kind := find_kind(text):
            return "packet" if kind == "agenda" and _PACKET.search(text) else kind
        if _MINUTES.search(text):
            return "minutes"
        for kind, pattern in _FRENCH:
            if pattern.search(text):
                return kind
        if _PACKET.search(text):
            return "packet"
    return "agenda" if any(_ADDENDUM.search(text[:500]) for text in texts) else None


def body_of(name: str, default: str = "") -> str:
    """The name of a body without tags, date, time, weekday and status: `City Council - Jan 13 2025 - CANCELLED`."""
    text = clean_text(_TAG.sub(" ", html.unescape(name[:500])))
    for _ in range(3):
        text = _STATUS_AT_EDGE.sub(" ", text).strip(_EDGES)
        text = _SHORT_YEAR.sub(" ", _DURATION.sub(" ", remove_dates(text)))
        text = _TIME.sub(" ", text)
        text = " ".join(_EMPTY_BRACKETS.sub(" ", text).split()).strip(_EDGES)
        text = _CONNECTION_AT_END.sub("", _WEEKDAY.sub("", text)).strip(_EDGES)
    return text or default


def first_day_of(*values: object) -> date | None:
    """The day of the first of these values that has a date."""
    return next((day for value in values if (day := parse_day(value)) is not None), None)


def name_of(row: Row, *words: str) -> str:
    """The body of a row's meeting: of the column that one of these words names; otherwise of the first cell that has a
    name, of the text outside the links if there are no cells, or of the heading above. Empty if there is none."""
    cells = [_without_actions(row, at) for at, cell in enumerate(row.cells) if not cell.is_named(*_OTHER_COLUMNS)]
    by_label = [cell for cell in cells if Cell(cell.label, "").is_named(*words)]
    by_attribute = [cell for cell in cells if cell.is_named(*words)]
    with_name = [cell for cell in cells if not _NO_NAME.fullmatch(cell.text) and not find_kind(cell.text)]
    texts = [cell.text for cell in (*by_label, *by_attribute, *with_name)]
    plain = "" if row.cells else row.plain
    return next((body for text in (*texts, plain, row.section) if (body := body_of(text))), "")


def _without_actions(row: Row, at: int) -> Cell:
    """A cell of a row without the links in it that only say what they do, such as `play` before the name."""
    cell = row.cells[at]
    text = cell.text
    for link in row.links:
        if link.cell == at and link.text and (_NO_NAME.fullmatch(link.text) or find_kind(link.text)):
            text = re.sub(rf"(?<!\w){re.escape(link.text)}(?!\w)", " ", text, count=1)
    return replace(cell, text=" ".join(text.split()))


def day_of(row: Row) -> date | None:
    """The day of a row's meeting: of the column for dates, otherwise of any cell, of its text, or of a link's title."""
    when = row.cell("date", "datetime", "when")
    dated = _days_of(when) if when else ()
    moments = [moment for cell in row.cells for moment in _days_of(cell)[:1]]
    titles = [f"{link.title} {link.label}" for link in row.links]
    return first_day_of(*dated, *moments, *(cell.text for cell in row.cells), row.plain, row.text, *titles)


def _days_of(cell: Cell) -> tuple[str, str]:
    """Moment and text of a cell. The text comes first if the moment is in UTC: in the evening that is another day."""
    return (cell.text, cell.moment) if _UTC.search(cell.moment) else (cell.moment, cell.text)


def query_of(url: str) -> dict[str, str]:
    """The parameters of an address. Their names are in lower case: vendors' pages differ in that."""
    return {name.lower(): values[0] for name, values in parse_qs(urlsplit(url).query).items()}


def require_field(entries: Iterable[object], url: str, *names: str) -> None:
    """Raise SourceUnreadable if there are entries, and none of them has one of these fields."""
    objects = [entry for entry in entries if isinstance(entry, dict)]
    if objects and not any(name in entry for entry in objects for name in names):
        raise SourceUnreadable(f"no entry in the answer of {url[:200]} has the field {' or '.join(names)}")


def prefer_pdf(refs: Iterable[DocumentRef]) -> list[DocumentRef]:
    """The documents of one meeting without those that are listed in another type beside a PDF of the same kind."""
    listed = list(refs)
    with_pdf = {ref.kind for ref in listed if ref.media_type == PDF}
    return [ref for ref in listed if ref.media_type == PDF or ref.kind not in with_pdf]
