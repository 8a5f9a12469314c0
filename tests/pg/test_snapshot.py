from __future__ import annotations

import psycopg

from clerk.pg import snapshot
from clerk.pg.sqlfiles import SqlFolder


def test_committed_snapshot_is_what_the_migrations_make(connection: psycopg.Connection, folder: SqlFolder) -> None:
    assert snapshot.render(snapshot.take(connection, folder)) == folder.read(snapshot.FILE)
