"""`clerk legacy cleanup`: removes the tables and columns of legacy clerk after named safety checks, and restores them.

Overridden checks are recorded in operator_actions. Limitation: programs that still select the legacy columns break, and
no check can detect them.
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

_MAX_BACKUP_HOURS = 24
_DUMP_SIGNATURES = (b"PGDMP", b"toc.dat", b"--", b"\x1f\x8b", b"(\xb5/\xfd", b"BZh", b"\xfd7zXZ")
"""First bytes of pg_dump files: custom format, tar, plain SQL, and plain SQL compressed by gzip, zstd, bzip2 or xz."""

_RECONCILIATIONS = """
select count(*), coalesce(max(p.repairs), 0)
from (select p.repaired + p.abandoned as repairs
      from reconcile_runs p
      where p.ended_at is not null and p.subdomain is null
      order by p.started_at desc
      limit 10) p
"""
_OPERATOR_REPAIRS = """
select (select count(*) from operator_actions a
        where a.at > clerk_now() - interval '7 days'
          and a.action in ('retry', 'cancel', 'purge', 'rewind', 'supersede', 'rollback', 'reconcile'))
     -- Only an operator reconciles a single site.
     + (select count(*) from reconcile_runs p
        where p.started_at > clerk_now() - interval '7 days' and p.subdomain is not null
          and p.repaired + p.abandoned > 0)
     + (select count(*) from reconcile_log l
        where l.at > clerk_now() - interval '7 days' and l.why = 'migrated from legacy clerk')
"""
_CHANGED_SITES = """
select count(*)
from sites s
left join legacy_column_values v on v.subdomain = s.subdomain
where v.subdomain is null
   or (v.run_id, v.current_stage, v.outcome) is distinct from (s.run_id, s.current_stage, s.outcome)
"""


@dataclass(frozen=True)
class CleanupCheck:
    name: str
    """The argument of --force."""
    holds: bool
    value: str
    required: str


@dataclass(frozen=True)
class CleanupScope:
    """What the clean-up removes or, after it, what undoing it restores."""

    tables: dict[str, int]
    """Table → number of rows."""
    columns: tuple[str, ...]
    sites: int
    changed_sites: int
    """Sites with a new state since the clean-up, and new sites: undoing it computes their values."""


class CleanupRefused(ClerkError):
    """A check does not hold."""

    code = "CleanupRefused"


class AlreadyCleanedUp(ClerkError):
    """The clean-up has removed the tables that the command needs."""

    code = "AlreadyCleanedUp"


def run_checks(connection: Connection, backup: Path | None) -> list[CleanupCheck]:
    stuck, health = connection.execute("select stuck_percent, health_score from pipeline_health").fetchone() or (0, 100)
    unmigrated = len(tables.read(connection).stuck)
    reconciliations, repairs = connection.execute(_RECONCILIATIONS).fetchone() or (0, 0)
    by_operators = _scalar(connection, _OPERATOR_REPAIRS)
    hours = _hours_since_progress(connection)
    backup_problem = _backup_problem(backup)
    return [
        CleanupCheck("stuck", stuck < 1, f"{stuck} % of the running sites are stuck", "less than 1 %"),
        CleanupCheck("health", health >= 95, f"the health score is {health} %", "at least 95 %"),
        CleanupCheck("migrated", unmigrated == 0, f"{unmigrated} sites are stuck in legacy clerk", "none"),
        CleanupCheck(
            "repairs",
            reconciliations == 10 and repairs < 5,
            f"{reconciliations} of the last 10 reconciliations on record, up to {repairs} repairs in one",
            "fewer than 5 in each of 10",
        ),
        CleanupCheck("operators", by_operators == 0, f"{by_operators} repairs by operators within 7 days", "none"),
        CleanupCheck(
            "site_progress",
            hours is None or hours >= 24,
            "site_progress was never written" if hours is None else f"site_progress was written {hours:.0f} hours ago",
            "not within 24 hours",
        ),
        CleanupCheck(
            "backup",
            backup_problem is None,
            backup_problem or f"{backup} is a recent backup",
            f"a pg_dump file, at most {_MAX_BACKUP_HOURS} hours old",
        ),
    ]


def failed(checks: list[CleanupCheck], forced: frozenset[str]) -> list[str]:
    """Names of the checks that do not hold and are not overridden."""
    return [check.name for check in checks if not check.holds and check.name not in forced]


def cleanup_refused(names: list[str]) -> CleanupRefused:
    return CleanupRefused(
        f"the clean-up is not safe yet ({', '.join(names)})",
        "run `clerk legacy cleanup --check`; wait until they hold, or override each with --force NAME",
    )


def require_not_done(connection: Connection) -> None:
    if is_cleaned_up(connection):
        raise AlreadyCleanedUp(
            "the clean-up has removed the tables and columns of legacy clerk, so there is nothing to import",
            "to import more, restore them first: clerk legacy cleanup --undo",
        )


def read_scope(connection: Connection) -> CleanupScope:
    done = is_cleaned_up(connection)
    names = {name: f"legacy_{name}" if done else name for name in tables.TABLES}
    return CleanupScope(
        {name: count_rows(connection, table) for name, table in names.items() if _exists(connection, table)},
        tables.COLUMNS,
        count_rows(connection, "sites"),
        int(_scalar(connection, _CHANGED_SITES)) if done else 0,
    )


def apply(migrator: Migrator, checks: list[CleanupCheck], forced: frozenset[str]) -> bool:
    """Remove them; False if they were removed before."""
    overridden = {check.name: check.value for check in checks if not check.holds and check.name in forced}
    passed = {check.name: check.value for check in checks if check.holds}
    return migrator.clean_up(lambda: log_action(migrator.connection, "clean up", overridden=overridden, checked=passed))


def undo(migrator: Migrator) -> bool:
    return migrator.revert_cleanup(lambda: log_action(migrator.connection, "undo clean-up"))


def _hours_since_progress(connection: Connection) -> float | None:
    if not _exists(connection, "site_progress"):
        return None
    hours = _scalar(connection, "select extract(epoch from clerk_now() - max(updated_at)) / 3600 from site_progress")
    return None if hours is None else float(hours)


def _backup_problem(file: Path | None) -> str | None:
    if file is None:
        return "no backup file given (--backup)"
    try:
        # pg_dump --format=directory writes a folder with a table of contents.
        content = file / "toc.dat" if file.is_dir() else file
        age = time.time() - content.stat().st_mtime
        with content.open("rb") as opened:
            start = opened.read(8)
    except OSError as error:
        return f"{file} cannot be read ({error.strerror})"
    if not start.startswith(_DUMP_SIGNATURES):
        return f"{file} is not a pg_dump file"
    if age > _MAX_BACKUP_HOURS * 3600:
        return f"{file} is {age / 3600:.0f} hours old"
    return None


def _exists(connection: Connection, table: str) -> bool:
    row = connection.execute("select to_regclass('public.' || %s) is not null", [table]).fetchone()
    return bool(row and row[0])


def _scalar(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]
