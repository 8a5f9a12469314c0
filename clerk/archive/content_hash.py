"""Content hash and integrity check of an archive.

The content hash is independent of the order in which rows were inserted. Each table, except search indexes and
`document_sources`, has the sum modulo 2^256 of the SHA-256 of its rows; a row is a JSON array of its values, sorted by
column name. The content hash is the SHA-256 of the JSON list of [table, [columns], row count, sum in hex], sorted by
table name.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

from clerk.documents.storage import local_copy
from clerk.errors import ArchiveDamaged
from clerk.object_storage.path import StoragePath

_FTS_TABLES = (
    "select name from sqlite_master where type = 'table' and lower(sql) like 'create virtual%using fts5%' order by name"
)
_TABLES = "select name, sql from sqlite_master where type = 'table' order by name"
_FTS_SHADOW_SUFFIXES = ("_data", "_idx", "_content", "_docsize", "_config")
_NOT_HASHED = {"document_sources"}
"""Some sources give a document another address at every visit, which must not publish the archive again."""
_MODULUS = 1 << 256
OTHER_DOCUMENTS = "other_documents"
"""The table of all kinds but minutes and agenda. One table with a column `kind`: people search it as a whole or by
kind, and a further kind needs no further table."""


@contextlib.contextmanager
def open_readonly(path: StoragePath) -> Iterator[sqlite3.Connection]:
    """Open an existing database read-only: of a bucket, its copy in the local cache."""
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(local_copy(path))
        except FileNotFoundError as error:
            raise sqlite3.OperationalError(f"unable to open {path}: it does not exist") from error
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            yield connection
        finally:
            connection.close()


def quote_identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def hash_content(connection: sqlite3.Connection) -> str:
    tables = [_hash_table(connection, name) for name in _tables(connection)]
    return hashlib.sha256(json.dumps(tables).encode()).hexdigest()


def _tables(connection: sqlite3.Connection) -> list[str]:
    """Every table except virtual tables, their shadow tables, SQLite's own, and those of _NOT_HASHED."""
    excluded = _NOT_HASHED | {
        f"{name}{suffix}" for (name,) in connection.execute(_FTS_TABLES) for suffix in _FTS_SHADOW_SUFFIXES
    }
    return [
        name
        for name, definition in connection.execute(_TABLES).fetchall()
        if not name.startswith("sqlite_")
        and name not in excluded
        and not definition.lower().startswith("create virtual")
    ]


def _hash_table(connection: sqlite3.Connection, name: str) -> list[Any]:
    columns = sorted(row[0] for row in connection.execute("select name from pragma_table_info(?)", [name]))
    total = rows = 0
    query = "select " + ", ".join(map(quote_identifier, columns)) + " from " + quote_identifier(name)  # noqa: S608 (quoted)
    for row in connection.execute(query):
        total += int.from_bytes(hashlib.sha256(json.dumps(row, default=_as_hex).encode()).digest())
        rows += 1
    return [name, columns, rows, f"{total % _MODULUS:064x}"]


def _as_hex(value: object) -> object:
    assert isinstance(value, bytes)
    return {"hex": value.hex()}


def has_table(connection: sqlite3.Connection, name: str, schema: str = "main") -> bool:
    """Whether an archive has a table: those of older versions have no other_documents."""
    query = f"select 1 from {schema}.sqlite_master where type = 'table' and name = ?"  # noqa: S608 (our own name)
    return connection.execute(query, [name]).fetchone() is not None


def count_pages(connection: sqlite3.Connection) -> int:
    queries = ["select count(*) from minutes", "select count(*) from agendas"]
    if has_table(connection, OTHER_DOCUMENTS):
        queries.append("select count(*) from other_documents")
    return sum(int(connection.execute(query).fetchone()[0]) for query in queries)


def check_integrity(connection: sqlite3.Connection) -> None:
    """Raise ArchiveDamaged unless the database and each full-text index pass their integrity check.

    The connection must be writable: FTS5 receives commands as inserts."""
    try:
        problems = [row[0] for row in connection.execute("pragma integrity_check(3)")]
        if problems != ["ok"]:
            raise ArchiveDamaged(f"integrity check: {'; '.join(problems)}")
        for (name,) in connection.execute(_FTS_TABLES).fetchall():
            # Rank 1 makes FTS5 compare the index with the content table.
            table = quote_identifier(name)
            connection.execute(f"insert into {table} ({table}, rank) values ('integrity-check', 1)")  # noqa: S608 (quoted)
    except sqlite3.DatabaseError as error:
        raise ArchiveDamaged(f"integrity check: {error}") from error
