"""How the whole pipeline is doing, from the views in one snapshot. Lists are cut; the counts beside them are whole."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from clerk.monitoring.workers import Worker, read_workers
from clerk.pipeline.engine import STAGES

Connection = psycopg.Connection[Any]
Row = dict[str, Any]

LISTED = 10
_INVARIANTS_TIMEOUT = "2s"

_GOING = """
select v.stage, count(*) as sites, sum(v.total)::integer as total, sum(v.completed)::integer as completed,
       sum(v.failed)::integer as failed
from pipeline_overview o
cross join lateral (values
    ('fetch', 1, o.fetch_total, o.fetch_completed, o.fetch_failed),
    ('ocr', 2, o.ocr_total, o.ocr_completed, o.ocr_failed),
    ('compilation', 3, o.compilation_total, o.compilation_completed, o.compilation_failed),
    ('extraction', 3, o.extraction_total, o.extraction_completed, o.extraction_failed),
    ('deploy', 4, o.deploy_total, o.deploy_completed, o.deploy_failed)
) v (stage, phase, total, completed, failed)
where o.phase = v.phase
group by v.stage
"""
_OUTCOMES = (
    "select outcome, count(*) as sites from pipeline_overview where outcome is not null group by 1 order by 2 desc"
)
# Without the rate, so that the planner leaves out the events of the last hour, of which there can be millions.
_QUEUES = """
select queue, waiting::integer, scheduled::integer, held_back::integer, running::integer, oldest_waiting_since, paused,
       paused_at, paused_by
from queue_backlog order by queue
"""
_RATES = "select queue, rate_per_hour::integer from queue_backlog"
_STUCK = """
select subdomain, current_stage as stage, idle_for from stuck_sites order by idle_for desc nulls first limit %(most)s
"""
_PAUSED = "select subdomain, paused_at, paused_by from pipeline_overview where paused order by paused_at limit %(most)s"
_FAILED = """
select subdomain, last_error_stage as stage, last_error_message as message
from pipeline_overview where outcome = 'failed' order by updated_at desc limit %(most)s
"""
_ERRORS = """
select at, subdomain, stage, meeting, date, error_code, error_message from recent_errors limit %(most)s
"""
_RISING = """
select (select count(*) from recent_errors where at >= clerk_now() - interval '1 hour') as last_hour,
       (select count(*) from recent_errors
        where at >= clerk_now() - interval '25 hours' and at < clerk_now() - interval '1 hour') / 24.0
           as per_hour_before
"""
_DURATIONS = "select stage, median as site_median, job_median, wait_median from stage_durations"
_RUNS = """
select completed + failed as runs from completions_per_hour
where stage = 'completed' and hour > clerk_now() - interval '24 hours'
"""
_BROKEN = "select invariant, count(*)::integer as problems from invariant_violations group by 1 order by 1"


@dataclass(frozen=True)
class PipelineStatus:
    now: datetime
    health: Row
    """The row of pipeline_health."""
    stages: list[Row]
    """One per stage: sites that are in it, units of theirs, and how long it takes."""
    outcomes: dict[str, int]
    """How the last runs ended → sites."""
    queues: list[Row]
    workers: list[Worker]
    """The dead first."""
    stuck: list[Row]
    paused: list[Row]
    failed: list[Row]
    errors: list[Row]
    failures_last_hour: int
    failures_per_hour_before: float
    runs_last_day: int
    broken: dict[str, int] | None
    """Invariant → how often it is broken. None: it took too long to find out."""
    triggers: list[str]

    def as_dict(self) -> Row:
        return asdict(self)


@dataclass(frozen=True)
class SlowStats:
    """What takes long to find out. Whoever looks again and again may find it out less often."""

    durations: dict[str, Row]
    """Stage → how long its sites and jobs take."""
    rates: dict[str, int]
    """Queue → jobs that ended in the last hour."""
    runs_last_day: int
    broken: dict[str, int] | None


def read_slow(connection: Connection) -> SlowStats:
    return SlowStats(
        durations={row["stage"]: row for row in _rows(connection, _DURATIONS)},
        rates={row["queue"]: row["rate_per_hour"] for row in _rows(connection, _RATES)},
        runs_last_day=sum(row["runs"] for row in _rows(connection, _RUNS)),
        broken=_broken(connection),
    )


def read_status(connection: Connection, slow: SlowStats | None = None) -> PipelineStatus:
    """Meant for a transaction that sees one moment: `reading` in clerk.db.connection."""
    slow = slow or read_slow(connection)
    rising = _rows(connection, _RISING)[0]
    now = _rows(connection, "select clerk_now() as now")[0]["now"]
    return PipelineStatus(
        now=now,
        health=_rows(connection, "select * from pipeline_health")[0],
        stages=_stages(connection, slow.durations),
        outcomes={row["outcome"]: row["sites"] for row in _rows(connection, _OUTCOMES)},
        queues=[_with_rate(row, slow.rates.get(row["queue"], 0), now) for row in _rows(connection, _QUEUES)],
        workers=read_workers(connection),
        stuck=_rows(connection, _STUCK),
        paused=_rows(connection, _PAUSED),
        failed=_rows(connection, _FAILED),
        errors=_rows(connection, _ERRORS),
        failures_last_hour=rising["last_hour"],
        failures_per_hour_before=float(rising["per_hour_before"]),
        runs_last_day=slow.runs_last_day,
        triggers=[
            f"trigger {row['name']} {row['problem']}" for row in _rows(connection, "select * from trigger_problems")
        ],
        broken=slow.broken,
    )


def _stages(connection: Connection, durations: dict[str, Row]) -> list[Row]:
    going = {row["stage"]: row for row in _rows(connection, _GOING)}
    nothing = {"sites": 0, "total": 0, "completed": 0, "failed": 0}
    return [{"stage": stage, **nothing, **going.get(stage, {}), **durations.get(stage, {})} for stage in STAGES]


def _with_rate(queue: Row, rate: int, now: datetime) -> Row:
    """With what the view would say, too: when the queue is empty at that rate, if nothing comes."""
    left = queue["waiting"] + queue["running"]
    eta = now + timedelta(hours=left / rate) if rate and not queue["paused"] else None
    return {**queue, "rate_per_hour": rate, "eta": eta}


def _broken(connection: Connection) -> dict[str, int] | None:
    try:
        # Rolled back, so that its time limit does not hold for what is read afterwards.
        with connection.transaction(force_rollback=True):
            connection.execute("select set_config('statement_timeout', %s, true)", [_INVARIANTS_TIMEOUT])
            return {row["invariant"]: row["problems"] for row in _rows(connection, _BROKEN)}
    except psycopg.errors.QueryCanceled:
        return None


def _rows(connection: Connection, query: LiteralString, most: int = LISTED) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, {"most": most}).fetchall()
