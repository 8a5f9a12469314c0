"""Every SQLSTATE class, errno and exception type that is attributed to a cause, with real exceptions of Postgres."""

from __future__ import annotations

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import psycopg_pool
import pytest

from clerk import errors
from clerk.error_causes import (
    ERRNOS,
    EXCEPTIONS,
    SQLITE_CODES,
    SQLSTATES,
    classify,
    code_and_message,
    is_host_error,
    is_transient,
)
from clerk.errors import Cause, JobError

DATABASE_SQLSTATES = {
    # An example of each class, and whether the same statement is sent again.
    "08006": True,  # connection failure
    "0A000": False,  # cached plan must not change result type
    "25006": True,  # read-only transaction
    "25P03": True,  # idle in transaction for too long
    "25001": False,  # active transaction
    "26000": True,  # prepared statement does not exist
    "28000": False,  # invalid authorization
    "3D000": False,  # no such database
    "3F000": False,  # no such schema
    "40001": True,  # serialization failure
    "40P01": True,  # deadlock
    "42501": False,  # missing privilege
    "42P01": False,  # no such table
    "53100": True,  # disk full
    "53200": True,  # out of memory
    "53300": True,  # too many connections
    "55P03": True,  # lock timeout
    "57014": True,  # statement timeout
    "57P01": True,  # shutdown
    "57P02": True,  # crash
    "57P03": True,  # starting up
    "57P05": True,  # idle for too long
    "58030": True,  # input/output error
    "72000": False,  # snapshot too old
    "F0000": False,  # configuration file
    "XX000": False,  # internal error
    "XX001": False,  # corrupted data
}
OWN_SQLSTATES = ("22021", "22P02", "23505", "23514", "54000", "KL001", "P0001")
DISK = {
    errno.ENOSPC: "DiskFull",
    errno.EDQUOT: "DiskFull",
    errno.EROFS: "DiskReadOnly",
    errno.EIO: "DiskFailed",
    errno.ENODEV: "DiskFailed",
    errno.ENXIO: "DiskFailed",
    errno.ESTALE: "DiskFailed",
    errno.ENOTCONN: "DiskFailed",
    errno.EACCES: "DiskForbidden",
    errno.EPERM: "DiskForbidden",
    errno.ENOMEM: "HostOutOfMemory",
    errno.EMFILE: "HostOutOfResources",
    errno.ENFILE: "HostOutOfResources",
}
NETWORK = {
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.ECONNABORTED,
    errno.ETIMEDOUT,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENETDOWN,
}


@pytest.fixture(scope="module")
def connection(server: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server, autocommit=True) as connection:
        yield connection


def raised(connection: psycopg.Connection[Any], sqlstate: str) -> psycopg.Error:
    with pytest.raises(psycopg.Error) as caught:
        connection.execute(f"do $$ begin raise exception 'planned' using errcode = '{sqlstate}'; end $$".encode())
    return caught.value


@pytest.mark.parametrize("sqlstate", DATABASE_SQLSTATES)
def test_error_of_the_database(connection: psycopg.Connection[Any], sqlstate: str) -> None:
    error = raised(connection, sqlstate)
    assert classify(error) is errors.DatabaseFailed
    assert classify(error).cause is Cause.DATABASE
    assert not classify(error).cause.is_counted
    assert is_transient(error) is DATABASE_SQLSTATES[sqlstate]
    code, message = code_and_message(error)
    assert code == "DatabaseFailed"
    assert message.startswith(f"{type(error).__name__}: planned")


@pytest.mark.parametrize("sqlstate", OWN_SQLSTATES)
def test_error_of_a_value_counts(connection: psycopg.Connection[Any], sqlstate: str) -> None:
    error = raised(connection, sqlstate)
    assert classify(error) is errors.UnexpectedError
    assert classify(error).cause.is_counted
    assert not is_transient(error)


def test_the_examples_cover_every_class_in_the_table() -> None:
    assert {state[:2] for state in (*DATABASE_SQLSTATES, *OWN_SQLSTATES)} == set(SQLSTATES)


def test_class_that_is_in_no_table_counts(connection: psycopg.Connection[Any]) -> None:
    assert classify(raised(connection, "ZZ000")) is errors.UnexpectedError


