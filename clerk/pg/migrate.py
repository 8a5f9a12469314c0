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
from psycopg import errors, sql

from clerk.errors import DatabaseRefused, ForeignDatabase, MigrationError, SchemaUnknown
from clerk.pg import procrastinate_schema
from clerk.pg.connection import count_rows
from clerk.pg.sqlfiles import Migration, SqlFolder, SqlObject, statements

_LOCK_KEY = 0x636C65726B  # "clerk"
_LOCK_TRIES = 20
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
    tables: tuple[str, ...]

    @property
    def version(self) -> int:
        return max(self.applied, default=0)


def read_state(connection: psycopg.Connection) -> State:
    tables = tuple(
        name
        for (name,) in connection.execute(
            "select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace"
            " and c.relkind in ('r', 'p') order by 1"
        )
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

    def plan(self, to: int | None = None) -> list[Step]:
        """What `up` would do, without doing it. Refuses what `up` would refuse."""
        state = self._checked_state()
        target = self._target(to, at_least=state.version)
        steps = []
        if procrastinate_schema.pending(state.procrastinate) or self._newer_procrastinate(state):
            before = f" from {state.procrastinate.version}" if state.procrastinate else ""
            steps.append(Step("bring Procrastinate to", f"{procrastinate_schema.package_version()}{before}"))
        steps += [Step("apply", m.name) for m in self.folder.migrations[state.version : target]]
        wanted = {(o.kind, o.name): o for o in self._objects(target)}
        for key, wanted_object in wanted.items():
            if key not in state.objects:
                steps.append(Step("create", f"{key[0]} {key[1]}"))
            elif state.objects[key] != wanted_object.checksum:
                steps.append(Step("replace", f"{key[0]} {key[1]}"))
        steps += [Step("drop", f"{kind} {name}") for kind, name in state.objects if (kind, name) not in wanted]
        return steps

    def up(self, to: int | None = None) -> list[Step]:
        """Bring the database to version `to`, the newest by default. Says what was done."""
        with self._alone():
            steps = self.plan(to)
            if not steps:
                return []
            state = self._checked_state()
            self._transaction(lambda: self._execute(self.folder.read("bookkeeping.sql")))
            self._bring_procrastinate(state)
            target = self._target(to, at_least=state.version)
            for migration in self.folder.migrations[state.version : target]:
                self.say(f"applying {migration.name}")
                self._apply(migration)
            self._transaction(lambda: self._apply_objects(target))
            return steps

    def plan_down(self, to: int) -> list[Step]:
        state = self._checked_state()
        if to > state.version:
            raise MigrationError(f"the database is at {state.version:04}, below {to:04}", "go there with up --to")
        steps = [Step("take back", m.name) for m in reversed(self.folder.migrations[to : state.version])]
        if to == 0 and state.kind == "ours":
            steps.append(Step("take back", "Procrastinate's tables and the record of migrations"))
        return steps

    def losses(self, to: int) -> dict[str, int]:
        """Tables with rows in them that going down to `to` would drop: a dry run in a transaction tells."""
        state = self._checked_state()
        if to >= state.version:
            return {}
        with self.connection.transaction(force_rollback=True):
            self._set_lock_timeout()
            for migration in reversed(self.folder.migrations[to : state.version]):
                self._take_back(migration)
            left = set(read_state(self.connection).tables)
        record = {"clerk_migrations", "clerk_schema_objects", "clerk_procrastinate", "adopted_schema"}
        gone = [table for table in state.tables if table not in left and table not in record]
        if to == 0:
            gone += [table for table in state.tables if table.startswith("procrastinate_")]
        counts = {table: count_rows(self.connection, table) for table in gone}
        return {table: count for table, count in counts.items() if count}

    def down(self, to: int) -> list[Step]:
        """Take migrations back, the newest first. Rows of tables that they made are lost."""
        with self._alone():
            steps = self.plan_down(to)
            state = self._checked_state()
            for migration in reversed(self.folder.migrations[to : state.version]):
                self.say(f"taking back {migration.name}")
                self._transaction(lambda m=migration: self._take_back(m))  # type: ignore[misc]
            if to == 0 and state.kind == "ours":
                self._transaction(self._take_back_everything)
            return steps

    def _checked_state(self) -> State:
        """The state, if this code may touch such a database."""
        state = read_state(self.connection)
        if state.kind == "foreign":
            raise ForeignDatabase(
                f"the database {self.connection.info.dbname} holds tables of something else "
                f"({', '.join(state.tables[:5])}{', …' if len(state.tables) > 5 else ''})",
                "name an empty database, or one of the older clerk, in DATABASE_URL",
            )
        if state.version > self.folder.newest:
            name = state.applied[state.version][0]
            raise SchemaUnknown(
                f"the database is at {state.version:04}_{name}, newer than this clerk, which ends at "
                f"{self.folder.newest:04}",
                "update clerk",
            )
        for migration in self.folder.migrations[: state.version]:
            name, checksum = state.applied.get(migration.version, ("", ""))
            if checksum != migration.checksum:
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
        try:
            yield
        finally:
            if not self.connection.closed and not self.connection.broken:
                self.connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])

    def _try_advisory_lock(self) -> bool:
        row = self.connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
        return bool(row and row[0])

    def _transaction(self, work: Callable[[], None]) -> None:
        """Run `work` in a transaction that gives way: it waits for locks only briefly, and tries again."""
        for attempt in range(1, _LOCK_TRIES + 1):
            try:
                with self.connection.transaction():
                    self._set_lock_timeout()
                    work()
                return
            except (errors.LockNotAvailable, errors.DeadlockDetected) as error:
                if attempt == _LOCK_TRIES:
                    raise DatabaseRefused(
                        f"a lock could not be had in {_LOCK_TRIES} tries ({error})",
                        "look in pg_stat_activity for a long transaction, end it, and run this again",
                    ) from error
                self.say(f"a table is busy: letting others through, then trying again ({attempt} of {_LOCK_TRIES})")
                time.sleep(random.uniform(0.5, 1.0) * min(0.25 * 2**attempt, 5.0))  # noqa: S311 (jitter)

    def _set_lock_timeout(self) -> None:
        self.connection.execute(
            "select set_config('lock_timeout', %s, true), set_config('statement_timeout', '0', true)",
            [f"{int(self.lock_timeout * 1000)}ms"],
        )

    def _execute(self, text: str) -> None:
        # As bytes and without parameters: several statements at once, and % means nothing.
        self.connection.execute(text.encode())

    def _apply(self, migration: Migration) -> None:
        started = time.monotonic()
        if not migration.in_transaction:
            for statement in statements(migration.up):
                # Waits as long as it takes: concurrent index builds block nobody.
                self._execute(statement)

        def work() -> None:
            if migration.in_transaction:
                self._drop_views()
                with _named(migration.name):
                    self._execute(migration.up)
            self.connection.execute(
                "insert into clerk_migrations (version, name, checksum, milliseconds) values (%s, %s, %s, %s)",
                [
                    migration.version,
                    migration.title,
                    migration.checksum,
                    int((time.monotonic() - started) * 1000),
                ],
            )
            self._apply_objects(migration.version)

        self._transaction(work)

    def _take_back(self, migration: Migration) -> None:
        self._drop_views()
        self._drop_objects([o for o in self._recorded() if o[2] >= migration.version])
        with _named(migration.name):
            self._execute(migration.down)
        self.connection.execute("delete from clerk_migrations where version = %s", [migration.version])
        if migration.version > 1:
            self._apply_objects(migration.version - 1)

    def _take_back_everything(self) -> None:
        self._execute(self.folder.read("procrastinate.down.sql"))
        self._execute("drop table clerk_migrations, clerk_schema_objects, clerk_procrastinate")

    def _newer_procrastinate(self, state: State) -> bool:
        return state.procrastinate is None or state.procrastinate.version < procrastinate_schema.package_version()

    def _bring_procrastinate(self, state: State) -> None:
        version = procrastinate_schema.package_version()
        for file in procrastinate_schema.pending(state.procrastinate):
            self.say(f"applying Procrastinate's {file.name}")

            def work(file: Path = file) -> None:
                self._execute(file.read_text())
                procrastinate_schema.record(
                    self.connection,
                    file.name,
                    procrastinate_schema.release(file),
                    complete=file == procrastinate_schema.whole_schema(),
                )

            self._transaction(work)
        recorded = self.connection.execute(
            "select 1 from clerk_procrastinate where complete and version = %s", [str(version)]
        ).fetchone()
        if not recorded:
            self._transaction(
                lambda: procrastinate_schema.record(self.connection, f"as of {version}", version, complete=True)
            )

    def _objects(self, version: int) -> list[SqlObject]:
        return [o for o in self.folder.objects if o.needs <= version]

    def _recorded(self) -> list[tuple[str, str, int, str]]:
        return self.connection.execute("select kind, name, needs, checksum from clerk_schema_objects").fetchall()

    def _apply_objects(self, version: int) -> None:
        """Make functions, triggers and views what their files say, for a database at this version."""
        wanted = self._objects(version)
        recorded = {(kind, name): checksum for kind, name, _, checksum in self._recorded()}
        names = {(o.kind, o.name) for o in wanted}
        gone = [row for row in self._recorded() if (row[0], row[1]) not in names]
        changed = [o for o in wanted if recorded.get((o.kind, o.name)) != o.checksum]
        if gone or changed:
            # Views are made again as a whole: a new column list cannot be put into an old view.
            self._drop_views()
            self._drop_objects(gone)
            changed = [o for o in wanted if o in changed or o.kind == "view"]
        self._create_all(changed)
        if self.folder.grants.needs <= version:
            self._execute(self.folder.grants.sql)

    def _create(self, sql_object: SqlObject) -> None:
        self._execute(sql_object.sql)
        found = self.connection.execute(LIVE_CHECKSUMS, [sql_object.kind, sql_object.name]).fetchall()
        if len(found) != 1:
            raise MigrationError(
                f"{sql_object.file} left {len(found)} objects of that name",
                "name the file after what it makes; after a change of arguments, drop the old function in a migration",
            )
        self.connection.execute(
            "insert into clerk_schema_objects (kind, name, needs, checksum, live_checksum) values (%s, %s, %s, %s, %s)"
            " on conflict (kind, name) do update set needs = excluded.needs, checksum = excluded.checksum,"
            " live_checksum = excluded.live_checksum, applied_at = now()",
            [sql_object.kind, sql_object.name, sql_object.needs, sql_object.checksum, found[0][2]],
        )

    def _create_all(self, objects: list[SqlObject]) -> None:
        """Functions may call functions, and views stand on views: what comes too early waits for the next round."""
        while objects:
            early: dict[SqlObject, psycopg.Error] = {}
            for sql_object in objects:
                try:
                    with _named(sql_object.file, apart_from=_TOO_EARLY), self.connection.transaction():
                        self._create(sql_object)
                except _TOO_EARLY as error:
                    early[sql_object] = error
            if len(early) == len(objects):
                for sql_object, error in early.items():
                    with _named(sql_object.file):
                        raise error
            objects = list(early)

    def _drop_views(self) -> None:
        views = [name for kind, name, _, _ in self._recorded() if kind == "view"]
        if views:
            try:
                self.connection.execute(
                    sql.SQL("drop view if exists {}").format(sql.SQL(", ").join(sql.Identifier(v) for v in views))
                )
            except errors.DependentObjectsStillExist as error:
                raise MigrationError(
                    f"something else in the database stands on one of clerk's views ({error.diag.message_detail})",
                    "drop it, migrate, and make it again",
                ) from error
            self.connection.execute("delete from clerk_schema_objects where kind = 'view'")

    def _drop_objects(self, rows: list[tuple[str, str, int, str]]) -> None:
        for kind, name, *_ in sorted(rows, key=lambda row: row[0] != "trigger"):
            if kind == "view":
                continue
            for _, dropped, _ in self.connection.execute(LIVE_CHECKSUMS, [kind, name]).fetchall():
                self._execute(f"drop {kind} {dropped}")
            self.connection.execute("delete from clerk_schema_objects where kind = %s and name = %s", [kind, name])


