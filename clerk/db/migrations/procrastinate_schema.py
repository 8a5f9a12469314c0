"""Procrastinate's own schema: installed whole, upgraded by the migrations that its package brings.

Its package numbers migrations by release (`03.04.00_01_pre_….sql`) and records nothing in the database; the
record is ours (`clerk_procrastinate`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path

import psycopg
from packaging.version import Version
from procrastinate import schema

from clerk.errors import SchemaMismatch


@dataclass(frozen=True)
class Installed:
    version: Version
    files: frozenset[str]
    """Migration files already applied beyond `version` by an upgrade that was cut short."""


def package_version() -> Version:
    return Version(metadata.version("procrastinate"))


def whole_schema() -> Path:
    return Path(str(resources.files("procrastinate.sql") / "schema.sql"))


def installed(connection: psycopg.Connection) -> Installed | None:
    """What the database has, None when nothing. Tables that somebody made by hand count if they are the same."""
    if _exists(connection, "clerk_procrastinate"):
        rows = connection.execute("select file, version, complete from clerk_procrastinate").fetchall()
        versions = [Version(version) for _, version, complete in rows if complete]
        if versions:
            return Installed(max(versions), frozenset(file for file, _, complete in rows if not complete))
    if not _exists(connection, "procrastinate_jobs"):
        return None
    if function_checksums(connection) != _checksums_of_package(connection):
        raise SchemaMismatch(
            "the database holds Procrastinate's tables that clerk did not make, and they are not those of "
            f"Procrastinate {package_version()}",
            f"bring them to {package_version()} with Procrastinate's own migrations, or use another database",
        )
    return Installed(package_version(), frozenset())


def pending(now: Installed | None) -> list[Path]:
    """The files to run, in order: the whole schema, or the package's migrations since the recorded version."""
    if now is None:
        return [whole_schema()]
    if now.version > package_version():
        raise SchemaMismatch(
            f"the database has the schema of Procrastinate {now.version}, and this clerk brings {package_version()}",
            "update clerk",
        )
    files = sorted(Path(schema.SchemaManager.get_migrations_path()).glob("*.sql"))
    return [file for file in files if now.version < release(file) and file.name not in now.files]


def release(file: Path) -> Version:
    """The release that a file of the package belongs to."""
    if file == whole_schema():
        return package_version()
    return Version(".".join(str(int(part)) for part in file.name.split("_")[0].split(".")))


def is_behind(now: Installed | None) -> bool:
    return bool(pending(now)) or now is None or now.version < package_version()


def record(connection: psycopg.Connection, file: Path) -> None:
    _record(connection, file.name, release(file), complete=file == whole_schema())


def record_as_complete(connection: psycopg.Connection) -> None:
    """The last file is in, or the tables were found as they should be: from here on this is the version."""
    version = package_version()
    known = connection.execute("select from clerk_procrastinate where complete and version = %s", [str(version)])
    if known.fetchone() is None:
        _record(connection, f"as of {version}", version, complete=True)


def is_ours(connection: psycopg.Connection) -> bool:
    """Did clerk make the tables, or find them?"""
    rows = connection.execute("select from clerk_procrastinate where file = %s", [whole_schema().name])
    return rows.fetchone() is not None


def _record(connection: psycopg.Connection, file: str, version: Version, *, complete: bool) -> None:
    connection.execute(
        "insert into clerk_procrastinate (file, version, complete, functions) values (%s, %s, %s, %s)"
        " on conflict (file) do update set version = excluded.version, functions = excluded.functions",
        [file, str(version), complete, json.dumps(function_checksums(connection))],
    )


def function_checksums(connection: psycopg.Connection, namespace: str = "public") -> dict[str, str]:
    """Arguments are part of the name: Procrastinate keeps older versions of a function beside the newest."""
    return dict(
        connection.execute(
            "select p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', md5(p.prosrc)"
            " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = %s and p.proname like 'procrastinate\\_%%'",
            [namespace],
        ).fetchall()
    )


def _checksums_of_package(connection: psycopg.Connection) -> dict[str, str]:
    """Install the package's schema aside, look, and roll back."""
    with connection.transaction(force_rollback=True):
        connection.execute("create schema clerk_scratch")
        connection.execute("set local search_path = clerk_scratch")
        connection.execute(whole_schema().read_bytes())
        return function_checksums(connection, "clerk_scratch")


def _exists(connection: psycopg.Connection, table: str) -> bool:
    row = connection.execute("select to_regclass('public.' || %s) is not null", [table]).fetchone()
    return bool(row and row[0])
