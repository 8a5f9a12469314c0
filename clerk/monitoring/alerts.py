"""Alerts: the conditions of the pipeline that need an operator, the most severe first, each with a remedy."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from clerk.errors import job_error_class
from clerk.humanize import format_bytes, format_duration, format_relative, format_timestamp, join_words, pluralize
from clerk.monitoring import worker_text
from clerk.monitoring.database_health import (
    MAX_CONNECTIONS_PERCENT,
    MAX_IDLE_IN_TRANSACTION,
    MAX_NOTIFICATION_QUEUE_PERCENT,
)
from clerk.monitoring.query import Row
from clerk.monitoring.status import ABSENT_TRIGGER, PipelineStatus

_MAX_NAMES = 3
_MIN_FAILURES = 10
_MIN_STANDBY_WAIT = timedelta(seconds=2)
_INCREASE_FACTOR = 3
"""Failures of the last hour count as an increase when they exceed this multiple of the average hour before."""
_SNAPSHOT_REMEDIES = {
    "session": "unless it is a backup, end it: select pg_terminate_backend({pid})",
    "standby": "end the long query on the standby, or set hot_standby_feedback = off there",
    "prepared transaction": "if its client is gone: rollback prepared '{holder}'",
    "replication slot": "if its consumer is gone: select pg_drop_replication_slot('{holder}')",
}
"""Kind of the holder → remedy."""


@dataclass(frozen=True)
class Alert:
    kind: str
    """Code for programs."""
    what: str
    remedy: str
    site: str | None = None
    """The only site that it is about."""
    queue: str | None = None


def find_alerts(status: PipelineStatus) -> list[Alert]:
    return [
        *_triggers(status),
        *_standby_wait(status),
        *_unprocessed_queues(status),
        *_host_problems(status),
        *_stuck_sites(status),
        *_dead_workers(status),
        *_violations(status),
        *_connections(status),
        *_notification_queue(status),
        *_snapshots(status),
        *_dead_rows(status),
        *_bloat(status),
        *_increasing_failures(status),
        *_failed_runs(status),
        *_skipped_entries(status),
        *_paused_queues(status),
        *_paused_sites(status),
    ]


def _triggers(status: PipelineStatus) -> list[Alert]:
    if not status.triggers:
        return []
    # Of a trigger that should not be enabled, the problem says what follows.
    absent = [problem for problem in status.triggers if problem.endswith(ABSENT_TRIGGER)]
    other = [problem for problem in status.triggers if problem not in absent]
    what = [f"{join_words(absent)}: finished jobs are not recorded"] if absent else []
    return [Alert("triggers", "; ".join(what + other), "restore it: clerk db up")]


def _standby_wait(status: PipelineStatus) -> list[Alert]:
    if status.standby_wait is None or status.standby_wait < _MIN_STANDBY_WAIT:
        return []
    what = (
        f"a commit has been waiting for a synchronous standby for {format_duration(status.standby_wait)}:"
        " no result can be recorded"
    )
    return [Alert("standby_wait", what, "start the standby, or remove it from synchronous_standby_names")]


def _unprocessed_queues(status: PipelineStatus) -> list[Alert]:
    return [
        Alert(
            "no_worker",
            f"{worker_text.no_worker(status, queue['queue'])}; {_jobs_wait(queue['waiting'])}",
            f"start a worker: clerk worker --queues {queue['queue']}",
        )
        for queue in status.queues
        if queue["waiting"] and not worker_text.workers_of(status, queue["queue"])
    ]


def _host_problems(status: PipelineStatus) -> list[Alert]:
    return [
        Alert(
            "host_problem",
            worker_text.cannot_process(status, queue),
            next(job_error_class(w.problems[queue].error_code).remedy for w in status.workers if queue in w.problems),
        )
        for queue in sorted({queue for worker in status.workers for queue in worker.problems})
    ]


def _jobs_wait(jobs: int) -> str:
    return f"{pluralize(jobs, 'job')} {'waits' if jobs == 1 else 'wait'}"


def _stuck_sites(status: PipelineStatus) -> list[Alert]:
    sites = status.health["stuck"]
    if not sites:
        return []
    names = [f"{row['subdomain']} (no progress for {format_duration(row['idle_for'])})" for row in status.stuck]
    remedy = f"see the reason: clerk why {status.stuck[0]['subdomain']}"
    what = f"{_are(sites, 'site')} stuck: {_first_names(names, sites)}"
    return [Alert("stuck", what, remedy, site=_only_site(status.stuck, sites))]


def _dead_workers(status: PipelineStatus) -> list[Alert]:
    dead = [worker for worker in status.workers if not worker.alive]
    if not dead:
        return []
    names = [
        f"{worker_text.worker_name(worker)} (last heartbeat {format_relative(worker.last_heartbeat, status.now)})"
        for worker in dead
    ]
    what = f"{_are(len(dead), 'worker')} dead: {_first_names(names, len(dead))}"
    return [Alert("dead_worker", what, "other workers take over its jobs; restart it: clerk worker")]


def _violations(status: PipelineStatus) -> list[Alert]:
    if status.violations is None:
        what = "the invariants could not be checked within 2 s"
        return [Alert("unchecked", what, "check them without a time limit: clerk verify")]
    if not status.violations:
        return []
    kinds = ", ".join(f"{invariant}: {count:,}" for invariant, count in status.violations.items())
    what = f"{pluralize(sum(status.violations.values()), 'invariant violation')} ({kinds})"
    # By default reconciliation leaves a site alone that has changed within two hours.
    remedy = (
        "see clerk verify; reconciliation repairs a site once it has made no progress for 2 hours;"
        " now: clerk reconcile-pipeline --threshold-hours 0"
    )
    return [Alert("violations", what, remedy)]


def _connections(status: PipelineStatus) -> list[Alert]:
    health, alerts = status.database.health, []
    used, limit = health["connections"], health["connection_limit"]
    if 100 * used >= MAX_CONNECTIONS_PERCENT * limit:
        what = f"{used:,} of {limit:,} connections of the database server are used"
        remedy = "see who has them: select * from connections; raise max_connections, or put a pooler in front"
        alerts.append(Alert("connections", what, remedy))
    longest = health["longest_idle_in_transaction"]
    if longest is not None and longest > MAX_IDLE_IN_TRANSACTION:
        what = f"a session has been idle in its transaction for {format_duration(longest)} and may hold locks"
        remedy = "find its process: select * from connections where state like 'idle in transaction%'; end it"
        alerts.append(Alert("idle_in_transaction", what, remedy))
    return alerts


def _notification_queue(status: PipelineStatus) -> list[Alert]:
    percent = status.database.health["notification_queue_percent"]
    if percent < MAX_NOTIFICATION_QUEUE_PERCENT:
        return []
    what = f"the NOTIFY queue of the database server is {percent:.0f} % full: when it is full, no job can start or end"
    remedy = (
        "end the session that listens in an old transaction: select * from connections order by longest_in_state desc"
    )
    return [Alert("notification_queue", what, remedy)]


def _snapshots(status: PipelineStatus) -> list[Alert]:
    snapshots = status.database.snapshots
    if not snapshots:
        return []
    names = [_snapshot_name(row, status) for row in snapshots]
    what = f"vacuum cannot remove dead rows because of {_first_names(names, len(names))}"
    oldest = snapshots[0]
    remedy = _SNAPSHOT_REMEDIES[oldest["kind"]].format_map({key: str(value) for key, value in oldest.items()})
    return [Alert("old_snapshot", what, remedy)]


def _snapshot_name(row: Row, status: PipelineStatus) -> str:
    user = f" of {row['user_name']}" if row["user_name"] else ""
    process = f", process {row['pid']}" if row["pid"] else ""
    age = f"since {format_timestamp(row['since'], status.now)}" if row["since"] else "of unknown age"
    return f"{row['kind']} {row['holder']!r}{user} ({age}{process})"


def _dead_rows(status: PipelineStatus) -> list[Alert]:
    tables = status.database.dead_rows
    if not tables:
        return []
    names = [f"{row['table_name']} ({row['dead_rows']:,})" for row in tables]
    what = f"autovacuum is late: dead rows in {_first_names(names, len(names))}"
    return [Alert("dead_rows", what, "is an old snapshot listed here? End it first; then clerk db maintain")]


def _bloat(status: PipelineStatus) -> list[Alert]:
    indexes = status.database.bloat
    if not indexes:
        return []
    names = [f"{row['index_name']} ({format_bytes(row['bloat_bytes'])})" for row in indexes]
    what = f"{_are(len(indexes), 'index', 'indexes')} bloated: {_first_names(names, len(names))}"
    return [Alert("index_bloat", what, "rebuild while workers run: clerk db maintain")]


def _increasing_failures(status: PipelineStatus) -> list[Alert]:
    count, before = status.failures_last_hour, status.failures_per_hour_before
    if count < _MIN_FAILURES or count <= _INCREASE_FACTOR * before:
        return []
    what = f"failures increase: {count:,} in the last hour, {before:,.0f} per hour in the day before"
    return [Alert("failures", what, "see clerk failures")]


def _failed_runs(status: PipelineStatus) -> list[Alert]:
    sites = status.health["failed"]
    if not sites:
        return []
    names = [row["subdomain"] for row in status.failed]
    what = f"the last run of {pluralize(sites, 'site')} failed: {_first_names(names, sites)}"
    return [Alert("failed", what, f"see the reason: clerk why {names[0]}", site=_only_site(status.failed, sites))]


def _skipped_entries(status: PipelineStatus) -> list[Alert]:
    if not status.skipped:
        return []
    first = status.skipped[0]
    entries, sites = first["all_entries"], first["all_sites"]
    names = [f"{row['subdomain']} ({row['entries']:,})" for row in status.skipped]
    what = (
        f"{pluralize(entries, 'entry', 'entries')} of {pluralize(sites, 'source')}"
        f" {'was' if entries == 1 else 'were'} skipped: {_first_names(names, sites)}"
    )
    site = first["subdomain"]
    remedy = f"list them: clerk site skipped {site}; give a date: clerk site date {site} FILE DATE"
    return [Alert("skipped", what, remedy, site=_only_site(status.skipped, sites))]


def _paused_queues(status: PipelineStatus) -> list[Alert]:
    return [
        Alert(
            "queue_paused",
            f"queue {queue['queue']} is paused by {queue['paused_by']}"
            f" since {format_timestamp(queue['paused_at'], status.now)};"
            f" {_jobs_wait(queue['on_hold']) if queue['on_hold'] else 'no job waits in it'}",
            f"clerk resume --queue {queue['queue']}",
            queue=queue["queue"],
        )
        for queue in status.queues
        if queue["paused"]
    ]


def _paused_sites(status: PipelineStatus) -> list[Alert]:
    sites = status.health["paused"]
    if not sites:
        return []
    names = [f"{row['subdomain']} (by {row['paused_by']})" for row in status.paused]
    what = f"{_are(sites, 'site')} paused: {_first_names(names, sites)}"
    remedy = f"clerk resume {status.paused[0]['subdomain']}"
    return [Alert("site_paused", what, remedy, site=_only_site(status.paused, sites))]


def _are(number: int, noun: str, plural: str | None = None) -> str:
    return f"{pluralize(number, noun, plural)} {'is' if number == 1 else 'are'}"


def _only_site(rows: list[Row], total: int) -> str | None:
    return rows[0]["subdomain"] if total == 1 else None


def _first_names(names: list[str], total: int) -> str:
    shown = names[:_MAX_NAMES]
    more = total - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
