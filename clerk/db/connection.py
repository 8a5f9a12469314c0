"""How to reach the database, and the one place where its errors become sentences."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import psycopg
from psycopg import sql

from clerk.config import Settings
from clerk.db.embedded import postgres
from clerk.errors import ClerkError, DatabaseRefused, DatabaseUnreachable
from clerk.values import redact_url

_CONNECT_TIMEOUT = 10
OLDEST_SUPPORTED = 14


@contextlib.contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """The URL to use. Without DATABASE_URL the embedded server runs at least as long as this context."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    with postgres.running(settings.home, settings.postgres_idle_timeout) as url:
        yield url


@contextlib.contextmanager
def connect(settings: Settings) -> Iterator[psycopg.Connection]:
    """An autocommit connection; errors of the database that a person can mend leave here as ClerkError."""
    with database_url(settings) as url, connect_to(url) as connection:
        yield connection


@contextlib.contextmanager
def connect_to(url: str) -> Iterator[psycopg.Connection]:
    with translate_errors(url):
        try:
            connection = psycopg.connect(
                url, autocommit=True, connect_timeout=_CONNECT_TIMEOUT, application_name="clerk"
            )
        except psycopg.ProgrammingError as error:  # libpq's own words may repeat the password
            raise DatabaseUnreachable(
                f"{redact_url(url)} is not a URL that Postgres understands", "mend DATABASE_URL"
            ) from error
    with connection, translate_errors(url):
        # A role may have another search_path set, and clerk's objects live in public.
        connection.execute("set search_path = public")
        if connection.info.server_version < OLDEST_SUPPORTED * 10_000:
            raise DatabaseRefused(
                f"the server runs Postgres {connection.info.server_version // 10_000}",
                f"clerk needs Postgres {OLDEST_SUPPORTED} or newer",
            )
        yield connection


@contextlib.contextmanager
def read_only_snapshot(connection: psycopg.Connection) -> Iterator[None]:
    """Everything that is asked within sees the same moment, and changes nothing."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield


@contextlib.contextmanager
def translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        known = _as_clerk_error(error, url)
        if known is None:
            raise
        raise known from error


def _as_clerk_error(error: psycopg.Error, url: str) -> ClerkError | None:
    said = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    where = redact_url(url)
    match error.sqlstate or "":
        case "" if isinstance(error, psycopg.OperationalError):
            return _unreachable(said, where)
        case "42501":
            return DatabaseRefused(
                f"the database user may not do this ({said})",
                "connect as the owner of the database or as a member of clerk_owner",
            )
        case "3F000":
            return DatabaseRefused(
                f"the database at {where} has no schema public, where clerk's tables live",
                "make it: create schema public",
            )
        case "53100":
            return DatabaseRefused("the database server's disk is full", "make room there and try again")
        case "25006":
            return DatabaseRefused(
                f"the database at {where} can only be read ({said})", "connect to the primary server"
            )
        case code if code.startswith(("57P", "08")):
            return _unreachable(said, where)
    return None


_REFUSALS = (
    (r'database ".*" does not exist', "make it with createdb, or mend the name in DATABASE_URL"),
    (
        r"authentication|no password supplied|role .* does not exist|pg_hba\.conf",
        "check user and password in DATABASE_URL, and pg_hba.conf on the server",
    ),
    (
        r"too many (clients|connections)|remaining connection slots",
        "close some connections, raise max_connections, or put a pooler in front",
    ),
)
"""Before a session exists libpq gives words and no SQLSTATE: what they hold, and the remedy."""


def _unreachable(said: str, where: str) -> DatabaseUnreachable:
    for words, remedy in _REFUSALS:
        if re.search(words, said):
            return DatabaseUnreachable(f"the database at {where} does not let us in ({said})", remedy)
    return DatabaseUnreachable(
        f"the database at {where} cannot be reached ({said})",
        "start it or mend DATABASE_URL; without DATABASE_URL clerk runs a Postgres of its own",
    )


def count_rows(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier("public", table))).fetchone()
    assert row is not None
    return int(row[0])
