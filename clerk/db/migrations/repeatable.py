"""Functions, triggers, views and rights: made what their files in `sql/` say, for a database at a given migration.

Everything here runs inside the transaction of the migrator that calls it.

The catch: views are dropped and made again as a whole whenever anything changes, since Postgres cannot put a new
column list into an old view. Rights that people gave on them by hand are given again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
from psycopg import errors, sql

from clerk.db.migrations.sqlfiles import CLEANUP_MARK, SqlFolder, SqlObject
from clerk.errors import MigrationError

_LIVE = """
    select 'function', p.proname, p.oid::regprocedure::text,
           md5(concat(p.prosrc, pg_get_function_sqlbody(p.oid), p.provolatile, p.prosecdef, p.proconfig))
    from pg_proc p
    where p.pronamespace = 'public'::regnamespace and p.prokind = 'f'
    union all
    select 'trigger', t.tgname, format('%I on %s', t.tgname, t.tgrelid::regclass), md5(pg_get_triggerdef(t.oid))
    from pg_trigger t
    join pg_class c on c.oid = t.tgrelid
    where c.relnamespace = 'public'::regnamespace and not t.tgisinternal
    union all
    -- A view's text as Postgres prints it changes with the server's major version, so it has no checksum.
    select 'view', c.relname, c.oid::regclass::text, ''
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'v'
"""

# Also those that fire on a replica only. Made anew, a trigger is enabled again.
_DISABLED = "select tgname from pg_trigger where not tgisinternal and tgenabled in ('D', 'R')"

_RIGHTS_ON_VIEWS = """
    select c.relname, format('grant %%s on %%I to %%s%%s', acl.privilege_type, c.relname,
                             case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end,
                             case when acl.is_grantable then ' with grant option' else '' end)
    from pg_class c
    cross join aclexplode(c.relacl) acl
    where c.relnamespace = 'public'::regnamespace and c.relname = any (%s) and acl.grantee <> c.relowner
      -- What these have is the business of sql/grants.sql.
      and acl.grantee::regrole::text not in ('clerk_owner', 'clerk_worker', 'clerk_dashboard')
"""


@dataclass(frozen=True)
class Recorded:
    kind: str
    name: str
    needs: int
    checksum: str


@dataclass(frozen=True)
class LiveObject:
    kind: str
    name: str
    exact: str
    """How `drop` names it: with arguments, or with its table."""
    checksum: str


def live_objects(connection: psycopg.Connection) -> list[LiveObject]:
    """All functions, triggers and views as the database has them, ours or not."""
    return [LiveObject(*row) for row in connection.execute(_LIVE.encode())]


def is_cleaned_up(connection: psycopg.Connection) -> bool:
    """The older system's tables and columns were set aside."""
    row = connection.execute("select to_regclass('public.' || %s) is not null", [CLEANUP_MARK]).fetchone()
    return bool(row and row[0])


