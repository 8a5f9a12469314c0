"""bin/torture: it passes, and it detects guards that were removed from the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.migrations.sqlfiles import SqlFolder
from tests.faults.torture.checks import DOUBLED
from tests.faults.torture.environment import Workload
from tests.faults.torture.report import Report
from tests.faults.torture.run import Options, torture

pytestmark = pytest.mark.timeout(900)

_DROP_FENCE = "drop trigger clerk_fence on procrastinate_jobs"
_DROP_KEY = "alter table pipeline_transitions drop constraint pipeline_transitions_pkey"


def run(folder: Path, options: Options) -> Report:
    return torture(folder, options, ProgressReporter(quiet=True))


def test_some_seconds_of_every_fault(tmp_path: Path) -> None:
    report = run(tmp_path, Options(minutes=0.2, seed=7, workload=Workload(sites=4, documents=8, work=(0.05, 0.4))))

    assert report.passed, report.as_text()
    assert report.measurements.injected["kill"]
    assert report.units
    assert str(report.seed) in report.as_text()


def test_a_minute_of_every_fault(pytestconfig: pytest.Config, tmp_path: Path) -> None:
    if not pytestconfig.getoption("--long"):
        pytest.skip("takes minutes: --long")
    report = run(tmp_path, Options(minutes=1, seed=11, at_least=1))
    assert report.passed, report.as_text()


_SLOW = Workload(sites=3, documents=6, work=(0.5, 1.5))
_QUICK = Workload(sites=3, documents=6, work=(0.0, 0.1))
_AIMED = {
    # Frozen, rescued, claimed by another worker, thawed: both send a result.
    "fence": Options(minutes=0, only=("freeze",), at_least=4, pace=10, workload=_SLOW),
    # A failed unit is retried after its phase, and fails again.
    "status check": Options(minutes=0, only=("retry-job",), at_least=20, pace=4, workload=_QUICK),
    # The coordinator of a paused site is deleted, and reconciliation defers it again.
    "transition key": Options(minutes=0, only=("pause", "delete-job"), at_least=20, pace=4, workload=_QUICK),
}


@pytest.mark.parametrize("guard", _AIMED)
def test_removed_guard_is_detected(folder: SqlFolder, tmp_path: Path, guard: str) -> None:
    removed = {
        "fence": _DROP_FENCE,
        "status check": edited(folder, "clerk_settle_units", "and l.status not in ('processed', 'failed_terminal')"),
        "transition key": f"{_DROP_KEY}; "
        + edited(
            folder,
            "clerk_defer_coordinator",
            "on conflict (run_id, phase) do update\n"
            "    set deferred_count = t.deferred_count + 1, last_deferred_at = excluded.last_deferred_at,"
            " advanced_at = null,\n"
            "        coordinator_job_id = coalesce(excluded.coordinator_job_id, t.coordinator_job_id)",
        ),
    }[guard]

    report = run(tmp_path, aimed(guard, removed))
    assert not report.passed
    assert DOUBLED in {violation.kind for violation in report.violations}, report.as_text()


@pytest.mark.parametrize("guard", _AIMED)
def test_aimed_faults_with_every_guard(pytestconfig: pytest.Config, tmp_path: Path, guard: str) -> None:
    if not pytestconfig.getoption("--long"):
        pytest.skip("takes minutes: --long")
    report = run(tmp_path, aimed(guard))
    assert report.passed, report.as_text()


def aimed(guard: str, removed: str = "") -> Options:
    options = _AIMED[guard]
    return Options(
        minutes=options.minutes,
        seed=3,
        only=options.only,
        at_least=options.at_least,
        pace=options.pace,
        workload=options.workload,
        compares_archives=False,
        removed_guard=removed.encode(),
    )


def edited(folder: SqlFolder, function: str, guard: str) -> str:
    """The function's SQL without the guard."""
    text = next(item.sql for item in folder.objects if (item.kind, item.name) == ("function", function))
    assert text.count(guard) == 1, f"{function} has {text.count(guard)} times: {guard}"
    return text.replace(guard, "")