LIVE_CHECKSUMS = """
    with asked (kind, name) as (values (%s::text, %s::text))
    select 'function', p.oid::regprocedure::text, md5(p.prosrc)
    from asked join pg_proc p on asked.kind = 'function' and p.proname = asked.name
    where p.pronamespace = 'public'::regnamespace
    union all
    select 'trigger', format('%%I on %%s', t.tgname, t.tgrelid::regclass), md5(pg_get_triggerdef(t.oid))
    from asked join pg_trigger t on asked.kind = 'trigger' and t.tgname = asked.name
    where not t.tgisinternal
    union all
    select 'view', c.oid::regclass::text, md5(pg_get_viewdef(c.oid))
    from asked join pg_class c on asked.kind = 'view' and c.relname = asked.name
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'v'
"""
"""What the database made of a file: kind, what to drop, checksum."""


_TOO_EARLY = (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedObject)


@contextlib.contextmanager
def _named(file: str, apart_from: tuple[type[psycopg.Error], ...] = ()) -> Iterator[None]:
    """An error inside a migration is of little use without the migration's name."""
    try:
        yield
    except apart_from:
        raise
    except psycopg.DatabaseError as error:
        if error.sqlstate is None or error.sqlstate.startswith(_NOT_THE_FILES_FAULT):
            raise
        raise MigrationError(
            f"{file} failed and was rolled back ({str(error).strip()})",
            "mend what it names and run this again",
        ) from error


_NOT_THE_FILES_FAULT = ("08", "40P01", "42501", "53", "55P03", "57")
"""SQLSTATEs of the server's own troubles: connection, deadlock, rights, resources, lock timeout, shutdown."""
