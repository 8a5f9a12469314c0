"""Retry strategies: exponential backoff, up to the maximum number of attempts that count.

An attempt that the database, the host or a shutdown of the worker ended does not count. It is repeated as long as the
cause lasts, under its own error code.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from procrastinate import BaseRetryStrategy, RetryDecision, jobs

from clerk.errors import JobError
from clerk.pipeline.job_manager import ClerkJobManager, Failure, attempt_of

_INITIAL_DELAY = 5.0
_MAX_DELAY = 3600.0
_MAX_UNCOUNTED_DELAY = 900.0
"""Seconds. A job continues at most so long after the database or the host has recovered."""


class StageRetry(BaseRetryStrategy):
    """Retries after 5 s, 20 s, 80 s, … with jitter. Errors that are not retryable fail the unit at the first attempt.

    The worker reads the number of attempts from the table `stage_policy` when it starts.
    """

    factor = 4

    def __init__(self, manager: ClerkJobManager, stage: str, initial_delay: float = _INITIAL_DELAY) -> None:
        self.manager = manager
        self.stage = stage
        self.initial_delay = initial_delay

    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> RetryDecision | None:
        failure = self.manager.failures.get(attempt_of(job), Failure("", ""))
        if not failure.is_counted:
            return _retry_in(min(self.initial_delay * 2 ** min(failure.uncounted_before, 20), _MAX_UNCOUNTED_DELAY))
        counted = job.attempts - failure.uncounted_before
        is_permanent = isinstance(exception, JobError) and not exception.retryable
        if is_permanent or counted + 1 >= self.max_attempts:
            return None
        return _retry_in(min(self.initial_delay * self.factor**counted, _MAX_DELAY))

    @property
    def max_attempts(self) -> int:
        return self.manager.max_attempts.get(self.stage, 1)


class CoordinatorRetry(StageRetry):
    """The same for coordinators, after 2 s, 4 s, 8 s, … They have no row in `stage_policy`: `clerk_rescue_job` has the
    same maximum."""

    factor = 2
    max_attempts = 10

    def __init__(self, manager: ClerkJobManager) -> None:
        super().__init__(manager, "coordinator", initial_delay=2.0)


class DeliveryRetry(StageRetry):
    """The same for the jobs of saved searches, after 1, 4, 16 and 60 minutes and then every hour, for about six hours.
    `clerk_rescue_job` has the same maximum."""

    max_attempts = 10

    def __init__(self, manager: ClerkJobManager) -> None:
        super().__init__(manager, "delivery", initial_delay=60.0)


def _retry_in(delay: float) -> RetryDecision:
    delay *= random.uniform(0.75, 1.25)  # noqa: S311 (jitter)
    return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=delay))
