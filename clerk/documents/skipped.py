"""Entries of a source that did not become documents, and what operators say about entries.

A run stores how many entries it skipped, with the first reasons. `skipped_entries` has all entries that the last
listing of a site skipped: a complete listing replaces them, an interrupted one only adds to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import psycopg
from psycopg.rows import class_row

from clerk.documents.sanitize import clean_text

Connection = psycopg.Connection[Any]

MAX_ENTRIES = 10_000
"""Stored per site. A hostile listing can have millions of entries: further ones are only counted."""
DUPLICATE = "DuplicateKey"
"""Code of an entry whose key an earlier entry of the listing has."""
BUDGET_KEY = "budget of the run"
"""Key of the entry that says why a fetch ended before its last document. It is no entry of the source, so it is not
counted."""
_WITHOUT_USE_OF_A_DATE = {"NotADocument", "UnreadableType", "RobotsDisallowed", "BudgetExceeded", DUPLICATE}
_MAX_EXAMPLES = 20
_MAX_REASON_LENGTH = 300


@dataclass(frozen=True)
class SkippedEntry:
    """An entry of a listing that did not become a document."""

    reason: str
    """A sentence about the entry, with its name."""
    code: str = "NotADocument"
    """Why, for programs."""
    key: str = ""
    """The identity of the document. Default: the reason."""
    name: str = ""
    """Path of the file in its folder, or its address. Default: the reason."""
    url: str | None = None
    version: str = ""
    etag: str | None = None
    last_modified: str | None = None
    detection: int | None = None
    """Version of the rules that found no date in the content that `version`, `etag` or `last_modified` identify."""


@dataclass(frozen=True)
class OperatorDetails:
    """What an operator said about an entry. None: nothing."""

    source_key: str
    name: str
    date: date | None = None
    meeting: str | None = None
    kind: str | None = None
    ignored: bool = False


@dataclass(frozen=True)
class SourceEntry:
    """A document or a skipped entry of a site, as operators name it."""

    source_key: str
    name: str


def record_skipped(
    connection: Connection,
    subdomain: str,
    run_id: int,
    count: int,
    entries: Sequence[SkippedEntry],
    is_complete: bool,
) -> int:
    """Store what a listing skipped. `count` includes entries that are not in `entries` because there are too many.
    Returns the number of those that an operator does not ignore."""
    with connection.transaction():
        before = _read_skipped_since(connection, subdomain)
        ignored = {key for key, details in read_details(connection, subdomain).items() if details.ignored}
        stored = {entry_key(entry): entry for entry in entries[:MAX_ENTRIES]}
        connection.execute(
            "delete from skipped_entries where subdomain = %s and (%s or source_key = any (%s))",
            [subdomain, is_complete, list(stored)],
        )
        with connection.cursor() as cursor:
            cursor.executemany(
                """
                insert into skipped_entries (subdomain, source_key, name, source_url, reason_code, reason, run_id,
                                             skipped_since, source_version, etag, last_modified, detection)
                values (%s, %s, %s, %s, %s, %s, %s, coalesce(%s, clerk_now()), nullif(%s, ''), %s, %s, %s)
                """,
                [_row(subdomain, run_id, key, entry, before.get(key)) for key, entry in stored.items()],
            )
        open_entries = [entry for entry in entries if entry.key == BUDGET_KEY or entry_key(entry) not in ignored]
        examples = [clean_text(entry.reason, _MAX_REASON_LENGTH) for entry in open_entries[:_MAX_EXAMPLES]]
        open_count = count - (len(entries) - len(open_entries))
        connection.execute(
            "update pipeline_runs r set skipped = %s, skipped_examples = %s::text[] where r.run_id = %s",
            [open_count, examples or None, run_id],
        )
    return open_count


def needs_date(code: str) -> bool:
    """Whether the next run reads an entry that was skipped for this reason if an operator gives its date."""
    return code not in _WITHOUT_USE_OF_A_DATE


def entry_key(entry: SkippedEntry) -> str:
    """A second document with the key of a first one is an entry of its own."""
    text = _storable(entry.key or entry.reason)[:500]
    return f"{text[:200]} ({clean_text(entry.reason)})" if entry.code == DUPLICATE else text


def _row(subdomain: str, run_id: int, key: str, entry: SkippedEntry, since: object) -> tuple[object, ...]:
    reason = clean_text(entry.reason, _MAX_REASON_LENGTH)
    name, url = _storable(entry.name)[:2000] or reason, _storable(entry.url or "")[:2000] or None
    version = (entry.version, entry.etag, entry.last_modified, entry.detection)
    return (subdomain, key, name, url, entry.code, reason, run_id, since, *version)


def _storable(text: str) -> str:
    """Text as Postgres accepts it: valid Unicode without NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _read_skipped_since(connection: Connection, subdomain: str) -> dict[str, object]:
    rows = connection.execute("select source_key, skipped_since from skipped_entries where subdomain = %s", [subdomain])
    return dict(rows.fetchall())


