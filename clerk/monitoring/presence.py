"""Which worker processes of a machine have spoken to the database lately: what a health check wants to know."""

from __future__ import annotations

from typing import Any

import psycopg


def live_workers(connection: psycopg.Connection[Any], host: str) -> int:
    """Within the last minute; a worker speaks every five seconds. `host` is what it calls its machine.

    The catch: the host comes last in a worker's name, which Postgres cuts at 63 bytes; and who is not a member of
    the workers' role sees nobody.
    """
    row = connection.execute(
        "select count(distinct application_name) from pg_stat_activity"
        " where application_name ~ '^[0-9a-f]{12} clerk [0-9]+ '"
        " and regexp_replace(application_name, '^[0-9a-f]{12} clerk [0-9]+ ', '') = left(%(host)s,"
        " 63 - length(substring(application_name from '^[0-9a-f]{12} clerk [0-9]+ ')))"
        " and state_change > now() - interval '1 minute'",
        {"host": host},
    ).fetchone()
    assert row is not None
    return int(row[0])
