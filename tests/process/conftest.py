from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.process.helpers import Up

Start = Callable[..., Up]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Call it with options, and settings by name: `start("--no-dashboard", DATABASE_URL=database)`."""
    started: list[Up] = []

    def start_up(*options: str, **environment: str) -> Up:
        started.append(Up(tmp_path, *options, **environment))
        return started[-1]

    yield start_up
    for up in started:
        up.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Show the output of `clerk up` when a test fails."""
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if report.when == "call" and report.failed and isinstance(item, pytest.Function):
        folder = item.funcargs.get("tmp_path")
        if isinstance(folder, Path):
            for log in (folder / "output", folder / "home" / "up.log"):
                if log.exists():
                    report.sections.append((log.name, log.read_text(errors="replace")[-6000:]))
