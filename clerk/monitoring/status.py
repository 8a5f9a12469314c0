"""Read model of the whole pipeline, for `clerk status`, `clerk up`, the dashboard and the metrics.

Read it in one snapshot (`read_only_snapshot` in clerk.db.connection). Lists are cut to a few rows; the counts beside
them are complete.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

import psycopg

from clerk.monitoring.database_health import DatabaseHealth, read_database_health
from clerk.monitoring.query import Connection, Row, fetch_rows
from clerk.monitoring.workers import Worker, read_workers
from clerk.pipeline.engine import DELIVERY_QUEUE, STAGES

MAX_ROWS = 10
_MAX_EVENTS = 20
MAX_ETA = timedelta(days=30)
"""As in the views queue_backlog and pipeline_overview: no rate of minutes says what will be later."""
_INVARIANTS_TIMEOUT = "2s"

_SITES = """
select coalesce(current_stage, 'never run') as stage, outcome, count(*)::integer as sites
from pipeline_overview group by 1, 2 order by 3 desc, 1, 2
"""
# total, completed, failed: of the sites that are in the stage. run_*: of every site's current or last run.
_STAGES = """
select c.stage, count(*) filter (where o.phase = c.phase)::integer as sites,
       coalesce(sum(c.total) filter (where o.phase = c.phase), 0)::integer as total,
       coalesce(sum(c.completed) filter (where o.phase = c.phase), 0)::integer as completed,
       coalesce(sum(c.failed) filter (where o.phase = c.phase), 0)::integer as failed,
       sum(c.total)::integer as run_total, sum(c.completed)::integer as run_completed,
       sum(c.failed)::integer as run_failed
from pipeline_overview o
cross join lateral (values
    ('fetch', 1, o.fetch_total, o.fetch_completed, o.fetch_failed),
    ('ocr', 2, o.ocr_total, o.ocr_completed, o.ocr_failed),
    ('compilation', 3, o.compilation_total, o.compilation_completed, o.compilation_failed),
    ('extraction', 3, o.extraction_total, o.extraction_completed, o.extraction_failed),
    ('deploy', 4, o.deploy_total, o.deploy_completed, o.deploy_failed)
) c (stage, phase, total, completed, failed)
group by c.stage
"""
_LAST_MINUTE = """
select stage, (succeeded + failed)::integer as jobs_last_minute, pages::integer as pages_last_minute
from jobs_last_minute
"""
# Without the rate: the planner then skips the events of the last hour, of which there can be millions.
_QUEUES = """
select q.queue, q.waiting::integer, q.scheduled::integer, q.on_hold::integer, q.running::integer,
       coalesce(l.jobs, 0)::integer as lost, q.oldest_waiting_since, q.paused, q.paused_at, q.paused_by
from queue_backlog q
left join (
    select r.queue, count(*) as jobs
    from running_jobs r
    left join worker_status w using (worker_id)
    where w.alive is not true
    group by r.queue
) l using (queue)
order by q.queue
"""
_RATES = "select queue, rate_per_hour::integer, recent_rate::double precision from queue_backlog"
_STUCK = """
select subdomain, current_stage as stage, idle_for from stuck_sites order by idle_for desc nulls first limit %(limit)s
"""
_PAUSED = (
    "select subdomain, paused_at, paused_by from pipeline_overview where paused order by paused_at limit %(limit)s"
)
_FAILED = """
select subdomain, last_error_stage as stage, last_error_message as message
from pipeline_overview where outcome = 'failed' order by updated_at desc limit %(limit)s
"""
# Sites whose last run did not succeed, by what failed and by the code of their last error.
_FAILING = """
select kind, error_code, count(*)::integer as sites, min(failing_since) as since,
       (array_agg(subdomain order by failing_since desc nulls last, subdomain))[1:%(limit)s] as examples
