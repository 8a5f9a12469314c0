"""Limits of SQLite for queries of anonymous visitors, set on every connection.

Datasette limits the time of a query, but between two opcodes only: one function call can take seconds and gigabytes.
"""

from __future__ import annotations

import sqlite3
from typing import Any

_MAX_VALUE_BYTES = 10_000_000
"""A page has at most a million characters."""
_MAX_RESULT_BYTES = 50_000_000
"""Of one query. Datasette keeps all rows of a result in memory."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: _MAX_VALUE_BYTES,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 500,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
}


def limit(connection: sqlite3.Connection) -> None:
    """Limit values, statements and the total size of the rows that the connection returns."""
    for category, value in _LIMITS.items():
        connection.setlimit(category, value)
    connection.row_factory = _LimitedRows()


class _LimitedRows:
    """Row factory of one connection, which serves one query."""

    def __init__(self) -> None:
        self.size = 0

    def __call__(self, cursor: sqlite3.Cursor, row: tuple[Any, ...]) -> sqlite3.Row:
        self.size += sum(len(value) if isinstance(value, str | bytes) else 8 for value in row)
        if self.size > _MAX_RESULT_BYTES:
            raise sqlite3.OperationalError(f"the result has more than {_MAX_RESULT_BYTES:,} bytes: ask for fewer rows")
        return sqlite3.Row(cursor, row)
