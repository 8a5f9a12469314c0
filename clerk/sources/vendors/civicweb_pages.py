"""The pages of CivicWeb portals: meetings and documents of portals without the service that lists them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import unquote, urlsplit

from clerk.errors import SourceUnreadable
from clerk.sources.vendors.portal import MAX_PAGES, PortalFetcher, kind_of, query_of

_MEETING = r"/MeetingInformation\.aspx\?(?:.*&)?id=\d{1,12}(?!\d)"
_TYPE = r"/MeetingInformation\.aspx\?(?:.*&)?type=\d+"
_DOCUMENT = r"/document/\d{1,12}(?:[/?]|$)"
_BUTTONS = "[id*='MeetingButton']"
_BUTTON_ID = re.compile(r"MeetingButton(\d{1,12})$")
_TYPES = {("agenda", True): 4, ("agenda", False): 1, ("minutes", True): 10, ("minutes", False): 9}
"""`DocumentType` of the service by kind, and whether it is a PDF."""
_OF_A_MEETING = "[id*='MainContent_Meeting'], [id*='MainContent_Agenda']"
"""What the page of a meeting has, with or without documents."""


class CivicWebPages(PortalFetcher):
    """Base of the fetcher. Meetings and documents have the fields that the service gives them."""

    @property
    def portal(self) -> str:
        raise NotImplementedError

    async def page_meetings(self) -> AsyncIterator[dict[str, Any]]:
        """The meetings of the list by type, which has the recent ones, and of the page of each type, which has all."""
        page = await self.client.get_page(f"{self.portal}/Portal/MeetingTypeList.aspx")
        links = (await self.parse_links(page, [_MEETING, _TYPE])).links
        types = list(dict.fromkeys(link.url for link in links if link.matches[1]))
        meetings = [link for link in links if link.matches[0]]
        if not types and not meetings:
            raise SourceUnreadable(f"no link to MeetingInformation.aspx in the answer of {page.url[:200]}")
        if len(types) > MAX_PAGES:
            raise SourceUnreadable(f"{page.url[:200]} has more than {MAX_PAGES:,} types of meetings")
        for link in meetings:
            yield {"Id": int(query_of(link.url)["id"]), "Name": link.text, "MeetingTypeName": ""}
        for url in types:
            page = await self.client.get_page(url)
            for row in (await self.parse_rows(page, _BUTTONS, _BUTTONS, "div, span", required=False)).rows:
                if number := _BUTTON_ID.search(row.attributes.get("id", "")):
                    yield {"Id": int(number[1]), "Name": row.text, "MeetingTypeName": ""}

    async def page_documents(self, meeting: int) -> list[dict[str, Any]]:
        """The documents that the page of a meeting links: one of each kind, which is a PDF if there is one."""
        page = await self.client.get_page(f"{self.portal}/Portal/MeetingInformation.aspx", {"Id": meeting})
        links = [link for link in (await self.parse_links(page, [_DOCUMENT])).links if any(link.matches)]
        if not links:
            await self.parse_rows(page, "", _OF_A_MEETING)  # an error if the page is something else
        found: dict[str, tuple[tuple[bool, bool], int]] = {}
        for link in links:
            number, _, name = urlsplit(link.url).path.rpartition("/document/")[2].partition("/")
            kind = kind_of(link.text, unquote(name)) or "agenda"  # the page shows the agenda
            is_pdf = name.lower().endswith(".pdf")
            # A packet is the agenda if there is no other, as in the answers of the service.
            rank = (kind != "packet", is_pdf)
            kind = "minutes" if kind == "minutes" else "agenda"
            if kind not in found or rank > found[kind][0]:
                found[kind] = (rank, int(number))
        return [{"Id": number, "DocumentType": _TYPES[kind, rank[1]]} for kind, (rank, number) in found.items()]
