"""Attributes the exceptions of jobs to a cause: one table per kind of exception, of libraries and of Python.

The cause decides whether an attempt counts (`Cause.is_counted`), which code is recorded, and whether the worker stops
taking jobs of the queue. What is in no table is the unit's own error: it must end some time.
"""

from __future__ import annotations

import errno
import sqlite3
import traceback

import psycopg

from clerk.errors import (
    ClerkError,
    DatabaseFailed,
    DatabaseRefused,
    DatabaseUnreachable,
    DiskFailed,
    DiskForbidden,
    DiskFull,
    DiskReadOnly,
    DownloadFailed,
    EmbeddedServerError,
    HostError,
    HostOutOfMemory,
    HostOutOfResources,
    JobError,
    SchemaMismatch,
    UnexpectedError,
)

SQLSTATES: dict[str, type[JobError]] = {
    "08": DatabaseFailed,  # connection exception
    "0A": DatabaseFailed,  # feature not supported: a plan that was cached before a migration
    "25": DatabaseFailed,  # invalid transaction state: read-only after a failover, idle in transaction for too long
    "26": DatabaseFailed,  # invalid statement name: a prepared statement that a pooler has lost
    "28": DatabaseFailed,  # invalid authorization
    "3D": DatabaseFailed,  # the database does not exist
    "3F": DatabaseFailed,  # the schema does not exist
    "40": DatabaseFailed,  # transaction rollback: deadlock, serialization failure
    "42": DatabaseFailed,  # missing privilege, table or column: the schema is of another version
    "53": DatabaseFailed,  # insufficient resources: full disk, memory, connections
    "55": DatabaseFailed,  # object not in prerequisite state: lock timeout
    "57": DatabaseFailed,  # operator intervention: shutdown, crash, cancelled or timed out
    "58": DatabaseFailed,  # system error: input/output error of the server
    "72": DatabaseFailed,  # snapshot too old
    "F0": DatabaseFailed,  # configuration file error
    "XX": DatabaseFailed,  # internal error, corrupted data or index
    "22": UnexpectedError,  # data exception
    "23": UnexpectedError,  # constraint violation
    "54": UnexpectedError,  # program limit exceeded: a value that is too large
    "KL": UnexpectedError,  # rejected by clerk's state machine
    "P0": UnexpectedError,  # raised by a function
}
"""Class of a SQLSTATE → error. https://www.postgresql.org/docs/current/errcodes-appendix.html"""

_TRANSIENT_SQLSTATES = ("08", "25006", "25P03", "26", "40", "53", "55", "57", "58")
"""SQLSTATEs, or their beginning, of errors after which the same statement may succeed."""

ERRNOS: dict[int, type[JobError]] = {
    errno.ENOSPC: DiskFull,
    errno.EDQUOT: DiskFull,
    errno.EROFS: DiskReadOnly,
    errno.EIO: DiskFailed,
    errno.ENODEV: DiskFailed,
    errno.ENXIO: DiskFailed,
    errno.ESTALE: DiskFailed,  # a network file system was mounted again
    errno.ENOTCONN: DiskFailed,  # the process of a FUSE file system has ended
    errno.EACCES: DiskForbidden,
    errno.EPERM: DiskForbidden,
    errno.ENOMEM: HostOutOfMemory,
    errno.EMFILE: HostOutOfResources,
    errno.ENFILE: HostOutOfResources,
    errno.EAGAIN: HostOutOfResources,  # only of fork: the limit of processes
    errno.ECONNREFUSED: DownloadFailed,
    errno.ECONNRESET: DownloadFailed,
    errno.ECONNABORTED: DownloadFailed,
    errno.ETIMEDOUT: DownloadFailed,
    errno.EHOSTUNREACH: DownloadFailed,
    errno.ENETUNREACH: DownloadFailed,
    errno.ENETDOWN: DownloadFailed,
}
"""errno of an OSError → error. clerk opens network connections only to sources; psycopg has its own exceptions."""

SQLITE_CODES: dict[int, type[JobError]] = {
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_READONLY: DiskReadOnly,
    sqlite3.SQLITE_IOERR: DiskFailed,
    sqlite3.SQLITE_PERM: DiskForbidden,
    sqlite3.SQLITE_NOMEM: HostOutOfMemory,
}
"""Primary result code of SQLite → error."""

EXCEPTIONS: dict[type[BaseException], type[JobError]] = {
    MemoryError: HostOutOfMemory,
    DatabaseUnreachable: DatabaseFailed,
    DatabaseRefused: DatabaseFailed,
    EmbeddedServerError: DatabaseFailed,
    SchemaMismatch: DatabaseFailed,
}


def classify(error: BaseException) -> type[JobError]:
    """The error of clerk that an exception amounts to. UnexpectedError: in no table."""
    match error:
        case JobError():
            return type(error) if hasattr(error, "code") else UnexpectedError
        case _ if known := next((EXCEPTIONS[kind] for kind in type(error).__mro__ if kind in EXCEPTIONS), None):
            return known
        case psycopg.Error(sqlstate=None):
            # Of libpq or the pool: the connection was lost, was closed after an earlier error, or could not be had.
            lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
            return DatabaseFailed if lost else UnexpectedError
        case psycopg.Error():
            return SQLSTATES.get(str(error.sqlstate)[:2], UnexpectedError)
        case sqlite3.Error():
            return SQLITE_CODES.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, UnexpectedError)
        case OSError(errno=errno.EAGAIN) if not _is_of_fork(error):
            return UnexpectedError
        case OSError():
            return ERRNOS.get(error.errno or 0, UnexpectedError)
        case _:
            return UnexpectedError


def _is_of_fork(error: BaseException) -> bool:
    """Whether an error was raised where Python starts a process. Elsewhere EAGAIN means that a file or socket is not
    ready, which is an error of the program."""
    frames = [frame.f_globals.get("__name__") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return bool(frames) and frames[-1] in ("subprocess", "multiprocessing.popen_fork")


def is_host_error(error: BaseException) -> bool:
    return issubclass(classify(error), HostError)


def is_transient(error: BaseException | None) -> bool:
    """Whether the same statement may succeed if it is sent again, on another connection if that one was lost."""
    if error is None or classify(error) is not DatabaseFailed:
        return False
    code = getattr(error, "sqlstate", None)
    if code is None:
        return isinstance(error, psycopg.Error)
    return str(code).startswith(_TRANSIENT_SQLSTATES)


def code_and_message(error: BaseException) -> tuple[str, str]:
    """What is recorded about an error that ended a job."""
    error_class = classify(error)
    if isinstance(error, JobError) and error_class is not UnexpectedError:
        return error.code, str(error)  # NotFetched has the code of the download
    if isinstance(error, ClerkError) and error_class is UnexpectedError:
        return error.code, str(error)
    return error_class.code, f"{type(error).__name__}: {error}"
