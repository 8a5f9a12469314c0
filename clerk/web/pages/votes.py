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

from clerk.archive import votes as archive
from clerk.archive.content_hash import open_readonly
from clerk.archive.hits import Hit
from clerk.documents.sanitize import is_subdomain
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import published_archives
from clerk.web import paging
from clerk.web.pages.search import link_hits
from clerk.web.rendering import render


@dataclass(frozen=True)
class ListParams:
    text: str = ""
    page: int = 1


@dataclass(frozen=True)
class _List:
    """A page of a list. The total is not counted, because that would read the whole archive."""

    rows: list[Any]
    page: int
    has_more: bool


def show_votes(request: Request) -> Response:
    params = _params(request)

    def read(connection: sqlite3.Connection) -> _List:
        people = (
            [person.id for person in archive.find_people(connection, params.text, limit=-1)] if params.text else None
        )
        return _page_of(
            lambda limit, offset: archive.read_votes(connection, people, limit=limit, offset=offset), params
        )

    return _render(request, "votes.html", read, params=params, link=_link(request, "votes", params))


def show_people(request: Request) -> Response:
    params = _params(request)

    def read(connection: sqlite3.Connection) -> _List:
        return _page_of(lambda limit, offset: archive.find_people(connection, params.text, limit, offset), params)

    return _render(request, "people.html", read, params=params, link=_link(request, "people", params))


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
            lambda limit, offset: archive.read_votes(connection, [key], limit=limit, offset=offset), params
        )
        return {"person": person, "counts": archive.count_votes(connection, key), "votes": votes}

    return _render(request, "person.html", read, params=params, link=_link(request, f"people/{quote(key)}", params))


def _render(request: Request, template: str, read: Callable[[sqlite3.Connection], Any], **values: Any) -> Response:
    """Show what `read` returns from the site's archive, or why it cannot be read."""
    subdomain = _subdomain(request)
    publish_dir: StoragePath | None = request.app.state.publish_dir
    found = problem = None
    archives = published_archives(publish_dir, subdomain) if publish_dir is not None and publish_dir.is_dir() else []
    if not archives:
        problem = (
            "No archive of this site is published on this machine."
            if publish_dir is None
            else f"No archive of this site has been published yet: clerk why {subdomain} says what it waits for."
        )
    else:
        try:
            with open_readonly(archives[0][1]) as connection:
                if archive.has_tables(connection):
                    found = read(connection)
                else:
                    problem = (
                        f"This archive has no tables of votes yet: clerk rewind {subdomain} --to extraction adds them."
                    )
        except sqlite3.Error as error:
            problem = f"The archive of this site cannot be read ({error}). Run clerk verify --full for details."
    return render(template, subdomain=subdomain, found=found, problem=problem, **values)


def _subdomain(request: Request) -> str:
    subdomain: str = request.path_params["subdomain"]
    if not is_subdomain(subdomain):
        raise HTTPException(404, "There is no such site.")
    return subdomain


def _params(request: Request) -> ListParams:
    query = request.query_params
    return ListParams(paging.parse_text(query.get("text", "")), paging.parse_page(query.get("page", "")))


def _link(request: Request, path: str, params: ListParams) -> Callable[..., str]:
    return paging.link_to(f"/sites/{quote(_subdomain(request))}/{path}", params)


def _page_of(read: Callable[[int, int], list[Any]], params: ListParams) -> _List:
    size = paging.PAGE_SIZE
    rows = read(size + 1, (params.page - 1) * size)
    return _List(rows[:size], params.page, len(rows) > size)
