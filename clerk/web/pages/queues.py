"""Queues, workers, stage durations and running jobs."""

from __future__ import annotations

from typing import Any

from psycopg import sql
from starlette.requests import Request
from starlette.responses import Response

from clerk.monitoring import worker_text
from clerk.monitoring.status import PipelineStatus
from clerk.pipeline.engine import QUEUES
from clerk.web.db import SampleQuery, fetch_rows
from clerk.web.rendering import render

_MAX_JOBS = 50
_RUNNING_JOBS = sql.SQL("""
    select job_id, queue, subdomain, stage, content_item_id, worker_id, host, pid, attempt, claimed_at, running_for,
           has_lease, progress, progress_total, progress_at
    from running_jobs
    order by claimed_at, job_id
    limit %(limit)s
""")
QUERIES: list[SampleQuery] = [(_RUNNING_JOBS, {"limit": 1})]
_EMPTY_QUEUE = {
    **dict.fromkeys(("waiting", "running", "scheduled", "on_hold"), 0),
    **dict.fromkeys(("oldest_waiting_since", "rate_per_hour", "eta")),
    "paused": False,
}
"""A queue without jobs, which the view does not list. Its rate is unknown, not zero."""


def show(request: Request) -> Response:
    """Queues and workers come from the cached overview, because their rates are slow to compute."""
    status: PipelineStatus = request.app.state.overview.get().status
    with request.app.state.pool.transaction() as connection:
        jobs = fetch_rows(connection, _RUNNING_JOBS, {"limit": _MAX_JOBS + 1})
    queues = _all_queues(status)
    return render(
        "queues.html",
        status=status,
        queues=queues,
        jobs=jobs[:_MAX_JOBS],
        more_jobs=len(jobs) > _MAX_JOBS,
        worker_counts={queue["queue"]: len(worker_text.workers_of(status, queue["queue"])) for queue in queues},
    )


def _all_queues(status: PipelineStatus) -> list[dict[str, Any]]:
    """clerk's queues, with or without jobs, so that each can be paused; then other queues that have jobs."""
    with_jobs = {queue["queue"]: queue for queue in status.queues}
    return list(({name: {"queue": name, **_EMPTY_QUEUE} for name in QUEUES} | with_jobs).values())
