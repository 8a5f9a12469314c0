"""The state of the pipeline as Prometheus reads it: a snapshot of the views, in its text format.

Everything is a gauge: the database knows what is so now and what happened in the last hour, not what happened since a
process began. No label names a site or a document, so the number of series does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from clerk.db.migrations.verify import INVARIANTS
from clerk.pipeline.engine import QUEUES, STAGES

Labels = Mapping[str, str]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_HEALTH = "select * from pipeline_health"
_SITES = "select coalesce(current_stage, 'never run') as stage, count(*) as sites from pipeline_overview group by 1"
_QUEUES = """
    select queue, waiting, scheduled, held_back, running, paused, rate_per_hour,
           clerk_now() - oldest_waiting_since as oldest_waiting
    from queue_backlog
"""
_DURATIONS = "select * from stage_durations"
_WORKERS = "select worker_id, host, queues, heartbeat_age, alive from worker_status"
_REPAIRS = """
    select kind, error is not null as failed, count(*) as repairs
    from recent_repairs where at >= clerk_now() - interval '1 hour' group by 1, 2
"""
_IGNORED = """
    select why, count(*) as results
    from recent_ignored_results where at >= clerk_now() - interval '1 hour' group by 1
"""
_TRIGGERS = "select count(*) as problems from trigger_problems"
_VIOLATIONS = "select invariant, count(*) as violations from invariant_violations group by 1"


@dataclass(frozen=True)
class Metric:
    name: str
    help: str
    samples: list[tuple[Labels, float]]


def read_metrics(connection: psycopg.Connection[Any]) -> list[Metric]:
    return [
        *_of_health(connection),
        *_of_queues(connection),
        *_of_durations(connection),
        *_of_workers(connection),
        *_of_troubles(connection),
    ]


def _of_health(connection: psycopg.Connection[Any]) -> list[Metric]:
    (health,) = _rows(connection, _HEALTH)
    return [
        Metric(
            "clerk_sites",
            "Sites by the stage that they are in.",
            [({"stage": row["stage"]}, row["sites"]) for row in _rows(connection, _SITES)],
        ),
        _alone("clerk_sites_active", "Sites whose run is going.", health["active"]),
        _alone("clerk_sites_stuck", "Sites whose run is going and makes no progress.", health["stuck"]),
        _alone("clerk_sites_failed", "Sites whose last run ended as failed.", health["failed"]),
        _alone("clerk_sites_paused", "Sites that are paused.", health["paused"]),
        _alone("clerk_sites_dirty", "Sites whose published archive lacks documents that were healed.", health["dirty"]),
        _alone("clerk_health_score", "Percent of the sites that ever ran which are not stuck.", health["health_score"]),
        Metric(
            "clerk_failure_percent",
            "Failed units of a stage in each site's present or last run.",
            _known(({"stage": stage}, health[f"{stage}_failure_percent"]) for stage in STAGES),
        ),
        Metric(
            "clerk_last_progress_timestamp_seconds",
            "When any site last made progress.",
            _known([({}, health["last_progress_at"])]),
        ),
    ]


def _of_queues(connection: psycopg.Connection[Any]) -> list[Metric]:
    queues = {queue: {"queue": queue} for queue in QUEUES} | {row["queue"]: row for row in _rows(connection, _QUEUES)}
    states = ("waiting", "scheduled", "held_back", "running")
    return [
        Metric(
            "clerk_jobs",
            "Jobs that wait for a worker, for their time or for a resume, and that run.",
            [({"queue": q, "status": s}, row.get(s, 0)) for q, row in queues.items() for s in states],
        ),
        Metric(
            "clerk_jobs_ended_last_hour",
            "Jobs that ended in the last hour, well or not, of queues that are not empty.",
            _known(({"queue": q}, row.get("rate_per_hour")) for q, row in queues.items()),
        ),
        Metric(
            "clerk_oldest_waiting_seconds",
            "For how long the first job of a queue has waited for a worker.",
            [({"queue": q}, _number(row.get("oldest_waiting") or 0)) for q, row in queues.items()],
        ),
        Metric(
            "clerk_queue_paused",
            "1 if the queue is paused.",
            [({"queue": q}, int(row.get("paused", False))) for q, row in queues.items()],
        ),
    ]


def _of_durations(connection: psycopg.Connection[Any]) -> list[Metric]:
    rows = _rows(connection, _DURATIONS)

    def quantiles(median: str, p90: str) -> list[tuple[Labels, float]]:
        return _known(
            ({"stage": row["stage"], "quantile": quantile}, row[column])
            for row in rows
            for quantile, column in (("0.5", median), ("0.9", p90))
        )

    return [
        Metric(
            "clerk_stage_duration_seconds",
            "How long sites stayed in a stage, of runs that ended in the last day.",
            quantiles("median", "p90"),
        ),
        Metric(
            "clerk_job_duration_seconds",
            "How long jobs that ended in the last hour ran.",
            quantiles("job_median", "job_p90"),
        ),
        Metric(
            "clerk_job_queue_seconds",
            "How long jobs that ended in the last hour had waited for a worker.",
            quantiles("wait_median", "wait_p90"),
        ),
    ]


def _of_workers(connection: psycopg.Connection[Any]) -> list[Metric]:
    workers = _rows(connection, _WORKERS)
    return [
        Metric(
            "clerk_workers",
            "Live workers that read a queue.",
            [
                ({"queue": queue}, sum(w["alive"] and (w["queues"] is None or queue in w["queues"]) for w in workers))
                for queue in QUEUES
            ],
        ),
        Metric(
            "clerk_worker_heartbeat_age_seconds",
            "Since when nothing was heard of a worker.",
            [
                ({"worker": str(w["worker_id"]), "host": w["host"] or "unknown"}, _number(w["heartbeat_age"]))
                for w in workers
            ],
        ),
    ]


def _of_troubles(connection: psycopg.Connection[Any]) -> list[Metric]:
    repairs = _rows(connection, _REPAIRS)
    ignored = {row["why"]: row["results"] for row in _rows(connection, _IGNORED)}
    broken = {row["invariant"]: row["violations"] for row in _rows(connection, _VIOLATIONS)}
    return [
        Metric(
            "clerk_repairs_last_hour",
            "Repairs that reconciliation made, by what it found; the kind lease are jobs rescued from lost workers.",
            [({"kind": kind}, repaired) for kind, repaired in _by_kind(repairs, failed=False).items()],
        ),
        _alone(
            "clerk_repairs_failed_last_hour",
            "Repairs that could not be made.",
            sum(_by_kind(repairs, failed=True).values()),
        ),
        Metric(
            "clerk_ignored_results_last_hour",
            "Results that changed nothing: fenced, another claim held the job; stale, the run was over.",
            [({"why": why}, ignored.get(why, 0)) for why in ("fenced", "stale")],
        ),
        _alone(
            "clerk_trigger_problems",
            "Triggers that are missing or disabled: nobody keeps the books.",
            _rows(connection, _TRIGGERS)[0]["problems"],
        ),
        Metric(
            "clerk_invariant_violations",
            "Rows of invariant_violations; all 0 when all is well.",
            [({"invariant": invariant}, broken.get(invariant, 0)) for invariant in sorted({*INVARIANTS, *broken})],
        ),
    ]


def _by_kind(repairs: list[dict[str, Any]], *, failed: bool) -> dict[str, int]:
    """`lease` is always there, so that an alert on rescues has something to look at."""
    return {"lease": 0} | {row["kind"]: row["repairs"] for row in repairs if row["failed"] == failed}


def render(metrics: Iterable[Metric]) -> str:
    """The text exposition format, version 0.0.4. A metric without samples is left out."""
    lines = []
    for metric in metrics:
        if metric.samples:
            lines += [f"# HELP {metric.name} {_escaped(metric.help)}", f"# TYPE {metric.name} gauge"]
            lines += [f"{metric.name}{_in_braces(labels)} {float(value)!r}" for labels, value in metric.samples]
    return "".join(line + "\n" for line in lines)


def _in_braces(labels: Labels) -> str:
    def quoted(value: str) -> str:
        return '"' + _escaped(value).replace('"', '\\"') + '"'

    return "{" + ",".join(f"{name}={quoted(value)}" for name, value in labels.items()) + "}" if labels else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _alone(name: str, help_text: str, value: Any) -> Metric:
    return Metric(name, help_text, [({}, _number(value))])


def _known(samples: Iterable[tuple[Labels, Any]]) -> list[tuple[Labels, float]]:
    """Without those of which nothing is known: a missing series says so, a zero would lie."""
    return [(labels, _number(value)) for labels, value in samples if value is not None]


def _number(value: Any) -> float:
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.timestamp()
        case _:
            return float(value)


def _rows(connection: psycopg.Connection[Any], query: LiteralString) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query).fetchall()
