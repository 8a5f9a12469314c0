"""May the older system's tables and columns go? Named checks, each with its figure; what was overridden is logged.

Readers that still select the older columns break when they go: none of these checks can see those.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psycopg.types.json import Jsonb

from clerk.errors import ClerkError
from clerk.legacy import tables
from clerk.legacy.tables import Connection
from clerk.pg.migrate import Migrator

_BACKUP_HOURS = 24
_DUMPS = (b"PGDMP", b"--", b"\x1f\x8b", b"(\xb5/\xfd", b"BZh", b"\xfd7zXZ")
"""How pg_dump's files begin: its own format, plain SQL, and the usual compressions of it."""

_LARGEST_REPAIRS = """
select coalesce(max(p.repairs), 0)
from (select count(*) as repairs
      from reconcile_log l
      where l.why not in ('migrated from the older system', 'clean-up')
      group by l.reconciliation
      order by max(l.at) desc
      limit 10) p
"""
_OPERATOR_REPAIRS = """
select (select count(*) from pipeline_runs r
        where r.started_at > clerk_now() - interval '7 days'
              and (r.reason like 'retry of %' or r.reason like 'rewound to %')
           or r.ended_at > clerk_now() - interval '7 days' and r.outcome_reason like 'cancelled by %')
     + (select count(*) from reconcile_log l
        where l.at > clerk_now() - interval '7 days' and l.why = 'migrated from the older system')
"""


@dataclass(frozen=True)
class Check:
    name: str
    """What --force calls it."""
    holds: bool
    figure: str
    wanted: str


class CleanupRefused(ClerkError):
    """Something speaks against it."""


def checks(connection: Connection, backup: Path | None) -> list[Check]:
    stuck, health = connection.execute("select stuck_percent, health_score from pipeline_health").fetchone() or (0, 100)
    waiting = len(tables.read(connection).stuck)
    repairs = _one(connection, _LARGEST_REPAIRS)
    by_hand = _one(connection, _OPERATOR_REPAIRS)
    hours = _hours_since_progress(connection)
    about_backup = _backup(backup)
    return [
        Check("stuck", stuck < 1, f"{stuck} % of the running sites are stuck", "less than 1 %"),
        Check("health", health >= 95, f"the health score is {health} %", "at least 95 %"),
        Check("migrated", waiting == 0, f"{waiting} sites are stuck in the older system", "none"),
        Check("repairs", repairs < 5, f"up to {repairs} repairs in one of the last 10 reconciliations", "fewer than 5"),
        Check("operators", by_hand == 0, f"{by_hand} repairs by operators within 7 days", "none"),
        Check(
            "site_progress",
            hours is None or hours >= 24,
            "site_progress was never written" if hours is None else f"site_progress was written {hours:.0f} hours ago",
            "not within 24 hours",
        ),
        Check(
            "backup",
            about_backup is None,
            about_backup or f"{backup} is a recent backup",
            f"a file of pg_dump, at most {_BACKUP_HOURS} hours old",
        ),
    ]


def require(found: list[Check], forced: frozenset[str]) -> None:
    broken = [check.name for check in found if not check.holds and check.name not in forced]
    if broken:
        raise CleanupRefused(
            f"the clean-up is not safe yet ({', '.join(broken)})",
            "see `clerk legacy cleanup --check`, and wait, or override each with --force NAME",
        )


def apply(migrator: Migrator, found: list[Check], forced: frozenset[str]) -> bool:
    """False if it was done before."""
    overridden = [check for check in found if not check.holds and check.name in forced]
    said = "; ".join(f"{check.name} overridden: {check.figure}" for check in overridden)
    about = {check.name: {"holds": check.holds, "figure": check.figure} for check in found}
    return migrator.clean_up(
        lambda: _log(migrator.connection, said or "all checks hold", "older tables and columns set aside", about)
    )


def undo(migrator: Migrator) -> bool:
    return migrator.take_back_cleanup(
        lambda: _log(migrator.connection, "asked for", "older tables and columns given back", None)
    )


def _log(connection: Connection, found: str, done: str, about: dict[str, Any] | None) -> None:
    connection.execute(
        "insert into reconcile_log (reconciliation, found, done, why, before)"
        " values (gen_random_uuid(), %s, %s, 'clean-up', %s)",
        [found, done, Jsonb(about)],
    )


def _hours_since_progress(connection: Connection) -> float | None:
    if _one(connection, "select to_regclass('public.site_progress') is null"):
        return None
    hours = _one(connection, "select extract(epoch from clerk_now() - max(updated_at)) / 3600 from site_progress")
    return None if hours is None else float(hours)


def _backup(file: Path | None) -> str | None:
    """What is wrong with it."""
    if file is None:
        return "no backup file was named"
    try:
        age = time.time() - file.stat().st_mtime
        with file.open("rb") as opened:
            start = opened.read(8)
    except OSError as error:
        return f"{file} cannot be read ({error.strerror})"
    if not start.startswith(_DUMPS):
        return f"{file} does not look like a file of pg_dump"
    if age > _BACKUP_HOURS * 3600:
        return f"{file} is {age / 3600:.0f} hours old"
    return None


def _one(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
