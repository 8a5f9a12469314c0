"""Matches the new and changed pages of a publication with the saved searches, once.

A page is new if its id, which follows from its text, was never published for the site: the table `published_pages` has
all ids. So neither a rollback nor a second deployment of the same content finds new pages.
"""

from __future__ import annotations

import logging
import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from clerk.archive.content_hash import hash_content, open_readonly
from clerk.archive.query import InvalidQuery
from clerk.config import Settings
from clerk.documents.storage import SiteStorage
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import SiteVersions
from clerk.saved_searches import deliveries, repository
from clerk.saved_searches.page_query import MatchingPage, NewPages, parse_query, sources_of_pages
from clerk.saved_searches.repository import SavedSearch

logger = logging.getLogger(__name__)

Connection = psycopg.Connection[Any]
Connect = Callable[[], AbstractContextManager[Connection]]

_PUBLICATION = """
select p.subdomain, p.content_hash, m.status,
       -- Publications of a clerk without saved searches: their pages were not recorded.
       (select max(e.deployed_at) from publications e
        where e.subdomain = p.subdomain and e.id < p.id
          and not exists (select from publication_matchings f where f.publication_id = e.id))
from publications p
join publication_matchings m on m.publication_id = p.id
where p.id = %s
"""
_INSERT_MATCH = """
insert into saved_search_matches (saved_search_id, subdomain, page_id, publication_id, kind, meeting, date, page,
                                  is_new_document, snippet, content_item_id, source_url, matched_at)
values (%(search)s, %(site)s, %(page_id)s, %(publication)s, %(kind)s, %(meeting)s, %(date)s, %(page)s,
        %(is_new_document)s, left(%(snippet)s, 1000), %(document)s, %(source_url)s, clerk_now())
on conflict (saved_search_id, subdomain, page_id) do nothing
"""
_RECORD_DOCUMENT = """
insert into published_pages as p (subdomain, kind, meeting, date, page_ids, pages, new_pages, first_published_at,
                                  changed_at)
select %(site)s, %(kind)s, %(meeting)s, %(date)s, %(new)s, %(pages)s, %(new_pages)s, t.at, t.at
from coalesce(%(at)s::timestamptz, clerk_now()) t (at)
on conflict (subdomain, kind, meeting, date) do update
set page_ids = p.page_ids || excluded.page_ids, pages = excluded.pages, new_pages = excluded.new_pages,
    changed_at = excluded.changed_at
"""
# `Council (2)` is a body of that name, or the second meeting of `Council` on that day.
_SOURCE = """
select d.id, d.source_url
from site_documents d
where d.subdomain = %(site)s and d.kind = %(kind)s and d.date::text = %(date)s
  and d.meeting in (%(meeting)s, %(body)s) and (d.meeting = %(meeting)s or d.occurrence > 1)
order by d.meeting = %(meeting)s and d.occurrence = 1 desc,
         %(meeting)s = format('%%s (%%s)', d.meeting, d.occurrence) desc,
         d.ocr_status = 'processed' desc nulls last, d.revision desc
limit 1
"""


class _DocumentKey(NamedTuple):
    kind: str
    meeting: str
    date: str


_PageIds = dict[_DocumentKey, list[str]]


@dataclass
class _Changes:
    """What a publication changes."""

    new: _PageIds = field(default_factory=dict)
    """Documents with new pages, and the ids of these pages."""
    pages: dict[_DocumentKey, int] = field(default_factory=dict)
    known: set[_DocumentKey] = field(default_factory=set)
    """Documents that had been published before."""

    @property
    def new_pages(self) -> int:
        return sum(map(len, self.new.values()))


