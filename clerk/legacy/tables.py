"""The tables of legacy clerk: which variant the database is, and which sites are stuck in which stage.

The columns differ between databases; columns that are not needed here are not read.
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
"""Status of an unfinished site → stage."""


@dataclass(frozen=True)
class Progress:
    """A row of site_progress."""

    stage: str | None
    started_at: datetime | None
    updated_at: datetime | None

    @property
    def is_running(self) -> bool:
        return bool(self.stage) and self.stage != "completed"


@dataclass(frozen=True)
class LegacyRow:
    """A site in the legacy tables, which may disagree with each other."""

    subdomain: str
    status: str | None
    stage: str | None
    """`current_stage`, in later databases."""
    progress: Progress | None
    has_run: bool
    """It has had a run in this clerk, so the legacy values are obsolete."""

    @property
    def stages(self) -> dict[str, str]:
        """Source (table or column) → stage in which it says that the site is unfinished."""
        stages = {
            "site_progress": self.progress.stage if self.progress and self.progress.is_running else None,
            "current_stage": self.stage if self.stage in _STAGES.values() else None,
            "status": _STAGES.get(self.status or ""),
        }
        return {source: stage for source, stage in stages.items() if stage}

    @property
    def is_stuck(self) -> bool:
        return not self.has_run and bool(self.stages)

    @property
    def stuck_in(self) -> str:
        """The stage by the most reliable source. Legacy clerk updated site_progress last."""
        return next(iter(self.stages.values()))


@dataclass
class LegacyTables:
    variant: str
    revision: str | None
    sites: list[LegacyRow] = field(default_factory=list)
    orphaned_progress: list[str] = field(default_factory=list)
    job_tracking: int = 0

    @property
    def stuck(self) -> list[LegacyRow]:
        return [site for site in self.sites if site.is_stuck]

    def stuck_by(self, source: str) -> dict[str, int]:
        """Stage → number of stuck sites, by one source."""
        return dict(Counter(site.stages[source] for site in self.stuck if source in site.stages).most_common())


VARIANTS = {
    "alembic": "made by Alembic",
    "alembic, early": "made by Alembic, before the pipeline columns",
    "create_all": "made by create_all: the columns, without indexes and alembic_version",
    "raw script": "pipeline columns added by a raw script: plain timestamps",
    "none": "no table of legacy clerk",
}


def read(connection: Connection) -> LegacyTables:
    existing = _tables(connection)
    has_alembic = "alembic_version" in existing
    revision = _scalar(connection, "select min(version_num) from alembic_version") if has_alembic else None
    tables = LegacyTables(_variant(connection, existing), revision)
    columns = _columns(connection) if "sites" in existing else {}
    if "subdomain" not in columns:
        return tables
    progress = _progress(connection) if "site_progress" in existing else {}
    known = [name for name in ("subdomain", "status", "current_stage", "run_id") if name in columns]
    query = sql.SQL("select {} from sites order by subdomain").format(sql.SQL(", ").join(map(sql.Identifier, known)))
    with connection.cursor(row_factory=dict_row) as cursor:
        for row in cursor.execute(query):
            tables.sites.append(
                LegacyRow(
                    row["subdomain"],
                    row.get("status") or None,
                    row.get("current_stage") or None,
                    progress.pop(row["subdomain"], None),
                    row.get("run_id") is not None,
                )
            )
    tables.orphaned_progress = sorted(progress)
    if "job_tracking" in existing:
        tables.job_tracking = int(_scalar(connection, "select count(*) from job_tracking"))
    return tables


def _progress(connection: Connection) -> dict[str, Progress]:
    rows = connection.execute(
        "select coalesce(to_jsonb(p) ->> 'subdomain', to_jsonb(p) ->> 'site_id'), to_jsonb(p) ->> 'current_stage',"
        " to_jsonb(p) ->> 'started_at', to_jsonb(p) ->> 'updated_at' from site_progress p"
    )
    return {name: Progress(stage, _time(started), _time(updated)) for name, stage, started, updated in rows if name}


def _time(text: str | None) -> datetime | None:
    """A time without a zone is UTC, as legacy clerk wrote it. None if it is not a time, such as infinity."""
    try:
        time = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _variant(connection: Connection, existing: set[str]) -> str:
    """The variant before the first migration, which recorded the columns in legacy_schema."""
    if "sites" not in existing:
        return "none"
    columns = _original_columns(connection, existing)
    if not {"subdomain", "status"} <= {*columns}:
        return "none"
    if columns.get("updated_at", "").startswith("timestamp without"):
        return "raw script"
    if "alembic_version" in existing:
        return "alembic" if "current_stage" in columns else "alembic, early"
    return "create_all"


def _original_columns(connection: Connection, existing: set[str]) -> dict[str, str]:
    if "legacy_schema" in existing:
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


def _scalar(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
