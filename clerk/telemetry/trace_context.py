"""Trace ids of runs and jobs. Needs no OpenTelemetry packages: the log has these ids also without them.

The ids of a run follow from its site and its number, so every process computes the same ones.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass

from procrastinate import jobs

_TRACEPARENT = re.compile(r"00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}")
"""https://www.w3.org/TR/trace-context/#traceparent-header"""
_PROCESS = os.urandom(16).hex()
"""Makes the ids of jobs without a run unique: their numbers start at 1 in every database."""


@dataclass(frozen=True)
class SpanIds:
    """Identifies a span, in lower-case hexadecimal digits."""

    trace_id: str
    span_id: str
    parent_id: str | None = None
    """The parent span; None for the root span of a trace."""

    @property
    def traceparent(self) -> str:
        """As in the arguments of the jobs of a unit. The database does not know the sampler, so the flag is always
        `sampled`; a worker asks its sampler."""
        return f"00-{self.trace_id}-{self.span_id}-01"


def run_ids(subdomain: str, run_id: int) -> SpanIds:
    """The root span of a run. The SQL function `clerk_traceparent` computes the same ids."""
    digits = _digest(f"clerk run {run_id} {subdomain}")
    return SpanIds(digits[:32], digits[32:48])


def take_job_ids(job: jobs.Job) -> SpanIds:
    """The span of one attempt at a job: in the trace of its run, or in a trace of its own. Removes the argument
    `traceparent`, which no task expects, from the job."""
    parent = _parent_ids(job, job.task_kwargs.pop("traceparent", None))
    if parent is None:
        digits = _digest(f"{_PROCESS} job {job.id} attempt {job.attempts}")
        return SpanIds(digits[:32], digits[32:48])
    span_id = _digest(f"{parent.trace_id} job {job.id} attempt {job.attempts}")[:16]
    return SpanIds(parent.trace_id, span_id, parent.span_id)


def _parent_ids(job: jobs.Job, traceparent: object) -> SpanIds | None:
    """From the argument `traceparent`, or from site and run: coordinators and jobs of older versions do not have it."""
    if isinstance(traceparent, str) and (match := _TRACEPARENT.fullmatch(traceparent)):
        return SpanIds(match[1], match[2])
    subdomain, run_id = job.task_kwargs.get("subdomain"), job.task_kwargs.get("run_id")
    if isinstance(subdomain, str) and isinstance(run_id, int):
        return run_ids(subdomain, run_id)
    return None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