from (
    select subdomain, failing_since, case when source_failing then 'source' else last_outcome end as kind,
           case when source_failing and phase = 1
                then (select min(d.error_code) from failing_documents d
                      where d.subdomain = o.subdomain and d.stage = 'fetch')
                when source_failing = (last_error_stage = 'fetch')
                then substring(last_error_message from '^([A-Z][A-Za-z]+)(?::|$)') end as error_code
    from pipeline_overview o where source_failing or last_outcome not in ('succeeded', 'unchanged')
) f
group by kind, error_code order by count(*) desc, error_code
"""
# Documents only: fetch, compilation and deploy are units of sites. The first row has the total.
_DOCUMENTS = """
select error_code, count(*)::integer as documents, count(distinct subdomain)::integer as sites,
       min(last_attempt_at) as since
from failing_documents
where stage in ('ocr', 'extraction') and clerk_is_permanent_failure(status, error_code)
group by grouping sets ((), (error_code)) having count(*) > 0
order by grouping(error_code) desc, count(*) desc, error_code
"""
_DELIVERIES = """
select error_code, count(*)::integer as deliveries, min(last_attempt_at) as since
from failing_deliveries where status = 'failed_terminal' group by error_code order by count(*) desc, error_code
"""
_DISKS = """
select host, folder, purpose, free_bytes, total_bytes, used_percent::double precision, low_since
from host_disks order by low_since is null, free_bytes, host, folder
"""
_SKIPPED = """
select subdomain, count(*)::integer as entries, (sum(count(*)) over ())::integer as all_entries,
       (count(*) over ())::integer as all_sites, max(skipped_since) as newest,
       min(min(skipped_since)) over () as all_since, min(name) as first_name
from skipped_documents where state = 'open' group by subdomain order by 2 desc, 1 limit %(limit)s
"""
_EDITED_EXTRACTORS = """
select extractor, version, plugin, codes, edited_at from edited_extractors order by edited_at limit %(limit)s
"""
_PERIODIC_TASKS = "select task, job_id, error_code, error_message from failing_periodic_tasks order by task"
_ERRORS = """
select max(at) as at, subdomain, stage, status, error_code, count(*)::integer as documents,
       (array_agg(meeting order by at desc))[1] as meeting, (array_agg(date order by at desc))[1] as date,
       (array_agg(error_message order by at desc))[1] as error_message
from recent_errors group by subdomain, stage, status, error_code order by 1 desc limit %(limit)s
"""
_FAILURES = """
select count(*) filter (where at >= clerk_now() - interval '1 hour') as last_hour,
       count(*) filter (where at < clerk_now() - interval '1 hour') / 24.0 as per_hour_before
