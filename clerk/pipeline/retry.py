"""Retry strategy of the stages: exponential backoff for retryable errors, up to the stage's number of attempts."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from procrastinate import BaseRetryStrategy, RetryDecision, jobs

from clerk.errors import JobError
from clerk.pipeline.job_manager import ClerkJobManager

_INITIAL_DELAY = 5.0
_MAX_DELAY = 3600.0


class StageRetry(BaseRetryStrategy):
    """Retries after 5 s, 20 s, 80 s, … with jitter. Errors that are not retryable fail the unit at the first attempt.

    The worker reads the number of attempts from the table `stage_policy` when it starts.
    """

    def __init__(self, manager: ClerkJobManager, stage: str, initial_delay: float = _INITIAL_DELAY) -> None:
        self.manager = manager
        self.stage = stage
        self.initial_delay = initial_delay

    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> RetryDecision | None:
        is_permanent = isinstance(exception, JobError) and not exception.retryable
        if is_permanent or job.attempts + 1 >= self.manager.max_attempts.get(self.stage, 1):
            return None
        delay = min(self.initial_delay * 4**job.attempts, _MAX_DELAY)
        delay *= random.uniform(0.75, 1.25)  # noqa: S311 (jitter)
        return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=delay))
