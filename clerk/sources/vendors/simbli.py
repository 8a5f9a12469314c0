"""`simbli`: the meeting listing of Simbli (eBoardsolutions). Agendas and minutes are web pages."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, ClassVar

from clerk.documents.media_types import HTML
from clerk.documents.repository import DocumentRef
from clerk.errors import SourceUnreadable
from clerk.sources.recognition import Recognition
from clerk.sources.vendors.portal import MAX_PAGES, PortalFetcher, body_of, first_day_of, require_list

_PORTAL = "https://simbli.eboardsolutions.com"
_PAGE_SIZE = 50
_TOKENS = {
    name: re.compile(
        rf"""\b(?:{variable}|{name})['"]?\s{{0,9}}[=:]\s{{0,9}}(['"])(?P<value>[^'"]{{1,2000}})\1""", re.IGNORECASE
    )
    for name, variable in (("ConnectionString", "constr"), ("SecurityToken", "sToken"))
}
"""Variables of the page's script, or fields of an object in it."""
_LISTS = ("MeetingList", "Meetings", "meetings", "Data", "data", "Result", "d")


class Simbli(PortalFetcher):
    settings: ClassVar[Mapping[str, str]] = {
        "school": "number of the school or board: N in SB_MeetingListing.aspx?S=N",
        "portal": f"URL of the portal; default: {_PORTAL}",
    }
    required = ("school",)
    recognition = Recognition(
        "Simbli",
        hosts=(
            r"(?:simbli|public|eboard|www)\.eboardsolutions\.com/.*[?&]S=(?P<school>\d{1,12})",
            r"(?:simbli|public|eboard)\.eboardsolutions\.com/",
        ),
        paths=(r"/SB_Meetings/\w+\.aspx\?(?:.*&)?S=(?P<school>\d{1,12})",),
        markers=("[href*='SB_Meetings/' i]", "[src*='SB_Meetings/' i]"),
        fields=(frozenset({"Master_MeetingID", "MM_MeetingTitle"}),),
    )
    names = ("school",)

    @property
    def portal(self) -> str:
        return str(self.site.extra.get("portal") or _PORTAL).rstrip("/")

    async def documents(self) -> AsyncIterator[DocumentRef]:
        tokens = await self._tokens()
        url = f"{self.portal}/Services/api/GetMeetingListing"
        listed: set[str] = set()
        start = 0
        for _ in range(MAX_PAGES):
            query = {
                "ListingType": "0",
                "TimeZone": "-60",
                "CustomSort": 0,
                "SortColName": "DateTime",
                "IsSortDesc": True,
                "RecordStart": start,
                "RecordCount": _PAGE_SIZE,
                "FilterExp": "",
                "IsUserLoggedIn": False,
                "SchoolID": str(self.site.extra["school"]),
                **tokens,
            }
            answer = (await self.client.post(url, json=query, headers={"Accept": "application/json"})).json()
            found = (
                next((answer[name] for name in _LISTS if name in answer), answer)
                if isinstance(answer, dict)
                else answer
            )
            meetings = require_list(found, url)
            further = {_identity(meeting): meeting for meeting in meetings if _identity(meeting) not in listed}
            for meeting in further.values():
                for ref in self._parse(meeting):
                    yield ref
            listed |= set(further)
            start += len(meetings)
            if not further:
                return
        raise SourceUnreadable(f"{url} has more than {MAX_PAGES:,} pages")

    async def _tokens(self) -> dict[str, str]:
        """What the listing's page sends with its requests."""
        page = await self.client.get_page(
            f"{self.portal}/SB_Meetings/SB_MeetingListing.aspx", {"S": str(self.site.extra["school"])}
        )
        tokens = {}
        for name, pattern in _TOKENS.items():
            match = pattern.search(page.text)
            if match is None:
                raise SourceUnreadable(f"no {name} in the answer of {page.url[:200]}")
            tokens[name] = match["value"]
        return tokens

    def _parse(self, meeting: object) -> Iterator[DocumentRef]:
        if not isinstance(meeting, dict) or not _number(meeting):
            self.skip_malformed(f"the entry {str(meeting)[:80]!r}", "is not a meeting")
            return
        number = _number(meeting)
        name = body_of(str(meeting.get("MM_MeetingTitle") or meeting.get("ML_TypeTitle") or ""))
        if not name:
            self.skip_malformed(f"meeting {number}", "has no title")
            return
        if meeting.get("ML_IsPublic") is False:
            return
        day = first_day_of(meeting.get("MM_DateTime"), meeting.get("DateTime"))
        address = f"{self.portal}/SB_Meetings/ViewMeeting.aspx?S={self.site.extra['school']}&MID={number}"
        pages = [("agenda", address, str(meeting.get("MM_PublishedDate") or ""))]
        if str(meeting.get("MinutesStatus") or "").upper() == "PUBLISHED":
            pages.append(("minutes", f"{address}&T=1", ""))
        for kind, url, version in pages:
            if self.is_wanted(kind, day):
                yield DocumentRef(url, name, day, kind, f"simbli meeting {number} {kind}", version, media_type=HTML)


def _number(meeting: Mapping[str, Any]) -> object:
    return meeting.get("Master_MeetingID") or meeting.get("MM_MeetingID")


def _identity(meeting: object) -> str:
    """Two entries with the same are one: the page beyond the last may repeat it."""
    number = _number(meeting) if isinstance(meeting, dict) else None
    return str(number) if number else repr(meeting)[:500]
