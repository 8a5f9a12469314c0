"""Pages of ASP.NET Web Forms with a Telerik grid: a link sends the page's form, which contains its state."""

from __future__ import annotations

from collections.abc import Mapping

from clerk.sources.rows import RowPage

GRID = "table.rgMasterTable"
GRID_ROWS = "table.rgMasterTable > tbody > tr.rgRow, table.rgMasterTable > tbody > tr.rgAltRow"
PAGER_ROWS = "tr.rgPager, div.rgPager"
_PREFIX = "postback:"


def next_page(pager: RowPage) -> tuple[str, str] | None:
    """Target and argument of the event that shows the page after the current one; None on the last page."""
    for row in pager.rows:
        links = [link for link in row.links if link.url.startswith(_PREFIX)]
        current = next((at for at, link in enumerate(links) if "rgCurrentPage" in link.css_class), len(links))
        following = links[current + 1 : current + 2]
        # After the last number comes a link to the last page, without text; "..." leads to further numbers.
        if following and (following[0].text.isdecimal() or following[0].text.startswith((".", "…"))):
            target, _, argument = following[0].url.removeprefix(_PREFIX).partition("#")
            return target, argument
    return None


def form_of(fields: Mapping[str, str], target: str, argument: str = "", **values: str) -> dict[str, str]:
    """The form that a browser sends for an event."""
    return {**fields, "__EVENTTARGET": target, "__EVENTARGUMENT": argument, **values}