def read_unread(connection: Connection, subdomain: str, detection: int) -> dict[str, SkippedEntry]:
    """Entries by key in whose content these rules have found no date before."""
    rows = connection.execute(
        """
        select e.source_key, e.reason, e.reason_code, e.name, e.source_url, e.source_version, e.etag, e.last_modified
        from skipped_entries e
        where e.subdomain = %s and e.detection = %s
        """,
        [subdomain, detection],
    ).fetchall()
    return {
        key: SkippedEntry(reason, code, key, name, url, version or "", etag, last_modified, detection)
        for key, reason, code, name, url, version, etag, last_modified in rows
    }


def read_details(connection: Connection, subdomain: str) -> dict[str, OperatorDetails]:
    """What operators said, by key of the entry."""
    with connection.cursor(row_factory=class_row(OperatorDetails)) as cursor:
        rows = cursor.execute(
            "select source_key, name, date, meeting, kind, ignored from document_details where subdomain = %s",
            [subdomain],
        ).fetchall()
    return {row.source_key: row for row in rows}


def save_details(connection: Connection, subdomain: str, details: Iterable[OperatorDetails]) -> None:
    """Store what an operator says about entries. A value of None leaves the stored value as it is."""
    with connection.cursor() as cursor:
        cursor.executemany(
            """
            insert into document_details as d
                (subdomain, source_key, name, date, meeting, kind, ignored, set_by, set_at)
            values (%(site)s, %(key)s, %(name)s, %(date)s, %(meeting)s, %(kind)s, %(ignored)s,
                    coalesce(nullif(current_setting('clerk.operator', true), ''), session_user), clerk_now())
            on conflict (subdomain, source_key) do update
            set name = excluded.name, date = coalesce(excluded.date, d.date),
                meeting = coalesce(excluded.meeting, d.meeting), kind = coalesce(excluded.kind, d.kind),
                ignored = excluded.ignored, set_by = excluded.set_by, set_at = excluded.set_at
            """,
            [_details_values(subdomain, one) for one in details],
        )


def _details_values(subdomain: str, details: OperatorDetails) -> Mapping[str, object]:
    return {
        "site": subdomain,
        "key": details.source_key,
        "name": details.name,
        "date": details.date,
        "meeting": details.meeting,
        "kind": details.kind,
        "ignored": details.ignored,
    }


def list_entries(connection: Connection, subdomain: str) -> list[SourceEntry]:
    """The entries that an operator can name: skipped ones, and documents of the source."""
    rows = connection.execute(
        """
        select e.source_key, e.name from skipped_entries e where e.subdomain = %(site)s
        union
        select i.source_key, coalesce(substring(i.source_key from '^file (.*)'), i.source_url, i.source_key)
        from content_items i
        where i.subdomain = %(site)s and i.kind <> 'archive' and i.source_key is not null and i.superseded_at is null
        order by 2, 1
        """,
        {"site": subdomain},
    )
    return [SourceEntry(*row) for row in rows]
