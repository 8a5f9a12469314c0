"""The header Retry-After."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

MAX_SECONDS = 86_400.0
"""A longer pause would be a mistake of the server, and no request of any worker could show that it is over."""


def parse_retry_after(header: str) -> float | None:
    """Seconds to wait, at most a day. The header is a number or a date; None if it is neither."""
    header = header.strip()[:100]
    try:
        seconds = float(header)
    except ValueError:
        seconds = _seconds_until(header)
    return None if math.isnan(seconds) or seconds < 0 else min(seconds, MAX_SECONDS)


def _seconds_until(header: str) -> float:
    """Seconds until an HTTP date, 0 for one in the past; NaN if it is none."""
    try:
        moment = parsedate_to_datetime(header)
    except (ValueError, TypeError, IndexError, OverflowError):
        return math.nan
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0)
