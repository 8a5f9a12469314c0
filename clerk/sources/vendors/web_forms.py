"""Pages of ASP.NET Web Forms with a Telerik grid: a link sends the page's form, which contains its state."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import ClassVar

from clerk.errors import SourceUnreadable
from clerk.sources.http.client import HttpResponse
from clerk.sources.parser_process import MAX_PAGE_BYTES
from clerk.sources.rows import Row, RowPage
from clerk.sources.vendors.portal import MAX_PAGES, PortalFetcher

_GRID = "table.rgMasterTable"
GRID_ROWS = "table.rgMasterTable > tbody > tr.rgRow, table.rgMasterTable > tbody > tr.rgAltRow"
_PAGER = "tr.rgPager, div.rgPager"
_PREFIX = "postback:"


class GridFetcher(PortalFetcher):
    """Base of fetchers whose listing is a Telerik grid."""

    grid: ClassVar[str]
    """Part of the names of the controls that belong to the grid of meetings. A page has other grids too."""
    container: ClassVar[str] = _GRID
    rows: ClassVar[str] = GRID_ROWS
    links: ClassVar[str] = ""
    fields: ClassVar[bool | str] = True
    """See `Fetcher.parse_rows`. The fields are sent with an event."""

    async def grid_rows(self, page: HttpResponse) -> AsyncIterator[Row]:
        """The rows of all pages of a grid."""
        seen: set[str] = set()
        for _ in range(MAX_PAGES):
            rows = (await self.parse_rows(page, self.rows, self.container, links=self.links)).rows
            for row in rows:
                yield row
            pager = await self.parse_rows(page, _PAGER, self.container, fields=self.fields, required=False)
            following = self._next_page(pager)
            further = {row.text for row in rows} - seen
            if following is None or not further:
                return
            seen |= further
            page = await self.post_event(page.url, pager.fields, *following)
        raise SourceUnreadable(f"{page.url[:200]} has more than {MAX_PAGES:,} pages")

    async def form_fields(self, page: HttpResponse) -> Mapping[str, str]:
        return (await self.parse_rows(page, _PAGER, self.container, fields=self.fields)).fields

    async def post_event(
        self,
        url: str,
        fields: Mapping[str, str],
        target: str,
        argument: str = "",
        values: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Send the form as a browser does for an event. `values` replace those of its fields."""
        if "__VIEWSTATE" not in fields:
            raise SourceUnreadable(f"no field __VIEWSTATE in the answer of {url[:200]}")
        form = {**fields, **(values or {}), "__EVENTTARGET": target, "__EVENTARGUMENT": argument}
        return await self.client.post(url, form=form, max_bytes=MAX_PAGE_BYTES)

    def _next_page(self, pager: RowPage) -> tuple[str, str] | None:
        """Target and argument of the event that shows the page after the current one; None on the last page."""
        for row in pager.rows:
            links = [link for link in row.links if link.url.startswith(_PREFIX) and self.grid in link.url]
            current = next((at for at, link in enumerate(links) if "rgCurrentPage" in link.css_class), len(links))
            following = links[current + 1 : current + 2]
            # After the numbers come links with images; "..." leads to further numbers.
            if following and (following[0].text.isdecimal() or following[0].text.startswith((".", "…"))):
                target, _, argument = following[0].url.removeprefix(_PREFIX).partition("#")
                return target, argument
        return None
