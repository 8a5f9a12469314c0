"""Integrity check of a compiled or published archive. Read-only."""

from __future__ import annotations

import sqlite3

from clerk.archive.content_hash import hash_content, open_readonly
from clerk.documents.storage import read_head
from clerk.object_storage.path import ObjectPath, StoragePath

_MAGIC = b"SQLite format 3\0"
_PRIMARY_CODE = 0xFF
"""Mask: the lowest byte of an extended result code is the primary one."""
_ACCESS_ERRORS = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_PROTOCOL,
}
"""SQLite could not read the file, so the content is unknown. (SQLITE_READONLY is not among them: it means that a hot
journal lies beside the file, so the content is an unfinished transaction.)"""


def find_problem(database: StoragePath, content_hash: str | None = None, full: bool = True) -> str | None:
    """What is wrong with the database, as a predicate ("is damaged …"), or None.

    `content_hash`: the expected content, if known. Unless `full`, only the file header is checked. A disk error or a
    lock is not damage: it raises OSError.
    """
    if isinstance(database, ObjectPath):
        database = database.live()  # the object itself is checked, not an earlier copy of it
    try:
        magic = read_head(database, len(_MAGIC))
    except FileNotFoundError:
        return "is missing"
    if magic != _MAGIC:
        return "is not a SQLite database"
    if not full:
        return None
    try:
        with open_readonly(database) as connection:
            problems = [row[0] for row in connection.execute("pragma integrity_check(3)")]
            if problems != ["ok"]:
                return f"is damaged ({'; '.join(problems)})"
            if content_hash is not None and hash_content(connection) != content_hash:
                return "has other content than was compiled"
    except sqlite3.DatabaseError as error:
        # For text that is not UTF-8, Python itself raises an error without a code.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY_CODE in _ACCESS_ERRORS:
            raise OSError(f"{database} cannot be read ({error})") from error
        return f"is damaged ({error})"
    return None
