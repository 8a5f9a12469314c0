from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.pipeline import Pipeline, pipeline_on


@pytest.fixture
def pipeline(database: str, tmp_path: Path) -> Iterator[Pipeline]:
    with pipeline_on(database, tmp_path) as pipeline:
        yield pipeline


@pytest.fixture
def only_with_long(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--long"):
        pytest.skip("takes minutes: --long")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the workers' logs when a test fails."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        folder = item.funcargs.get("tmp_path")
        if isinstance(folder, Path):
            for log in sorted(folder.glob("worker-*.log")):
                report.sections.append((log.name, log.read_text(errors="replace")[-6000:]))
