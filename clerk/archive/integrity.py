"""In what condition a site's archive is, as compiled and as published. Files are only read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from clerk.archive.content_hash import hash_content, open_readonly

_MAGIC = b"SQLite format 3\0"
_PRIMARY = 0xFF
"""An extended code has the primary one in its lowest byte."""
_TROUBLE = {
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
"""What keeps SQLite from looking; it says nothing about the content. (That we may not write is said of a journal that
somebody left: the content is half of something.)"""


def find_problem(database: Path, content_hash: str | None = None, thorough: bool = True) -> str | None:
    """What is wrong with it, for a person; None if nothing is.

    `content_hash`: what it must hold, if that is known. Not thorough: only whether there is a database at all. A disk
    that fails, or another that has it locked, is no damage: OSError.
    """
    try:
        with database.open("rb") as file:
            magic = file.read(len(_MAGIC))
    except FileNotFoundError:
        return "is gone"
    if magic != _MAGIC:
        return "is not a database"
    if not thorough:
        return None
    try:
        with open_readonly(database) as connection:
            said = [row[0] for row in connection.execute("pragma integrity_check(3)")]
            if said != ["ok"]:
                return f"is damaged ({'; '.join(said)})"
            if content_hash is not None and hash_content(connection) != content_hash:
                return "holds something else than was compiled"
    except sqlite3.DatabaseError as error:
        # Text that is not UTF-8 is Python's to complain about, without a code.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & _PRIMARY in _TROUBLE:
            raise OSError(f"{database} cannot be read ({error})") from error
        return f"is damaged ({error})"
    return None
