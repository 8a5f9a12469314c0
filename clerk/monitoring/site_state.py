"""Read model of one site: its run, open units, failures and pauses; and its documents, phases and earlier runs.

Read it in one snapshot (`read_only_snapshot` in clerk.db.connection). A site may have a hundred thousand documents:
lists are cut, and the counts beside them are complete.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, LiteralString, TypeVar

from psycopg.rows import class_row

from clerk.humanize import one_line_error, shorten
from clerk.monitoring.query import Connection, Row, fetch_rows
from clerk.monitoring.workers import Worker, read_workers

Record = TypeVar("Record")

MAX_UNITS = 50
"""Units listed per stage and state."""
_MAX_JOBS_COUNTED = 10_000
_MAX_DOCUMENTS = 20
_MAX_RUNS = 10


@dataclass(frozen=True)
class SiteRun:
    """A site and its current run, or its last one."""

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
    run_interval: timedelta | None
    """None: runs are started by operators only."""
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
    """Entries of the source that the run's fetch skipped; None without a run."""
    skipped_examples: list[str] | None
    weight: int
    """How many of its documents are processed per turn."""

    @property
    def active(self) -> bool:
        return self.run_id is not None and self.ended_at is None

    def total(self, stage: str) -> int:
        return int(getattr(self, f"{stage}_total"))

    def failed(self, stage: str) -> int:
        return int(getattr(self, f"{stage}_failed"))

    def done(self, stage: str) -> int:
        return int(getattr(self, f"{stage}_completed")) + self.failed(stage)


@dataclass(frozen=True)
class Job:
    """An open unit or a coordinator, with its job."""

    stage: str
    state: str
    job_id: int | None
    queue: str | None
    priority: int | None
    turn: int | None
    scheduled_at: datetime | None
    worker_id: int | None = None
    holder: str | None = None
    claimed_at: datetime | None = None
    lease_until: datetime | None = None
    attempts: int = 0
    """Attempts that started, including the current one."""
    max_attempts: int | None = None
    error_code: str | None = None
    error_message: str | None = None
    kind: str | None = None
    meeting: str | None = None
    date: date | None = None
    progress: int | None = None
    progress_total: int | None = None


@dataclass(frozen=True)
class UnitGroup:
    """Open units of one stage in one state."""

    stage: str
    state: str
    late: bool
    """Retried by an operator after their phase had finished: the run does not wait for them."""
    count: int
    jobs: list[Job]
    """The first MAX_UNITS of them."""


@dataclass(frozen=True)
class FailedUnit:
    stage: str
    kind: str
    meeting: str | None
    date: date | None
    error_code: str | None
    error_message: str | None
    attempt_count: int
    source_url: str | None


@dataclass(frozen=True)
class Pause:
    queue: str
    paused_at: datetime
    paused_by: str


@dataclass(frozen=True)
class ThrottledHost:
    host: str
    next_at: datetime
    held_until: datetime | None
    held_why: str | None


@dataclass(frozen=True)
class LoggedRepair:
    at: datetime
    found: str
    done: str
    why: str


@dataclass(frozen=True)
class SiteState:
    now: datetime
    run: SiteRun
    groups: list[UnitGroup]
    coordinator: Job | None
    """Coordinator of the finished phase whose successor has not started. Its job_id is None if the job is missing."""
    refresh: Job | None
    """Job that starts the next run of a dirty site."""
    jobs_ahead: dict[int, int]
    """Job → number of jobs before it in its queue."""
    sites_with_turns: dict[str, int]
    """Queue in which documents of this site wait → number of sites that take turns there, this one included."""
    failed: list[FailedUnit]
    failed_count: int
    workers: list[Worker]
    pauses: dict[str, Pause]
    hosts: list[ThrottledHost]
    repairs: list[LoggedRepair]
    trigger_problems: list[str] = field(default_factory=list)
    """Accounting triggers that are missing or disabled."""
    scheduler_error: str | None = None
    """Why the periodic task that starts due runs failed the last time; None if it did not."""


@dataclass(frozen=True)
class SiteHistory:
    counts: Row
    """Number of documents by state, and of pages."""
    documents: list[Row]
    """Failed documents first, then open ones."""
    phases: dict[int, Row]
    """Phase of the current run → when it started and ended."""
    runs: list[Row]
    """The newest run first."""
    run_count: int

    def as_dict(self) -> Row:
        return asdict(self)


