"""The saved searches (`clerk alert`) with their deliveries, and their Atom feeds."""

from __future__ import annotations

from psycopg import sql
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clerk.saved_searches import feeds
from clerk.saved_searches.repository import SavedSearchNotFound
from clerk.web.db import SampleQuery, fetch_rows
from clerk.web.rendering import render

_MAX_SEARCHES = 500
_OVERVIEW = sql.SQL("select * from saved_search_overview order by failed > 0 desc, name limit %(limit)s")
_SITE = sql.SQL("select 1 from pipeline_overview where subdomain = %(site)s")
QUERIES: list[SampleQuery] = [(_OVERVIEW, {"limit": 1}), (_SITE, {"site": ""})]


def show(request: Request) -> Response:
    with request.app.state.pool.transaction() as connection:
        rows = fetch_rows(connection, _OVERVIEW, {"limit": _MAX_SEARCHES})
    return render("saved_searches.html", rows=rows, max_rows=_MAX_SEARCHES)


def saved_search_feed(request: Request) -> Response:
    with request.app.state.pool.transaction() as connection:
        try:
            content = feeds.saved_search_feed(
                connection, request.path_params["name"].replace("\0", ""), request.app.state.public_url
            )
        except SavedSearchNotFound as error:
            raise HTTPException(404, f"{error.what[:1].upper()}{error.what[1:]}.") from error
    return Response(content, media_type=feeds.CONTENT_TYPE)


def site_feed(request: Request) -> Response:
    subdomain = request.path_params["subdomain"].replace("\0", "")
    with request.app.state.pool.transaction() as connection:
        if not fetch_rows(connection, _SITE, {"site": subdomain}):
            raise HTTPException(404, f"There is no site {subdomain[:100]}.")
        content = feeds.site_feed(connection, subdomain, request.app.state.public_url)
    return Response(content, media_type=feeds.CONTENT_TYPE)
