"""Alerts: the conditions of the pipeline that need an operator, the most severe first, each with a remedy.

Each condition is one alert with a count and a few names, however many sites it concerns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from clerk.errors import NoDocuments, job_error_class, remedy_for
from clerk.humanize import (
    format_bytes,
    format_duration,
    format_relative,
    join_words,
    one_line_error,
    pluralize,
    shorten,
)
from clerk.monitoring import worker_text
from clerk.monitoring.alert import KINDS, Alert, Severity
from clerk.monitoring.database_alerts import find_database_alerts
from clerk.monitoring.names import are, first_names
from clerk.monitoring.query import Row
from clerk.monitoring.status import ABSENT_TRIGGER, PipelineStatus
from clerk.monitoring.workers import Problem, Worker
from clerk.pipeline.engine import COORDINATOR_QUEUE

__all__ = ["KINDS", "Alert", "Severity", "find_alerts", "find_periodic_task_alerts"]

_MIN_FAILURES = 10
_MIN_STANDBY_WAIT = timedelta(seconds=2)
_INCREASE_FACTOR = 3
"""Failures of the last hour count as an increase when they exceed this multiple of the average hour before."""
_MAX_CODES = 3
_MAX_ERROR = 150
_CONSEQUENCES = {
    "clerk.schedule": "no run that is due is started",
    "clerk.rescue": "no job of a lost worker is repeated before the next reconciliation",
    "clerk.reconcile": "inconsistent state is not repaired",
    "clerk.schedule_deliveries": "digests of saved searches are not sent",
    "clerk.retention": "old jobs and log entries are not deleted",
    "clerk.maintain": "bloated indexes are not rebuilt",
    "clerk.trace_runs": "spans of cancelled runs are not sent",
}
"""Periodic task → what is not done while it fails."""


def find_alerts(status: PipelineStatus) -> list[Alert]:
    alerts = [
        *_triggers(status),
        *_standby_wait(status),
        *_unprocessed_queues(status),
        *_unstarted_runs(status),
        *find_periodic_task_alerts(status.periodic_tasks),
        *_host_problems(status),
        *_low_disks(status),
        *_stuck_sites(status),
        *_dead_workers(status),
        *_violations(status),
        *find_database_alerts(status),
        *_increasing_failures(status),
        *_failing_sources(status),
        *_failed_runs(status),
        *_failing_deliveries(status),
        *_partial_runs(status),
        *_sites_without_documents(status),
        *_failed_documents(status),
        *_skipped_entries(status),
        *_edited_extractors(status),
        *_paused_queues(status),
        *_paused_sites(status),
    ]
    return sorted(alerts, key=lambda alert: alert.severity is Severity.WARNING)


def _oldest(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def _triggers(status: PipelineStatus) -> list[Alert]:
    if not status.triggers:
        return []
    # Of a trigger that should not be enabled, the problem says what follows.
    absent = [problem for problem in status.triggers if problem.endswith(ABSENT_TRIGGER)]
    other = [problem for problem in status.triggers if problem not in absent]
    what = [f"{join_words(absent)}: finished jobs are not recorded"] if absent else []
    return [Alert("triggers", "; ".join(what + other), "restore it: clerk db up", len(status.triggers))]


def _standby_wait(status: PipelineStatus) -> list[Alert]:
    if status.standby_wait is None or status.standby_wait < _MIN_STANDBY_WAIT:
        return []
    what = (
        f"a commit has been waiting for a synchronous standby for {format_duration(status.standby_wait)}:"
        " no result can be recorded"
    )
    remedy = "start the standby, or remove it from synchronous_standby_names"
    return [Alert("standby_wait", what, remedy, since=status.now - status.standby_wait)]


def _unprocessed_queues(status: PipelineStatus) -> list[Alert]:
    return [
        Alert(
            "no_worker",
            f"{worker_text.no_worker(status, queue['queue'])}; {_jobs_wait(queue['waiting'])}",
            worker_text.start_worker(status, queue["queue"]),
            queue["waiting"],
            queue["oldest_waiting_since"],
        )
        for queue in status.queues
        if queue["waiting"] and not worker_text.workers_of(status, queue["queue"])
    ]


def _unstarted_runs(status: PipelineStatus) -> list[Alert]:
    """Runs are started by the queue coordinator, which has no waiting jobs without a worker."""
    queue = next((queue for queue in status.queues if queue["queue"] == COORDINATOR_QUEUE), None)
    if not status.due or worker_text.workers_of(status, COORDINATOR_QUEUE) or (queue and queue["waiting"]):
        return []
    wait = f"{pluralize(status.due, 'site')} {'waits' if status.due == 1 else 'wait'} for a run"
    what = f"{worker_text.no_worker(status, COORDINATOR_QUEUE)}; {wait}"
    return [Alert("no_worker", what, worker_text.start_worker(status, COORDINATOR_QUEUE), status.due)]


def find_periodic_task_alerts(failing: list[Row]) -> list[Alert]:
    alerts = []
    for row in failing:
        error = shorten(one_line_error(row["error_code"], row["error_message"]), _MAX_ERROR)
        what = f"the periodic task {row['task']} failed the last time ({error})"
        if row["task"] in _CONSEQUENCES:
            what += f": {_CONSEQUENCES[row['task']]}"
        remedy = f"{job_error_class(row['error_code']).remedy}; the traceback: job {row['job_id']} in view job_failures"
        alerts.append(Alert("periodic_task", what, remedy))
    return alerts


def _host_problems(status: PipelineStatus) -> list[Alert]:
    """One alert per problem, however many queues and workers have it."""
    found: dict[tuple[str, str], list[tuple[Worker, Problem]]] = {}
    for worker in status.workers:
        for problem in worker.problems.values():
            found.setdefault((problem.error_code, problem.message), []).append((worker, problem))
    alerts = []
    for (code, _), cases in sorted(found.items(), key=lambda item: item[0]):
        workers = {worker.worker_id: worker for worker, _ in cases}
        since = min(problem.since for _, problem in cases)
        what = worker_text.machine_problem(list(workers.values()), [problem for _, problem in cases])
        alerts.append(Alert("host_problem", what, job_error_class(code).remedy, len(workers), since))
    return alerts


def _low_disks(status: PipelineStatus) -> list[Alert]:
    disks = [disk for disk in status.disks if disk["low_since"] is not None]
    if not disks:
        return []
    names = [
        f"{disk['folder']} on {disk['host']} ({disk['purpose']}; {format_bytes(disk['free_bytes'])} of"
        f" {format_bytes(disk['total_bytes'])} free)"
        for disk in disks
    ]
    what = f"{are(len(disks), 'disk')} nearly full: {first_names(names, len(names))}"
    remedy = f"free space or enlarge the disk: df -h {disks[0]['folder']} on {disks[0]['host']}"
    return [Alert("disk_low", what, remedy, len(disks), _oldest(disk["low_since"] for disk in disks))]


def _jobs_wait(jobs: int) -> str:
    return f"{pluralize(jobs, 'job')} {'waits' if jobs == 1 else 'wait'}"


def _stuck_sites(status: PipelineStatus) -> list[Alert]:
    sites = status.health["stuck"]
    if not sites:
        return []
    names = [f"{row['subdomain']} (no progress for {format_duration(row['idle_for'])})" for row in status.stuck]
    remedy = f"see the reason: clerk why {status.stuck[0]['subdomain']}"
    what = f"{are(sites, 'site')} stuck: {first_names(names, sites)}"
    since = _oldest(status.now - row["idle_for"] for row in status.stuck if row["idle_for"])
    site = _only_site([row["subdomain"] for row in status.stuck], sites)
    return [Alert("stuck", what, remedy, sites, since, site=site)]


def _dead_workers(status: PipelineStatus) -> list[Alert]:
    dead = [worker for worker in status.workers if not worker.alive]
    if not dead:
        return []
    names = [
        f"{worker_text.worker_name(worker)} (last heartbeat {format_relative(worker.last_heartbeat, status.now)})"
        for worker in dead
    ]
    what = f"{are(len(dead), 'worker')} dead: {first_names(names, len(dead))}"
    their, them = ("its", "it") if len(dead) == 1 else ("their", "them")
    remedy = f"other workers take over {their} jobs; restart {them}: clerk worker"
    return [Alert("dead_worker", what, remedy, len(dead), min(worker.last_heartbeat for worker in dead))]


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
    return [Alert("violations", what, remedy, sum(status.violations.values()))]


def _increasing_failures(status: PipelineStatus) -> list[Alert]:
    count, before = status.failures_last_hour, status.failures_per_hour_before
    if count < _MIN_FAILURES or count <= _INCREASE_FACTOR * before:
        return []
    what = f"failures increase: {count:,} in the last hour, {before:,.0f} per hour in the day before"
    return [Alert("failures", what, "see the errors by frequency: clerk failures", count)]


def _failing_sources(status: PipelineStatus) -> list[Alert]:
    what = "the last fetch of {sites} failed ({codes})"
    return _failing_sites(status, "source", what, lambda groups: _remedy(groups, "fetch"))


def _failed_runs(status: PipelineStatus) -> list[Alert]:
    """Runs that failed after the fetch."""
    return _failing_sites(status, "failed", "the last run of {sites} failed ({codes})", _remedy)


def _partial_runs(status: PipelineStatus) -> list[Alert]:
    remedy = "see what is missing: clerk why {site}"
    return _failing_sites(status, "partial", "the archive of {sites} is incomplete", remedy)


def _sites_without_documents(status: PipelineStatus) -> list[Alert]:
    what = "the source of {sites} has no documents"
    return _failing_sites(
        status, "no_documents", what, lambda groups: remedy_for(NoDocuments.code, groups[0]["examples"][0])
    )


def _failing_sites(
    status: PipelineStatus, kind: str, what: str, remedy: str | Callable[[list[Row]], str]
) -> list[Alert]:
    """The alert about the sites whose last run ended in one way, if there are any."""
    groups = [row for row in status.failing if row["kind"] == kind]
    if not groups:
        return []
    sites, names = _count(groups), _names(groups)
    what = what.format(sites=pluralize(sites, "site"), codes=_codes(groups, "sites"))
    remedy = remedy.format(site=names[0]) if isinstance(remedy, str) else remedy(groups)
    since = _oldest(row["since"] for row in groups)
    what = f"{what}: {first_names(names, sites)}"
    return [Alert(kind, what, remedy, sites, since, site=_only_site(names, sites))]


def _count(groups: list[Row]) -> int:
    return sum(int(row["sites"]) for row in groups)


def _names(groups: list[Row]) -> list[str]:
    """Examples of each error come first, so that the few that are shown differ."""
    longest = max(len(row["examples"]) for row in groups)
    return [row["examples"][index] for index in range(longest) for row in groups if index < len(row["examples"])]


def _codes(groups: list[Row], column: str) -> str:
    """The most frequent error codes with their numbers; without a number if there is one code."""
    names = [row["error_code"] or "unknown error" for row in groups]
    if len(names) == 1:
        return names[0]
    return first_names([f"{name}: {row[column]:,}" for name, row in zip(names, groups, strict=True)], len(groups))


def _remedy(groups: list[Row], stage: str = "") -> str:
    """If all have one error, its remedy; in any case a command that shows the reasons."""
    site = groups[0]["examples"][0]
    option = f" --stage {stage}" if stage else ""
    if _count(groups) == 1:
        return f"{remedy_for(groups[0]['error_code'], site)}; details: clerk why {site}"
    if len(groups) == 1:
        return f"{job_error_class(groups[0]['error_code']).remedy}; details: clerk failures{option}, clerk why {site}"
    return f"see the errors with their remedies: clerk failures{option}; of one site: clerk why {site}"


def _failing_deliveries(status: PipelineStatus) -> list[Alert]:
    if not status.deliveries:
        return []
    count = sum(row["deliveries"] for row in status.deliveries)
    codes = _codes(status.deliveries, "deliveries")
    what = f"{pluralize(count, 'delivery', 'deliveries')} of alerts to readers failed ({codes})"
    remedy = f"{job_error_class(status.deliveries[0]['error_code']).remedy}; details: clerk failures --stage delivery"
    return [Alert("deliveries", what, remedy, count, _oldest(row["since"] for row in status.deliveries))]


def _failed_documents(status: PipelineStatus) -> list[Alert]:
    if not status.documents:
        return []
    total, *groups = status.documents
    count = total["documents"]
    what = (
        f"{pluralize(count, 'document')} of {pluralize(total['sites'], 'site')} could not be processed"
        f" ({_codes(groups, 'documents')})"
    )
    option = f" --error {groups[0]['error_code']}" if len(groups) == 1 and groups[0]["error_code"] else ""
    remedy = f"see them with their remedies: clerk failures{option}"
    return [Alert("documents", what, remedy, count, total["since"])]


def _skipped_entries(status: PipelineStatus) -> list[Alert]:
    if not status.skipped:
        return []
    first = status.skipped[0]
    entries, sites = first["all_entries"], first["all_sites"]
    names = [
        f"{row['subdomain']} ({shorten(row['first_name'])}"
        f"{f' and {more:,} more' if (more := row['entries'] - 1) else ''})"
        for row in status.skipped
    ]
    what = (
        f"{pluralize(entries, 'entry', 'entries')} of {pluralize(sites, 'source')}"
        f" {'was' if entries == 1 else 'were'} skipped: {first_names(names, sites)}"
    )
    site = first["subdomain"]
    remedy = f"see them with what to do: clerk site skipped {site}"
    newest = max(row["newest"] for row in status.skipped)
    what += f"; the newest {format_relative(newest, status.now)}"
    return [Alert("skipped", what, remedy, entries, first["all_since"])]


def _edited_extractors(status: PipelineStatus) -> list[Alert]:
    return [
        Alert(
            "edited_extractor",
            f"the extractor {row['extractor']} of plugin {row['plugin']} was edited without a new version:"
            f" documents have findings of {row['codes']} codes of version {row['version']}",
            f"give it a new version; if the findings do not change: clerk plugins accept {row['extractor']}",
            row["codes"],
            row["edited_at"],
        )
        for row in status.edited_extractors
    ]


def _paused_queues(status: PipelineStatus) -> list[Alert]:
    return [
        Alert(
            "queue_paused",
            f"queue {queue['queue']} is paused by {queue['paused_by']};"
            f" {_jobs_wait(queue['on_hold']) if queue['on_hold'] else 'no job waits in it'}",
            f"clerk resume --queue {queue['queue']}",
            queue["on_hold"],
            queue["paused_at"],
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
    what = f"{are(sites, 'site')} paused: {first_names(names, sites)}"
    since = _oldest(row["paused_at"] for row in status.paused)
    site = status.paused[0]["subdomain"]
    return [Alert("site_paused", what, f"clerk resume {site}", sites, since, site=_only_site([site], sites))]


def _only_site(names: list[str], total: int) -> str | None:
    return names[0] if total == 1 else None
