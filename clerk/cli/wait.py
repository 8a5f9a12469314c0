"""Waits until runs have ended and shows their progress, for `clerk update --wait` and `clerk demo`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from rich.console import RenderableType

from clerk.cli.connection import Connection
from clerk.cli.output import bar
from clerk.cli.progress_reporter import Cells, ProgressReporter
from clerk.humanize import pluralize
from clerk.monitoring.runs import RunProgress, count_documents, read_progress
from clerk.pipeline.engine import PHASES

_MAX_ROWS = 12
_POLL_INTERVAL = 0.3


def wait_for_runs(
    connection: Connection,
    subdomains: list[str],
    progress: ProgressReporter,
    on_end: Callable[[RunProgress], object],
    timeout: float = math.inf,
    check: Callable[[], None] = lambda: None,
) -> list[RunProgress]:
    """Wait for the current run of each site and call `on_end` when it ends. Return the progress after `timeout` s.

    Runs that have ended come with the numbers of their documents. A superseded run counts as ended when its successor
    ends. `check` is called between two looks at the database.
    """
    deadline = time.monotonic() + timeout
    ended: dict[str, RunProgress] = {}
    planned = 0
    while True:
        runs = read_progress(connection, subdomains)
        new = [run for run in runs if run.outcome is not None and run.subdomain not in ended]
        documents = count_documents(connection, [run.subdomain for run in new]) if new else {}
        for run in new:
            ended[run.subdomain] = replace(run, documents=documents.get(run.subdomain))
            on_end(ended[run.subdomain])
        expected = [run.units_expected for run in runs]
        total = None if None in expected else sum(filter(None, expected))
        planned = max(planned, total or 0)
        done = sum(run.units_ended for run in runs)
        progress.update("jobs", done, total, _rows([run for run in runs if run.subdomain not in ended]))
        if len(ended) >= len(runs) or time.monotonic() > deadline:
            if done < planned and len(ended) >= len(runs):
                progress.note(_explain(planned - done))
            return [ended.get(run.subdomain, run) for run in runs]
        check()
        time.sleep(_POLL_INTERVAL)


def _explain(left_out: int) -> str:
    """Why fewer jobs ended than were shown as the total: it counts all stages of every document."""
    jobs = f"{pluralize(left_out, 'planned job')} {'was' if left_out == 1 else 'were'} not needed"
    return f"{jobs}: what fails or is cancelled has none in later stages."


def _rows(active: list[RunProgress]) -> list[Cells]:
    rows: list[Cells] = [(run.subdomain, _bar(run), _counts(run)) for run in active[:_MAX_ROWS]]
    more = len(active) - _MAX_ROWS
    return [*rows, *([(f"and {more:,} more sites", "", "")] if more > 0 else [])]


def _bar(run: RunProgress) -> RenderableType:
    """Each phase is a quarter of the bar."""
    phase = next((number for number, stages in PHASES.items() if run.stage in stages), 1)
    within = run.done / run.total if run.total else 0.0
    return bar(round(100 * (phase - 1 + within)), 100 * len(PHASES))


def _counts(run: RunProgress) -> str:
    return f"{run.stage or 'waiting'} {run.done}/{run.total}{f', {run.failed} failed' if run.failed else ''}"
