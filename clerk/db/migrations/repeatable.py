"""Repeatable migrations: functions, triggers, views and grants, recreated whenever their files in `sql/` change.

Everything here runs inside the transaction of the calling migrator.

Limitation: all views are dropped and recreated whenever anything changes, since Postgres cannot replace a view with
another column list. Grants on views that operators made are restored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import psycopg
from psycopg import errors, sql

from clerk.db.migrations.sqlfiles import CLEANUP_MARK, SqlFolder, SqlObject
from clerk.errors import MigrationError

_LIVE_OBJECTS_QUERY = """
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
    -- The text that Postgres prints for a view depends on the server's major version, so views have no checksum.
    select 'view', c.relname, c.oid::regclass::text, ''
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'v'
"""

# Includes triggers that fire on replicas only. Recreating a trigger enables it.
_DISABLED_TRIGGERS_QUERY = "select tgname from pg_trigger where not tgisinternal and tgenabled in ('D', 'R')"

_VIEW_GRANTS_QUERY = """
    select c.relname, format('grant %%s on %%I to %%s%%s', acl.privilege_type, c.relname,
                             case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end,
                             case when acl.is_grantable then ' with grant option' else '' end)
    from pg_class c
    cross join aclexplode(c.relacl) acl
    where c.relnamespace = 'public'::regnamespace and c.relname = any (%s) and acl.grantee <> c.relowner
      -- sql/grants.sql manages the grants of these roles.
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
    signature: str
    """The name that `drop` needs: with arguments, or with the trigger's table."""
    checksum: str


def live_objects(connection: psycopg.Connection) -> list[LiveObject]:
    """All functions, triggers and views of the schema public, also those that clerk did not create."""
    return [LiveObject(*row) for row in connection.execute(_LIVE_OBJECTS_QUERY.encode())]


def is_cleaned_up(connection: psycopg.Connection) -> bool:
    """Were legacy clerk's tables and columns moved out of the way by the clean-up?"""
    row = connection.execute("select to_regclass('public.' || %s) is not null", [CLEANUP_MARK]).fetchone()
    return bool(row and row[0])


