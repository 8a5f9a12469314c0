"""What there is to know about one site, read from views in one snapshot.

Lists are cut at `SHOWN_AT_MOST`, and the counts beside them are whole: a site may have a hundred thousand documents.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, LiteralString, TypeVar

import psycopg
from psycopg.rows import class_row

from clerk.monitoring.workers import Worker, read_workers

Connection = psycopg.Connection[Any]
Row = TypeVar("Row")

COORDINATOR = "coordinator"
SHOWN_AT_MOST = 50
_COUNTED_AT_MOST = 10_000


@dataclass(frozen=True)
class Run:
    """A site and its present run, or its last one."""

    subdomain: str
    name: str | None
    current_stage: str | None
    phase: int | None
    outcome: str | None
    updated_at: datetime | None
    coordinator_enqueued: bool
    dirty: bool
    paused_at: datetime | None
    paused_by: str | None
    run_interval: timedelta
    due_at: datetime | None
    last_error_stage: str | None
    last_error_message: str | None
    last_error_at: datetime | None
    fetch_total: int
    fetch_completed: int
    fetch_failed: int
    ocr_total: int
    ocr_completed: int
    ocr_failed: int
    compilation_total: int
    compilation_completed: int
    compilation_failed: int
    extraction_total: int
    extraction_completed: int
    extraction_failed: int
    deploy_total: int
    deploy_completed: int
    deploy_failed: int
    run_id: int | None
    reason: str | None
    started_at: datetime | None
    ended_at: datetime | None
    outcome_reason: str | None
    deployed_at: datetime | None
    announced_at: datetime | None
    skipped: int | None
    """Entries of the source that the run's fetch passed over; None without a run."""
    skipped_examples: list[str] | None

    @property
    def going(self) -> bool:
        return self.run_id is not None and self.ended_at is None

    def total(self, stage: str) -> int:
        return int(getattr(self, f"{stage}_total"))

    def done(self, stage: str) -> int:
        return int(getattr(self, f"{stage}_completed")) + int(getattr(self, f"{stage}_failed"))


@dataclass(frozen=True)
class Job:
    """An open unit, or a coordinator, and the job that carries it."""

    stage: str
    state: str
    job_id: int | None
    queue: str | None
    priority: int | None
    scheduled_at: datetime | None
    worker_id: int | None = None
    holder: str | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    attempts: int = 0
    """Begun so far, the present one included."""
    max_attempts: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    kind: str | None = None
    meeting: str | None = None
    date: date | None = None
    progress: int | None = None
    progress_total: int | None = None


@dataclass(frozen=True)
class Group:
    """Open units of one stage in one state."""

    stage: str
    state: str
    late: bool
    """Tried again by an operator after their phase: the run does not wait for them."""
    count: int
    jobs: list[Job]
    """The first of them, at most SHOWN_AT_MOST."""


@dataclass(frozen=True)
class Failed:
    stage: str
    kind: str
    meeting: str | None
    date: date | None
    error_code: str | None
    error_message: str | None
    attempt_count: int


@dataclass(frozen=True)
class Pause:
    queue: str
    paused_at: datetime
    paused_by: str


@dataclass(frozen=True)
class Host:
    host: str
    next_at: datetime
    held_until: datetime | None
    held_why: str | None


@dataclass(frozen=True)
class Repair:
    at: datetime
    found: str
    done: str
    why: str


@dataclass(frozen=True)
class SiteState:
    now: datetime
    run: Run
    groups: list[Group]
    coordinator: Job | None
    """Of the phase that is over and not followed by the next yet. Its job_id is None when it is lost."""
    refresh: Job | None
    """What gives a dirty site its new run."""
    ahead: dict[int, int]
    """Job → how many others are before it in its queue."""
    failed: list[Failed]
    failed_count: int
    workers: list[Worker]
    pauses: dict[str, Pause]
    hosts: list[Host]
    repairs: list[Repair]
    triggers: list[str] = field(default_factory=list)
    """What is wrong with them."""


