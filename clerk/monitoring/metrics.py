"""Prometheus metrics of the pipeline, read from the database at each scrape.

Every metric is a gauge: the database holds the current state and the events of the last hour, no counters since a
process started. No label names a site or a document, so the number of series does not grow with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from clerk.db.migrations.verify import INVARIANTS
from clerk.monitoring.alerts import KINDS, find_alerts
from clerk.monitoring.query import Connection, Row, fetch_rows
from clerk.monitoring.status import PipelineStatus, read_status
from clerk.pipeline.engine import QUEUES, STAGES

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_REPAIRS = """
select kind, error is not null as failed, count(*) as repairs
from recent_repairs where at >= clerk_now() - interval '1 hour' group by 1, 2
"""
_IGNORED_RESULTS = """
select why, count(*) as results
from recent_ignored_results where at >= clerk_now() - interval '1 hour' group by 1
"""
_TABLES = """
select table_name, dead_rows, vacuum_threshold, table_bytes, index_bytes,
       clerk_now() - greatest(last_vacuum, last_autovacuum) as vacuum_age
from table_health order by 1
"""
_INDEXES = "select table_name, index_name, size_bytes, bloat_bytes from index_bloat order by 1, 2"
_SNAPSHOTS = """
select kind, max(clerk_now() - since) as age, max(transactions) as transactions from snapshot_holders group by 1
"""
# The names of other applications may have a number per connection.
_CONNECTIONS = """
select case when application in ('clerk', 'clerk worker', 'clerk dashboard') then application else 'other' end
           as application,
       coalesce(state, 'unknown') as state, sum(connections)::integer as connections
