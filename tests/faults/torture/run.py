"""One torture run: an undisturbed run of the sites, the same sites under faults, recovery, checks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from clerk.cli.progress_reporter import ProgressReporter
from clerk.pipeline import engine
from tests.faults.torture.app import PLANNED_ERROR
from tests.faults.torture.checks import INCONSISTENT, STUCK, Violation, compare, content_hashes, find_violations
from tests.faults.torture.environment import Pipeline, Postgres, Session, Storage, Workload
from tests.faults.torture.injector import KINDS, Injector
from tests.faults.torture.report import Report

_STUCK_AFTER = 300.0
"""Seconds without any accepted result, while runs are open. Long, because the machine may be busy."""
_OPEN = (
    "select (select count(*) from pipeline_runs where ended_at is null) + (select count(*) from procrastinate_jobs"
    " where status in ('todo', 'doing') and args ->> 'subdomain' is not null)"
)


@dataclass(frozen=True)
class Options:
    minutes: float = 1.0
    seed: int = 0
    only: tuple[str, ...] = KINDS
    workload: Workload = field(default_factory=Workload)
    pace: float = 1.0
    """Divides the intervals between faults."""
    at_least: int = 0
    """Faults are injected until there were so many of each kind of `only`, even if that takes longer than `minutes`."""
    compares_archives: bool = True
    removed_guard: bytes = b""
    """SQL that removes a guard, to see whether that is detected."""


def torture(folder: Path, options: Options, progress: ProgressReporter) -> Report:
    with _postgres(folder) as postgres:
        expected: dict[str, str] = {}
        if options.compares_archives:
            with _pipeline(postgres, folder, "undisturbed", options.workload) as pipeline:
                expected = _run_undisturbed(pipeline)
        with _pipeline(postgres, folder, "tortured", options.workload) as pipeline:
            report = _run_tortured(postgres, pipeline, options, expected, progress)
    report.violations.extend(
        Violation(INCONSISTENT, f"the log of Postgres has {count} times: {complaint}")
        for complaint, count in postgres.complaints.items()
        if count
    )
    return report


@contextlib.contextmanager
def _postgres(folder: Path) -> Iterator[Postgres]:
    postgres = Postgres(folder)
    try:
        yield postgres
    finally:
        postgres.stop()


@contextlib.contextmanager
def _pipeline(postgres: Postgres, folder: Path, name: str, workload: Workload) -> Iterator[Pipeline]:
    storage = Storage(folder / f"files-{name}")
    try:
        pipeline = Pipeline(postgres.create_database(name), folder, storage, workload, name)
        try:
            yield pipeline
        finally:
            pipeline.close()
    finally:
        storage.close()


def _run_undisturbed(pipeline: Pipeline) -> dict[str, str]:
    """The content hashes of the archives."""
    with contextlib.closing(Session(pipeline.url, "torture undisturbed")) as session:
        pipeline.supervise()
        for site in pipeline.workload.names:
            engine.start_run(session.connection, site)
        _wait(pipeline, session, lambda open_work: None)
    return content_hashes(pipeline.storage, pipeline.workload.names)


def _run_tortured(
    postgres: Postgres, pipeline: Pipeline, options: Options, expected: dict[str, str], progress: ProgressReporter
) -> Report:
    with contextlib.closing(Session(pipeline.url, "torture")) as session:
        if options.removed_guard:
            session.connection.execute(options.removed_guard)
            pipeline.any_schema = True
        pipeline.supervise()
        injector = Injector(postgres, pipeline, options.seed, options.only, options.pace)
        violations: list[Violation] = []
        try:
            injector.start()
            _inject(injector, options, progress)
            injector.stop_faults()
            stopped_at = time.monotonic()
            is_settled = not injector.measurements.errors and _wait(
                pipeline, session, lambda open_work: progress.update("open runs and jobs", open_work, None)
            )
            settled_after = time.monotonic() - stopped_at
            if is_settled:
                _process_cancelled(pipeline, session, violations)
            else:
                violations.append(Violation(STUCK, "not all runs ended, and no result was accepted any more"))
        finally:
            injector.stop()
        violations += [
            Violation(INCONSISTENT, f"the harness failed: {error}") for error in injector.measurements.errors
        ]
        violations += find_violations(session, pipeline.record)
        violations += compare(expected, content_hashes(pipeline.storage, pipeline.workload.names))
        return Report(
            seed=options.seed,
            minutes=options.minutes,
            runs=session.rows("select count(*) from pipeline_runs")[0][0],
            units=session.rows("select count(*) from faults.result where status in ('succeeded', 'failed')")[0][0],
            outcomes=dict(
                session.rows("select coalesce(outcome, 'open'), count(*) from pipeline_runs group by 1 order by 1")
            ),
            ignored=dict(session.rows("select why, count(*) from ignored_results group by 1 order by 1")),
            worker_exits=pipeline.exits,
            settled_after=settled_after,
            measurements=injector.measurements,
            violations=violations,
        )


def _inject(injector: Injector, options: Options, progress: ProgressReporter) -> None:
    started_at, seconds = time.monotonic(), 60 * options.minutes
    while not injector.measurements.errors:
        elapsed = time.monotonic() - started_at
        injected = dict(injector.measurements.injected)
        if elapsed >= seconds and all(injected.get(kind, 0) >= options.at_least for kind in options.only):
            return
        rows = [(f"{count:6,}  {kind}",) for kind, count in injected.items()]
        progress.update("seconds of faults", round(elapsed), round(seconds), rows)
        time.sleep(0.2)


def _wait(pipeline: Pipeline, session: Session, report: Callable[[int], None]) -> bool:
    """Wait until no run and no job is open. False if nothing was accepted for long."""
    accepted, changed_at = -1, time.monotonic()
    while open_work := session.rows(_OPEN)[0][0]:
        pipeline.supervise()
        if (now_accepted := session.rows("select count(*) from faults.result")[0][0]) != accepted:
            accepted, changed_at = now_accepted, time.monotonic()
        elif time.monotonic() - changed_at > _STUCK_AFTER:
            return False
        report(open_work)
        time.sleep(0.1)
    return True


def _process_cancelled(pipeline: Pipeline, session: Session, violations: list[Violation]) -> None:
    """Ordinary runs, without faults, of what operators cancelled. They repeat no document that was processed."""
    unfinished = (
        "select subdomain from sites where subdomain = any (%s) and not exists (select from pipeline_runs r"
        " where r.subdomain = sites.subdomain and r.ended_at is null)"
    )
    for (site,) in session.rows(unfinished, pipeline.workload.names):
        engine.start_run(session.connection, site)
    if not _wait(pipeline, session, lambda open_work: None):
        violations.append(Violation(STUCK, f"no result was accepted for {_STUCK_AFTER:.0f} s after the faults"))
    violations += [
        Violation(STUCK, f"{stage} of content item {item} is {status} ({code}) after an ordinary run")
        for item, stage, status, code in session.rows(
            "select content_item_id, pipeline, status, error_code from content_item_pipeline_state"
            " where status <> 'processed' and error_code is distinct from %s",
            PLANNED_ERROR,
        )
    ]
