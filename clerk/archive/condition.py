"""In what condition a site's archive is, as compiled and as published. Files are only read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from clerk.archive import contents

_MAGIC = b"SQLite format 3\0"


def problem(database: Path, content_hash: str | None = None, thorough: bool = True) -> str | None:
    """What is wrong with it, for a person; None if nothing is.

    `content_hash`: what it must hold, if that is known. Not thorough: only whether there is a database at all.
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
        with contents.reading(database) as connection:
            said = [row[0] for row in connection.execute("pragma integrity_check(3)")]
            if said != ["ok"]:
                return f"is damaged ({'; '.join(said)})"
            if content_hash is not None and contents.content_hash(connection) != content_hash:
                return "holds something else than was compiled"
    except sqlite3.DatabaseError as error:
        return f"is damaged ({error})"
    return None
