"""The tables `saved_searches` and `saved_search_destinations`."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg.rows import class_row, dict_row

from clerk.db.audit import log_action
from clerk.errors import EXIT_USAGE, ClerkError
from clerk.saved_searches.validation import InvalidSavedSearch, NewDestination
from clerk.suggestions import did_you_mean

Connection = psycopg.Connection[Any]

SECRET_PREFIX = "whsec_"  # noqa: S105 (of the Standard Webhooks specification)
_SECRET_BYTES = 32


class SavedSearchNotFound(ClerkError):
    """There is no saved search of that name."""

    code = "SavedSearchNotFound"
    exit_code = EXIT_USAGE


@dataclass(frozen=True)
class SavedSearch:
    id: int
    name: str
    query: str
    sites: list[str] | None
    """Subdomains; None for all sites."""
    paused_at: datetime | None
    query_error: str | None
    """Why the query could not be matched with the last publication."""


@dataclass(frozen=True)
class Destination:
    id: int
    channel: str
    address: str
    frequency: str
    secret: str | None

    def __repr__(self) -> str:
        return f"Destination({self.id}, {self.label!r})"

    @property
    def label(self) -> str:
        """For messages: without the path of a webhook, which may contain a secret."""
        match self.channel:
            case "mail":
                return f"mail to {self.address}"
            case "webhook":
                parts = urlsplit(self.address)
                return f"webhook to {parts.scheme}://{parts.netloc}/…"
            case _:
                return "feed"


def add(
    connection: Connection,
    name: str,
    query: str,
    sites: list[str] | None,
    destinations: list[NewDestination],
    created_by: str,
    digest_hour: int,
) -> dict[str, str]:
    """Add a saved search. Returns the secret of each webhook by its URL: it cannot be read again later."""
    row = connection.execute(
        "insert into saved_searches (name, query, sites, created_at, created_by)"
        " values (%s, %s, %s, clerk_now(), left(%s, 200)) on conflict (name) do nothing returning id, clerk_now()",
        [name, query, sites, created_by],
    ).fetchone()
    if row is None:
        raise InvalidSavedSearch(f"there is already an alert {name}", "choose another name, or remove it first")
    saved_search_id, now = row
    created: dict[str, str] = {}
    for destination in destinations:
        secret = None
        if destination.channel == "webhook":
            secret = SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
            created[destination.address] = secret
        connection.execute(
            "insert into saved_search_destinations"
            " (saved_search_id, channel, address, frequency, secret, next_digest_at) values (%s, %s, %s, %s, %s, %s)",
            [
                saved_search_id,
                destination.channel,
                destination.address,
                destination.frequency,
                secret,
                next_digest(destination.frequency, now, digest_hour),
            ],
        )
    log_action(connection, "add alert", alert=name, query=query, sites=sites)
    return created


def next_digest(frequency: str, now: datetime, hour: int) -> datetime | None:
    """When the next digest after `now` is due, in UTC: at that hour, weekly ones on Mondays. None if immediate."""
    if frequency == "immediate":
        return None
    due = now.astimezone(UTC).replace(hour=hour, minute=0, second=0, microsecond=0)
    days = 1 if frequency == "daily" else 7
    if frequency == "weekly":
        due -= timedelta(days=due.weekday())
    while due <= now:
        due += timedelta(days=days)
    return due


def find(connection: Connection, name: str) -> SavedSearch:
    with connection.cursor(row_factory=class_row(SavedSearch)) as cursor:
        found = cursor.execute(
            "select id, name, query, sites, paused_at, query_error from saved_searches where name = %s", [name]
        ).fetchone()
    if found is None:
        names = [known for (known,) in connection.execute("select name from saved_searches order by name")]
        remedy = did_you_mean(name, names) or "`clerk alert list` shows the names"
        raise SavedSearchNotFound(f"no alert {name[:80]}", remedy)
    return found


def read_applicable(connection: Connection, subdomain: str) -> list[SavedSearch]:
    """The saved searches of a site, those that are paused included."""
    with connection.cursor(row_factory=class_row(SavedSearch)) as cursor:
        return cursor.execute(
            "select id, name, query, sites, paused_at, query_error from saved_searches"
            " where sites is null or %s = any (sites) order by id",
            [subdomain],
        ).fetchall()


def read_destinations(connection: Connection, saved_search_id: int) -> list[Destination]:
    with connection.cursor(row_factory=class_row(Destination)) as cursor:
        return cursor.execute(
            "select id, channel, address, frequency, secret from saved_search_destinations"
            " where saved_search_id = %s order by id",
            [saved_search_id],
        ).fetchall()


def read_overview(connection: Connection) -> list[dict[str, Any]]:
    """One row of the view saved_search_overview per saved search."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute("select * from saved_search_overview order by name").fetchall()


def record_query_error(connection: Connection, saved_search_id: int, error: str | None) -> None:
    connection.execute(
        "update saved_searches set query_error = %(error)s,"
        " query_error_at = case when %(error)s::text is not null then clerk_now() end where id = %(id)s",
        {"id": saved_search_id, "error": error},
    )


def pause(connection: Connection, name: str, by: str) -> bool:
    """Matches are recorded but not delivered from now on. False if it was paused already."""
    saved_search = find(connection, name)
    updated = connection.execute(
        "update saved_searches set paused_at = clerk_now(), paused_by = left(%s, 200)"
        " where id = %s and paused_at is null",
        [by, saved_search.id],
    )
    if updated.rowcount:
        log_action(connection, "pause alert", alert=name)
    return bool(updated.rowcount)


def remove(connection: Connection, name: str) -> SavedSearch:
    """Remove a saved search with its matches and deliveries. A worker deletes the file of its feed."""
    saved_search = find(connection, name)
    connection.execute("delete from saved_searches where id = %s", [saved_search.id])
    log_action(connection, "remove alert", alert=name, query=saved_search.query)
    return saved_search
