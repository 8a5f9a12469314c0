"""Root spans of runs. They are recorded when a run has ended, by a coordinator, an operator or a repair."""

from __future__ import annotations

import logging
from typing import Any

import psycopg

from clerk.telemetry import tracing

logger = logging.getLogger(__name__)

# Each run is claimed by one worker. The time limit is for the first worker with an endpoint: spans of long ended runs
# would be the roots of empty traces.
_CLAIM = """
with ended as (
    select r.run_id from pipeline_runs r
    where r.ended_at >= clerk_now() - interval '1 hour' and r.traced_at is null
    order by r.ended_at
    for no key update skip locked
)
update pipeline_runs r set traced_at = clerk_now()
from ended
where r.run_id = ended.run_id
returning r.subdomain, r.run_id, r.started_at, r.ended_at, r.outcome
"""


def record_ended_runs(connection: psycopg.Connection[Any]) -> int:
    """Record the root spans of runs that have ended and have none yet; returns how many. Nothing if tracing is off."""
    if not tracing.is_on():
        return 0
    try:
        rows = connection.execute(_CLAIM).fetchall()
    except psycopg.Error as error:
        logger.warning("root spans are not recorded now, but later: %s", error)
        return 0
    for row in rows:
        tracing.record_run(*row)
    return len(rows)