_UNITS = """
with ranked as (
    select u.*, u.reopened_at is not null as late,
           count(*) over same as in_group,
           row_number() over (same order by u.scheduled_at nulls first, u.claimed_at, u.priority desc, u.turn, u.job_id)
               as position
    from open_units u
    join current_runs r on r.subdomain = u.subdomain and r.run_id = u.run_id
    where u.subdomain = %(site)s
    window same as (partition by u.stage, u.state, u.reopened_at is not null)
)
select late, in_group, stage, state, job_id, queue, priority, turn, scheduled_at, worker_id, holder, claimed_at,
       lease_until, attempt_count, max_attempts, error_code, error_message, kind, meeting, date, progress,
       progress_total
from ranked
where position <= %(limit)s
order by stage, state, late, position
"""
_COORDINATOR = """
select 'coordinator', c.state, c.job_id, c.queue, c.priority, 0, c.scheduled_at, c.worker_id, c.holder,
       c.claimed_at, c.lease_until, c.attempts, null, e.error_code, e.error_message
from open_coordinators c
left join coordinator_errors e on e.run_id = c.run_id and e.phase = c.phase
where c.subdomain = %(site)s
"""
_REFRESH = """
select 'refresh', state, job_id, queue, priority, turn, scheduled_at
from waiting_jobs where queueing_lock = 'clerk.refresh:' || %(site)s
"""
_JOBS_AHEAD = """
select count(*)
from (select from waiting_jobs
      where queue = %(queue)s and state = 'waiting'
        and (priority > %(priority)s or priority = %(priority)s and (turn, job_id) < (%(turn)s, %(job_id)s))
      limit %(limit)s) other
"""
_SITES_WITH_TURNS = """
select count(*)
from current_runs
where current_stage = %(queue)s and paused_at is null
  and case %(queue)s when 'ocr' then ocr_completed + ocr_failed < ocr_total
                     else extraction_completed + extraction_failed < extraction_total end
"""
_FAILED = """
select f.stage, f.kind, f.meeting, f.date, f.error_code, f.error_message, f.attempt_count, i.source_url,
       count(*) over ()
from failing_documents f
left join site_documents i on i.id = f.content_item_id
where f.subdomain = %(site)s and f.status = 'failed_terminal'
  and (f.run_id = %(run_id)s or f.stage in ('ocr', 'extraction'))
order by f.stage, f.date desc nulls first, f.meeting, f.content_item_id
limit %(limit)s
"""
_PAUSES = "select queue, paused_at, paused_by from queue_pauses"
_HOSTS = "select host, next_at, held_until, held_why from throttled_hosts where subdomain = %(site)s"
_REPAIRS = """
select at, found, done, why from recent_repairs where subdomain = %(site)s order by at desc limit 5
"""
# Only the triggers that the pipeline needs; the others maintain columns of legacy clerk.
_TRIGGERS = """
select format('trigger %%s %%s', name, problem) from trigger_problems
where name in ('clerk_record_change', 'clerk_record_delete', 'clerk_fence') order by name
"""
_SCHEDULER_ERROR = """
select error_code, error_message from failing_periodic_tasks where task = 'clerk.schedule'
"""
_COUNTS = """
select count(*) as documents,
       count(*) filter (where l.status = 'processed') as processed,
       count(*) filter (where l.status = 'failed_terminal') as failed,
       count(*) filter (where l.status in ('pending', 'in_progress', 'failed_retryable')) as open,
       count(*) filter (where l.status is null) as new,
       coalesce(sum(i.page_count) filter (where l.status = 'processed'), 0) as pages
from content_items i
left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
where i.subdomain = %(site)s and i.kind <> 'archive' and i.superseded_at is null
"""
# Each document is shown with one stage: the failed one, else the open one, else the last.
_DOCUMENTS = """
select i.id, i.kind, i.meeting, i.date, i.date_origin, i.meeting_origin, i.kind_origin, i.page_count as pages,
       coalesce(l.pipeline, 'fetch') as stage, coalesce(l.status, 'new') as status,
       l.attempt_count as attempts, l.error_code, l.error_message, i.source_url,
       l.last_attempt_at, l.processed_at,
       case when c.settled_as is not null then c.settled_at - c.claimed_at end as took
from content_items i
left join lateral (
    select l.* from content_item_pipeline_state l
    where l.content_item_id = i.id and l.pipeline in ('ocr', 'extraction')
    order by case l.status when 'failed_terminal' then 0 when 'processed' then 2 else 1 end, l.pipeline desc
    limit 1
) l on true
left join job_claims c on c.job_id = l.job_id
where i.subdomain = %(site)s and i.kind <> 'archive' and i.superseded_at is null
order by case l.status when 'failed_terminal' then 0 when 'processed' then 3 else 1 end, i.date desc, i.meeting, i.id
limit %(limit)s
"""
_PHASES = """
select p.phase, coalesce(previous.advanced_at, case when p.phase = 1 then r.started_at end) as began_at,
       own.advanced_at as ended_at
from sites s
join pipeline_runs r on r.run_id = s.run_id
cross join generate_series(1, 4) as p (phase)
left join pipeline_transitions previous on previous.run_id = r.run_id and previous.phase = p.phase - 1
left join pipeline_transitions own on own.run_id = r.run_id and own.phase = p.phase
where s.subdomain = %(site)s
order by p.phase
"""
_RUNS = """
select run_id, reason, started_at, ended_at, took, outcome, outcome_reason, ocr_completed, ocr_failed, skipped,
       skipped_examples
from run_history where subdomain = %(site)s order by started_at desc, run_id desc limit %(limit)s
"""
_RUN_COUNT = "select count(*) as runs from pipeline_runs where subdomain = %(site)s"