def match_publication(
    settings: Settings, connect: Connect, publication_id: int, heartbeat: Callable[[], None]
) -> tuple[str, str] | None:
    """Match a publication. Returns its subdomain and the status of the matching; None if the site was removed.

    `heartbeat` raises if another worker has the job.
    """
    with connect() as connection:
        row = connection.execute(_PUBLICATION, [publication_id]).fetchone()
    if row is None:
        return None
    subdomain, content_hash, status, unrecorded_until = row
    if status in ("matched", "superseded"):
        return subdomain, status
    archive_path = _find_archive(settings, subdomain, content_hash)
    if archive_path is None:
        with connect() as connection:
            _record_end(connection, publication_id, "superseded", 0, 0)
        return subdomain, "superseded"
    with open_readonly(archive_path) as archive:
        with connect() as connection:
            known = _read_known(connection, subdomain)
            searches = repository.read_applicable(connection, subdomain)
        published = _read_page_ids(archive)
        unmatched: _PageIds = {}
        if not known and unrecorded_until is not None:
            unmatched = _read_earlier_versions(settings, subdomain, content_hash) or published
        changes = _find_changes(published, [known, unmatched])
        found, errors = _find_matches(archive, changes, searches, heartbeat)
    with connect() as connection:
        for search in searches:
            if search.id in errors and errors[search.id] != search.query_error:
                repository.record_query_error(connection, search.id, errors[search.id])
    heartbeat()
    with connect() as connection, connection.transaction():
        if _claim(connection, publication_id):
            _record_documents(connection, subdomain, unmatched, None, unrecorded_until)
            matches = _record_matches(connection, publication_id, subdomain, found, changes)
            _record_documents(connection, subdomain, changes.new, changes.pages)
            _record_end(connection, publication_id, "matched", changes.new_pages, matches)
            logger.info("%s new pages match saved searches %s times", changes.new_pages, matches)
    return subdomain, "matched"


def _find_matches(
    archive: sqlite3.Connection, changes: _Changes, searches: list[SavedSearch], heartbeat: Callable[[], None]
) -> tuple[dict[int, list[MatchingPage]], dict[int, str | None]]:
    """The matches of each saved search that has any; and why its query is invalid, for each that was matched."""
    found: dict[int, list[MatchingPage]] = {}
    errors: dict[int, str | None] = {}
    if not changes.new or not searches:
        return found, errors
    new_pages = ((key.kind, page_id) for key, ids in changes.new.items() for page_id in ids)
    with closing(NewPages(archive, new_pages)) as index:
        for search in searches:
            heartbeat()
            try:
                query = parse_query(search.query)
            except InvalidQuery as error:
                errors[search.id] = str(error)
                continue
            errors[search.id] = None
            if pages := list(index.find(query)):
                found[search.id] = pages
    return found, errors


def _find_archive(settings: Settings, subdomain: str, content_hash: str) -> StoragePath | None:
    """A database with the content of the publication; None if there is none any more."""
    for version in reversed(SiteVersions(settings.publish_dir, subdomain).versions()):
        if version.content_hash == content_hash:
            return version.database
    # Published by other deployers only: the next run may have replaced the file.
    database = SiteStorage(settings.storage_dir, subdomain).database
    if not database.is_file():
        return None
    with open_readonly(database) as archive:
        return database if hash_content(archive) == content_hash else None


def _read_page_ids(archive: sqlite3.Connection) -> _PageIds:
    documents: _PageIds = {}
    for kind, source in sources_of_pages(archive):
        sql = f"select meeting, date, id from {source} order by meeting, date, page"  # noqa: S608 (our own names)
        for meeting, date, page_id in archive.execute(sql):
            documents.setdefault(_DocumentKey(kind, meeting, date), []).append(page_id)
    return documents


def _read_known(connection: Connection, subdomain: str) -> _PageIds:
    rows = connection.execute(
        "select kind, meeting, date, page_ids from published_pages where subdomain = %s", [subdomain]
    )
    return {_DocumentKey(kind, meeting, date): ids for kind, meeting, date, ids in rows}


