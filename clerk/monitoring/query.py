"""Query helper of the read models."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

Connection = psycopg.Connection[Any]
Row = dict[str, Any]


def fetch_rows(connection: Connection, query: LiteralString, **values: Any) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, values).fetchall()
