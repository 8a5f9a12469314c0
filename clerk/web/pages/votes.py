"""Votes and people of a site, from its published archive: a list of each, a page per vote and a page per person."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from clerk.archive import vote_rows
from clerk.archive import votes as archive
from clerk.archive.content_hash import open_readonly
from clerk.archive.hits import Hit
from clerk.archive.votes import VoteFilter
from clerk.documents.sanitize import is_subdomain
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import published_archives
from clerk.web import paging
from clerk.web.db import read_site_name
from clerk.web.pages.search import csv_response, has_publications, link_hits
from clerk.web.rendering import render

_SHOWN_VALUES = 8
_MAX_MEETINGS = 100


@dataclass(frozen=True)
class ListParams:
    """Query parameters. Empty: all."""

    text: str = ""
    result: str = ""
    body: str = ""
    year: str = ""
    page: int = 1

    def as_filter(self, connection: sqlite3.Connection) -> VoteFilter:
        people = [person.id for person in archive.find_people(connection, self.text, limit=-1)] if self.text else None
        return VoteFilter(people, result=self.result, body=self.body, year=self.year)


@dataclass(frozen=True)
class _List:
    """A page of a list. The total is not counted, because that would read the whole archive."""

    rows: list[Any]
    page: int
    has_more: bool


def show_votes(request: Request) -> Response:
    params = _params(request)
    link = _link(request, "votes", params)

    def read(connection: sqlite3.Connection) -> dict[str, Any]:
        chosen = params.as_filter(connection)
        rows = _page_of(
            lambda limit, offset: archive.read_votes(connection, chosen, limit=limit, offset=offset), params
        )
        facets = archive.count_by_facet(connection, chosen)
        return {
            "rows": rows,
            "total": sum(facets["result"].values()),
            "facets": [_facet(name, facets[name], params, link) for name in ("result", "body", "year")],
        }

    csv_url = _link(request, "votes.csv", params)(page=1)
    return _render(request, "votes.html", read, params=params, link=link, csv_url=csv_url)


def show_votes_csv(request: Request) -> Response:
    params, subdomain = _params(request), _subdomain(request)

    def read(connection: sqlite3.Connection) -> str:
        found = archive.read_votes(connection, params.as_filter(connection))
        return vote_rows.as_csv(vote_rows.VOTE_FIELDS, (vote_rows.vote_row(subdomain, vote) for vote in found))

    return _send_csv(request, read, f"votes of {subdomain}.csv")


def show_people_csv(request: Request) -> Response:
    params, subdomain = _params(request), _subdomain(request)

    def read(connection: sqlite3.Connection) -> str:
        found = archive.find_people(connection, params.text, limit=-1)
        rows = (vote_rows.person_row(subdomain, person) for person in found)
        return vote_rows.as_csv(vote_rows.PEOPLE_FIELDS, rows)

    return _send_csv(request, read, f"people of {subdomain}.csv")


def show_people(request: Request) -> Response:
    params = _params(request)

    def read(connection: sqlite3.Connection) -> _List:
        return _page_of(lambda limit, offset: archive.find_people(connection, params.text, limit, offset), params)

    csv_url = _link(request, "people.csv", params)(page=1)
    return _render(request, "people.html", read, params=params, link=_link(request, "people", params), csv_url=csv_url)


def show_vote(request: Request) -> Response:
    key = request.path_params["vote"]

    def read(connection: sqlite3.Connection) -> dict[str, Any]:
        vote = archive.read_vote(connection, key)
        if vote is None:
            raise HTTPException(404, f"The published archive has no vote {key}.")
        hit = Hit(
            _subdomain(request),
            vote.kind,
            vote.page_id,
            vote.meeting,
            vote.date,
            vote.page,
            archive.page_image(connection, vote),
            "",
            0.0,
            1,
        )
        return {"vote": vote, "linked": link_hits(request.app.state.pool, [hit], "")[0]}

    return _render(request, "vote.html", read)


def show_person(request: Request) -> Response:
    key, params = request.path_params["person"], _params(request)

    def read(connection: sqlite3.Connection) -> dict[str, Any]:
        person = archive.read_person(connection, key)
        if person is None:
            raise HTTPException(404, f"The published archive has no person {key}.")
        votes = _page_of(
            lambda limit, offset: archive.read_votes(connection, VoteFilter([key]), limit=limit, offset=offset), params
        )
        return {
            "person": person,
            "counts": archive.count_votes(connection, key),
            "votes": votes,
            "meetings": archive.read_meetings(connection, key, _MAX_MEETINGS),
        }

    return _render(request, "person.html", read, params=params, link=_link(request, f"people/{quote(key)}", params))


def _render(request: Request, template: str, read: Callable[[sqlite3.Connection], Any], **values: Any) -> Response:
    """Show what `read` returns from the site's archive, or why it cannot be read."""
    found, problem = _read_archive(request, read)
    subdomain = _subdomain(request)
    name = read_site_name(request.app.state.pool, subdomain)
    return render(template, subdomain=subdomain, site_name=name, found=found, problem=problem, **values)