_UNITS = """
with placed as (
    select u.*, u.reopened_at is not null as late,
           count(*) over same as in_group,
           row_number() over (same order by u.scheduled_at nulls first, u.claimed_at, u.priority desc, u.job_id)
               as place
    from open_units u
    join current_runs r on r.subdomain = u.subdomain and r.run_id = u.run_id
    where u.subdomain = %(site)s
    window same as (partition by u.stage, u.state, u.reopened_at is not null)
)
select late, in_group, stage, state, job_id, queue, priority, scheduled_at, worker_id, holder, claimed_at, lease_until,
       attempt_count, max_attempts, error_code, error_message, kind, meeting, date, progress, progress_total
from placed
where place <= %(most)s
order by stage, state, late, place
"""
_COORDINATOR = """
select 'coordinator', c.state, c.job_id, c.queue, c.priority, c.scheduled_at, c.worker_id, c.holder, c.claimed_at,
       c.lease_until, c.attempts, null, e.error_code, e.error_message
from open_coordinators c
left join coordinator_errors e on e.run_id = c.run_id and e.phase = c.phase
where c.subdomain = %(site)s
"""
_REFRESH = """
select 'refresh', state, job_id, queue, priority, scheduled_at
from waiting_jobs where queueing_lock = 'clerk.refresh:' || %(site)s
"""
_AHEAD = """
select count(*)
from (select from waiting_jobs
      where queue = %(queue)s and state = 'waiting'
        and (priority > %(priority)s or priority = %(priority)s and job_id < %(job_id)s)
      limit %(most)s) other
"""
_FAILED = """
select stage, kind, meeting, date, error_code, error_message, attempt_count, count(*) over ()
from failing_documents
where subdomain = %(site)s and run_id = %(run_id)s and status = 'failed_terminal'
order by stage, date desc nulls first, meeting, content_item_id
limit %(most)s
"""
_PAUSES = "select queue, paused_at, paused_by from queue_pauses"
_REPAIRS = """
select at, found, done, why from recent_repairs where subdomain = %(site)s order by at desc limit 5
"""
# Those that the pipeline lives by; others keep an older system's columns.
_TRIGGERS = """
select format('trigger %%s %%s', name, problem) from trigger_problems
where name in ('clerk_record_change', 'clerk_record_delete', 'clerk_fence') order by name
"""


def read_site_state(connection: Connection, subdomain: str) -> SiteState | None:
    """None if there is no such site. Meant for a transaction that sees one moment: `reading` in clerk.db.connection."""
    asked: dict[str, Any] = {"site": subdomain, "most": SHOWN_AT_MOST}
    run = _rows(connection, Run, "select * from current_runs where subdomain = %(site)s", asked)
    if not run:
        return None
    (now,) = connection.execute("select clerk_now()").fetchone() or (None,)
    assert now is not None
    groups = _groups(connection, asked)
    coordinator = _one_job(connection, _COORDINATOR, asked)
    refresh = _one_job(connection, _REFRESH, asked)
    failed = connection.execute(_FAILED, {**asked, "run_id": run[0].run_id}).fetchall()
    waiting = [*(job for group in groups for job in group.jobs), *filter(None, (coordinator, refresh))]
    return SiteState(
        now,
        run[0],
        groups,
        coordinator,
        refresh,
        _ahead(connection, [job for job in waiting if job.state == "waiting"]),
        [Failed(*values) for *values, _ in failed],
        failed[0][-1] if failed else 0,
        read_workers(connection),
        {pause.queue: pause for pause in _rows(connection, Pause, _PAUSES)},
        _rows(
            connection,
            Host,
            "select host, next_at, held_until, held_why from throttled_hosts where subdomain = %(site)s",
            asked,
        )
        if run[0].current_stage == "fetch"
        else [],
        _rows(connection, Repair, _REPAIRS, asked),
        [problem for (problem,) in connection.execute(_TRIGGERS, {}).fetchall()],
    )


def _groups(connection: Connection, asked: dict[str, Any]) -> list[Group]:
    groups: dict[tuple[str, str, bool], Group] = {}
    for late, count, *values in connection.execute(_UNITS, asked).fetchall():
        job = Job(*values)
        group = groups.setdefault((job.stage, job.state, late), Group(job.stage, job.state, late, count, []))
        group.jobs.append(job)
    return list(groups.values())


def _ahead(connection: Connection, waiting: list[Job]) -> dict[int, int]:
    """Of the first that waits in each queue: the others are behind it."""
    ahead: dict[int, int] = {}
    seen: set[str | None] = set()
    for job in sorted(waiting, key=lambda job: (-(job.priority or 0), job.job_id or 0)):
        if job.queue not in seen and job.job_id is not None:
            seen.add(job.queue)
            asked = {"queue": job.queue, "priority": job.priority, "job_id": job.job_id, "most": _COUNTED_AT_MOST}
            ahead[job.job_id] = (connection.execute(_AHEAD, asked).fetchone() or (0,))[0]
    return ahead


def _one_job(connection: Connection, query: LiteralString, asked: dict[str, Any]) -> Job | None:
    row = connection.execute(query, asked).fetchone()
    return Job(*row) if row else None


def _rows(
    connection: Connection, kind: type[Row], query: LiteralString, asked: dict[str, Any] | None = None
) -> list[Row]:
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query, asked).fetchall()