@dataclass
class RepeatableObjects:
    connection: psycopg.Connection
    folder: SqlFolder
    _rights_on_views: list[tuple[str, str]] = field(default_factory=list)
    """(view, command): given by hand to views that were dropped and are to be made again."""

    def wanted(self, version: int) -> list[SqlObject]:
        cleaned_up = is_cleaned_up(self.connection)
        return [o for o in self.folder.objects if o.needs <= version and not (cleaned_up and o.until_cleanup)]

    def apply(self, version: int) -> None:
        """Make functions, triggers, views and rights what their files say, for a database at this version."""
        wanted = self.wanted(version)
        names = {(o.kind, o.name) for o in wanted}
        recorded = {(r.kind, r.name): r for r in self._recorded()}
        gone = [r for key, r in recorded.items() if key not in names]
        lost = self.lost()
        changed = [
            o
            for o in wanted
            if (o.kind, o.name) not in recorded
            or recorded[o.kind, o.name].checksum != o.checksum
            or (o.kind, o.name) in lost
        ]
        if gone or changed:
            self.drop_views()
            self._drop(gone)
            self._create_all([o for o in wanted if o in changed or o.kind == "view"])
            for view, command in self._rights_on_views:
                if ("view", view) in names:
                    self._execute(command)
        for command in self.missing_rights(version):
            self._execute(command)

    def lost(self) -> set[tuple[str, str]]:
        """Recorded as made, and since dropped or disabled by somebody."""
        there = {(o.kind, o.name) for o in live_objects(self.connection)}
        disabled = {("trigger", name) for (name,) in self.connection.execute(_DISABLED)}
        return {(r.kind, r.name) for r in self._recorded()} - (there - disabled)

    def drop_those_on(self, version: int) -> None:
        """Drop what stands on this migration, which is about to be taken back."""
        self.drop_views()
        self._drop([r for r in self._recorded() if r.needs >= version])

    def drop_those_until_cleanup(self) -> None:
        self.drop_views()
        names = {(o.kind, o.name) for o in self.folder.objects if o.until_cleanup}
        self._drop([r for r in self._recorded() if (r.kind, r.name) in names])

    def drop_views(self) -> None:
        views = [r.name for r in self._recorded() if r.kind == "view"]
        if not views:
            return
        self._rights_on_views = self.connection.execute(_RIGHTS_ON_VIEWS, [views]).fetchall()
        try:
            self.connection.execute(
                sql.SQL("drop view if exists {}").format(sql.SQL(", ").join(sql.Identifier(v) for v in views))
            )
        except errors.DependentObjectsStillExist as error:
            raise MigrationError(
                f"something else in the database stands on one of clerk's views ({_one_line(error)})",
                "drop it, migrate, and make it again",
            ) from error
        self.connection.execute("delete from clerk_schema_objects where kind = 'view'")

    def missing_rights(self, version: int) -> list[str]:
        """The commands of sql/grants.sql that are not in force."""
        if self.folder.grants.needs > version:
            return []
        return [command for (command,) in self.connection.execute(self.folder.grants.sql.encode())]

    def _recorded(self) -> list[Recorded]:
        rows = self.connection.execute("select kind, name, needs, checksum from clerk_schema_objects")
        return [Recorded(*row) for row in rows]

    def _create_all(self, objects: list[SqlObject]) -> None:
        """Functions may call functions, and views stand on views: what comes too early waits for the next round."""
        waiting = objects
        while waiting:
            early: dict[SqlObject, psycopg.Error] = {}
            for sql_object in waiting:
                try:
                    with named(sql_object.file, apart_from=_TOO_EARLY), self.connection.transaction():
                        self._execute(sql_object.sql)
                except _TOO_EARLY as error:
                    early[sql_object] = error
            if len(early) == len(waiting):
                with named(waiting[0].file):
                    raise early[waiting[0]]
            waiting = list(early)
        self._record(objects)

    def _record(self, objects: list[SqlObject]) -> None:
        made: dict[tuple[str, str], list[LiveObject]] = {}
        for live in live_objects(self.connection):
            made.setdefault((live.kind, live.name), []).append(live)
        for sql_object in objects:
            found = made.get((sql_object.kind, sql_object.name), [])
            if len(found) != 1:
                raise MigrationError(
                    f"{sql_object.file} left {len(found)} objects of that name",
                    "name the file after what it makes; if its arguments changed, drop the old function in a migration",
                )
            self.connection.execute(
                "insert into clerk_schema_objects (kind, name, needs, checksum, live_checksum)"
                " values (%s, %s, %s, %s, %s) on conflict (kind, name) do update set needs = excluded.needs,"
                " checksum = excluded.checksum, live_checksum = excluded.live_checksum, applied_at = now()",
                [sql_object.kind, sql_object.name, sql_object.needs, sql_object.checksum, found[0].checksum],
            )

    def _drop(self, rows: list[Recorded]) -> None:
        for row in sorted(rows, key=lambda row: row.kind != "trigger"):
            for live in self._live(row.kind, row.name):
                try:
                    self._execute(f"drop {row.kind} {live.exact}")
                except errors.DependentObjectsStillExist as error:
                    raise MigrationError(
                        f"the {row.kind} {row.name} should go, and something stands on it ({_one_line(error)})",
                        "drop that first, or let its file need the newer migration of the two",
                    ) from error
            self.connection.execute(
                "delete from clerk_schema_objects where kind = %s and name = %s", [row.kind, row.name]
            )

    def _live(self, kind: str, name: str) -> list[LiveObject]:
        return [live for live in live_objects(self.connection) if (live.kind, live.name) == (kind, name)]

    def _execute(self, text: str) -> None:
        # As bytes and without parameters: several statements at once, and % means nothing.
        self.connection.execute(text.encode())


_TOO_EARLY = (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedObject)

_NOT_THE_FILES_FAULT = ("08", "40P01", "42501", "53", "55P03", "57")
"""SQLSTATEs of the server's own troubles: connection, deadlock, rights, resources, lock timeout, shutdown."""


@contextlib.contextmanager
def named(file: str, apart_from: tuple[type[psycopg.Error], ...] = ()) -> Iterator[None]:
    """An error inside a file of SQL is of little use without the file's name."""
    try:
        yield
    except apart_from:
        raise
    except psycopg.DatabaseError as error:
        if error.sqlstate is None or error.sqlstate.startswith(_NOT_THE_FILES_FAULT):
            raise
        raise MigrationError(f"{file} failed ({_one_line(error)})", "mend what it names and run this again") from error


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
