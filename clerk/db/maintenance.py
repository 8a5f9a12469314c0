"""Maintenance of clerk's tables while workers run: vacuum tables with many dead rows, rebuild bloated indexes.

`reindex concurrently` and `vacuum` block no reads and writes. They wait for transactions that began before them, at
most `lock_timeout` each; an interrupted `reindex concurrently` leaves an invalid index, which the next call drops. What
was done is not bloated any more, so a call after an interruption continues where the last one ended.

Limitation: how much a reindex frees is an estimate (view index_bloat). It is too low for keys that are distributed
unevenly, so that some bloated indexes are not found.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors, sql

from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.sqlfiles import default_folder
from clerk.errors import DatabaseRefused

logger = logging.getLogger(__name__)

DEFAULT_THRESHOLD = 50.0
DEFAULT_MIN_BYTES = 10_000_000
_LOCK_KEY = 0x6D61696E74  # "maint"
_ATTEMPTS = 3
_RETRYABLE = (errors.LockNotAvailable, errors.DeadlockDetected)
_CONNECTION_CHECK = "2s"

Connection = psycopg.Connection[Any]
Progress = Callable[[str, int, int], None]
"""Called with what is counted, the number done and the total."""

_NOT_OWNED = """
select c.relname::text, pg_get_userbyid(c.relowner)::text, current_user::text
from pg_class c
where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relname = any (%(tables)s)
  and not pg_has_role(c.relowner, 'usage')
order by 1 limit 1
"""
_HOLDER = """
select l.pid from pg_locks l
where l.locktype = 'advisory' and l.granted and l.objsubid = 1 and l.classid::bigint << 32 | l.objid::bigint = %(key)s
  and l.database = (select d.oid from pg_database d where d.datname = current_database())
"""
# Postgres gives these names to the new index while it is built, and to the old one until it is dropped.
_LEFTOVERS = """
select c.relname::text as name, pg_relation_size(c.oid) as size_bytes
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_class t on t.oid = i.indrelid
where c.relnamespace = 'public'::regnamespace and t.relname = any (%(tables)s)
  and not i.indisvalid and c.relname ~ '_cc(new|old)[0-9]*$'