@dataclass
class RepeatableObjects:
    connection: psycopg.Connection
    folder: SqlFolder
    _view_grants: list[tuple[str, str]] = field(default_factory=list)
    """(view, command): grants that operators made on views that were dropped and will be recreated."""

    def wanted(self, version: int) -> list[SqlObject]:
        cleaned_up = is_cleaned_up(self.connection)
        return [o for o in self.folder.objects if o.needs <= version and not (cleaned_up and o.until_cleanup)]

    def apply(self, version: int) -> None:
        """Create, replace or drop functions, triggers, views and grants so that they match their files."""
        wanted = self.wanted(version)
        names = {(o.kind, o.name) for o in wanted}
        recorded = {(r.kind, r.name): r for r in self._recorded()}
        obsolete = [r for key, r in recorded.items() if key not in names]
        missing = self.missing()
        changed = [
            o
            for o in wanted
            if (o.kind, o.name) not in recorded
            or recorded[o.kind, o.name].checksum != o.checksum
            or (o.kind, o.name) in missing
        ]
        if obsolete or changed:
            self.drop_views()
            self._drop(obsolete)
            self._create_all([o for o in wanted if o in changed or o.kind == "view"])
            for view, command in self._view_grants:
                if ("view", view) in names:
                    self._execute(command)
        for command in self.pending_commands(version):
            self._execute(command)

    def missing(self) -> set[tuple[str, str]]:
        """Objects that are recorded as created but were dropped or disabled since."""
        live = {(o.kind, o.name) for o in live_objects(self.connection)}
        disabled = {("trigger", name) for (name,) in self.connection.execute(_DISABLED_TRIGGERS_QUERY)}
        return {(r.kind, r.name) for r in self._recorded()} - (live - disabled)

    def drop_dependents(self, version: int) -> None:
        """Drop the objects that need this migration, before it is reverted."""
        self.drop_views()
        self._drop([r for r in self._recorded() if r.needs >= version])

    def drop_legacy(self) -> None:
        self.drop_views()
        names = {(o.kind, o.name) for o in self.folder.objects if o.until_cleanup}
        self._drop([r for r in self._recorded() if (r.kind, r.name) in names])

    def drop_views(self) -> None:
        views = [r.name for r in self._recorded() if r.kind == "view"]
        if not views:
            return
        self._view_grants = self.connection.execute(_VIEW_GRANTS_QUERY, [views]).fetchall()
        try:
            self.connection.execute(
                sql.SQL("drop view if exists {}").format(sql.SQL(", ").join(sql.Identifier(v) for v in views))
            )
        except errors.DependentObjectsStillExist as error:
            raise MigrationError(
                f"another object in the database depends on one of clerk's views ({_one_line(error)})",
                "drop that object, migrate, and create it again",
            ) from error
        self.connection.execute("delete from clerk_schema_objects where kind = 'view'")

    def pending_commands(self, version: int) -> list[str]:
        """The commands of sql/replaced_triggers.sql and sql/grants.sql that are not in force."""
        return [
            command
            for query in (self.folder.replaced_triggers, self.folder.grants)
            if query.needs <= version
            for (command,) in self.connection.execute(query.sql.encode())
        ]

    def _recorded(self) -> list[Recorded]:
        rows = self.connection.execute("select kind, name, needs, checksum from clerk_schema_objects")
        return [Recorded(*row) for row in rows]

    def _create_all(self, objects: list[SqlObject]) -> None:
        """Create the objects. One that refers to an object that does not exist yet is tried again in the next round."""
        remaining = objects
        while remaining:
            unresolved: dict[SqlObject, psycopg.Error] = {}
            for sql_object in remaining:
                try:
                    with (
                        file_context(sql_object.file, passthrough=_UNRESOLVED_REFERENCE),
                        self.connection.transaction(),
                    ):
                        self._execute(sql_object.sql)
                except _UNRESOLVED_REFERENCE as error:
                    unresolved[sql_object] = error
            if len(unresolved) == len(remaining):
                with file_context(remaining[0].file):
                    raise unresolved[remaining[0]]
            remaining = list(unresolved)
        self._record(objects)

    def _record(self, objects: list[SqlObject]) -> None:
        live_by_name: dict[tuple[str, str], list[LiveObject]] = {}
        for live in live_objects(self.connection):
            live_by_name.setdefault((live.kind, live.name), []).append(live)
        for sql_object in objects:
            created = live_by_name.get((sql_object.kind, sql_object.name), [])
            if len(created) != 1:
                raise MigrationError(
                    f"after {sql_object.file} there are {len(created)} objects of that name",
                    "name the file after the object; if its arguments changed, drop the old function in a migration",
                )
            self.connection.execute(
                "insert into clerk_schema_objects (kind, name, needs, checksum, live_checksum)"
                " values (%s, %s, %s, %s, %s) on conflict (kind, name) do update set needs = excluded.needs,"
                " checksum = excluded.checksum, live_checksum = excluded.live_checksum, applied_at = now()",
                [sql_object.kind, sql_object.name, sql_object.needs, sql_object.checksum, created[0].checksum],
            )

    def _drop(self, rows: list[Recorded]) -> None:
        for row in sorted(rows, key=lambda row: row.kind != "trigger"):
            for live in self._live(row.kind, row.name):
                try:
                    self._execute(f"drop {row.kind} {live.signature}")
                except errors.DependentObjectsStillExist as error:
                    raise MigrationError(
                        f"the {row.kind} {row.name} must be dropped, but another object depends on it"
                        f" ({_one_line(error)})",
                        "drop that object first, or give its file the newer `needs:` migration of the two",
                    ) from error
            self.connection.execute(
                "delete from clerk_schema_objects where kind = %s and name = %s", [row.kind, row.name]
            )

    def _live(self, kind: str, name: str) -> list[LiveObject]:
        return [live for live in live_objects(self.connection) if (live.kind, live.name) == (kind, name)]

    def _execute(self, text: str) -> None:
        # As bytes and without parameters: one call may run several statements, and % needs no escaping.
        self.connection.execute(text.encode())


_UNRESOLVED_REFERENCE = (errors.UndefinedTable, errors.UndefinedFunction, errors.UndefinedObject)

_SERVER_ERRORS = ("08", "40P01", "42501", "53", "55P03", "57")
"""SQLSTATEs that are not errors in a file: connection, deadlock, privileges, resources, lock timeout, shutdown."""


@contextlib.contextmanager
def file_context(file: str, passthrough: tuple[type[psycopg.Error], ...] = ()) -> Iterator[None]:
    """Raise an SQL error as a MigrationError that names the file."""
    try:
        yield
    except passthrough:
        raise
    except psycopg.DatabaseError as error:
        if error.sqlstate is None or error.sqlstate.startswith(_SERVER_ERRORS):
            raise
        raise MigrationError(f"{file} failed ({_one_line(error)})", "fix the file and run this again") from error


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