from connections group by 1, 2 order by 1, 2
"""
_RECONCILIATION = """
select clerk_now() - max(ended_at) as age from recent_reconciliations where subdomain is null
"""

Samples = Iterable[tuple[Mapping[str, str], Any]]


def read_metrics(connection: Connection) -> list[Metric]:
    status = read_status(connection)
    return [
        *_sites(status),
        *_queues(status),
        *_durations(status),
        *_workers(status),
        *_repairs(connection),
        *_violations(status),
        *_attention(status),
        *_database(connection, status.database.health),
        *_snapshots(connection),
        *_tables(connection),
        *_indexes(connection),
    ]


def render(metrics: Iterable[Metric]) -> str:
    """The text exposition format, version 0.0.4. A metric without samples is left out."""
    registry = CollectorRegistry()
    registry.register(_Snapshot([metric for metric in metrics if metric.samples]))
    return generate_latest(registry).decode()


class _Snapshot(Collector):
    """Metrics that were read before the scrape."""

    def __init__(self, metrics: list[Metric]) -> None:
        self.metrics = metrics

    def collect(self) -> list[Metric]:
        return self.metrics


def _sites(status: PipelineStatus) -> Iterator[Metric]:
    health = status.health
    yield _gauge(
        "clerk_sites",
        "Sites by their current stage.",
        [({"stage": stage}, sites) for stage, sites in status.sites.items()],
    )
    yield _single("clerk_sites_active", "Sites with an active run.", health["active"])
    yield _single("clerk_sites_stuck", "Sites whose active run makes no progress.", health["stuck"])
    yield _single("clerk_sites_failed", "Sites whose last run failed.", health["failed"])
    yield _single("clerk_sites_paused", "Sites that are paused.", health["paused"])
    yield _single(
        "clerk_sites_dirty", "Sites whose published archive lacks documents that recovered later.", health["dirty"]
    )
    yield _single(
        "clerk_health_score",
        "Percentage of the sites with a run that are not stuck.",
        health["health_score"],
    )
    yield _single(
        "clerk_sites_healthy",
        "Sites whose last run succeeded or found nothing new, with no failed documents, not stuck.",
        health["healthy"],
    )
    yield _single(
        "clerk_healthy_percent",
        "Percentage of the sites with a run that has ended, or that are stuck, that are healthy.",
        health["healthy_percent"],
    )
    yield _single("clerk_sites_source_failing", "Sites whose last fetch failed.", health["failing_sources"])
    yield _gauge(
        "clerk_failure_percent",
        "Percentage of failed units of a stage, in each site's current or last run.",
        [({"stage": stage}, health[f"{stage}_failure_percent"]) for stage in STAGES],
    )
    yield _single(
        "clerk_last_progress_timestamp_seconds", "Time of the last progress of any site.", health["last_progress_at"]
    )


def _queues(status: PipelineStatus) -> Iterator[Metric]:
    queues: dict[str, Row] = {queue: {} for queue in QUEUES} | {row["queue"]: row for row in status.queues}
    states = ("waiting", "scheduled", "on_hold", "running")
    yield _gauge(
        "clerk_jobs",
        "Jobs that wait for a worker, are scheduled for later, are on hold, or run.",
        [({"queue": queue, "status": state}, row.get(state, 0)) for queue, row in queues.items() for state in states],
    )
    yield _gauge(
        "clerk_jobs_ended_last_hour",
        "Jobs that succeeded or failed in the last hour, of queues that are not empty.",
        [({"queue": queue}, row.get("rate_per_hour")) for queue, row in queues.items()],
    )
    yield _gauge(
        "clerk_oldest_waiting_seconds",
        "Waiting time of the oldest job that waits for a worker.",
        [
            ({"queue": queue}, status.now - since if (since := row.get("oldest_waiting_since")) else 0)
            for queue, row in queues.items()
        ],
    )
    yield _gauge(
        "clerk_queue_paused",
        "1 if the queue is paused.",
        [({"queue": queue}, int(row.get("paused", False))) for queue, row in queues.items()],
    )


def _durations(status: PipelineStatus) -> Iterator[Metric]:
    def quantiles(prefix: str) -> Samples:
        return [
            ({"stage": row["stage"], "quantile": quantile}, row.get(f"{prefix}_{column}"))
            for row in status.stages
            for quantile, column in (("0.5", "median"), ("0.9", "p90"))
        ]

    yield _gauge(
        "clerk_stage_duration_seconds",
        "Time that sites spent in a stage, of runs that ended in the last day.",
        quantiles("site"),
    )
    yield _gauge(
        "clerk_job_duration_seconds", "Execution time of jobs that finished in the last hour.", quantiles("job")
    )
    yield _gauge(
        "clerk_job_queue_seconds",
        "Time that jobs waited for a worker, of those that finished in the last hour.",
        quantiles("wait"),
    )


def _workers(status: PipelineStatus) -> Iterator[Metric]:
    yield _gauge(
        "clerk_workers",
        "Live workers that process a queue.",
        [({"queue": queue}, sum(worker.takes_jobs(queue) for worker in status.workers)) for queue in QUEUES],
    )
    problems = Counter((p.queue, p.error_code) for worker in status.workers for p in worker.problems.values())
    yield _gauge(
        "clerk_host_problems",
        "Live workers that cannot process jobs of a queue because of a problem of their machine, such as a full disk.",
        [({"queue": queue, "error_code": code}, count) for (queue, code), count in sorted(problems.items())],
    )
    yield _gauge(
        "clerk_worker_heartbeat_age_seconds",
        "Time since the last heartbeat of a worker.",
        [
            (
                {"worker": str(worker.worker_id), "host": worker.host or "unknown"},
                status.now - worker.last_heartbeat,
            )
            for worker in status.workers
        ],
    )


def _attention(status: PipelineStatus) -> Iterator[Metric]:
    counts = dict.fromkeys(KINDS, 0)
    since: dict[str, datetime] = {}
    for alert in find_alerts(status):
        counts[alert.kind] += alert.count
        if alert.since is not None:
            since[alert.kind] = min(alert.since, since.get(alert.kind, alert.since))
    # Only a command knows it, of its own machine.
    del counts["sandbox"]
    yield _gauge(
        "clerk_attention",
        "What `clerk status` lists, by kind: how many sites, documents, workers … need attention.",
        [({"kind": kind, "severity": KINDS[kind]}, count) for kind, count in counts.items()],
    )
    yield _gauge(
        "clerk_attention_since_timestamp_seconds",
        "Since when. Absent if it is unknown or nothing of this kind needs attention.",
        [({"kind": kind}, moment) for kind, moment in since.items()],
    )
    for name, documentation, column in (
        ("clerk_disk_free_bytes", "Free space of a disk that workers write to.", "free_bytes"),
        ("clerk_disk_bytes", "Size of a disk that workers write to.", "total_bytes"),
    ):
        samples = [({"host": disk["host"], "folder": disk["folder"]}, disk[column]) for disk in status.disks]
        yield _gauge(name, documentation, samples)


def _repairs(connection: Connection) -> Iterator[Metric]:
    repairs = fetch_rows(connection, _REPAIRS)
    # The kind lease is always present, so that an alert on rescued jobs has a series to watch.
    done = {"lease": 0} | {row["kind"]: row["repairs"] for row in repairs if not row["failed"]}
    ignored = {row["why"]: row["results"] for row in fetch_rows(connection, _IGNORED_RESULTS)}
    yield _gauge(
        "clerk_repairs_last_hour",
        "Repairs by reconciliation, by kind. The kind lease counts jobs rescued from lost workers.",
        [({"kind": kind}, count) for kind, count in done.items()],
    )
    yield _single(
        "clerk_repairs_failed_last_hour",
        "Repairs by reconciliation that failed.",
        sum(row["repairs"] for row in repairs if row["failed"]),
    )
    yield _single(
        "clerk_reconciliation_age_seconds",
        "Time since a reconciliation of all sites finished. Absent if none did in the last seven days.",
        fetch_rows(connection, _RECONCILIATION)[0]["age"],
    )
    yield _gauge(
        "clerk_ignored_results_last_hour",
        "Job results that were rejected: fenced (another claim held the job) or stale (the run had ended).",
        [({"why": why}, ignored.get(why, 0)) for why in ("fenced", "stale")],
    )


def _violations(status: PipelineStatus) -> Iterator[Metric]:
    yield _single("clerk_trigger_problems", "Triggers that are missing or disabled.", len(status.triggers))
    counts = status.violations or {}
    yield _gauge(
        "clerk_invariant_violations",
        "Rows of the view invariant_violations. Absent if the check took longer than its time limit.",
        [
            ({"invariant": invariant}, None if status.violations is None else counts.get(invariant, 0))
            for invariant in sorted({*INVARIANTS, *counts})
        ],
    )


def _database(connection: Connection, health: Row) -> Iterator[Metric]:
    yield _single("clerk_database_bytes", "Size of the database.", health["database_bytes"])
    yield _single(
        "clerk_connections_used", "Connections to the database server, of all databases.", health["connections"]
    )
    yield _single(
        "clerk_connections_limit",
        "max_connections of the database server without those reserved for administrators.",
        health["connection_limit"],
    )
    yield _gauge(
        "clerk_connections",
        "Connections to the database server by application and state, without the one that reads this.",
        [
            ({"application": row["application"], "state": row["state"]}, row["connections"])
            for row in fetch_rows(connection, _CONNECTIONS)
        ],
    )
    yield _single(
        "clerk_idle_in_transaction_seconds",
        "How long the session that is idle in a transaction for longest has been so. Absent if there is none.",
        health["longest_idle_in_transaction"],
    )
    yield _single(
        "clerk_notification_queue_usage_ratio",
        "Used part of the NOTIFY queue of the database server, from 0 to 1.",
        health["notification_queue_percent"] / 100,
    )


def _snapshots(connection: Connection) -> Iterator[Metric]:
    rows = fetch_rows(connection, _SNAPSHOTS)
    yield _gauge(
        "clerk_oldest_snapshot_seconds",
        "Age of the oldest snapshot by the kind of its holder. Absent if there is none, or its age is unknown.",
        [({"kind": row["kind"]}, row["age"]) for row in rows],
    )
    yield _gauge(
        "clerk_oldest_snapshot_transactions",
        "Transactions that began after the oldest snapshot, by the kind of its holder.",
        [({"kind": row["kind"]}, row["transactions"]) for row in rows],
    )


def _tables(connection: Connection) -> Iterator[Metric]:
    rows = fetch_rows(connection, _TABLES)
    for name, documentation, column in (
        ("clerk_table_dead_rows", "Rows of a table that a vacuum would remove. An estimate.", "dead_rows"),
        ("clerk_table_vacuum_threshold", "Dead rows at which autovacuum starts.", "vacuum_threshold"),
        ("clerk_table_vacuum_age_seconds", "Time since a table's last vacuum. Absent if none.", "vacuum_age"),
        ("clerk_table_bytes", "Size of a table without its indexes.", "table_bytes"),
        ("clerk_table_index_bytes", "Size of all indexes of a table.", "index_bytes"),
    ):
        yield _gauge(name, documentation, [({"table": row["table_name"]}, row[column]) for row in rows])


def _indexes(connection: Connection) -> Iterator[Metric]:
    rows = [({"table": row["table_name"], "index": row["index_name"]}, row) for row in fetch_rows(connection, _INDEXES)]
    yield _gauge("clerk_index_bytes", "Size of a btree index.", [(labels, row["size_bytes"]) for labels, row in rows])
    yield _gauge(
        "clerk_index_bloat_bytes",
        "What a reindex would free. An estimate; absent before the first vacuum and analyze of the table.",
        [(labels, row["bloat_bytes"]) for labels, row in rows],
    )


def _single(name: str, documentation: str, value: Any) -> Metric:
    return _gauge(name, documentation, [({}, value)])


def _gauge(name: str, documentation: str, samples: Samples) -> Metric:
    """A sample whose value is None is unknown and left out: a missing series is correct, a zero is not."""
    metric = GaugeMetricFamily(name, documentation)
    for labels, value in samples:
        if value is not None:
            metric.add_sample(name, dict(labels), _number(value))
    return metric


def _number(value: Any) -> float:
    match value:
        case timedelta():
            return value.total_seconds()
        case datetime():
            return value.timestamp()
        case _:
            return float(value)
