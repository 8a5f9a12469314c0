"""Coordinator tasks: end a phase, and start the run that brings a dirty archive up to date. Queue `coordinator`."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

import procrastinate
from procrastinate import App

from clerk.pipeline import engine, run_spans
from clerk.pipeline.engine import COORDINATOR_QUEUE
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import CoordinatorRetry

logger = logging.getLogger(__name__)

_MAX_WAIT = 0.25
"""Seconds that a coordinator waits for another one. Not longer, because that one may wait for the lock of its site."""
_turn = threading.Lock()
"""Coordinators of one process run one after the other. If many sites end a phase together, all would open connections:
the first call of clerk_advance_phase in a session, which plans its statements, takes three times the CPU time of later
ones."""


def coordinate(context: procrastinate.JobContext, subdomain: str, run_id: int, phase: int) -> str:
    """End a phase: start the next one, or end the run."""
    with _take_turn(), JobContext(context).connection() as connection:
        result = engine.advance_phase(connection, subdomain, run_id, phase)
        if result.startswith("ended"):
            run_spans.record_ended_runs(connection)
    logger.info("phase %s has ended: %s", phase, result)
    return result


@contextlib.contextmanager
def _take_turn() -> Iterator[None]:
    is_taken = _turn.acquire(timeout=_MAX_WAIT)
    try:
        yield
    finally:
        if is_taken:
            _turn.release()


def refresh(context: procrastinate.JobContext, subdomain: str) -> int | None:
    """Start a run that compiles and deploys the site again, because late units succeeded after their phase."""
    with JobContext(context).connection() as connection:
        return engine.start_refresh_run(connection, subdomain)


def register(app: App) -> None:
    assert isinstance(app.job_manager, ClerkJobManager)
    retry = CoordinatorRetry(app.job_manager)
    app.task(name="clerk.coordinate", queue=COORDINATOR_QUEUE, retry=retry, pass_context=True)(coordinate)
    app.task(name="clerk.refresh", queue=COORDINATOR_QUEUE, retry=retry, pass_context=True)(refresh)
