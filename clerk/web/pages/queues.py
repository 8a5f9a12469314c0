"""What waits, what runs, who works."""

from __future__ import annotations

from typing import Any

from psycopg import sql
from starlette.requests import Request
from starlette.responses import Response

from clerk.monitoring import worker_text
from clerk.monitoring.status import PipelineStatus
from clerk.pipeline.engine import QUEUES
from clerk.web.db import Example, rows
from clerk.web.rendering import page

_JOBS_AT_MOST = 50
_RUNNING = sql.SQL("""
    select job_id, queue, subdomain, stage, content_item_id, worker_id, host, pid, attempt, claimed_at, running_for,
           has_lease, progress, progress_total, progress_at
    from running_jobs
    order by claimed_at, job_id
    limit %(most)s
""")
QUERIES: list[Example] = [(_RUNNING, {"most": 1})]
_IDLE = {
    **dict.fromkeys(("waiting", "running", "scheduled", "held_back"), 0),
    **dict.fromkeys(("oldest_waiting_since", "rate_per_hour", "eta")),
    "paused": False,
}
"""A queue without jobs, which the views leave out. What ended in it is not known then, and not said to be nothing."""


def show(request: Request) -> Response:
    """Queues and workers come from the look that the overview shows: their rates take long to find out."""
    condition: PipelineStatus = request.app.state.front.get().condition
    with request.app.state.reader.reading() as connection:
        jobs = rows(connection, _RUNNING, {"most": _JOBS_AT_MOST + 1})
    queues = _all_queues(condition)
    return page(
        "queues.html",
        condition=condition,
        queues=queues,
        jobs=jobs[:_JOBS_AT_MOST],
        more_jobs=len(jobs) > _JOBS_AT_MOST,
        readers={queue["queue"]: len(worker_text.readers_of(condition, queue["queue"])) for queue in queues},
    )


def _all_queues(condition: PipelineStatus) -> list[dict[str, Any]]:
    """Those that clerk has, with or without jobs, so that each can be paused; then whatever else has jobs."""
    busy = {queue["queue"]: queue for queue in condition.queues}
    return list(({name: {"queue": name, **_IDLE} for name in QUEUES} | busy).values())
