"""Moves a database's schema: plan first, then apply, one short transaction per migration.

Each transaction holds the migration, its record, and the functions, triggers and views that stand on it, so
nobody ever sees a table without its triggers. Locks are asked for with a timeout and the whole transaction is
tried again, because an `alter table` that queues behind a long query blocks everybody behind itself.

The catch: `clerk db down` gives back tables, not the older definitions of functions that were edited since;
those come back with the older code's own `clerk db up`.
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
from clerk.db.migrations.repeatable import RepeatableObjects, is_cleaned_up, named
from clerk.db.migrations.sqlfiles import Migration, SqlFolder, statements
from clerk.errors import DatabaseRefused, ForeignDatabase, MigrationError, SchemaMismatch

_LOCK_KEY = 0x636C65726B  # "clerk"
_MIGRATOR_WAITS_AT_MOST = 600.0


@dataclass(frozen=True)
class Step:
    """One thing that `up` or `down` will do, in the words that `plan` prints."""

    action: str
    what: str

    def __str__(self) -> str:
        return f"{self.action} {self.what}"


@dataclass(frozen=True)
class State:
    """What the database says of itself."""

    kind: str
    """`ours`, `empty`, `legacy` (the older clerk's) or `foreign`."""
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
    elif not any(not table.startswith("procrastinate_") for table in tables):
        kind = "empty"
    else:
        kind = "legacy" if _has_legacy_sites(connection) else "foreign"
    now = procrastinate_schema.installed(connection) if kind != "foreign" else None
    return State(kind, applied, objects, now, tables)


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
    say: Callable[[str], None] = lambda _: None
    lock_tries: int = 20
    pause: Callable[[int], float] = lambda attempt: _backoff(attempt)
    """Attempt → seconds until the next one."""

    def __post_init__(self) -> None:
        self._objects = RepeatableObjects(self.connection, self.folder)

    def plan(self, to: int | None = None) -> list[Step]:
        """What `up` would do, without doing it. Refuses what `up` would refuse."""
        state = self._checked_state()
        target = self._target(to, at_least=state.version)
        steps = []
        if procrastinate_schema.is_behind(state.procrastinate):
            before = f" from {state.procrastinate.version}" if state.procrastinate else ""
            steps.append(Step("bring Procrastinate to", f"{procrastinate_schema.package_version()}{before}"))
        steps += [Step("apply", m.name) for m in self.folder.migrations[state.version : target]]
        wanted = {(o.kind, o.name): o for o in self._objects.wanted(target)}
        lost = self._objects.lost() if state.objects else set()
        for key, wanted_object in wanted.items():
            if key not in state.objects:
                steps.append(Step("create", f"{key[0]} {key[1]}"))
            elif key in lost:
                steps.append(Step("bring back", f"{key[0]} {key[1]}"))
            elif state.objects[key] != wanted_object.checksum:
                steps.append(Step("replace", f"{key[0]} {key[1]}"))
        steps += [Step("drop", f"{kind} {name}") for kind, name in state.objects if (kind, name) not in wanted]
        # Of a database that has still to get there nobody can say what will be missing.
        if not steps:
            steps += [Step("execute", command) for command in self._objects.missing_rights(state.version)]
        return steps

    def up(self, to: int | None = None) -> list[Step]:
        """Bring the database to version `to`, the newest by default. Says what was done."""
        with self._alone():
            steps = self.plan(to)
            if not steps:
                return []
            state = self._checked_state()
            self._transaction(lambda: self._execute(self.folder.read("migrator_tables.sql")))
            self._bring_procrastinate(state)
            target = self._target(to, at_least=state.version)
            for migration in self.folder.migrations[state.version : target]:
                self.say(f"applying {migration.name}")
                self._apply(migration)
            self._transaction(lambda: self._objects.apply(target))
            return steps

    def plan_down(self, to: int) -> list[Step]:
        state = self._checked_state()
        if to > state.version:
            raise MigrationError(f"the database is at {state.version:04}, below {to:04}", "go there with up --to")
        steps = [Step("take back", m.name) for m in reversed(self.folder.migrations[to : state.version])]
        if to == 0 and is_cleaned_up(self.connection):
            steps.insert(0, Step("take back", "the clean-up"))
        if to == 0 and state.kind == "ours":
            steps.append(Step("take back", "Procrastinate's tables and the record of migrations"))
        return steps

    def data_loss(self, to: int) -> dict[str, int]:
        """Tables with rows in them that going down to `to` would drop, our own records apart: a rehearsal tells."""
        state = self._checked_state()
        if to >= state.version:
            return {}
        left: set[int] = set()

        def rehearsal() -> None:
            if to == 0 and is_cleaned_up(self.connection):
                self._revert_cleanup()
            for migration in reversed(self.folder.migrations[to : state.version]):
                self._revert(migration)
            left.update(read_state(self.connection).tables.values())

        self._transaction(rehearsal, rehearse=True)
        gone = [
            table
            for table, oid in state.tables.items()
            if oid not in left and not table.startswith(("clerk_", "adopted_", "legacy_"))
        ]
        if to == 0 and procrastinate_schema.is_ours(self.connection):
            gone += [table for table in state.tables if table.startswith("procrastinate_")]
        counts = {table: count_rows(self.connection, table) for table in gone}
        return {table: count for table, count in counts.items() if count}

    def down(self, to: int) -> list[Step]:
        """Take migrations back, the newest first. Rows of tables that they made are lost."""
        with self._alone():
            steps = self.plan_down(to)
            state = self._checked_state()
            # The first migration gives back what it found, and can do so only if it is there.
            if to == 0 and is_cleaned_up(self.connection):
                self.say("taking back the clean-up")
                self._transaction(self._revert_cleanup)
            if to == 0 and "adopted_sites" in state.tables:
                raise MigrationError(
                    "the database is older than the names in sql/legacy/restore.sql", "run clerk db up first"
                )
            if to == 0 and "legacy_sites" in state.tables:
                self._transaction(lambda: self._execute(self.folder.read("legacy/restore.sql")))
            for migration in reversed(self.folder.migrations[to : state.version]):
                self.say(f"taking back {migration.name}")
                self._transaction(lambda m=migration: self._revert(m))  # type: ignore[misc]
            if to == 0 and state.kind == "ours":
                self._transaction(self._revert_all)
            return steps

    def clean_up(self, and_then: Callable[[], None]) -> bool:
        """Set the older system's tables and columns aside; `and_then` in the same transaction. False: done before."""
        with self._alone():
            state = self._checked_state()
            if is_cleaned_up(self.connection):
                return False

            def work() -> None:
                self._objects.drop_those_until_cleanup()
                with named("legacy/cleanup.up.sql"):
                    self._execute(self.folder.read("legacy/cleanup.up.sql"))
                self._objects.apply(state.version)
                and_then()

            self._transaction(work)
            return True

    def revert_cleanup(self, and_then: Callable[[], None]) -> bool:
        """Give them back. False: there was no clean-up."""
        with self._alone():
            if not is_cleaned_up(self.connection):
                return False

            def work() -> None:
                self._revert_cleanup()
                and_then()

            self._transaction(work)
            return True

    def _revert_cleanup(self) -> None:
        self._objects.drop_views()
        with named("legacy/cleanup.down.sql"):
            self._execute(self.folder.read("legacy/cleanup.down.sql"))
        self._objects.apply(read_state(self.connection).version)

    def _checked_state(self) -> State:
        """The state, if this code may touch such a database."""
        state = read_state(self.connection)
        if state.kind == "foreign":
            raise ForeignDatabase(
                f"the database {self.connection.info.dbname} holds tables of something else "
                f"({', '.join(list(state.tables)[:5])}{', …' if len(state.tables) > 5 else ''})",
                "name an empty database, or one of the older clerk, in DATABASE_URL",
            )
        if state.version > self.folder.newest:
            name = state.applied[state.version][0]
            raise SchemaMismatch(
                f"the database is at {state.version:04}_{name}, newer than this clerk, which ends at "
                f"{self.folder.newest:04}",
                "update clerk",
            )
        for migration in self.folder.migrations[: state.version]:
            if migration.version not in state.applied:
                raise MigrationError(
                    f"{migration.name} is not recorded as applied, and later migrations are",
                    "find out what happened to its row of clerk_migrations before anything else",
                )
            if state.applied[migration.version][1] != migration.checksum:
                raise MigrationError(
                    f"{migration.name} was changed after it had been applied here",
                    "put the file back as it was, and write a new migration for the change",
                )
        return state

    def _target(self, to: int | None, *, at_least: int) -> int:
        target = self.folder.newest if to is None else to
        if not at_least <= target <= self.folder.newest:
            raise MigrationError(
                f"the database is at {at_least:04} and cannot go up to {target:04}",
                f"name a version from {at_least} to {self.folder.newest}, or go down with down --to",
            )
        return target

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One migrator at a time.

        The lock is polled for, never waited for: a session that waits inside a statement holds a snapshot, and
        the other migrator's `create index concurrently` would wait for that snapshot in turn.
        """
        deadline = time.monotonic() + _MIGRATOR_WAITS_AT_MOST
        told = False
        # Limits that an administrator has set for everyday queries are not meant for this.
        self._execute("set statement_timeout = 0; set lock_timeout = 0")
        while not self._try_advisory_lock():
            if time.monotonic() > deadline:
                raise DatabaseRefused(
                    "another migrator has been at work on this database for ten minutes",
                    "look at it, or wait longer",
                )
            if not told:
                self.say("another migrator is at work on this database: waiting for it")
                told = True
            time.sleep(0.2)
        self.connection.add_notice_handler(self._note)
        try:
            yield
        finally:
            self.connection.remove_notice_handler(self._note)
            if not self.connection.closed and not self.connection.broken:
                self.connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])
                self._execute("reset statement_timeout; reset lock_timeout")

    def _note(self, notice: errors.Diagnostic) -> None:
        # Migrations mark with this what a person should read; Postgres itself has much to say.
        if notice.sqlstate == "KL000":
            self.say(f"note: {notice.message_primary}")

    def _try_advisory_lock(self) -> bool:
        row = self.connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
        return bool(row and row[0])

    def _transaction(self, work: Callable[[], None], *, rehearse: bool = False) -> None:
        """Run `work` in a transaction that gives way: it waits for locks only briefly, and tries again."""
        for attempt in range(1, self.lock_tries + 1):
            try:
                with self.connection.transaction(force_rollback=rehearse):
                    # At least a millisecond: 0 would mean to wait for ever.
                    timeout = f"{max(1, int(self.lock_timeout * 1000))}ms"
                    self.connection.execute("select set_config('lock_timeout', %s, true)", [timeout])
                    work()
                return
            except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
                if attempt == self.lock_tries:
                    raise DatabaseRefused(
                        f"a lock could not be had in {attempt} tries ({' '.join(str(error).split())})",
                        "look in pg_stat_activity for a long transaction, end it, and run this again",
                    ) from error
                self.say(f"a table is busy: letting others through, then trying again ({attempt} of {self.lock_tries})")
                time.sleep(self.pause(attempt))

    def _execute(self, text: str) -> None:
        # As bytes and without parameters: several statements at once, and % means nothing.
        self.connection.execute(text.encode())

    def _apply(self, migration: Migration) -> None:
        started = time.monotonic()
        if not migration.in_transaction:
            self._apply_one_by_one(migration)

        def work() -> None:
            if migration.in_transaction:
                self._objects.drop_views()
                with named(migration.name):
                    self._execute(migration.up)
            self.connection.execute(
                "insert into clerk_migrations (version, name, checksum, milliseconds) values (%s, %s, %s, %s)",
                [migration.version, migration.title, migration.checksum, int((time.monotonic() - started) * 1000)],
            )
            self._objects.apply(migration.version)

        self._transaction(work)

    def _apply_one_by_one(self, migration: Migration) -> None:
        """Outside a transaction, waiting as long as it takes: a concurrent index build blocks nobody."""
        with named(migration.name):
            for statement in statements(migration.up):
                self._execute(statement)

    def _revert(self, migration: Migration) -> None:
        self._objects.drop_those_on(migration.version)
        with named(f"{migration.name}.down"):
            self._execute(migration.down)
        self.connection.execute("delete from clerk_migrations where version = %s", [migration.version])
        if migration.version > 1:
            self._objects.apply(migration.version - 1)

    def _revert_all(self) -> None:
        if procrastinate_schema.is_ours(self.connection):
            self._execute(self.folder.read("procrastinate.down.sql"))
        self._execute("drop table clerk_migrations, clerk_schema_objects, clerk_procrastinate")

    def _bring_procrastinate(self, state: State) -> None:
        for file in procrastinate_schema.pending(state.procrastinate):
            self.say(f"applying Procrastinate's {file.name}")

            def work(file: Path = file) -> None:
                if state.version > 0:
                    # They stand on its tables and would stop it; `up` makes them again at its end.
                    self._objects.drop_views()
                with named(f"Procrastinate's {file.name}"):
                    self._execute(file.read_text(encoding="utf-8"))
                procrastinate_schema.record(self.connection, file)

            self._transaction(work)
        self._transaction(lambda: procrastinate_schema.record_as_complete(self.connection))


def _backoff(attempt: int) -> float:
    return random.uniform(0.5, 1.0) * min(0.5 * attempt, 5.0)  # noqa: S311 (jitter)
