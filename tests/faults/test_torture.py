"""bin/torture: a minute of it with --long; and always, that it would notice."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from clerk.cli.progress import Progress
from clerk.pipeline import engine
from tests.conftest import Url
from tests.faults.torture import Torturer, torture


def asked(minutes: float) -> argparse.Namespace:
    return argparse.Namespace(minutes=minutes, sites=3, documents=10, seed=7)


@pytest.mark.parametrize("broken", [False, True])
def test_broken_books_are_noticed(database: Url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: bool) -> None:
    def come_to_rest(torturer: Torturer, progress: Progress) -> None:
        pipeline = torturer.pipeline
        for worker in torturer.working:
            worker.destroy()
        pipeline.start("town0")
        engine.cancel_run(pipeline.connection, "town0")
        if broken:
            pipeline.connection.execute("update pipeline_runs set fetch_failed = fetch_failed + 1")

    monkeypatch.setattr(Torturer, "come_to_rest", come_to_rest)
    if broken:
        with pytest.raises(AssertionError):
            torture(database, tmp_path, asked(0), Progress(quiet=True))
    else:
        assert torture(database, tmp_path, asked(0), Progress(quiet=True))["runs"] == 1


@pytest.mark.timeout(600)
def test_a_minute_of_it(pytestconfig: pytest.Config, database: Url, tmp_path: Path) -> None:
    if not pytestconfig.getoption("--long"):
        pytest.skip("takes minutes: --long")
    assert torture(database, tmp_path, asked(1), Progress(quiet=True))["runs"] > 3
