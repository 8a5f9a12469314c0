"""Detects what a connection pooler such as PgBouncer does with sessions, and refuses one that clerk cannot use.

By behaviour, not by name: a pooler tells the client another process id than that of the server's process, and without
sessions of their own two clients share a process of the server. Limitation: while the pool is busy, the second client
may get another process; then it decides whether the first client keeps its own.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import select
from typing import Any

import psycopg
from psycopg import pq, sql

from clerk.config import redact_url
from clerk.errors import DatabaseRefused

Connection = psycopg.Connection[Any]

APPLICATION_NAME = "clerk"
"""Of every connection that is not a worker's or the dashboard's."""
CLIENT_OPTIONS: dict[str, Any] = {"prepare_threshold": None}
"""Options of psycopg behind a pool without sessions: a prepared statement exists in one session of the pool only."""
_CONNECT_TIMEOUT = 10
_SECOND_CLIENT_TIMEOUT = 5.0
_NO_TRANSACTIONS = re.compile("transaction.* not allowed")
"""PgBouncer rejects a transaction in statement mode with the SQLSTATE of all its errors."""

_urls_with_sessions: set[str] = set()
"""URLs of poolers that were found to give sessions."""


def require_session(connection: Connection, url: str) -> None:
    """Raise DatabaseRefused if a pooler gives this connection no session of its own, which LISTEN and session locks
    need."""
    pid = _server_pid(connection)
    if pid == connection.info.backend_pid or url in _urls_with_sessions:
        return
    _require_name(connection, APPLICATION_NAME, url)
    channel = sql.Identifier(f"clerk_{secrets.token_hex(8)}")
    connection.execute(sql.SQL("listen {}").format(channel))
    with contextlib.closing(_connect(url, APPLICATION_NAME)) as second:
        # In a transaction, so that the pool cannot give this process to the first client again.
        second_pid = _begin(second, url, _SECOND_CLIENT_TIMEOUT)
        has_session = second_pid != pid and _server_pid(connection) == pid and _listens(connection)
    if not has_session:
        raise DatabaseRefused(
            f"the connection pooler at {redact_url(url)} gives each transaction another session"
            " (PgBouncer: pool_mode = transaction)",
            "set CLERK_DIRECT_DATABASE_URL to the address of the Postgres server itself, or use pool_mode = session",
        )
    connection.execute(sql.SQL("unlisten {}").format(channel))
    _urls_with_sessions.add(url)


def require_pool(url: str, direct: Connection) -> None:
    """Raise DatabaseRefused unless `url` leads to the database of `direct`, and can be used for all that needs no
    session: transactions, the schema public, and an application_name per client, which identifies the holder of a
    claim."""
    lock = secrets.randbits(62)
    direct.execute("select pg_advisory_lock(%s)", [lock])
    try:
        with _connect(url, "clerk 1") as first, _connect(url, "clerk 2") as second:
            # Twice, so that each gets a process that the other one has used.
            for client, name in [(first, "clerk 1"), (second, "clerk 2")] * 2:
                _begin(client, url)
                _require_name(client, name, url)
                _require_schema(client, url)
                row = client.execute("select pg_try_advisory_xact_lock(%s)", [lock]).fetchone()
                if row != (False,):
                    raise DatabaseRefused(
                        f"DATABASE_URL ({redact_url(url)}) and CLERK_DIRECT_DATABASE_URL lead to different databases",
                        "correct one of them; `clerk config` shows both",
                    )
                client.rollback()
    finally:
        direct.execute("select pg_advisory_unlock(%s)", [lock])


def _connect(url: str, name: str) -> Connection:
    return psycopg.connect(
        url, autocommit=True, connect_timeout=_CONNECT_TIMEOUT, application_name=name, **CLIENT_OPTIONS
    )


def _server_pid(connection: Connection) -> int:
    row = connection.execute("select pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])


def _listens(connection: Connection) -> bool:
    return connection.execute("select from pg_listening_channels()").fetchone() is not None


def _begin(client: Connection, url: str, timeout: float | None = None) -> int | None:
    """Begin a transaction and return the process id of its session. None if there is none within the timeout: each of
    the pool's sessions belongs to a client."""
    client.pgconn.send_query(b"begin; select pg_backend_pid()")
    client.pgconn.flush()
    if not select.select([client.fileno()], [], [], timeout)[0]:
        return None
    results = list(iter(client.pgconn.get_result, None))
    for result in results:
        if result.status != pq.ExecStatus.FATAL_ERROR:
            continue
        error = psycopg.errors.error_from_result(result)
        if not _NO_TRANSACTIONS.search(str(error)):
            # Without a SQLSTATE it is libpq's, of a lost connection.
            raise error if error.sqlstate else psycopg.OperationalError(str(error))
        raise DatabaseRefused(
            f"the connection pooler at {redact_url(url)} allows no transactions (PgBouncer: pool_mode = statement)",
            "use pool_mode = transaction and set CLERK_DIRECT_DATABASE_URL, or use pool_mode = session",
        ) from error
    pid = results[-1].get_value(0, 0)
    assert pid is not None
    return int(pid)


def _require_name(client: Connection, name: str, url: str) -> None:
    row = client.execute("select current_setting('application_name')").fetchone()
    if row != (name,):
        raise DatabaseRefused(
            f"the connection pooler at {redact_url(url)} changes application_name, which identifies a worker"
            f" ({row and row[0]!r} instead of {name!r})",
            "let it pass on each client's own (PgBouncer: application_name_add_host = 0)",
        )


def _require_schema(client: Connection, url: str) -> None:
    """A search_path that is set in a session would be lost with it, or be left to other clients."""
    row = client.execute("select current_schema(), session_user").fetchone()
    assert row is not None
    if row[0] != "public":
        raise DatabaseRefused(
            f"the user {row[1]} of {redact_url(url)} has another search_path, which cannot be changed in a pool",
            f'run: alter role "{row[1]}" set search_path = public',
        )
