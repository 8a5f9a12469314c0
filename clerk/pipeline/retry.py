"""When a failed attempt is followed by another: by stage, and by the kind of error."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from procrastinate import BaseRetryStrategy, RetryDecision, jobs

from clerk.errors import JobError
from clerk.pipeline.job_manager import ClerkJobManager

_FIRST_PAUSE = 5.0
_LONGEST_PAUSE = 3600.0


class StageRetry(BaseRetryStrategy):
    """Transient errors come back after 5 s, 20 s, 80 s, … with jitter; permanent ones do not come back.

    How many attempts a stage has stands in the table `stage_policy`, read when the worker starts.
    """

    def __init__(self, manager: ClerkJobManager, stage: str, first_pause: float = _FIRST_PAUSE) -> None:
        self.manager = manager
        self.stage = stage
        self.first_pause = first_pause

    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> RetryDecision | None:
        is_permanent = isinstance(exception, JobError) and not exception.retryable
        if is_permanent or job.attempts + 1 >= self.manager.max_attempts.get(self.stage, 1):
            return None
        pause = min(self.first_pause * 4**job.attempts, _LONGEST_PAUSE)
        pause *= random.uniform(0.75, 1.25)  # noqa: S311 (jitter)
        return RetryDecision(retry_at=datetime.now(UTC) + timedelta(seconds=pause))