from recent_errors where at >= clerk_now() - interval '25 hours'
"""
_EVENTS = """
select e.at, e.kind, e.subdomain, e.what, r.ocr_completed as processed, r.ocr_failed as failed
from (select * from recent_events limit %(limit)s) e
left join run_history r on e.kind = 'run ended' and r.subdomain = e.subdomain and r.ended_at = e.at
order by e.at desc
"""
ABSENT_TRIGGER = ("is missing", "is disabled")
"""How a problem of a trigger ends if the trigger does nothing."""
_TRIGGERS = "select format('trigger %%s %%s', name, problem) as problem from trigger_problems order by name"
# Sessions of other database users are visible only to members of pg_read_all_stats.
_STANDBY_WAIT = """
select max(clock_timestamp() - query_start) as wait
from pg_stat_activity where datname = current_database() and wait_event = 'SyncRep'
"""
_DURATIONS = """
select stage, median as site_median, p90 as site_p90, job_median, job_p90, wait_median, wait_p90 from stage_durations
"""
_RUNS = "select count(*)::integer as runs from run_history where ended_at > clerk_now() - interval '24 hours'"
_VIOLATIONS = "select invariant, count(*)::integer as violations from invariant_violations group by 1 order by 1"


@dataclass(frozen=True)
class PipelineStatus:
    now: datetime
    health: Row
    """The row of pipeline_health."""
    sites: dict[str, int]
    """Stage, `completed` or `never run` → number of sites."""
    outcomes: dict[str, int]
    """Outcome of the last run → number of sites, the most frequent first."""
    stages: list[Row]
    """One row per stage: its sites, their units, its jobs and pages of the last minute and its durations."""
    queues: list[Row]
    """One row per queue that has jobs or is paused. `lost`: of its running jobs, those whose worker is dead."""
    workers: list[Worker]
    """Dead workers come first."""
    due: int
    """Sites whose next run is due and has not started."""
    stuck: list[Row]
    paused: list[Row]
    failed: list[Row]
    failing: list[Row]
    """Sites whose last run did not succeed, by `kind` (source, failed, partial, no_documents) and error code."""
    documents: list[Row]
    """Documents that failed permanently, by error code; the first row has the total. Empty if there is none."""
    deliveries: list[Row]
    """Failed deliveries of saved searches by error code."""
    disks: list[Row]
    """Disks that workers write to, those with little free space first."""
    skipped: list[Row]
    """Sites whose source has entries that did not become documents, those with the most first. `all_entries`,
    `all_sites` and `all_since`: of all such sites."""
    edited_extractors: list[Row]
    """Extractors whose code changed without a new version."""
    periodic_tasks: list[Row]
    """Periodic tasks whose last job failed."""
    errors: list[Row]
    """Errors of the last seven days, grouped by site, stage and code, with the latest document of each group."""
    events: list[Row]
    """Runs, repairs and operator actions of the last seven days, the newest first. A run that ended has its counts."""
    failures_last_hour: int
    failures_per_hour_before: float
    """Average of the 24 hours before the last one."""
    runs_last_day: int
    violations: dict[str, int] | None
    """Invariant → number of violations. None: the check took longer than its time limit."""
    triggers: list[str]
    """Accounting triggers that are missing or disabled."""
    standby_wait: timedelta | None
    """For how long the oldest commit has been waiting for a synchronous standby."""
    database: DatabaseHealth

    @property
    def open_jobs(self) -> int:
        """Jobs that wait, are scheduled or run, in all queues; without retries of deliveries, which may take hours."""
        return sum(
            queue["waiting"] + queue["running"] + (queue["scheduled"] if queue["queue"] != DELIVERY_QUEUE else 0)
            for queue in self.queues
        )

    def as_dict(self) -> Row:
        return asdict(self)


@dataclass(frozen=True)
class SlowStats:
    """The statistics that take long to compute. A caller that polls can keep them for a while."""

    durations: dict[str, Row]
    """Stage → median and 90th percentile of its sites and jobs."""
    rates: dict[str, Row]
    """Queue → jobs that finished in the last hour, and jobs per hour now."""
    violations: dict[str, int] | None
    database: DatabaseHealth


def read_slow_stats(connection: Connection) -> SlowStats:
    return SlowStats(
        durations={row["stage"]: row for row in fetch_rows(connection, _DURATIONS)},
        rates={row["queue"]: row for row in fetch_rows(connection, _RATES)},
        violations=_read_violations(connection),
        database=read_database_health(connection),
    )


def read_status(connection: Connection, slow: SlowStats | None = None) -> PipelineStatus:
    (clock,) = fetch_rows(connection, "select clerk_now() as now")
    (health,) = fetch_rows(connection, "select * from pipeline_health")
    (failures,) = fetch_rows(connection, _FAILURES)
    sites = fetch_rows(connection, _SITES)
    slow = slow or read_slow_stats(connection)
    workers = read_workers(connection)
    return PipelineStatus(
        now=clock["now"],
        health=health,
        sites=_sum_by(sites, "stage"),
        outcomes=_sum_by([row for row in sites if row["outcome"] is not None], "outcome"),
        stages=_read_stages(connection, slow.durations),
        queues=[
            _add_rate(row, slow.rates.get(row["queue"], {}), clock["now"], workers) for row in read_queues(connection)
        ],
        workers=workers,
        due=fetch_rows(connection, "select count(*)::integer as sites from due_sites")[0]["sites"],
        stuck=fetch_rows(connection, _STUCK, limit=MAX_ROWS),
        paused=fetch_rows(connection, _PAUSED, limit=MAX_ROWS),
        failed=fetch_rows(connection, _FAILED, limit=MAX_ROWS),
        failing=fetch_rows(connection, _FAILING, limit=MAX_ROWS),
        documents=fetch_rows(connection, _DOCUMENTS),
        deliveries=fetch_rows(connection, _DELIVERIES),
        disks=fetch_rows(connection, _DISKS),
        skipped=fetch_rows(connection, _SKIPPED, limit=MAX_ROWS),
        edited_extractors=fetch_rows(connection, _EDITED_EXTRACTORS, limit=MAX_ROWS),
        periodic_tasks=read_periodic_tasks(connection),
        errors=fetch_rows(connection, _ERRORS, limit=MAX_ROWS),
        events=fetch_rows(connection, _EVENTS, limit=_MAX_EVENTS),
        failures_last_hour=failures["last_hour"],
        failures_per_hour_before=float(failures["per_hour_before"]),
        runs_last_day=fetch_rows(connection, _RUNS)[0]["runs"],
        violations=slow.violations,
        triggers=[row["problem"] for row in fetch_rows(connection, _TRIGGERS)],
        standby_wait=fetch_rows(connection, _STANDBY_WAIT)[0]["wait"],
        database=slow.database,
    )


def read_queues(connection: Connection) -> list[Row]:
    return fetch_rows(connection, _QUEUES)


def read_periodic_tasks(connection: Connection) -> list[Row]:
    """Those whose last job failed."""
    return fetch_rows(connection, _PERIODIC_TASKS)


def _sum_by(rows: list[Row], column: str) -> dict[str, int]:
    totals: dict[str, int] = {}
    for row in rows:
        totals[row[column]] = totals.get(row[column], 0) + row["sites"]
    return dict(sorted(totals.items(), key=lambda item: -item[1]))


def _read_stages(connection: Connection, durations: dict[str, Row]) -> list[Row]:
    counts = {row["stage"]: row for row in fetch_rows(connection, _STAGES)}
    last_minute = {row["stage"]: row for row in fetch_rows(connection, _LAST_MINUTE)}
    zeros = dict.fromkeys(
        (
            *("sites", "total", "completed", "failed", "run_total", "run_completed", "run_failed"),
            *("jobs_last_minute", "pages_last_minute"),
        ),
        0,
    )
    return [
        {"stage": stage, **zeros, **counts.get(stage, {}), **last_minute.get(stage, {}), **durations.get(stage, {})}
        for stage in STAGES
    ]


def _add_rate(queue: Row, rates: Row, now: datetime, workers: list[Worker]) -> Row:
    """Add the rate and the time at which the queue is empty, as the view queue_backlog computes it, if a worker takes
    its jobs."""
    open_jobs, rate = queue["waiting"] + queue["running"], rates.get("recent_rate")
    moves = queue["running"] > queue["lost"] and any(worker.takes_jobs(queue["queue"]) for worker in workers)
    is_known = rate and queue["waiting"] and moves and not queue["paused"]
    left = timedelta(hours=open_jobs / rate) if is_known else None
    eta = now + left if left is not None and left < MAX_ETA else None
    return {**queue, "rate_per_hour": rates.get("rate_per_hour", 0), "eta": eta}


def _read_violations(connection: Connection) -> dict[str, int] | None:
    try:
        # Rolled back, so that the time limit does not apply to later queries of the transaction.
        with connection.transaction(force_rollback=True):
            connection.execute("select set_config('statement_timeout', %s, true)", [_INVARIANTS_TIMEOUT])
            return {row["invariant"]: row["violations"] for row in fetch_rows(connection, _VIOLATIONS)}
    except psycopg.errors.QueryCanceled:
        return None
