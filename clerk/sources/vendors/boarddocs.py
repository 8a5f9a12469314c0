"""`boarddocs`: the meetings of BoardDocs sites. Agendas and minutes are web pages, which are requested by POST.

The list of meetings does not say which of them have minutes, and which of those to come an agenda: an answer without
content means that it is not published.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs

from clerk.documents.media_types import HTML
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import AccessDenied, DownloadRefused, SourceUnreadable
from clerk.sources.http.client import FetchResult, HttpResponse, Sink, Validators
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import OLD, PortalFetcher, body_of, parse_day, require_list

_PORTAL = "https://go.boarddocs.com"
_PATH = re.compile(r"[A-Za-z0-9_-]{1,50}/[A-Za-z0-9_-]{1,50}")
_ID = re.compile(r"[A-Za-z0-9]{6,40}")
_COMMITTEES = (
    re.compile(
        r"""<[a-z]{1,10}\b(?P<tag>[^<>]{0,500}\bcommitteeid\s{0,9}=\s{0,9}["']?(?P<id>[A-Z0-9]{8,16})\b[^<>]{0,500})>(?P<name>[^<>]{0,200})<"""
    ),
    re.compile(
        r"""<option\b(?P<tag>[^<>]{0,200}\bvalue\s{0,9}=\s{0,9}["']?(?P<id>[A-Z0-9]{12,16})\b[^<>]{0,200})>(?P<name>[^<>]{0,200})<"""
    ),
)
_TAG = re.compile(r"<[^<>]{0,2000}>")
_LABEL = re.compile(r"""\baria-label\s{0,9}=\s{0,9}["'](?P<label>[^"'<>]{1,200})["']""")
_METHODS = {"agenda": "Download-AgendaDetailed", "minutes": "BD-GetMinutes"}
_HEADERS = {"X-Requested-With": "XMLHttpRequest"}


class BoardDocs(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "path": "path of the site: STATE/NAME in go.boarddocs.com/STATE/NAME/Board.nsf",
        "committees": "id of a committee, a list of ids, or an object of ids and names; default: all of its page",
        "portal": f"URL of the portal; default: {_PORTAL}",
    }
    required = ("path",)
    recognition = Recognition(
        "BoardDocs",
        hosts=(
            r"(?:go|www)\.boarddocs\.com/(?P<path>[a-z0-9_-]{1,50}/[a-z0-9_-]{1,50})/Board\.nsf",
            r"go\.boarddocs\.com/",
        ),
        paths=(r"/(?P<path>[a-z0-9_-]{1,50}/[a-z0-9_-]{1,50})/Board\.nsf",),
        markers=("#wrap-meeting [theurl]", "[committeeid]"),
        fields=(frozenset({"unique", "numberdate"}),),
    )
    names = ()

    @classmethod
    def check(cls, extra: Mapping[str, Any]) -> None:
        super().check(extra)
        if not _PATH.fullmatch(str(extra["path"])):
            raise ValueError("extra 'path' must be STATE/NAME in go.boarddocs.com/STATE/NAME/Board.nsf")
        if not all(_ID.fullmatch(number) for number in _named_committees(extra)):
            raise ValueError("extra 'committees' must be an id such as A4EP6J588C05, a list of ids, or an object")

    @property
    def base(self) -> str:
        portal = str(self.site.extra.get("portal") or _PORTAL).rstrip("/")
        return f"{portal}/{self.site.extra['path']}/Board.nsf"

    async def documents(self) -> AsyncIterator[DocumentRef]:
        committees = _named_committees(self.site.extra) or await self._find_committees()
        for committee, name in committees.items():
            url = f"{self.base}/BD-GetMeetingsList?open"
            answer = (await self.client.post(url, form={"current_committee_id": committee}, headers=_HEADERS)).json()
            for meeting in require_list(answer, url):
                async for ref in self._parse(meeting, committee, name):
                    yield ref

    async def _find_committees(self) -> dict[str, str]:
        page = await self.client.get_page(f"{self.base}/Public")
        found: dict[str, str] = {}
        for pattern in _COMMITTEES:
            for match in pattern.finditer(page.text):
                label = _LABEL.search(match["tag"])
                name = body_of(match["name"]) or body_of(label["label"] if label else "")
                found[match["id"]] = found.get(match["id"]) or name
        if not found:
            raise SourceUnreadable(f"no committee in the answer of {page.url[:200]}; extra 'committees' can name them")
        return found

    async def _parse(self, meeting: object, committee: str, committee_name: str) -> AsyncIterator[DocumentRef]:
        if meeting == {}:
            return  # ends the list
        number = meeting.get("unique") if isinstance(meeting, dict) else None
        if not isinstance(meeting, dict) or not isinstance(number, str) or not _ID.fullmatch(number):
            self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
            return
        name = committee_name or body_of(str(meeting.get("name") or ""), self.site.name)
        when = str(meeting.get("numberdate") or "")
        # Some lists have the time after the date: 20260813190000.
        day = parse_day(when[:8] if when.isdecimal() else when)
        is_past = day is not None and day <= self.today
        for kind, method in _METHODS.items():
            if not self.is_wanted(kind, day) or (kind == "minutes" and not is_past):
                continue
            key = f"boarddocs {number} {kind}"
            if kind == "minutes" and self.is_old_and_stored(day, key):
                continue
            url = f"{self.base}/{method}?open&id={number}&current_committee_id={committee}"
            version = ""
            if kind == "minutes" or not is_past:
                try:
                    page = await self._request(url)
                except AccessDenied:
                    raise
                except DownloadRefused:
                    continue  # the site has no such page
                if not _TAG.sub("", page.text).replace("&nbsp;", " ").strip():
                    continue  # not published yet
                version = hashlib.sha256(page.content).hexdigest()
            yield DocumentRef(url, name, day, kind, key, version, media_type=HTML)

    def covers(self, tracked: TrackedDocument) -> bool:
        is_listed = tracked.kind != "minutes" or tracked.date >= self.today - OLD
        return super().covers(tracked) and is_listed

    async def _request(self, url: str) -> HttpResponse:
        address, form = _split(url)
        return await self.client.post(address, form=form, headers=_HEADERS)

    async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        url, form = _split(ref.url)
        return await self.client.download(url, validators, sink, form=form, headers=_HEADERS)


def _split(url: str) -> tuple[str, dict[str, str]]:
    """The URL of a page as the site requests it: its query in a form."""
    address, _, query = url.partition("&")
    return address, {name: values[0] for name, values in parse_qs(query).items()}


def _named_committees(extra: Mapping[str, Any]) -> dict[str, str]:
    """Names by id; the name is empty if the setting has none."""
    committees = extra.get("committees") or []
    if isinstance(committees, dict):
        return {str(number): str(name) for number, name in committees.items()}
    return {str(number): "" for number in (committees if isinstance(committees, list) else [committees])}
