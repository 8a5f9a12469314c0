"""Schema migrator: plans and applies migrations, one short transaction per migration.

Each transaction contains the migration, its record, and the functions, triggers and views that depend on it, so no
session ever sees a table without its triggers. Locks are requested with a timeout and the whole transaction is
retried, because an `alter table` that waits behind a long query blocks every later query on that table.

Limitation: `clerk db down` restores tables, not older definitions of functions that were edited since. The older
code's own `clerk db up` restores those.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import errors

from clerk.db.connection import count_rows
from clerk.db.migrations import procrastinate_schema
from clerk.db.migrations.repeatable import RepeatableObjects, file_context, is_cleaned_up
from clerk.db.migrations.sqlfiles import Migration, SqlFolder, statements
from clerk.errors import DatabaseRefused, ForeignDatabase, MigrationError, SchemaMismatch

_LOCK_KEY = 0x636C65726B  # "clerk"
_MIGRATOR_LOCK_TIMEOUT = 600.0
FEW = 10
"""So many migrations or steps are logged and listed one by one."""


@dataclass(frozen=True)
class Step:
    """One step of `up` or `down`; `clerk db up --dry-run` prints it as "action what"."""

    action: str
    what: str

    def __str__(self) -> str:
        return f"{self.action} {self.what}"


@dataclass(frozen=True)
class State:
    """The migration state of a database."""

    kind: str
    """`ours`, `empty`, `legacy` (tables of legacy clerk) or `foreign` (tables of another application)."""
    applied: dict[int, tuple[str, str]]
    """version → (name, checksum)"""
    objects: dict[tuple[str, str], str]
    """(kind, name) → checksum of the file as last applied"""
    procrastinate: procrastinate_schema.Installed | None
    tables: dict[str, int]
    """name → oid; a renamed table keeps its oid"""

    @property
    def version(self) -> int:
        return max(self.applied, default=0)


def read_state(connection: psycopg.Connection) -> State:
    tables: dict[str, int] = dict(
        connection.execute(
            "select c.relname, c.oid::bigint from pg_class c where c.relnamespace = 'public'::regnamespace"
            " and c.relkind in ('r', 'p') and not exists (select from pg_depend d where d.deptype = 'e'"
            " and d.classid = 'pg_class'::regclass and d.objid = c.oid) order by 1"
        ).fetchall()
    )
    applied: dict[int, tuple[str, str]] = {}
    objects: dict[tuple[str, str], str] = {}
    if "clerk_migrations" in tables:
        for version, name, checksum in connection.execute("select version, name, checksum from clerk_migrations"):
            applied[version] = (name, checksum)
        for kind, name, checksum in connection.execute("select kind, name, checksum from clerk_schema_objects"):
            objects[kind, name] = checksum
        kind = "ours"
    elif all(table.startswith("procrastinate_") for table in tables):
        kind = "empty"
    else:
        kind = "legacy" if _has_legacy_sites(connection) else "foreign"
    procrastinate = procrastinate_schema.installed(connection) if kind != "foreign" else None
    return State(kind, applied, objects, procrastinate, tables)


def _has_legacy_sites(connection: psycopg.Connection) -> bool:
    row = connection.execute(
        "select exists (select from pg_constraint c join pg_attribute a"
        " on a.attrelid = c.conrelid and c.conkey = array[a.attnum]"
        " where c.conrelid = to_regclass('public.sites') and c.contype = 'p' and a.attname = 'subdomain')"
    ).fetchone()
    return bool(row and row[0])


@dataclass
class Migrator:
    connection: psycopg.Connection
    folder: SqlFolder
    lock_timeout: float = 2.0
    log: Callable[[str], None] = lambda _: None
    lock_attempts: int = 20
    retry_delay: Callable[[int], float] = lambda attempt: _backoff(attempt)
    """Number of the failed attempt → seconds until the next one."""
    verbose: bool = False
    """Log each migration, also if there are many."""

    def __post_init__(self) -> None:
        self._objects = RepeatableObjects(self.connection, self.folder)

    def plan(self, to: int | None = None) -> list[Step]:
        """The steps of `up`. Raises the errors that `up` would raise."""
        state = self._checked_state()
        target = self._target(to, at_least=state.version)
        steps = []
        if procrastinate_schema.is_outdated(state.procrastinate):
            version = procrastinate_schema.package_version()
            if state.procrastinate is None:
                steps.append(Step("install", f"Procrastinate {version}"))
            else:
                steps.append(Step("upgrade", f"Procrastinate from {state.procrastinate.version} to {version}"))
        steps += [Step("apply", m.name) for m in self.folder.migrations[state.version : target]]
        wanted = {(o.kind, o.name): o for o in self._objects.wanted(target)}
        missing = self._objects.missing() if state.objects else set()
        for key, wanted_object in wanted.items():
            if key not in state.objects:
                steps.append(Step("create", f"{key[0]} {key[1]}"))
            elif key in missing:
                steps.append(Step("recreate", f"{key[0]} {key[1]}"))
            elif state.objects[key] != wanted_object.checksum:
                steps.append(Step("replace", f"{key[0]} {key[1]}"))
        steps += [Step("drop", f"{kind} {name}") for kind, name in state.objects if (kind, name) not in wanted]
        # Which of these commands are pending is known only once the database is at its final version.
        if not steps:
            steps += [Step("execute", command) for command in self._objects.pending_commands(state.version)]
        return steps

    def up(self, to: int | None = None) -> list[Step]:
        """Migrate the database up to version `to`, the newest by default. Return the steps that were done."""
        with self._exclusive():
            steps = self.plan(to)
            if not steps:
                return []
            state = self._checked_state()
            self._transaction(lambda: self._execute(self.folder.read("migrator_tables.sql")))
            target = self._target(to, at_least=state.version)
            pending = self.folder.migrations[state.version : target]
            # Nothing calls the functions of a database without a migration: they, and the triggers and views, are
            # created once, with the last one.
            is_first = state.version == 0
            log_each = self.log if self.verbose or len(pending) <= FEW else _log_nothing
            if log_each is not self.log:
                self.log(f"applying {len(pending)} migrations …")
            self._upgrade_procrastinate(state, log_each)
            for migration in pending:
                log_each(f"applying {migration.name}")
                self._apply(migration, with_objects=not is_first or migration is pending[-1])
            self._transaction(lambda: self._objects.apply(target))
            return steps

    def plan_down(self, to: int) -> list[Step]:
        state = self._checked_state()
        if to > state.version:
            raise MigrationError(f"the database is at {state.version:04}, below {to:04}", "use up --to instead")
        steps = [Step("revert", m.name) for m in reversed(self.folder.migrations[to : state.version])]
        if to == 0 and is_cleaned_up(self.connection):
            steps.insert(0, Step("revert", "the legacy clean-up"))
        if to == 0 and state.kind == "ours":
            steps.append(Step("drop", "Procrastinate's tables and the migration records"))
        return steps

    def data_loss(self, to: int) -> dict[str, int]:
        """Table → number of rows that `down` to this version would delete. Found by a dry run that is rolled back.

        The migrator's own tables do not count.
        """
        state = self._checked_state()
        if to >= state.version:
            return {}
        remaining: set[int] = set()

        def revert_all() -> None:
            if to == 0 and is_cleaned_up(self.connection):
                self._revert_cleanup()
            for migration in reversed(self.folder.migrations[to : state.version]):
                self._revert(migration, with_objects=False)
            remaining.update(read_state(self.connection).tables.values())

        self._transaction(revert_all, dry_run=True)
        dropped = [
            table
            for table, oid in state.tables.items()
            if oid not in remaining and not table.startswith(("clerk_", "adopted_", "legacy_"))
        ]
        if to == 0 and procrastinate_schema.is_ours(self.connection):
            dropped += [table for table in state.tables if table.startswith("procrastinate_")]
        counts = {table: count_rows(self.connection, table) for table in dropped}
        return {table: count for table, count in counts.items() if count}

    def down(self, to: int) -> list[Step]:
        """Revert migrations, the newest first. Rows of the tables that they created are deleted."""
        with self._exclusive():
            steps = self.plan_down(to)
            state = self._checked_state()
            # The first down migration restores the legacy tables and needs the columns that the clean-up removed.
            if to == 0 and is_cleaned_up(self.connection):
                self.log("reverting the legacy clean-up")
                self._transaction(self._revert_cleanup)
            if to == 0 and "adopted_sites" in state.tables:
                raise MigrationError(
                    "the database is older than the names in sql/legacy/restore.sql", "run clerk db up first"
                )
            if to == 0 and "legacy_sites" in state.tables:
                self._transaction(lambda: self._execute(self.folder.read("legacy/restore.sql")))
            for migration in reversed(self.folder.migrations[to : state.version]):
                self.log(f"reverting {migration.name}")
                # Each keeps the functions and triggers that do not need it. Views are created again with the last one.
                is_last = migration.version == to + 1
                self._transaction(lambda m=migration, last=is_last: self._revert(m, with_objects=last))  # type: ignore[misc]
            if to == 0 and state.kind == "ours":
                self._transaction(self._revert_all)
            return steps

    def clean_up(self, and_then: Callable[[], None]) -> bool:
        """Rename the tables of legacy clerk, save and drop its columns, and call `and_then` in the same transaction.

        Return False if that was done before.
        """
        with self._exclusive():
            state = self._checked_state()
            if is_cleaned_up(self.connection):
                return False

            def work() -> None:
                self._objects.drop_legacy()
                with file_context("legacy/cleanup.up.sql"):
                    self._execute(self.folder.read("legacy/cleanup.up.sql"))
                self._objects.apply(state.version)
                and_then()

            self._transaction(work)
            return True

    def revert_cleanup(self, and_then: Callable[[], None]) -> bool:
        """Restore what `clean_up` renamed or dropped. Return False if there was no clean-up."""
        with self._exclusive():
            if not is_cleaned_up(self.connection):
                return False

            def work() -> None:
                self._revert_cleanup()
                and_then()

            self._transaction(work)
            return True

    def _revert_cleanup(self) -> None:
        self._objects.drop_views()
        with file_context("legacy/cleanup.down.sql"):
            self._execute(self.folder.read("legacy/cleanup.down.sql"))
        self._objects.apply(read_state(self.connection).version)

    def _checked_state(self) -> State:
        """The state of the database. Raises if this code must not change a database in that state."""
        state = read_state(self.connection)
        if state.kind == "foreign":
            raise ForeignDatabase(
                f"the database {self.connection.info.dbname} holds tables of another application "
                f"({', '.join(list(state.tables)[:5])}{', …' if len(state.tables) > 5 else ''})",
                "set DATABASE_URL to an empty database or to a database of clerk",
            )
        if state.version > self.folder.newest:
            name = state.applied[state.version][0]
            raise SchemaMismatch(
                f"the database is at {state.version:04}_{name}, newer than this clerk, whose newest migration is "
                f"{self.folder.newest:04}",
                "update clerk",
            )
        for migration in self.folder.migrations[: state.version]:
            if migration.version not in state.applied:
                raise MigrationError(
                    f"{migration.name} is not recorded as applied, but later migrations are",
                    "find out why its row of clerk_migrations is missing, and restore it",
                )
            if state.applied[migration.version][1] != migration.checksum:
                raise MigrationError(
                    f"{migration.name} was changed after it was applied to this database",
                    "restore the file, and write a new migration for the change",
                )
        return state

    def _target(self, to: int | None, *, at_least: int) -> int:
        target = self.folder.newest if to is None else to
        if not at_least <= target <= self.folder.newest:
            raise MigrationError(
                f"the database is at {at_least:04} and cannot be migrated up to {target:04}",
                f"give a version from {at_least} to {self.folder.newest}, or use down --to",
            )
        return target

    @contextlib.contextmanager
    def _exclusive(self) -> Iterator[None]:
        """Hold the advisory lock that admits one migrator at a time.

        The lock is polled: a session that waits inside a statement holds a snapshot, and the other migrator's
        `create index concurrently` would wait for that snapshot.
        """
        deadline = time.monotonic() + _MIGRATOR_LOCK_TIMEOUT
        is_waiting = False
        # Timeouts that an administrator set for ordinary queries are too short for migrations.
        self._execute("set statement_timeout = 0; set lock_timeout = 0")
        while not self._try_advisory_lock():
            if time.monotonic() > deadline:
                raise DatabaseRefused(
                    "another migrator has been running on this database for ten minutes",
                    "wait until it has finished and try again, or end its session (see pg_stat_activity)",
                )
            if not is_waiting:
                self.log("another migrator is running on this database: waiting for it")
                is_waiting = True
            time.sleep(0.2)
        self.connection.add_notice_handler(self._log_notice)
        try:
            yield
        finally:
            self.connection.remove_notice_handler(self._log_notice)
            if not self.connection.closed and not self.connection.broken:
                self.connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])
                self._execute("reset statement_timeout; reset lock_timeout")

    def _log_notice(self, notice: errors.Diagnostic) -> None:
        # Migrations use this code for notices that operators should read; Postgres's own notices are not shown.
        if notice.sqlstate == "KL000":
            self.log(f"note: {notice.message_primary}")

    def _try_advisory_lock(self) -> bool:
        row = self.connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
        return bool(row and row[0])

    def _transaction(self, work: Callable[[], None], *, dry_run: bool = False) -> None:
        """Run `work` in a transaction with a short lock timeout, and retry it if a lock is not available."""
        for attempt in range(1, self.lock_attempts + 1):
            try:
                with self.connection.transaction(force_rollback=dry_run):
                    # At least one millisecond: 0 would mean no timeout.
                    timeout = f"{max(1, int(self.lock_timeout * 1000))}ms"
                    self.connection.execute("select set_config('lock_timeout', %s, true)", [timeout])
                    work()
                return
            except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
                if attempt == self.lock_attempts:
                    raise DatabaseRefused(
                        f"a lock was not available in {attempt} attempts ({' '.join(str(error).split())})",
                        "find the long transaction in pg_stat_activity, end it, and run this again",
                    ) from error
                self.log(f"a table is locked: trying again ({attempt} of {self.lock_attempts})")
                time.sleep(self.retry_delay(attempt))

    def _execute(self, text: str) -> None:
        # As bytes and without parameters: one call may run several statements, and % needs no escaping.
        self.connection.execute(text.encode())

    def _apply(self, migration: Migration, *, with_objects: bool) -> None:
        started = time.monotonic()
        if not migration.in_transaction:
            self._apply_without_transaction(migration)

        def work() -> None:
            if migration.in_transaction:
                self._objects.drop_views()
                with file_context(migration.name):
                    self._execute(migration.up)
            self.connection.execute(
                "insert into clerk_migrations (version, name, checksum, milliseconds) values (%s, %s, %s, %s)",
                [migration.version, migration.title, migration.checksum, int((time.monotonic() - started) * 1000)],
            )
            if with_objects:
                self._objects.apply(migration.version)

        self._transaction(work)

    def _apply_without_transaction(self, migration: Migration) -> None:
        """Run the statements one by one without a lock timeout: a concurrent index build blocks no other session."""
        with file_context(migration.name):
            for statement in statements(migration.up):
                self._execute(statement)

    def _revert(self, migration: Migration, *, with_objects: bool) -> None:
        self._objects.drop_dependents(migration.version)
        with file_context(f"{migration.name}.down"):
            self._execute(migration.down)
        self.connection.execute("delete from clerk_migrations where version = %s", [migration.version])
        if with_objects and migration.version > 1:
            self._objects.apply(migration.version - 1)

    def _revert_all(self) -> None:
        if procrastinate_schema.is_ours(self.connection):
            self._execute(self.folder.read("procrastinate.down.sql"))
        self._execute("drop table clerk_migrations, clerk_schema_objects, clerk_procrastinate")

    def _upgrade_procrastinate(self, state: State, log: Callable[[str], None]) -> None:
        for file in procrastinate_schema.pending(state.procrastinate):
            log(f"applying Procrastinate's {file.name}")

            def work(file: Path = file) -> None:
                if state.version > 0:
                    # Views on Procrastinate's tables would block the change; `up` recreates them at its end.
                    self._objects.drop_views()
                with file_context(f"Procrastinate's {file.name}"):
                    self._execute(file.read_text(encoding="utf-8"))
                procrastinate_schema.record(self.connection, file)

            self._transaction(work)
        self._transaction(lambda: procrastinate_schema.record_as_complete(self.connection))


def _log_nothing(line: str) -> None:
    pass


def _backoff(attempt: int) -> float:
    return random.uniform(0.5, 1.0) * min(0.5 * attempt, 5.0)  # noqa: S311 (jitter)