@pytest.mark.parametrize("number", DISK, ids=errno.errorcode.get)
def test_error_of_the_host(number: int) -> None:
    error = OSError(number, os.strerror(number))
    assert classify(error).code == DISK[number]
    assert classify(error).cause is Cause.HOST
    assert is_host_error(error)
    assert not classify(error).cause.is_counted


_FORK_AT_THE_LIMIT = """
import os, resource, subprocess
from clerk.error_causes import classify
if os.geteuid() == 0:  # root has no limit of processes
    os.setgid(54321)
    os.setuid(54321)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    subprocess.run(["true"])
except OSError as error:
    print(error.errno, classify(error).__name__)
"""


def test_eagain_is_an_error_of_the_host_only_if_no_process_can_be_started() -> None:
    """A plugin that reads a socket that is not ready would be retried for ever."""
    result = subprocess.run([sys.executable, "-c", _FORK_AT_THE_LIMIT], capture_output=True, text=True, check=True)
    assert result.stdout == f"{errno.EAGAIN} HostOutOfResources\n"
    with pytest.raises(BlockingIOError) as caught:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    assert classify(caught.value) is errors.UnexpectedError
    assert classify(caught.value).cause.is_counted


@pytest.mark.parametrize("number", NETWORK, ids=errno.errorcode.get)
def test_error_of_the_network_to_a_source_counts(number: int) -> None:
    error = OSError(number, os.strerror(number))
    assert classify(error).cause is Cause.SOURCE
    assert classify(error).cause.is_counted


def test_the_examples_cover_every_errno_in_the_table() -> None:
    assert {*DISK, *NETWORK, errno.EAGAIN} == set(ERRNOS)


def test_any_other_errno_counts() -> None:
    assert classify(FileNotFoundError(errno.ENOENT, "no such file")) is errors.UnexpectedError
    assert classify(OSError("an error without a number")) is errors.UnexpectedError


@pytest.mark.parametrize("extended", [0, 1])
@pytest.mark.parametrize("code", SQLITE_CODES)
def test_error_of_sqlite(code: int, extended: int) -> None:
    error = sqlite3.OperationalError("planned")
    error.sqlite_errorcode = code | extended << 8
    assert classify(error) is SQLITE_CODES[code]
    assert classify(error).cause is Cause.HOST


def test_real_errors_of_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "archive.db"
    with sqlite3.connect(path) as database:
        database.execute("create table page (text)")
        database.execute("pragma max_page_count = 3")
        with pytest.raises(sqlite3.OperationalError) as full:
            database.execute("insert into page values (zeroblob(100000))")
    assert classify(full.value) is errors.DiskFull
    with (
        sqlite3.connect(f"file:{path}?mode=ro", uri=True) as database,
        pytest.raises(sqlite3.OperationalError) as read_only,
    ):
        database.execute("insert into page values (1)")
    assert classify(read_only.value) is errors.DiskReadOnly


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_exception_type(exception: type[BaseException]) -> None:
    error = exception("what", "remedy") if issubclass(exception, errors.ClerkError) else exception()
    assert classify(error) is EXCEPTIONS[exception]
    assert not classify(error).cause.is_counted


def test_lost_connection(server: str) -> None:
    connection = psycopg.connect(server, autocommit=True)
    with pytest.raises(psycopg.OperationalError) as lost:
        connection.execute("select pg_terminate_backend(pg_backend_pid())")
    with pytest.raises(psycopg.OperationalError) as closed:
        connection.execute("select 1")
    connection.close()
    with pytest.raises(psycopg.OperationalError) as refused:
        psycopg.connect("host=127.0.0.1 port=1 dbname=nothing")
    for error in (lost.value, closed.value, refused.value, psycopg_pool.PoolTimeout("no connection")):
        assert classify(error) is errors.DatabaseFailed
        assert is_transient(error)


def test_wrong_use_of_the_driver_counts(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.ProgrammingError) as caught:
        connection.execute("select %s", [object()])
    assert classify(caught.value) is errors.UnexpectedError


def test_errors_of_jobs_have_the_cause_of_their_class() -> None:
    assert classify(errors.PdfBroken("no page")).cause is Cause.DOCUMENT
    assert classify(errors.DownloadFailed("busy")).cause is Cause.SOURCE
    assert classify(errors.ToolMissing("pdftoppm")).cause is Cause.HOST
    assert {error.cause for error in JobError.__subclasses__()} == set(Cause)
    assert classify(KeyError("pages")) is errors.UnexpectedError
