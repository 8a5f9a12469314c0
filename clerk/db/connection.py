"""Database connections, and the translation of psycopg errors to ClerkError."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

import psycopg
from psycopg import sql

from clerk.config import Settings, redact_url
from clerk.db import pooler
from clerk.db.embedded import postgres
from clerk.errors import ClerkError, DatabaseRefused, DatabaseUnreachable

_CONNECT_TIMEOUT = 10
MIN_SERVER_VERSION = 14


@contextlib.contextmanager
def database_url(settings: Settings) -> Iterator[str]:
    """Yield the database URL. Without DATABASE_URL the embedded server runs at least as long as this context."""
    if settings.database_url is not None:
        yield settings.database_url
        return
    with postgres.running(settings.home, settings.postgres_idle_timeout) as url:
        yield url


@contextlib.contextmanager
def direct_database_url(settings: Settings) -> Iterator[str]:
    """Yield the URL for connections that need a session: CLERK_DIRECT_DATABASE_URL, or else the same URL."""
    with database_url(settings) as url:
        yield settings.direct_database_url or url


@contextlib.contextmanager
def connect(settings: Settings) -> Iterator[psycopg.Connection]:
    """Yield an autocommit connection with a session. Database errors that an operator can fix are raised as
    ClerkError."""
    with direct_database_url(settings) as url, connect_to(url) as connection:
        yield connection


def require_usable_pool(settings: Settings, direct: psycopg.Connection) -> None:
    """If DATABASE_URL leads to a pool: raise ClerkError unless it can be used and has the same database as `direct`."""
    if settings.is_pooled and settings.database_url is not None:
        with translate_errors(settings.database_url):
            pooler.require_pool(settings.database_url, direct)


@contextlib.contextmanager
def connect_to(url: str) -> Iterator[psycopg.Connection]:
    with translate_errors(url):
        try:
            connection = psycopg.connect(
                url, autocommit=True, connect_timeout=_CONNECT_TIMEOUT, application_name=pooler.APPLICATION_NAME
            )
        except psycopg.ProgrammingError as error:  # libpq's own message may contain the password
            raise DatabaseUnreachable(f"{redact_url(url)} is not a Postgres URL", "correct DATABASE_URL") from error
    with connection, translate_errors(url):
        # First, because a pool would leave the settings of this session to other clients.
        pooler.require_session(connection, url)
        # The role may have another search_path; clerk's objects are in the schema public. JIT compilation takes seconds
        # for the views, which Postgres believes to be expensive, and saves nothing.
        connection.execute("select set_config('search_path', 'public', false), set_config('jit', 'off', false)")
        if connection.info.server_version < MIN_SERVER_VERSION * 10_000:
            raise DatabaseRefused(
                f"the server runs Postgres {connection.info.server_version // 10_000}",
                f"clerk needs Postgres {MIN_SERVER_VERSION} or newer",
            )
        yield connection


@contextlib.contextmanager
def read_only_snapshot(connection: psycopg.Connection) -> Iterator[None]:
    """Run all queries of this context in one read-only repeatable-read transaction."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield


@contextlib.contextmanager
def translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        clerk_error = _as_clerk_error(error, url)
        if clerk_error is None:
            raise
        raise clerk_error from error


def _as_clerk_error(error: psycopg.Error, url: str) -> ClerkError | None:
    message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    shown_url = redact_url(url)
    match error.sqlstate or "":
        case "" if isinstance(error, psycopg.OperationalError):
            return _unreachable(message, shown_url)
        case "42501":
            return DatabaseRefused(
                f"the database user lacks a privilege ({message})",
                "connect as a member of clerk_worker, or to migrate as the database's owner or a member of clerk_owner",
            )
        case "3F000":
            return DatabaseRefused(
                f"the database at {shown_url} has no schema public, which clerk's tables need",
                "run: create schema public",
            )
        case "53100":
            return DatabaseRefused("the database server's disk is full", "free disk space there and try again")
        case "25006":
            return DatabaseRefused(
                f"the database at {shown_url} is read-only ({message})", "connect to the primary server"
            )
        case code if code.startswith(("57P", "08")):
            return _unreachable(message, shown_url)
    return None


_CONNECTION_REMEDIES = (
    (r'database ".*" does not exist', "create it with createdb, or correct the name in DATABASE_URL"),
    (
        r"authentication|no password supplied|role .* does not exist|pg_hba\.conf",
        "check user and password in DATABASE_URL, and pg_hba.conf on the server",
    ),
    (
        r"too many (clients|connections)|remaining connection slots",
        "close some connections, raise max_connections, or put a pooler in front",
    ),
)
"""Pattern of libpq's message → remedy. Before a session exists, libpq reports no SQLSTATE."""


def _unreachable(message: str, shown_url: str) -> DatabaseUnreachable:
    for pattern, remedy in _CONNECTION_REMEDIES:
        if re.search(pattern, message):
            return DatabaseUnreachable(f"the database at {shown_url} refused the connection ({message})", remedy)
    return DatabaseUnreachable(
        f"the database at {shown_url} cannot be reached ({message})",
        "start it or correct DATABASE_URL; without DATABASE_URL clerk runs an embedded Postgres",
    )


def count_rows(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier("public", table))).fetchone()
    assert row is not None
    return int(row[0])
