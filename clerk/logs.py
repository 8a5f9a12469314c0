"""Logging as text or JSON lines, each with the run, site, stage, document, job and attempt that it is about."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import json
import logging
import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

from procrastinate import jobs

from clerk.errors import ClerkError, JobError, PluginProgrammingError, PluginRaised
from clerk.humanize import one_line_error
from clerk.telemetry.trace_context import SpanIds

_job: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("clerk_job", default=None)


_JOB_CALL = re.compile(r" clerk[\w.]*\[\d+\]\(.*\)(?= ended with status: |$)", re.DOTALL)
"""In messages of Procrastinate: the job with its arguments, which the fields have in words of clerk."""
_ONLY_JSON = {"trace_id", "span_id"}
"""Fields for programs: the lines for people would be twice as long."""


def job_fields(job: jobs.Job, ids: SpanIds) -> dict[str, Any]:
    arguments = job.task_kwargs
    fields = {
        "run_id": arguments.get("run_id"),
        "site": arguments.get("subdomain"),
        "stage": arguments.get("stage") or job.queue,
        "document": arguments.get("content_item_id"),
        "job": job.id,
        "attempt": job.attempts + 1,
        "trace_id": ids.trace_id,
        "span_id": ids.span_id,
    }
    return {name: value for name, value in fields.items() if value is not None}


@contextlib.contextmanager
def job_logging(job: jobs.Job, ids: SpanIds) -> Iterator[None]:
    """Everything logged inside this context, also in threads started from it, has the job's fields."""
    token = _job.set(job_fields(job, ids))
    try:
        yield
    finally:
        _job.reset(token)


class _JobFilter(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.clerk = _job.get() or {}
        return True


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        values = record.__dict__["clerk"]
        fields = " ".join(f"{name}={value}" for name, value in values.items() if name not in _ONLY_JSON)
        error = record.exc_info[1] if record.exc_info else None
        record = copy.copy(record)
        record.msg, record.args = record.getMessage(), None
        if values and record.name.startswith("procrastinate"):
            record.msg = _JOB_CALL.sub("", record.msg)
        if _is_own(error):
            record.msg, record.exc_info = f"{record.msg}: {one_line_error(type(error).__name__, str(error))}", None
        record.msg += f"  [{fields}]" if fields else ""
        return super().format(record)


def _is_own(error: BaseException | None) -> bool:
    """Whether the message says enough: of clerk's own errors, unless the error was raised in a plugin."""
    return isinstance(error, ClerkError | JobError) and not isinstance(error, PluginRaised | PluginProgrammingError)


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **record.__dict__["clerk"],
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(log_format: str, level: int = logging.INFO, stream: IO[str] | None = None) -> None:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(_JobFilter())
    handler.setFormatter(
        _JsonFormatter() if log_format == "json" else _TextFormatter("%(asctime)s %(levelname)-7s %(message)s")
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # At the level INFO, every process of a worker lists all periodic tasks when it starts.
    logging.getLogger("procrastinate.periodic").setLevel(max(level, logging.WARNING))
