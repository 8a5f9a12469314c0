"""`onbase`: OnBase Agenda Online of Hyland, searched by year, and by shorter periods where the server cuts the list."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any, ClassVar
from urllib.parse import quote, urlencode, urlsplit

from clerk.documents.media_types import PDF_OR_HTML, media_type_of
from clerk.documents.repository import DocumentRef
from clerk.errors import DownloadRefused, SourceUnreadable
from clerk.sources.http.client import FetchResult, HttpResponse, Sink, Validators
from clerk.sources.recognition import Recognition
from clerk.sources.rows import Row, RowLink
from clerk.sources.vendors.portal import (
    MAX_PAGES,
    PortalFetcher,
    body_of,
    first_day_of,
    kind_of,
    name_of,
    parse_number,
    prefer_pdf,
    query_of,
    require_list,
)

_ROWS = "tr.meeting-row, .meeting-row"
_CONTAINER = "#meetings-list, .meeting-row"
_CUSTOM_RANGE = 11
"""Value of `dropid`: from `dropsv` to `dropev`."""
_TYPES = {"1": "agenda", "2": "minutes", "5": "packet"}
"""3 is a summary."""
_MOST = 100
"""So many meetings are in a list that the server may have cut."""
_LINKS = (
    r"(?:^|/)(?:Meetings/ViewMeeting|Documents/(?:DownloadFile|DownloadFileBytes|ViewDocument)\b[^?]*)"
    r"\?(?:.*&)?(?:meeting)?id=(\d+)"
)
_EMBEDDED = re.compile(r"\bnew\s{1,9}SearchResults\s{0,9}\(\s{0,99}(?=\{)")
"""Newer versions build the list in the browser, from an object in a script."""
_FILE = re.compile(r"/Documents/(?:DownloadFile|DownloadFileBytes|ViewDocument)\b", re.IGNORECASE)
_FORM = r"/Documents/(?:DownloadFile|DownloadFileBytes|ViewDocument)/"
_PAGE = re.compile(r"/Meetings/ViewMeeting\b", re.IGNORECASE)
_PART = {"itemId": "0", "publishId": "0", "isSection": "false"}
"""The part of a meeting to which an attachment belongs; the values are those of the meeting itself."""
_TITLE = re.compile(r"\s*(?:View|Download)\s+(?P<what>.{1,60}?)\s+for\s+(?P<rest>.{1,400})", re.IGNORECASE)


class OnBase(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "portal": "URL of the portal, such as https://agenda.example.gov/OnBaseAgendaOnline",
        "meeting_types": "number of a meeting type, or a list: N in Search?mtids=N; default: all",
    }
    required = ("portal",)
    recognition = Recognition(
        "OnBase Agenda Online",
        paths=(
            r"(?P<base>/[a-z0-9_-]*AgendaOnline[a-z0-9_-]*)(?:[/?]|$)",
            r"/Meetings/(?:Search\?(?:.*&)?dropid=|ViewMeeting\?(?:.*&)?doctype=)",
            r"/Documents/(?:DownloadFile(?:Bytes)?|ViewDocument)/.*[?&]meetingId=",
        ),
        markers=(
            ".meeting-row [data-sortable-type='mtgName']",
            "a[href*='/Meetings/ViewMeeting?' i][href*='doctype=' i]",
            "#MeetingTypeIDs ~ * #DateRangeOptionID, form[action$='/Meetings' i] #DateRangeOptionID",
            "[src*='/OnBaseAgendaOnline/' i]",
            "script[src*='agendaonline' i][src*='/bundles/' i], link[href*='agendaonline' i][href$='/Style' i]",
        ),
        start="/Meetings/Search",
    )
    names = ()

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        types = extra.get("meeting_types", [])
        if not all(str(value).isdecimal() for value in (types if isinstance(types, list) else [types])):
            raise ValueError("extra 'meeting_types' must be a number or a list of numbers")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        portal = str(self.site.extra["portal"]).rstrip("/")
        windows = list(self.years())
        for searches in itertools.count():
            if not windows:
                return
            if searches == MAX_PAGES:
                raise SourceUnreadable(f"{portal}/Meetings/Search has more than {MAX_PAGES:,} pages")
            first, last = windows.pop(0)
            page = await self._search(portal, first, last)
            meetings = _embedded_meetings(page)
            rows = (await self.parse_rows(page, _ROWS, _CONTAINER, required=meetings is None, links=_LINKS)).rows
            days = [*map(_day_of_meeting, meetings or ()), *map(_day_of_row, rows)]
            if len(days) >= _MOST and first < last and _are_in(days, first, last):
                middle = first + (last - first) // 2
                windows[:0] = [(first, middle), (middle + timedelta(days=1), last)]
            for meeting in meetings or ():
                for ref in self.once(self._parse_embedded(meeting, portal)):
                    yield ref
            for row in rows:
                for ref in self.once(prefer_pdf(self._parse(row))):
                    yield ref

    async def _search(self, portal: str, first: date, last: date) -> HttpResponse:
        types = self.site.extra.get("meeting_types") or "all"
        query: dict[str, str | int] = {
            "dropid": _CUSTOM_RANGE,
            "mtids": ",".join(map(str, types)) if isinstance(types, list) else str(types),
            "dropsv": f"{first:%m/%d/%Y} 00:00:00",
            "dropev": f"{last:%m/%d/%Y} 23:59:59",
        }
        return await self.client.get_page(f"{portal}/Meetings/Search", query)

    def _parse(self, row: Row) -> Iterator[DocumentRef]:
        # A row repeats its links in cells for narrow screens.
        files = {link.url: (link, kind) for link in row.links if (kind := _kind(link)) is not None}
        if not files:
            return
        day = _day_of_row(row)
        names = (_cell(row, "mtgType"), _cell(row, "mtgName"), name_of(row, "type", "name", "meeting"))
        meeting = next((body for name in names if (body := body_of(name))), "")
        if not meeting:
            self.skip_malformed(row.text, "has no meeting type", next(iter(files)))
            return
        for url, (link, kind) in files.items():
            if self.is_wanted(kind, day):
                number = _query(link, "meetingId") or _query(link, "id") or row.attributes.get("data-meeting-id", "")
                is_page = _PAGE.search(urlsplit(url).path) is not None
                key = f"onbase meeting {number} {kind}" if number else url
                yield DocumentRef(
                    url,
                    meeting,
                    day,
                    kind,
                    f"{key} page" if is_page else key,
                    media_type=PDF_OR_HTML if is_page else media_type_of(urlsplit(url).path),
                )

    def _parse_embedded(self, meeting: object, portal: str) -> Iterator[DocumentRef]:
        number = parse_number(meeting.get("ID")) if isinstance(meeting, dict) else None
        if not isinstance(meeting, dict) or number is None:
            self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
            return
        names = (meeting.get("MeetingTypeName"), meeting.get("Name"))
        name = next((body for value in names if value and (body := body_of(str(value)))), "")
        day = _day_of_meeting(meeting)
        for code, kind in (("1", "agenda"), ("2", "minutes")):
            if meeting.get(f"Is{kind.title()}Available") is not True or not self.is_wanted(kind, day):
                continue
            if not name:
                self.skip_malformed(f"meeting {number}", "has no meeting type and no name")
                return
            key = f"onbase meeting {number} {kind}"
            if file := str(meeting.get(f"{kind.title()}UniqueName") or ""):
                query = f"documentType={code}&meetingId={number}"
                yield DocumentRef(f"{portal}/Documents/DownloadFile/{quote(file)}.pdf?{query}", name, day, kind, key)
            else:
                url = f"{portal}/Meetings/ViewMeeting?id={number}&doctype={code}"
                yield DocumentRef(url, name, day, kind, f"{key} page", media_type=PDF_OR_HTML)

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        """Newer versions answer DownloadFile with a page that requests DownloadFileBytes, or puts the document into
        the session. A meeting's page only has a frame for its agenda or minutes, which are requested instead; older
        versions do not have them apart."""
        for url in _addresses(ref.url):
            try:
                result = await self.client.download(url, validators, sink)
                if (
                    result.not_modified
                    or b"%PDF" in sink.head
                    or sink.head.startswith(b"PK")
                    or _PAGE.search(urlsplit(ref.url).path)
                ):
                    return result
            except DownloadRefused:
                pass  # this version does not have that address
            sink.restart()
        if _FILE.search(urlsplit(ref.url).path) and (view := await self._invoke(ref.url)) is not None:
            try:
                result = await self.client.download(view, Validators(), sink)
                if b"%PDF" in sink.head or sink.head.startswith(b"PK"):
                    return result
            except DownloadRefused:
                pass
            sink.restart()
        return await self.client.download(ref.url, Validators(), sink)

    async def _invoke(self, url: str) -> str | None:
        """Ask the server to put a document into the session; returns the address that sends it from there. None: this
        version does not do that."""
        portal, _, name = re.split(r"(/Documents/[^/]*/)", url.partition("?")[0], maxsplit=1, flags=re.IGNORECASE)
        query = query_of(url)
        wanted = {"meetingId": query.get("meetingid", ""), "documentType": query.get("documenttype", "1")}
        method = "InvokeDownloadMeetingDocument"
        if query.get("isattachment", "").lower() == "true":
            method = "InvokeDownloadAttachment"
            wanted |= {field: query.get(field.lower(), default) for field, default in _PART.items()}
        try:
            answer = await self.client.post(f"{portal}/Documents/{method}/{name}?{urlencode(wanted)}", form={})
            document = json.loads(answer.content)
        except (DownloadRefused, ValueError, RecursionError):
            return None
        if not isinstance(document, dict) or not document.get("DocumentName"):
            return None
        defaults = {**_PART, **wanted}
        values = {field: document.get(field[:1].upper() + field[1:]) for field in defaults}
        sent = {field: defaults[field] if value is None else str(value).lower() for field, value in values.items()}
        return f"{portal}/Documents/ViewDocument/{quote(str(document['DocumentName']), safe='')}?{urlencode(sent)}"


def _embedded_meetings(page: HttpResponse) -> list[Any] | None:
    """The meetings in a script of the page; None if there is no such script."""
    match = _EMBEDDED.search(page.text)
    if match is None:
        return None
    try:
        results, _ = json.JSONDecoder().raw_decode(page.text, match.end())
    except (ValueError, RecursionError) as error:
        raise SourceUnreadable(f"the SearchResults in the answer of {page.url[:200]} are not JSON") from error
    if results.get("HasError") is True:
        raise SourceUnreadable(f"the SearchResults in the answer of {page.url[:200]} have an error")
    return require_list(results.get("Meetings"), page.url, "SearchResults with the list 'Meetings'")


def _day_of_meeting(meeting: object) -> date | None:
    fields = ("Time", "TimeString", "Name")
    return first_day_of(*map(meeting.get, fields)) if isinstance(meeting, dict) else None


def _day_of_row(row: Row) -> date | None:
    when = _cell(row, "mtgTime")
    titles = [match["rest"] for link in row.links if (match := _TITLE.match(link.title))]
    return first_day_of(when, *(title.rpartition(" on ")[2] for title in titles), _cell(row, "mtgName"), row.text)


def _are_in(days: Iterable[date | None], first: date, last: date) -> bool:
    """Whether the server regards the dates of a search: some do not, and a shorter period gives the same list."""
    margin = timedelta(days=1)
    return all(first - margin <= day <= last + margin for day in days if day is not None)


def _addresses(url: str) -> list[str]:
    """The addresses under which a document may be, the likelier ones first."""
    if _PAGE.search(urlsplit(url).path):
        query = query_of(url)
        document = f"Documents/ViewAgenda?meetingId={query.get('id', '')}&doctype={query.get('doctype', '1')}"
        return [f"{re.split('/Meetings/', url, maxsplit=1, flags=re.IGNORECASE)[0]}/{document}"]
    forms = (
        re.sub(_FORM, f"/Documents/{form}/", url, flags=re.IGNORECASE) for form in ("DownloadFileBytes", "ViewDocument")
    )
    return list(dict.fromkeys([url, *forms]))


def _cell(row: Row, sortable: str) -> str:
    return next((cell.text for cell in row.cells if cell.attributes.get("data-sortable-type") == sortable), "")


def _query(link: RowLink, name: str) -> str:
    return query_of(link.url).get(name.lower(), "")


def _kind(link: RowLink) -> str | None:
    """By the text of the link and by its title (`Download Agenda for …`), then by the number of the type."""
    path = urlsplit(link.url).path
    if not _FILE.search(path) and not _PAGE.search(path):
        return None
    title = _TITLE.match(link.title)
    number = _query(link, "documentType") or _query(link, "doctype")
    return kind_of(title["what"] if title else "", link.text) or _TYPES.get(number)
