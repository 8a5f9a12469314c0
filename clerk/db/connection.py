"""Database connections, and the translation of psycopg errors to ClerkError."""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

import psycopg
from psycopg import sql

from clerk.config import DATABASE_URL, Settings, redact_url
from clerk.db import pooler
from clerk.db.embedded import postgres
from clerk.errors import (
    ClerkError,
    DatabaseNotReady,
    DatabaseRefused,
    DatabaseUnreachable,
    EmbeddedServerStopped,
    NoDatabase,
)

logger = logging.getLogger(__name__)

_CONNECT_TIMEOUT = 10
_SHORT_CONNECT_TIMEOUT = 2
_POLL_INTERVAL = 1.0
MIN_SERVER_VERSION = 14
READ_WRITE = "read-write"
"""target_session_attrs of who writes: a standby, or an old primary that is read-only, counts as unreachable."""


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
    with (
        direct_database_url(settings) as url,
        connect_to(url, setting=settings.direct_database_setting) as connection,
    ):
        yield connection


@contextlib.contextmanager
def connect_if_running(settings: Settings, statement_seconds: float) -> Iterator[psycopg.Connection]:
    """As `connect`, for commands that must be quick and have no side effects: waits two seconds for a connection and
    this long for each statement, and neither creates nor starts the embedded server. Raises NoDatabase or
    EmbeddedServerStopped instead."""
    if settings.database_url is None:
        require_running(settings)
    url = settings.direct_database_url or postgres.EmbeddedPostgres(settings.home).server.url()
    with connect_to(url, _SHORT_CONNECT_TIMEOUT, settings.direct_database_setting) as connection:
        milliseconds = str(int(statement_seconds * 1000))
        connection.execute("select set_config('statement_timeout', %s, false)", [milliseconds])
        yield connection


def has_database(settings: Settings) -> bool:
    """Whether there is a database: one of DATABASE_URL, or the embedded one, which the first change creates."""
    return settings.database_url is not None or postgres.EmbeddedPostgres(settings.home).exists()


def require_database(settings: Settings) -> None:
    """Raise NoDatabase if the embedded database does not exist, for commands that must not create it."""
    if not has_database(settings):
        raise NoDatabase(
            f"there is no database yet (DATABASE_URL is not set, and there is none under {settings.home})",
            "run: clerk up",
        )


def require_running(settings: Settings) -> None:
    """Raise NoDatabase if the embedded database does not exist, EmbeddedServerStopped if its server does not run."""
    require_database(settings)
    embedded = postgres.EmbeddedPostgres(settings.home)
    if embedded.server.pid is None:
        raise EmbeddedServerStopped(f"the database under {settings.home} is not running", "run: clerk up")


def require_usable_pool(settings: Settings, direct: psycopg.Connection) -> None:
    """If DATABASE_URL leads to a pool: raise ClerkError unless it can be used and has the same database as `direct`."""
    if settings.is_pooled and settings.database_url is not None:
        try:
            with translate_errors(settings.database_url):
                pooler.require_pool(settings.database_url, direct)
        except DatabaseUnreachable as error:
            raise type(error)(f"the pooler of DATABASE_URL does not answer: {error.what}", error.remedy) from error


@contextlib.contextmanager
def connect_to(
    url: str, connect_timeout: int = _CONNECT_TIMEOUT, setting: str = DATABASE_URL
) -> Iterator[psycopg.Connection]:
    """`setting`: the name of the one that has the URL, for messages."""
    with translate_errors(url, setting):
        try:
            connection = psycopg.connect(
                url, autocommit=True, connect_timeout=connect_timeout, application_name=pooler.APPLICATION_NAME
            )
        except psycopg.ProgrammingError as error:  # libpq's own message may contain the password
            raise DatabaseUnreachable(f"{redact_url(url)} is not a Postgres URL", f"correct {setting}") from error
    with connection, translate_errors(url, setting):
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