def read_site_state(connection: Connection, subdomain: str) -> SiteState | None:
    """None if the site does not exist."""
    values: dict[str, Any] = {"site": subdomain, "limit": MAX_UNITS}
    runs = _read(connection, SiteRun, "select * from current_runs where subdomain = %(site)s", values)
    if not runs:
        return None
    run = runs[0]
    (clock,) = fetch_rows(connection, "select clerk_now() as now")
    groups = _read_groups(connection, values)
    coordinator = _read_job(connection, _COORDINATOR, values)
    refresh = _read_job(connection, _REFRESH, values)
    failed = connection.execute(_FAILED, {**values, "run_id": run.run_id}).fetchall()
    jobs = [*(job for group in groups for job in group.jobs), *filter(None, (coordinator, refresh))]
    waiting = [job for job in jobs if job.state == "waiting"]
    return SiteState(
        clock["now"],
        run,
        groups,
        coordinator,
        refresh,
        _count_jobs_ahead(connection, waiting),
        {
            queue: (connection.execute(_SITES_WITH_TURNS, {"queue": queue}).fetchone() or (0,))[0]
            for queue in {job.queue for job in waiting if job.queue and job.turn}
        },
        [FailedUnit(*columns) for *columns, _ in failed],
        failed[0][-1] if failed else 0,
        read_workers(connection),
        {pause.queue: pause for pause in _read(connection, Pause, _PAUSES, values)},
        _read(connection, ThrottledHost, _HOSTS, values) if run.current_stage == "fetch" else [],
        _read(connection, LoggedRepair, _REPAIRS, values),
        [problem for (problem,) in connection.execute(_TRIGGERS, {}).fetchall()],
        _read_scheduler_error(connection),
    )


def _read_scheduler_error(connection: Connection) -> str | None:
    row = connection.execute(_SCHEDULER_ERROR, {}).fetchone()
    return None if row is None else shorten(one_line_error(*row), 150)


def read_site_history(connection: Connection, subdomain: str, everything: bool = False) -> SiteHistory:
    """`everything`: all documents and runs, instead of the first of each."""
    documents, runs = (None, None) if everything else (_MAX_DOCUMENTS, _MAX_RUNS)
    return SiteHistory(
        fetch_rows(connection, _COUNTS, site=subdomain)[0],
        fetch_rows(connection, _DOCUMENTS, site=subdomain, limit=documents),
        {row["phase"]: row for row in fetch_rows(connection, _PHASES, site=subdomain)},
        fetch_rows(connection, _RUNS, site=subdomain, limit=runs),
        fetch_rows(connection, _RUN_COUNT, site=subdomain)[0]["runs"],
    )


def _read_groups(connection: Connection, values: dict[str, Any]) -> list[UnitGroup]:
    groups: dict[tuple[str, str, bool], UnitGroup] = {}
    for late, count, *columns in connection.execute(_UNITS, values).fetchall():
        job = Job(*columns)
        group = groups.setdefault((job.stage, job.state, late), UnitGroup(job.stage, job.state, late, count, []))
        group.jobs.append(job)
    return list(groups.values())


def _count_jobs_ahead(connection: Connection, waiting: list[Job]) -> dict[int, int]:
    """Only for the first job that waits in each queue: the site's other jobs are behind it."""
    ahead: dict[int, int] = {}
    queues: set[str | None] = set()
    for job in sorted(waiting, key=lambda job: (-(job.priority or 0), job.turn or 0, job.job_id or 0)):
        if job.queue not in queues and job.job_id is not None:
            queues.add(job.queue)
            place = {"queue": job.queue, "priority": job.priority, "turn": job.turn, "job_id": job.job_id}
            counted = connection.execute(_JOBS_AHEAD, {**place, "limit": _MAX_JOBS_COUNTED}).fetchone()
            ahead[job.job_id] = counted[0] if counted else 0
    return ahead


def _read_job(connection: Connection, query: LiteralString, values: dict[str, Any]) -> Job | None:
    row = connection.execute(query, values).fetchone()
    return Job(*row) if row else None


def _read(connection: Connection, kind: type[Record], query: LiteralString, values: dict[str, Any]) -> list[Record]:
    with connection.cursor(row_factory=class_row(kind)) as cursor:
        return cursor.execute(query, values).fetchall()