def _read_earlier_versions(settings: Settings, subdomain: str, content_hash: str) -> _PageIds:
    """The pages of the other versions on this machine, for a site that was published before its pages were recorded.
    Empty if there is no other version: then all its present pages count as published before."""
    documents: dict[_DocumentKey, dict[str, None]] = {}
    for version in SiteVersions(settings.publish_dir, subdomain).versions():
        if version.content_hash != content_hash:
            with open_readonly(version.database) as archive:
                for key, ids in _read_page_ids(archive).items():
                    documents.setdefault(key, {}).update(dict.fromkeys(ids))
    return {key: list(ids) for key, ids in documents.items()}


def _find_changes(published: _PageIds, known: Iterable[_PageIds]) -> _Changes:
    known_ids = {(key.kind, page_id) for documents in known for key, ids in documents.items() for page_id in ids}
    changes = _Changes(known={key for documents in known for key in documents})
    for key, ids in published.items():
        if new := [page_id for page_id in ids if (key.kind, page_id) not in known_ids]:
            changes.new[key] = new
            changes.pages[key] = len(ids)
    return changes


def _claim(connection: Connection, publication_id: int) -> bool:
    """Lock the row of the matching. False if another worker has recorded it in the meantime."""
    row = connection.execute(
        "select status from publication_matchings where publication_id = %s for update", [publication_id]
    ).fetchone()
    return row is not None and row[0] not in ("matched", "superseded")


def _record_matches(
    connection: Connection,
    publication_id: int,
    subdomain: str,
    found: dict[int, list[MatchingPage]],
    changes: _Changes,
) -> int:
    """Record matches with their deliveries and jobs. Returns how many are new."""
    sources: dict[_DocumentKey, tuple[int | None, str | None]] = {}
    matches = 0
    for search_id, is_paused in deliveries.lock_saved_searches(connection, list(found)).items():
        inserted = 0
        for page in found[search_id]:
            key = _DocumentKey(page.kind, page.meeting, page.date)
            if key not in sources:
                sources[key] = _read_source(connection, subdomain, key)
            document, source_url = sources[key]
            values = {
                **vars(page),
                "search": search_id,
                "site": subdomain,
                "publication": publication_id,
                "is_new_document": key not in changes.known,
                "document": document,
                "source_url": source_url,
            }
            inserted += connection.execute(_INSERT_MATCH, values).rowcount
        matches += inserted
        if inserted and not is_paused:
            deliveries.create_immediate(connection, search_id)
    return matches


def _record_documents(
    connection: Connection,
    subdomain: str,
    documents: _PageIds,
    pages: dict[_DocumentKey, int] | None,
    at: datetime | None = None,
) -> None:
    """Add ids to `published_pages`. `pages`: all pages of each document, if that is not the number of ids."""
    with connection.cursor() as cursor:
        cursor.executemany(
            _RECORD_DOCUMENT,
            [
                {
                    **key._asdict(),
                    "site": subdomain,
                    "new": ids,
                    "pages": len(ids) if pages is None else pages[key],
                    "new_pages": len(ids),
                    "at": at,
                }
                for key, ids in documents.items()
            ],
        )


def _record_end(connection: Connection, publication_id: int, status: str, new_pages: int, matches: int) -> None:
    connection.execute(
        "update publication_matchings set status = %s, new_pages = %s, matches = %s, matched_at = clerk_now(),"
        " error_code = null, error_message = null where publication_id = %s and matched_at is null",
        [status, new_pages, matches, publication_id],
    )


def _read_source(connection: Connection, subdomain: str, key: _DocumentKey) -> tuple[int | None, str | None]:
    values = {**key._asdict(), "site": subdomain, "body": re.sub(r" \([0-9]+\)$", "", key.meeting)}
    row = connection.execute(_SOURCE, values).fetchone()
    if row is None:
        return None, None
    document, source_url = row
    # Other sources, such as a local folder, are not published.
    return document, source_url if re.match(r"https?://", source_url or "") else None