order by 1
"""
_VACUUM = """
select table_name, table_bytes, dead_rows from table_health
where dead_rows > vacuum_threshold and table_name = any (%(tables)s) order by dead_rows desc, table_name
"""
_REINDEX = """
select index_name, size_bytes, bloat_bytes, bloat_percent::double precision from index_bloat
where bloat_percent >= %(percent)s and bloat_bytes >= %(bytes)s and table_name = any (%(tables)s)
order by bloat_bytes desc, index_name
"""


@dataclass(frozen=True)
class Step:
    action: str
    """`drop`, `vacuum` or `reindex`."""
    name: str
    why: str
    size_bytes: int
    """Of the index, or of the table without its indexes."""


@dataclass(frozen=True)
class StepResult:
    step: Step
    seconds: float
    size_after: int
    error: str | None = None
    """Why it was not done."""


@dataclass
class Maintenance:
    connection: Connection
    """In autocommit mode, and a session of its own: not of a pooler in transaction mode."""
    threshold: float = DEFAULT_THRESHOLD
    """Percentage of an index that is unused."""
    min_bytes: int = DEFAULT_MIN_BYTES
    """Unused bytes below which an index is not rebuilt."""
    lock_timeout: float = 60.0
    time_limit: float | None = None
    """Seconds after which no step begins and a running one is cancelled."""
    report: Callable[[str], None] = logger.info
    _began: float = field(default_factory=time.monotonic)
    _tables: list[str] = field(default_factory=lambda: _clerk_tables())

    def plan(self) -> list[Step]:
        """The steps of `run`, from the statistics as they are now: a vacuum may add indexes."""
        self._require_owner()
        return [*self._leftovers(), *self._vacuums(), *self._reindexes()]

    def run(self, progress: Progress = lambda what, done, total: None) -> Iterator[StepResult]:
        """Do one step after another. Raises DatabaseRefused if another maintenance runs, or the user may not."""
        self._require_owner()
        with self._exclusive():
            for what, find in (
                ("invalid indexes", self._leftovers),
                ("tables", self._vacuums),
                ("indexes", self._reindexes),
            ):
                steps = find()
                for number, step in enumerate(steps):
                    if self._is_over():
                        return
                    progress(what, number, len(steps))
                    result = self._do(step)
                    yield result
                    progress(what, number + 1, len(steps))
                    # What blocked it blocks the others too, and each would leave an invalid index.
                    if result.error is not None and self._leftovers():
                        return

    def _leftovers(self) -> list[Step]:
        return [
            Step("drop", name, "invalid, left by an interrupted reindex", size)
            for name, size in self.connection.execute(_LEFTOVERS, {"tables": self._tables})
        ]

    def _vacuums(self) -> list[Step]:
        return [
            Step("vacuum", name, f"{dead:,} dead rows", size)
            for name, size, dead in self.connection.execute(_VACUUM, {"tables": self._tables})
        ]

    def _reindexes(self) -> list[Step]:
        values = {"percent": self.threshold, "bytes": self.min_bytes, "tables": self._tables}
        return [
            Step("reindex", name, f"{percent:.0f} % bloat", size)
            for name, size, _, percent in self.connection.execute(_REINDEX, values)
        ]

    def _do(self, step: Step) -> StepResult:
        self.report(f"{step.action} {step.name} ({step.why})")
        began = time.monotonic()
        error = {"drop": self._drop, "vacuum": self._vacuum, "reindex": self._reindex}[step.action](step.name)
        if error is not None:
            logger.warning("%s of %s was not done: %s", step.action, step.name, error)
        return StepResult(step, time.monotonic() - began, self._size(step.name), error)

    def _drop(self, index: str) -> str | None:
        return self._try(_drop_command(index))

    def _vacuum(self, table: str) -> str | None:
        """Skipped if the table is locked, by autovacuum for example, which would end if this waited for it."""
        notices: list[str] = []

        def collect(notice: errors.Diagnostic) -> None:
            notices.append(notice.message_primary or "")

        self.connection.add_notice_handler(collect)
        try:
            command = sql.SQL("vacuum (skip_locked, analyze) public.{}").format(sql.Identifier(table))
            error = self._try(command)
        finally:
            self.connection.remove_notice_handler(collect)
        return error or next((notice for notice in notices if notice.startswith("skipping")), None)

    def _reindex(self, index: str) -> str | None:
        return self._try(sql.SQL("reindex index concurrently public.{}").format(sql.Identifier(index)))

    def _try(self, command: sql.Composed) -> str | None:
        """Execute a command, a few times if it must wait too long. Returns why it could not be executed.

        A failed reindex leaves an invalid index, which costs time with every write. If that cannot be dropped because
        of the same old transaction, there is no other attempt: it would leave another one.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                self._execute(command)
                return None
            except _RETRYABLE as error:
                reason = _reason(error, self.lock_timeout)
            except errors.QueryCanceled:
                if self._is_over():
                    return f"the time limit of {self.time_limit:g} s has passed"
                raise
            if attempt == _ATTEMPTS or not self._drop_leftovers():
                break
            self.report(f"{reason}: trying again ({attempt} of {_ATTEMPTS})")
        return reason

    def _drop_leftovers(self) -> bool:
        """Whether no invalid index is left."""
        try:
            for leftover in self._leftovers():
                self._execute(_drop_command(leftover.name))
        except (*_RETRYABLE, errors.QueryCanceled) as error:
            self.report(f"an invalid index is left until the next call ({_one_line(error)})")
            return False
        return True

    def _size(self, name: str) -> int:
        row = self.connection.execute(
            "select coalesce(case when c.relkind = 'i' then pg_relation_size(c.oid) else pg_table_size(c.oid) end, 0)"
            " from (select to_regclass(format('public.%%I', %s::text)) as oid) wanted left join pg_class c using (oid)",
            [name],
        ).fetchone()
        assert row is not None
        return int(row[0])

    def _is_over(self) -> bool:
        return self.time_limit is not None and time.monotonic() - self._began >= self.time_limit

    def _execute(self, command: sql.Composed) -> None:
        """Execute a command that may take long, within the timeouts. They do not apply to other queries."""
        timeout = 0
        if self.time_limit is not None:
            # Rounded up, so that the limit has passed when the statement is cancelled.
            timeout = 1 + max(0, int(1000 * (self._began + self.time_limit - time.monotonic())))
        self.connection.execute(
            "select set_config('lock_timeout', %s, false), set_config('statement_timeout', %s, false)",
            [f"{max(1, int(self.lock_timeout * 1000))}ms", f"{timeout}ms"],
        )
        try:
            self.connection.execute(command)
        finally:
            if not self.connection.closed and not self.connection.broken:
                self.connection.execute("reset statement_timeout; reset lock_timeout")

    def _require_owner(self) -> None:
        row = self.connection.execute(_NOT_OWNED, {"tables": self._tables}).fetchone()
        if row is not None:
            table, owner, user = row
            raise DatabaseRefused(
                f"the database user {user} may not vacuum or reindex the table {table}, which belongs to {owner}",
                f"connect as {owner} or a member of it, as for clerk db up",
            )

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        row = self.connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
        if not (row and row[0]):
            holder = self.connection.execute(_HOLDER, {"key": _LOCK_KEY}).fetchone()
            process = f" (process {holder[0]} of the server)" if holder else ""
            raise DatabaseRefused(
                f"another clerk db maintain is running on this database{process}", "wait until it has finished"
            )
        try:
            self._end_with_client()
            yield
        finally:
            if not self.connection.closed and not self.connection.broken:
                self.connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])
                self.connection.execute("reset client_connection_check_interval")

    def _end_with_client(self) -> None:
        """Let the server end a long statement, and so release the lock, soon after this process was killed."""
        try:
            self.connection.execute(
                "select set_config('client_connection_check_interval', %s, false)", [_CONNECTION_CHECK]
            )
        except errors.InvalidParameterValue as error:
            # Servers on some systems cannot check it: there the statement of a killed process is finished first.
            logger.info("a killed clerk db maintain continues on the server: %s", error)


def _drop_command(index: str) -> sql.Composed:
    return sql.SQL("drop index concurrently if exists public.{}").format(sql.Identifier(index))


def _clerk_tables() -> list[str]:
    """The tables of the schema snapshot: those of clerk and Procrastinate."""
    lines = schema_snapshot.parse(default_folder().read(schema_snapshot.FILE))["tables"]
    return [line.removeprefix("create table ").removesuffix(" ();").strip('"') for line in lines]


def _reason(error: psycopg.Error, lock_timeout: float) -> str:
    if isinstance(error, errors.LockNotAvailable):
        return f"a transaction that began earlier did not end within {lock_timeout:g} s (see the view snapshot_holders)"
    return _one_line(error)


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
