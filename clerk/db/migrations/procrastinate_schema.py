"""Procrastinate's schema: installs it, and upgrades it with the migrations of the Procrastinate package.

The package numbers its migrations by release (`03.04.00_01_pre_….sql`) and records nothing in the database; clerk
records them in `clerk_procrastinate`.
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
    """Migration files of a newer version that an interrupted upgrade has already applied."""


def package_version() -> Version:
    return Version(metadata.version("procrastinate"))


def schema_file() -> Path:
    return Path(str(resources.files("procrastinate.sql") / "schema.sql"))


def installed(connection: psycopg.Connection) -> Installed | None:
    """The version in the database, or None. Tables that clerk did not create count if they equal the package's."""
    if _exists(connection, "clerk_procrastinate"):
        rows = connection.execute("select file, version, complete from clerk_procrastinate").fetchall()
        versions = [Version(version) for _, version, complete in rows if complete]
        if versions:
            return Installed(max(versions), frozenset(file for file, _, complete in rows if not complete))
    if not _exists(connection, "procrastinate_jobs"):
        return None
    if function_checksums(connection) != _package_checksums(connection):
        raise SchemaMismatch(
            "the database has Procrastinate tables that clerk did not create and that differ from those of "
            f"Procrastinate {package_version()}",
            f"upgrade them to {package_version()} with Procrastinate's own migrations, or use another database",
        )
    return Installed(package_version(), frozenset())


def pending(current: Installed | None) -> list[Path]:
    """The files to run, in order: the whole schema, or the package's migrations since the recorded version."""
    if current is None:
        return [schema_file()]
    if current.version > package_version():
        raise SchemaMismatch(
            f"the database has the schema of Procrastinate {current.version}, this clerk has {package_version()}",
            "update clerk",
        )
    files = sorted(Path(schema.SchemaManager.get_migrations_path()).glob("*.sql"))
    return [file for file in files if current.version < release_of(file) and file.name not in current.files]


def release_of(file: Path) -> Version:
    """The release that a file of the package belongs to."""
    if file == schema_file():
        return package_version()
    return Version(".".join(str(int(part)) for part in file.name.split("_")[0].split(".")))


def is_outdated(current: Installed | None) -> bool:
    return bool(pending(current)) or current is None or current.version < package_version()


def record(connection: psycopg.Connection, file: Path) -> None:
    _record(connection, file.name, release_of(file), complete=file == schema_file())


def record_as_complete(connection: psycopg.Connection) -> None:
    """Record the package's version as installed, after the last file was applied or existing tables were accepted."""
    version = package_version()
    known = connection.execute("select from clerk_procrastinate where complete and version = %s", [str(version)])
    if known.fetchone() is None:
        _record(connection, f"as of {version}", version, complete=True)


def is_ours(connection: psycopg.Connection) -> bool:
    """Whether clerk created the tables."""
    rows = connection.execute("select from clerk_procrastinate where file = %s", [schema_file().name])
    return rows.fetchone() is not None


def _record(connection: psycopg.Connection, file: str, version: Version, *, complete: bool) -> None:
    connection.execute(
        "insert into clerk_procrastinate (file, version, complete, functions) values (%s, %s, %s, %s)"
        " on conflict (file) do update set version = excluded.version, functions = excluded.functions",
        [file, str(version), complete, json.dumps(function_checksums(connection))],
    )


def function_checksums(connection: psycopg.Connection, namespace: str = "public") -> dict[str, str]:
    """Function signature → checksum. Procrastinate keeps older overloads of a function, so arguments matter."""
    return dict(
        connection.execute(
            "select p.proname || '(' || pg_get_function_identity_arguments(p.oid) || ')', md5(p.prosrc)"
            " from pg_proc p join pg_namespace n on n.oid = p.pronamespace"
            " where n.nspname = %s and p.proname like 'procrastinate\\_%%'",
            [namespace],
        ).fetchall()
    )


def _package_checksums(connection: psycopg.Connection) -> dict[str, str]:
    """Install the package's schema into a scratch namespace, read its checksums, and roll back."""
    with connection.transaction(force_rollback=True):
        connection.execute("create schema clerk_scratch")
        connection.execute("set local search_path = clerk_scratch")
        connection.execute(schema_file().read_bytes())
        return function_checksums(connection, "clerk_scratch")


def _exists(connection: psycopg.Connection, table: str) -> bool:
    row = connection.execute("select to_regclass('public.' || %s) is not null", [table]).fetchone()
    return bool(row and row[0])
