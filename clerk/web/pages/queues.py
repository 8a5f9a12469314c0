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
    select j.job_id, j.queue, j.subdomain, j.stage, j.content_item_id, j.worker_id, j.host, j.pid, j.attempt,
           j.claimed_at, j.running_for, j.has_lease, j.progress, j.progress_total, j.progress_at, o.meeting, o.date
    from (select * from running_jobs order by claimed_at, job_id limit %(limit)s) j
    join job_overview o on o.job_id = j.job_id
    order by j.claimed_at, j.job_id
""")
QUERIES: list[SampleQuery] = [(_RUNNING_JOBS, {"limit": 1})]
_EMPTY_QUEUE = {
    **dict.fromkeys(("waiting", "running", "lost", "scheduled", "on_hold"), 0),
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
        worker_counts={queue["queue"]: worker_text.count_workers(status, queue["queue"]) for queue in queues},
        waits={queue["queue"]: worker_text.waits_for(status, queue) for queue in queues},
    )


def _all_queues(status: PipelineStatus) -> list[dict[str, Any]]:
    """clerk's queues, with or without jobs, so that each can be paused; then other queues that have jobs."""
    with_jobs = {queue["queue"]: queue for queue in status.queues}
    return list(({name: {"queue": name, **_EMPTY_QUEUE} for name in QUEUES} | with_jobs).values())