def wait_until_ready(url: str, seconds: float, setting: str = DATABASE_URL) -> None:
    """Wait while no server accepts sessions that write, but one is starting or a standby that may be promoted. Any
    other error is left to the next connection, which explains it."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with translate_errors(url, setting):
                psycopg.connect(url, connect_timeout=_CONNECT_TIMEOUT, target_session_attrs=READ_WRITE).close()
        except DatabaseNotReady as error:
            if time.monotonic() > deadline:
                raise
            logger.warning("waiting for the database: %s", error)
            time.sleep(_POLL_INTERVAL)
        except (ClerkError, psycopg.Error) as error:
            logger.debug("not waiting for the database: %s", type(error).__name__)  # a message may have the password
            return
        else:
            return


def require_read_write(connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    """Raise the error of a read-only transaction if the server has become read-only, without a round trip: it reports
    changes of these parameters with its next response. A pooler may not pass them on: the first write fails then."""
    for parameter in ("in_hot_standby", "default_transaction_read_only"):
        if connection.info.parameter_status(parameter) == "on":
            raise psycopg.errors.ReadOnlySqlTransaction(f"the server is read-only ({parameter} = on)")


@contextlib.contextmanager
def read_only_snapshot(connection: psycopg.Connection) -> Iterator[None]:
    """Run all queries of this context in one read-only repeatable-read transaction."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield


@contextlib.contextmanager
def translate_errors(url: str, setting: str = DATABASE_URL) -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        clerk_error = _as_clerk_error(error, url, setting)
        if clerk_error is None:
            raise
        raise clerk_error from error


def _as_clerk_error(error: psycopg.Error, url: str, setting: str) -> ClerkError | None:
    message = _one_line(error)
    shown_url = redact_url(url)
    match error.sqlstate or "":
        case "" if isinstance(error, psycopg.OperationalError):
            return _unreachable(message, shown_url, setting)
        case "42501":
            return DatabaseRefused(
                f"the database user lacks a privilege ({message})",
                "connect as a member of clerk_worker, or to migrate as the database's owner or a member of clerk_owner;"
                " a member lacks what `clerk db up`, run as the owner, grants",
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
                f"the database at {shown_url} is read-only ({message})", _PRIMARY_REMEDY.format(setting)
            )
        case code if code.startswith(("57P", "08")):
            return _unreachable(message, shown_url, setting)
    return None


def _one_line(error: psycopg.Error) -> str:
    """The first line. Of an attempt at several hosts: the error of each."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    attempts = [match for line in lines if (match := _ATTEMPT.match(line))]
    if not attempts:
        return lines[0]
    return "; ".join(f"{match['host']}:{match['port']}: {match['error']}" for match in attempts)


_ATTEMPT = re.compile(
    r"- host: '?(?P<host>[^,']*)'?, port: '?(?P<port>[^,']*)'?, hostaddr: .*?: (?:.* failed: )?(?P<error>.*)"
)
"""A line of psycopg's message if no host accepted the connection."""
_NOT_READY = (
    r"the database system is (starting up|shutting down|in recovery mode|not (yet )?accepting connections)"
    r"|session is read-only|server is in hot standby mode"
)
_PRIMARY_REMEDY = (
    "during a failover, try again in a minute; otherwise name the primary in {0}, or all servers with"
    " ?target_session_attrs=read-write"
)
_CONNECTION_REMEDIES = (
    (
        # PgBouncer, before it passes on what the server says.
        r"server_login_retry|server login has been failing|pgbouncer cannot connect to server|query_wait_timeout",
        "a pooler responded; start the server behind it, or wait: PgBouncer connects to it again after some seconds",
    ),
    (r'database ".*" does not exist', "create it with createdb, or correct the name in {0}"),
    (
        r"authentication|no password supplied|role .* does not exist|pg_hba\.conf",
        "check user and password in {0}, and pg_hba.conf on the server",
    ),
    (
        r"too many (clients|connections)|remaining connection slots",
        "close some connections, raise max_connections, or put a pooler in front",
    ),
)
"""Pattern of libpq's message → remedy; {0} is the name of the setting. Before a session exists, libpq reports no
SQLSTATE."""


def _unreachable(message: str, shown_url: str, setting: str) -> DatabaseUnreachable:
    if re.search(_NOT_READY, message):
        return DatabaseNotReady(
            f"the database at {shown_url} is not ready ({message})", _PRIMARY_REMEDY.format(setting)
        )
    for pattern, remedy in _CONNECTION_REMEDIES:
        if re.search(pattern, message):
            return DatabaseUnreachable(
                f"the database at {shown_url} refused the connection ({message})", remedy.format(setting)
            )
    return DatabaseUnreachable(
        f"the database at {shown_url} cannot be reached ({message})",
        f"start it or correct {setting}; without DATABASE_URL clerk runs an embedded Postgres",
    )


def count_rows(connection: psycopg.Connection, table: str) -> int:
    row = connection.execute(sql.SQL("select count(*) from {}").format(sql.Identifier("public", table))).fetchone()
    assert row is not None
    return int(row[0])
