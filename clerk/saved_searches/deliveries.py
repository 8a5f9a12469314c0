"""Deliveries of matches: created under a lock of the saved search, each sent by one job.

A destination's column `delivered_to_match` separates matches that belong to a delivery from those that do not. A
delivery names its matches by a range of ids, which is complete because ids of one saved search are in order of commit.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from clerk.config import Settings
from clerk.db.audit import log_action
from clerk.saved_searches import jobs, repository
from clerk.saved_searches.repository import Destination

Connection = psycopg.Connection[Any]

_CHUNK = {"webhook": 100}
"""Maximum number of matches per delivery of a channel; other channels have no maximum."""
_DUE = """
select d.id, d.saved_search_id, d.channel, d.frequency, d.delivered_to_match
from saved_search_destinations d
join saved_searches s on s.id = d.saved_search_id
where d.next_digest_at <= clerk_now() and s.paused_at is null
order by d.saved_search_id, d.id
"""
_IMMEDIATE = """
select d.id, d.channel, d.delivered_to_match
from saved_search_destinations d
where d.saved_search_id = %s and d.frequency = 'immediate'
order by d.id
"""
_DELIVERY = """
select v.id, v.status, v.first_match_id, v.last_match_id, v.matches as match_count, v.idempotency_key, v.created_at,
       s.id as saved_search_id, s.name, s.query, d.id as destination_id, d.channel, d.address, d.frequency, d.secret
from saved_search_deliveries v
join saved_search_destinations d on d.id = v.destination_id
join saved_searches s on s.id = d.saved_search_id
where v.id = %s
"""
_MATCHES = """
select m.id, m.subdomain, m.kind, m.meeting, m.date, m.page, m.page_id, m.is_new_document, m.snippet, m.source_url,
       m.matched_at
from saved_search_matches m
where m.saved_search_id = %s and m.id between %s and %s
"""


@dataclass(frozen=True)
class Match:
    """A page that matches a saved search."""

    id: int
    subdomain: str
    kind: str
    meeting: str
    date: str
    page: int
    page_id: str
    is_new_document: bool
    snippet: str
    source_url: str | None
    matched_at: datetime


@dataclass(frozen=True, repr=False)
class Delivery:
    id: int
    status: str
    first_match_id: int
    last_match_id: int
    match_count: int
    idempotency_key: UUID
    created_at: datetime
    saved_search_id: int
    name: str
    query: str
    destination_id: int
    channel: str
    address: str
    frequency: str
    secret: str | None

    @property
    def destination(self) -> Destination:
        return Destination(self.destination_id, self.channel, self.address, self.frequency, self.secret)


def lock_saved_searches(connection: Connection, ids: list[int]) -> dict[int, bool]:
    """Lock the rows, in order of their id. Returns which still exist, and whether they are paused."""
    rows = connection.execute(
        "select id, paused_at is not null from saved_searches where id = any (%s) order by id for update", [ids]
    )
    return dict(rows.fetchall())


def create_immediate(connection: Connection, saved_search_id: int) -> int:
    """Create the deliveries to destinations without digests. Call it with the saved search locked."""
    destinations = connection.execute(_IMMEDIATE, [saved_search_id]).fetchall()
    return sum(_create(connection, saved_search_id, *destination) for destination in destinations)


def create_due_digests(connection: Connection, settings: Settings) -> int:
    """Create the deliveries of all digests that are due. A digest without matches is not sent."""
    created = 0
    for destination_id, saved_search_id, channel, frequency, _ in connection.execute(_DUE).fetchall():
        with connection.transaction():
            if lock_saved_searches(connection, [saved_search_id]).get(saved_search_id) is not False:
                continue  # removed or paused in the meantime
            row = connection.execute(
                "select delivered_to_match, clerk_now() from saved_search_destinations"
                " where id = %s and next_digest_at <= clerk_now()",
                [destination_id],
            ).fetchone()
            if row is None:
                continue  # another worker was faster
            delivered_to, now = row
            created += _create(connection, saved_search_id, destination_id, channel, delivered_to)
            connection.execute(
                "update saved_search_destinations set next_digest_at = %s where id = %s",
                [repository.next_digest(frequency, now, settings.digest_hour), destination_id],
            )
    return created


def resume(connection: Connection, name: str) -> int | None:
    """Resume a paused saved search: what matched in the meantime is delivered. Returns the number of deliveries; None
    if it was not paused."""
    saved_search = repository.find(connection, name)
    lock_saved_searches(connection, [saved_search.id])
    updated = connection.execute(
        "update saved_searches set paused_at = null, paused_by = null where id = %s and paused_at is not null",
        [saved_search.id],
    )
    if not updated.rowcount:
        return None
    log_action(connection, "resume alert", alert=name)
    return create_immediate(connection, saved_search.id)


def _create(
    connection: Connection, saved_search_id: int, destination_id: int, channel: str, delivered_to_match: int
) -> int:
    """Create the deliveries of the matches after `delivered_to_match`, and their jobs."""
    ids = [
        match_id
        for (match_id,) in connection.execute(
            "select id from saved_search_matches where saved_search_id = %s and id > %s order by id",
            [saved_search_id, delivered_to_match],
        )
    ]
    size = _CHUNK.get(channel, len(ids) or 1)
    chunks = [ids[start : start + size] for start in range(0, len(ids), size)]
    for chunk in chunks:
        row = connection.execute(
            "insert into saved_search_deliveries (destination_id, first_match_id, last_match_id, matches, created_at)"
            " values (%s, %s, %s, %s, clerk_now()) returning id",
            [destination_id, chunk[0], chunk[-1], len(chunk)],
        ).fetchone()
        assert row is not None
        jobs.defer_delivery(connection, row[0])
    if ids:
        connection.execute(
            "update saved_search_destinations set delivered_to_match = %s where id = %s", [ids[-1], destination_id]
        )
    return len(chunks)


def read(connection: Connection, delivery_id: int) -> Delivery | None:
    """None if the saved search was removed."""
    with connection.cursor(row_factory=class_row(Delivery)) as cursor:
        return cursor.execute(_DELIVERY, [delivery_id]).fetchone()


def read_matches(connection: Connection, delivery: Delivery) -> list[Match]:
    """By site and document."""
    with connection.cursor(row_factory=class_row(Match)) as cursor:
        matches = cursor.execute(
            _MATCHES, [delivery.saved_search_id, delivery.first_match_id, delivery.last_match_id]
        ).fetchall()
    matches.sort(key=lambda match: (match.meeting, match.kind, match.page))
    matches.sort(key=lambda match: match.date, reverse=True)
    return sorted(matches, key=lambda match: match.subdomain)


def record_delivered(connection: Connection, delivery_id: int, attempt: int) -> None:
    connection.execute(
        "update saved_search_deliveries set status = 'delivered', delivered_at = clerk_now(), attempt_count = %s,"
        " last_attempt_at = clerk_now(), error_code = null, error_message = null where id = %s",
        [attempt, delivery_id],
    )
