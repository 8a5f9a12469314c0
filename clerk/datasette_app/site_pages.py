"""What the pages about one site share: its archive, its paths, and lists with filters and pages."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote, unquote, urlencode

from datasette.utils.asgi import NotFound, Request

from clerk.archive.hits import meeting_path
from clerk.datasette_app.lazy_datasette import Archive, ArchiveDatasette

PER_PAGE = 100
"""Rows of a list on one page."""


def url_part(request: Request, name: str) -> str:
    return unquote(request.url_vars[name], errors="replace")


async def find_archive(datasette: ArchiveDatasette, site: str) -> Archive:
    try:
        return await asyncio.to_thread(datasette.archive, site)
    except KeyError:
        raise NotFound(f"No archive named {site} is published") from None


def path_of_meeting(datasette: ArchiveDatasette, site: str, day: str, meeting: str) -> str:
    return str(datasette.urls.path(meeting_path(site, day, meeting)))


def path_of_image(datasette: ArchiveDatasette, site: str, page_image: str) -> str:
    return str(datasette.urls.path(f"/-/images/{quote(site, safe='')}{quote(page_image)}"))


class ListPage:
    """A page of a list: its number, what is chosen in its filters, and links to other pages and choices."""

    def __init__(self, datasette: ArchiveDatasette, request: Request, route: str, filters: dict[str, str]) -> None:
        self.filters = filters
        """Filter → chosen value; empty: all."""
        self.page = _parse_page(request.args.get("page") or "")
        self.offset = (self.page - 1) * PER_PAGE
        self._path = str(datasette.urls.path(f"{route}/{quote(url_part(request, 'site'), safe='')}"))

    def link(self, suffix: str = "", **changes: Any) -> str:
        values = self.filters | {"page": 1} | changes
        query = urlencode({name: value for name, value in values.items() if value and value != 1})
        return f"{self._path}{suffix}" + (f"?{query}" if query else "")

    def context(self, rows: list[Any]) -> dict[str, Any]:
        """For a template. `rows` has one more than PER_PAGE if there is a next page."""
        return {"chosen": self.filters, "link": self.link, "page": self.page, "has_more": len(rows) > PER_PAGE}


def _parse_page(number: str) -> int:
    """1 if the parameter is no number."""
    return max(1, int(number)) if number.isascii() and number.isdigit() and len(number) < 8 else 1