def _send_csv(request: Request, read: Callable[[sqlite3.Connection], str], name: str) -> Response:
    found, problem = _read_archive(request, read)
    if problem is not None:
        raise HTTPException(404, problem)
    return csv_response([found], name)


def _read_archive(request: Request, read: Callable[[sqlite3.Connection], Any]) -> tuple[Any, str | None]:
    """What `read` returns, or None and why the archive of the site cannot be read."""
    subdomain = _subdomain(request)
    publish_dir: StoragePath | None = request.app.state.publish_dir
    archives = published_archives(publish_dir, subdomain) if publish_dir is not None and publish_dir.is_dir() else []
    if not archives:
        if publish_dir is None or has_publications(request.app.state.pool, subdomain):
            return None, "The published archive of this site is not on this machine."
        return None, "Nothing of this site has been published yet. Its first complete run publishes the archive."
    try:
        with open_readonly(archives[0][1]) as connection:
            if archive.has_tables(connection):
                return read(connection), None
            return None, f"This archive has no tables of votes yet: clerk rewind {subdomain} --to extraction adds them."
    except sqlite3.Error as error:
        return None, f"The archive of this site cannot be read ({error}). Run clerk verify --full for details."


def _facet(name: str, counts: dict[str, int], params: ListParams, link: Callable[..., str]) -> dict[str, Any]:
    """A list of links that each add a filter, or remove the chosen one."""
    values = []
    for value, count in counts.items():
        is_chosen = value == getattr(params, name)
        url = link(**{name: "" if is_chosen else value})
        values.append({"value": value, "count": count, "is_chosen": is_chosen, "url": url})
    return {"name": name, "shown": values[:_SHOWN_VALUES], "more": values[_SHOWN_VALUES:]}


def _subdomain(request: Request) -> str:
    subdomain: str = request.path_params["subdomain"]
    if not is_subdomain(subdomain):
        raise HTTPException(404, "There is no such site.")
    return subdomain


def _params(request: Request) -> ListParams:
    query = request.query_params
    result, year = query.get("result", ""), query.get("year", "")
    return ListParams(
        paging.parse_text(query.get("text", "")),
        result if result in archive.OUTCOMES else "",
        paging.parse_text(query.get("body", ""), 500),
        year if len(year) == 4 and year.isascii() and year.isdigit() else "",
        paging.parse_page(query.get("page", "")),
    )


def _link(request: Request, path: str, params: ListParams) -> Callable[..., str]:
    return paging.link_to(f"/sites/{quote(_subdomain(request))}/{path}", params)


def _page_of(read: Callable[[int, int], list[Any]], params: ListParams) -> _List:
    size = paging.PAGE_SIZE
    rows = read(size + 1, (params.page - 1) * size)
    return _List(rows[:size], params.page, len(rows) > size)
