"""Queries on the table `sites`: read, add, edit and remove sites."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from clerk.db.cadence import DEFAULT_INTERVAL, describe_interval, to_interval
from clerk.errors import SiteNotFound
from clerk.suggestions import did_you_mean

Connection = psycopg.Connection[Any]

EDITABLE = ("name", "state", "kind", "scraper", "start_year", "extra", "country", "lat", "lng", "weight", "cadence")
_READ = (*(column for column in EDITABLE if column != "cadence"), "run_interval", "current_stage", "outcome", "pages")
_COLUMNS = sql.SQL(", ").join(map(sql.Identifier, ("subdomain", *_READ)))
OUTCOMES = ("succeeded", "partial", "failed", "unchanged", "no_documents", "cancelled")


@dataclass(frozen=True)
class SiteRow:
    subdomain: str
    name: str | None = None
    state: str | None = None
    kind: str | None = None
    scraper: str | None = None
    start_year: int | None = None
    extra: str | None = None
    country: str | None = None
    lat: str | None = None
    lng: str | None = None
    weight: int = 1
    run_interval: timedelta | None = DEFAULT_INTERVAL
    current_stage: str | None = None
    outcome: str | None = None
    pages: int | None = None

    @classmethod
    def from_columns(cls, subdomain: str, values: Mapping[str, Any]) -> SiteRow:
        """The row of a site that was not stored."""
        return cls(subdomain, **_stored(values))

    @property
    def cadence(self) -> str:
        return describe_interval(self.run_interval)

    @property
    def extra_values(self) -> dict[str, Any]:
        """`extra` as a dictionary; raises ValueError if the text is not a JSON object."""
        values = json.loads(self.extra) if self.extra and self.extra.strip() else {}
        if not isinstance(values, dict):
            raise ValueError("extra is not a JSON object")
        return values

    def as_dict(self) -> dict[str, Any]:
        shown = {"cadence" if name == "run_interval" else name: value for name, value in asdict(self).items()}
        shown["cadence"] = self.cadence
        with contextlib.suppress(ValueError):  # invalid JSON from legacy clerk is shown as text
            shown["extra"] = self.extra_values
        return shown


def read_site(connection: Connection, subdomain: str) -> SiteRow | None:
    with connection.cursor(row_factory=class_row(SiteRow)) as cursor:
        query = sql.SQL("select {} from sites where subdomain = %s").format(_COLUMNS)
        return cursor.execute(query, [subdomain]).fetchone()


def site_not_found(connection: Connection, subdomain: str) -> SiteNotFound:
    """Build the error, with similar site names as its remedy."""
    names = [name for (name,) in connection.execute("select subdomain from pipeline_overview").fetchall()]
    return SiteNotFound(f"no site {subdomain[:80]}", did_you_mean(subdomain, names))


def require_site(connection: Connection, subdomain: str) -> SiteRow:
    row = read_site(connection, subdomain)
    if row is None:
        raise site_not_found(connection, subdomain)
    return row


def read_sites(
    connection: Connection,
    scraper: str | None = None,
    state: str | None = None,
    stage: str | None = None,
    outcome: str | None = None,
) -> list[SiteRow]:
    with connection.cursor(row_factory=class_row(SiteRow)) as cursor:
        query = sql.SQL(
            """
            select {} from sites
            where (%(scraper)s::text is null or scraper = %(scraper)s)
              and (%(state)s::text is null or state = %(state)s)
              and (%(stage)s::text is null or current_stage = %(stage)s)
              and (%(outcome)s::text is null or outcome = %(outcome)s)
            order by subdomain
            """
        ).format(_COLUMNS)
        values = {"scraper": scraper, "state": state, "stage": stage, "outcome": outcome}
        return cursor.execute(query, values).fetchall()


def count_documents(connection: Connection, subdomain: str) -> dict[str, int]:
    """The number of documents, in total and per state."""
    row = connection.execute(
        """
        select count(*), count(*) filter (where l.status = 'processed'),
               count(*) filter (where l.status = 'failed_terminal'),
               count(*) filter (where i.superseded_at is not null),
               count(*) filter (where i.removed_at_source is not null)
        from content_items i
        left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
        where i.subdomain = %s and i.kind <> 'archive'
        """,
        [subdomain],
    ).fetchone()
    assert row is not None
    return dict(zip(("total", "processed", "failed", "superseded", "removed_at_source"), row, strict=True))


def add_site(connection: Connection, subdomain: str, values: Mapping[str, Any]) -> bool:
    """Insert a site. Return False if the subdomain exists already."""
    stored = _stored(values)
    query = sql.SQL("insert into sites ({}) values ({}) on conflict (subdomain) do nothing").format(
        sql.SQL(", ").join(map(sql.Identifier, ("subdomain", *stored))),
        sql.SQL(", ").join(sql.Placeholder() * (len(stored) + 1)),
    )
    return connection.execute(query, [subdomain, *stored.values()]).rowcount == 1


def edit_site(connection: Connection, subdomain: str, values: Mapping[str, Any]) -> None:
    stored = _stored(values)
    if stored:
        changes = sql.SQL(", ").join(sql.SQL("{} = %s").format(sql.Identifier(column)) for column in stored)
        query = sql.SQL("update sites set {} where subdomain = %s").format(changes)
        connection.execute(query, [*stored.values(), subdomain])


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Column of the table → value. The cadence is stored as an interval."""
    stored = {column: values[column] for column in EDITABLE if column in values}
    if "cadence" in stored:
        stored["run_interval"] = to_interval(stored.pop("cadence"))
    return stored


def remove_site(connection: Connection, subdomain: str) -> dict[str, int]:
    """Delete a site and everything recorded about it. Return the number of its documents and runs.

    Its run must have ended.
    """
    counts = connection.execute(
        """
        select (select count(*) from content_items where subdomain = %(site)s and kind <> 'archive'),
               (select count(*) from pipeline_runs where subdomain = %(site)s)
        """,
        {"site": subdomain},
    ).fetchone()
    assert counts is not None
    connection.execute("delete from sites where subdomain = %s", [subdomain])
    return {"documents": counts[0], "runs": counts[1]}
