"""bin/torture: it detects violated invariants; with --long, a minute of it."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from clerk.cli.progress_reporter import ProgressReporter
from clerk.pipeline import engine
from tests.conftest import Url
from tests.faults.torture import FaultInjector, torture


def options(minutes: float) -> argparse.Namespace:
    return argparse.Namespace(minutes=minutes, sites=3, documents=10, seed=7)


@pytest.mark.parametrize("corrupt", [False, True])
def test_wrong_counters_are_detected(
    database: Url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corrupt: bool
) -> None:
    def settle(injector: FaultInjector, progress: ProgressReporter) -> None:
        pipeline = injector.pipeline
        for worker in injector.working:
            worker.kill()
        pipeline.start_run("town0")
        engine.cancel_run(pipeline.connection, "town0")
        if corrupt:
            wrong = "update pipeline_runs set counters = jsonb_set(counters, '{fetch,failed}', '7')"
            pipeline.connection.execute(wrong)

    monkeypatch.setattr(FaultInjector, "settle", settle)
    if corrupt:
        with pytest.raises(AssertionError):
            torture(database, tmp_path, options(0), ProgressReporter(quiet=True))
    else:
        assert torture(database, tmp_path, options(0), ProgressReporter(quiet=True))["runs"] == 1


@pytest.mark.timeout(600)
def test_a_minute_of_faults(pytestconfig: pytest.Config, database: Url, tmp_path: Path) -> None:
    if not pytestconfig.getoption("--long"):
        pytest.skip("takes minutes: --long")
    assert torture(database, tmp_path, options(1), ProgressReporter(quiet=True))["runs"] > 3
