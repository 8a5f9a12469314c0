"""Spans of runs, jobs and page batches. Does nothing, and imports no OpenTelemetry package, unless an endpoint is set.

A worker process calls `start` and `stop`. No function here waits for the collector but `stop`, which has a timeout.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from procrastinate import jobs

from clerk.telemetry import variables
from clerk.telemetry.trace_context import SpanIds, run_ids

if TYPE_CHECKING:
    from clerk.telemetry.span_exporter import Tracer

logger = logging.getLogger(__name__)

Attributes = Mapping[str, Any]
"""Only texts and numbers are recorded: anyone can insert jobs, with any arguments."""

_tracer: Tracer | None = None


def start(instance: str) -> None:
    """Start the export of spans of this process. `instance` identifies the process. An error is logged: it must not
    prevent work."""
    global _tracer
    if not variables.is_requested("TRACES"):
        return
    if problem := variables.find_problem("TRACES"):
        logger.warning("No traces are exported: %s", problem)
        return
    from clerk.telemetry import span_exporter  # the packages may be missing

    try:
        _tracer = span_exporter.Tracer(instance)
    except Exception as error:  # noqa: BLE001 (such as an invalid variable OTEL_…)
        logger.error("No traces are exported: the OpenTelemetry SDK did not start: %s", error)


def stop(timeout: float) -> None:
    """Export the remaining spans, for at most `timeout` seconds."""
    global _tracer
    if _tracer is not None:
        _tracer.stop(timeout)
        _tracer = None


def is_on() -> bool:
    return _tracer is not None


class Span:
    """A span that is being recorded, or nothing if tracing is off. It may be ended in another thread."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def set(self, attributes: Attributes) -> None:
        if self._span is not None:
            self._span.set_attributes(_scalars(attributes))

    def fail(self, error_code: str | None = None) -> None:
        """Mark as failed, with a code and no message: messages may contain text of documents."""
        if self._span is not None:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, error_code))
            self.set({"clerk.error_code": error_code, "error.type": error_code})

    def end(self, at: datetime | None = None) -> None:
        if self._span is not None:
            self._span.end(None if at is None else _nanoseconds(at))


@contextlib.contextmanager
def job_span(job: jobs.Job, ids: SpanIds) -> Iterator[Span]:
    """The span of one attempt at a job. Spans that are started inside this context, also in threads, are its
    children."""
    if _tracer is None:
        yield Span()
        return
    arguments = job.task_kwargs
    attributes = {
        "clerk.run_id": arguments.get("run_id"),
        "clerk.subdomain": arguments.get("subdomain"),
        "clerk.stage": arguments.get("stage"),
        "clerk.phase": arguments.get("phase"),
        "clerk.document_id": arguments.get("content_item_id"),
        "clerk.queue": job.queue,
        "clerk.job_id": job.id,
        "clerk.attempt": job.attempts + 1,
    }
    with _tracer.start_job(job.task_name, ids, _scalars(attributes)) as span:
        yield Span(span)


def start_span(name: str, attributes: Attributes) -> Span:
    """Start a child of the current span. The caller must end it."""
    if _tracer is None:
        return Span()
    return Span(_tracer.start_child(name, _scalars(attributes)))


def record_run(subdomain: str, run_id: int, started_at: datetime, ended_at: datetime, outcome: str) -> None:
    """Record the root span of a run that has ended."""
    if _tracer is None:
        return
    attributes = {"clerk.run_id": run_id, "clerk.subdomain": subdomain, "clerk.outcome": outcome}
    span = Span(_tracer.start_root("clerk.run", run_ids(subdomain, run_id), attributes, _nanoseconds(started_at)))
    if outcome == "failed":
        span.fail()
    span.end(ended_at)


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000) * 1000


def _scalars(attributes: Attributes) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if isinstance(value, str | int | float)}
