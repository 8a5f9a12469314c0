"""What the older system's tables say: the form of the database, and which sites are stuck where.

Which columns there are differs from database to database, and what the others hold is no business of ours.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

Connection = psycopg.Connection[Any]

COLUMNS = ("status", "extraction_status", "last_updated", "last_deployed", "last_extracted")
TABLES = ("site_progress", "job_tracking")
_STAGES = {
    "fetching": "fetch",
    "needs_ocr": "ocr",
    "needs_compilation": "compilation",
    "needs_extraction": "extraction",
    "extracting": "extraction",
    "needs_deploy": "deploy",
}
"""Status of a site that is on its way → where."""


@dataclass(frozen=True)
class Progress:
    """A row of site_progress."""

    stage: str | None
    started_at: datetime | None
    updated_at: datetime | None

    @property
    def is_going(self) -> bool:
        return bool(self.stage) and self.stage != "completed"


@dataclass(frozen=True)
class OldRow:
    """A site as the older tables tell of it. They may disagree."""

    subdomain: str
    status: str | None
    stage: str | None
    """Its `current_stage`, in later databases."""
    progress: Progress | None
    is_ours: bool
    """It has had a run here: what the older tables say is history."""

    @property
    def words(self) -> dict[str, str]:
        """Who says that the site is on its way, and where."""
        said = {
            "site_progress": self.progress.stage if self.progress and self.progress.is_going else None,
            "current_stage": self.stage if self.stage in _STAGES.values() else None,
            "status": _STAGES.get(self.status or ""),
        }
        return {who: stage for who, stage in said.items() if stage}

    @property
    def is_stuck(self) -> bool:
        return not self.is_ours and bool(self.words)

    @property
    def stuck_in(self) -> str:
        """The word that counts: the table that was written last in a run's life comes first."""
        return next(iter(self.words.values()))


@dataclass
class OldTables:
    form: str
    revision: str | None
    sites: list[OldRow] = field(default_factory=list)
    progress_of_no_site: list[str] = field(default_factory=list)
    job_tracking: int = 0

    @property
    def stuck(self) -> list[OldRow]:
        return [site for site in self.sites if site.is_stuck]

    def stuck_by(self, who: str) -> dict[str, int]:
        return dict(Counter(site.words[who] for site in self.stuck if who in site.words).most_common())


FORMS = {
    "alembic": "made by Alembic",
    "alembic, early": "made by Alembic, before the pipeline columns",
    "create_all": "made by create_all: the columns, without indexes and alembic_version",
    "raw script": "pipeline columns added by a raw script: plain timestamps",
    "none": "no table of the older system",
}


def read(connection: Connection) -> OldTables:
    there = _tables(connection)
    revision = _one(connection, "select min(version_num) from alembic_version") if "alembic_version" in there else None
    found = OldTables(_form(connection, there), revision)
    columns = _columns(connection) if "sites" in there else {}
    if "subdomain" not in columns:
        return found
    progress = _progress(connection) if "site_progress" in there else {}
    known = [name for name in ("subdomain", "status", "current_stage", "run_id") if name in columns]
    query = sql.SQL("select {} from sites order by subdomain").format(sql.SQL(", ").join(map(sql.Identifier, known)))
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(query):
            found.sites.append(
                OldRow(
                    row["subdomain"],
                    row.get("status") or None,
                    row.get("current_stage") or None,
                    progress.pop(row["subdomain"], None),
                    row.get("run_id") is not None,
                )
            )
    found.progress_of_no_site = sorted(progress)
    if "job_tracking" in there:
        found.job_tracking = int(_one(connection, "select count(*) from job_tracking"))
    return found


def _progress(connection: Connection) -> dict[str, Progress]:
    rows = connection.execute(
        "select coalesce(to_jsonb(p) ->> 'subdomain', to_jsonb(p) ->> 'site_id'), to_jsonb(p) ->> 'current_stage',"
        " to_jsonb(p) ->> 'started_at', to_jsonb(p) ->> 'updated_at' from site_progress p"
    )
    return {name: Progress(stage, _time(started), _time(updated)) for name, stage, started, updated in rows if name}


def _time(text: str | None) -> datetime | None:
    """A time without a zone is in UTC, as the older system wrote it. None for what is no time, such as infinity."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _form(connection: Connection, there: set[str]) -> str:
    """As the database was before clerk adopted it: that is on record."""
    if "sites" not in there:
        return "none"
    columns = _columns_as_found(connection, there)
    if not {"subdomain", "status"} <= {*columns}:
        return "none"
    if columns.get("updated_at", "").startswith("timestamp without"):
        return "raw script"
    if "alembic_version" in there:
        return "alembic" if "current_stage" in columns else "alembic, early"
    return "create_all"


def _columns_as_found(connection: Connection, there: set[str]) -> dict[str, str]:
    if "legacy_schema" in there:
        rows = connection.execute(
            "select name, as_found ->> 'type' from legacy_schema where kind = 'column' and as_found is not null"
        )
        return dict(rows.fetchall())
    return _columns(connection)


def _columns(connection: Connection) -> dict[str, str]:
    rows = connection.execute(
        "select column_name::text, data_type::text from information_schema.columns"
        " where table_schema = 'public' and table_name = 'sites'"
    )
    return dict(rows.fetchall())


def _tables(connection: Connection) -> set[str]:
    rows = connection.execute(
        "select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')"
    )
    return {name for (name,) in rows}


def _one(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
