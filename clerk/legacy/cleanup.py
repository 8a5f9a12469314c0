"""May the older system's tables and columns go? Named checks, each with its figure; what was overridden is on record.

Readers that still select the older columns break when they go: none of these checks can see those.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clerk.db.audit import log_action
from clerk.db.connection import count_rows
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.repeatable import is_cleaned_up
from clerk.errors import ClerkError
from clerk.legacy import tables
from clerk.legacy.tables import Connection

_BACKUP_HOURS = 24
_DUMPS = (b"PGDMP", b"toc.dat", b"--", b"\x1f\x8b", b"(\xb5/\xfd", b"BZh", b"\xfd7zXZ")
"""How pg_dump's files begin: its own format, tar, plain SQL, and the usual compressions of it."""

_PASSES = """
select count(*), coalesce(max(p.mended), 0)
from (select p.repaired + p.given_up as mended
      from reconcile_runs p
      where p.ended_at is not null and p.subdomain is null
      order by p.started_at desc
      limit 10) p
"""
_OPERATOR_REPAIRS = """
select (select count(*) from operator_actions a
        where a.at > clerk_now() - interval '7 days'
          and a.action in ('retry', 'cancel', 'rewind', 'supersede', 'rollback', 'reconcile'))
     -- Nothing but a person looks at one site alone.
     + (select count(*) from reconcile_runs p
        where p.started_at > clerk_now() - interval '7 days' and p.subdomain is not null
          and p.repaired + p.given_up > 0)
     + (select count(*) from reconcile_log l
        where l.at > clerk_now() - interval '7 days' and l.why = 'migrated from the older system')
"""
_MOVED = """
select count(*)
from sites s
left join legacy_column_values v on v.subdomain = s.subdomain
where v.subdomain is null
   or (v.run_id, v.current_stage, v.outcome) is distinct from (s.run_id, s.current_stage, s.outcome)
"""


@dataclass(frozen=True)
class Check:
    name: str
    """What --force calls it."""
    holds: bool
    figure: str
    wanted: str


@dataclass(frozen=True)
class Extent:
    """What the clean-up takes away or, where it was done, what taking it back brings."""

    tables: dict[str, int]
    """Name → rows."""
    columns: tuple[str, ...]
    sites: int
    moved: int
    """Sites that have moved on since the clean-up, or are new: their values are worked out anew."""


class CleanupRefused(ClerkError):
    """Something speaks against it."""

    code = "CleanupRefused"


class CleanedUp(ClerkError):
    """What a command needs was set aside."""

    code = "CleanedUp"


def checks(connection: Connection, backup: Path | None) -> list[Check]:
    stuck, health = connection.execute("select stuck_percent, health_score from pipeline_health").fetchone() or (0, 100)
    waiting = len(tables.read(connection).stuck)
    passes, repairs = connection.execute(_PASSES).fetchone() or (0, 0)
    by_hand = _one(connection, _OPERATOR_REPAIRS)
    hours = _hours_since_progress(connection)
    about_backup = _backup(backup)
    return [
        Check("stuck", stuck < 1, f"{stuck} % of the running sites are stuck", "less than 1 %"),
        Check("health", health >= 95, f"the health score is {health} %", "at least 95 %"),
        Check("migrated", waiting == 0, f"{waiting} sites are stuck in the older system", "none"),
        Check(
            "repairs",
            passes == 10 and repairs < 5,
            f"{passes} of the last 10 reconciliations on record, up to {repairs} repairs in one",
            "fewer than 5 in each of 10",
        ),
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


def broken(found: list[Check], forced: frozenset[str]) -> list[str]:
    return [check.name for check in found if not check.holds and check.name not in forced]


def refusal(names: list[str]) -> CleanupRefused:
    return CleanupRefused(
        f"the clean-up is not safe yet ({', '.join(names)})",
        "see `clerk legacy cleanup --check`, and wait, or override each with --force NAME",
    )


def require_not_done(connection: Connection) -> None:
    if is_cleaned_up(connection):
        raise CleanedUp(
            "the older system's tables and columns were cleaned up, so nothing of it is left to take over",
            "if something is, bring them back first: clerk legacy cleanup --undo",
        )


def extent(connection: Connection) -> Extent:
    done = is_cleaned_up(connection)
    names = {name: f"legacy_{name}" if done else name for name in tables.TABLES}
    return Extent(
        {name: count_rows(connection, table) for name, table in names.items() if _is_there(connection, table)},
        tables.COLUMNS,
        count_rows(connection, "sites"),
        int(_one(connection, _MOVED)) if done else 0,
    )


def apply(migrator: Migrator, found: list[Check], forced: frozenset[str]) -> bool:
    """False if it was done before."""
    overridden = {check.name: check.figure for check in found if not check.holds and check.name in forced}
    held = {check.name: check.figure for check in found if check.holds}
    return migrator.clean_up(lambda: log_action(migrator.connection, "clean up", overridden=overridden, checked=held))


def undo(migrator: Migrator) -> bool:
    return migrator.revert_cleanup(lambda: log_action(migrator.connection, "undo clean-up"))


def _hours_since_progress(connection: Connection) -> float | None:
    if not _is_there(connection, "site_progress"):
        return None
    hours = _one(connection, "select extract(epoch from clerk_now() - max(updated_at)) / 3600 from site_progress")
    return None if hours is None else float(hours)


def _backup(file: Path | None) -> str | None:
    """What is wrong with it."""
    if file is None:
        return "no backup file was named"
    try:
        # With --format=directory it is a folder with a table of contents.
        content = file / "toc.dat" if file.is_dir() else file
        age = time.time() - content.stat().st_mtime
        with content.open("rb") as opened:
            start = opened.read(8)
    except OSError as error:
        return f"{file} cannot be read ({error.strerror})"
    if not start.startswith(_DUMPS):
        return f"{file} does not look like a file of pg_dump"
    if age > _BACKUP_HOURS * 3600:
        return f"{file} is {age / 3600:.0f} hours old"
    return None


def _is_there(connection: Connection, table: str) -> bool:
    row = connection.execute("select to_regclass('public.' || %s) is not null", [table]).fetchone()
    return bool(row and row[0])


def _one(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
