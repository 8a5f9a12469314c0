"""Logs as lines for people or as JSON for machines; both say which run, site, stage, document, job and attempt."""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import IO, Any

from procrastinate import jobs

from clerk.errors import ClerkError, JobError, PluginRaised

_job: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("clerk_job", default=None)


def job_fields(job: jobs.Job) -> dict[str, Any]:
    arguments = job.task_kwargs
    fields = {
        "run_id": arguments.get("run_id"),
        "site": arguments.get("subdomain"),
        "stage": arguments.get("stage") or job.queue,
        "document": arguments.get("content_item_id"),
        "job": job.id,
        "attempt": job.attempts + 1,
    }
    return {name: value for name, value in fields.items() if value is not None}


@contextlib.contextmanager
def job_logging(job: jobs.Job) -> Iterator[None]:
    """Everything logged inside, threads started from here included, carries the job's names."""
    token = _job.set(job_fields(job))
    try:
        yield
    finally:
        _job.reset(token)


class _Context(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        record.clerk = _job.get() or {}
        return True


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        names = " ".join(f"{name}={value}" for name, value in record.__dict__["clerk"].items())
        return f"{super().format(record)}{f'  [{names}]' if names else ''}"

    def formatException(self, ei: Any) -> str:  # noqa: N802 (logging's name)
        """What clerk itself found wrong with a document or a source is a sentence; where it was raised helps nobody,
        unless it was in a plugin."""
        error = ei[1]
        if isinstance(error, ClerkError | JobError) and not isinstance(error, PluginRaised):
            return f"{type(error).__name__}: {error}"
        return super().formatException(ei)


class _Json(logging.Formatter):
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


def configure(form: str, level: int = logging.INFO, stream: IO[str] | None = None) -> None:
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.addFilter(_Context())
    handler.setFormatter(_Json() if form == "json" else _Human("%(asctime)s %(levelname)-7s %(message)s"))
    logging.basicConfig(level=level, handlers=[handler], force=True)
