"""What is in an archive: its content hash, and whether it is whole.

The content hash says whether two databases hold the same, whatever the order in which they were filled: for each
table (search indexes, which follow from the rest, left out) the sum modulo 2^256 of the SHA-256 of every row, written
as a JSON array of its values in the order of the columns' names; then the SHA-256 of the JSON list of
[table, [columns], rows, sum in hex], by table name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clerk.errors import ArchiveDamaged

_SEARCH_TABLES = (
    "select name from sqlite_master where type = 'table' and lower(sql) like 'create virtual%using fts5%' order by name"
)
_TABLES = "select name, sql from sqlite_master where type = 'table' order by name"
_OF_A_SEARCH_TABLE = ("_data", "_idx", "_content", "_docsize", "_config")
_ALL = 1 << 256


@contextlib.contextmanager
def open_readonly(path: Path) -> Iterator[sqlite3.Connection]:
    """Read-only, and never made by being looked at."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def hash_content(connection: sqlite3.Connection) -> str:
    tables = [_table(connection, name) for name in _tables(connection)]
    return hashlib.sha256(json.dumps(tables).encode()).hexdigest()


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Those that hold something of their own."""
    follow = {f"{name}{end}" for (name,) in connection.execute(_SEARCH_TABLES) for end in _OF_A_SEARCH_TABLE}
    return [
        name
        for name, made_by in connection.execute(_TABLES).fetchall()
        if not name.startswith("sqlite_") and name not in follow and not made_by.lower().startswith("create virtual")
    ]


def _table(connection: sqlite3.Connection, name: str) -> list[Any]:
    columns = sorted(row[0] for row in connection.execute("select name from pragma_table_info(?)", [name]))
    total = rows = 0
    query = "select " + ", ".join(map(quote_identifier, columns)) + " from " + quote_identifier(name)  # noqa: S608 (quoted)
    for row in connection.execute(query):
        total += int.from_bytes(hashlib.sha256(json.dumps(row, default=_as_hex).encode()).digest())
        rows += 1
    return [name, columns, rows, f"{total % _ALL:064x}"]


def _as_hex(value: object) -> object:
    assert isinstance(value, bytes)
    return {"hex": value.hex()}


def page_count(connection: sqlite3.Connection) -> int:
    return int(
        connection.execute("select (select count(*) from minutes) + (select count(*) from agendas)").fetchone()[0]
    )


def check(connection: sqlite3.Connection) -> None:
    """Raises ArchiveDamaged unless SQLite and every full-text index say that all is well. The connection can write:
    FTS5 takes its commands as inserts."""
    try:
        problems = [row[0] for row in connection.execute("pragma integrity_check(3)")]
        if problems != ["ok"]:
            raise ArchiveDamaged(f"integrity check: {'; '.join(problems)}")
        for (name,) in connection.execute(_SEARCH_TABLES).fetchall():
            # With 1 for the rank, the index is compared with the rows that it is about.
            table = quote_identifier(name)
            connection.execute(f"insert into {table} ({table}, rank) values ('integrity-check', 1)")  # noqa: S608 (quoted)
    except sqlite3.DatabaseError as error:
        raise ArchiveDamaged(f"integrity check: {error}") from error
