"""How often a site is fetched: hourly, daily, weekly, never, or a number of hours. The column is `run_interval`."""

from __future__ import annotations

from datetime import timedelta

from clerk.suggestions import did_you_mean

_HOUR = timedelta(hours=1)
# Counted from the last progress of a run: an hour less than a day or a week keeps the time of day.
_INTERVALS = {"hourly": _HOUR, "daily": 23 * _HOUR, "weekly": 167 * _HOUR}
NEVER = "never"
DEFAULT = "daily"
DEFAULT_INTERVAL = _INTERVALS[DEFAULT]
WORDS = (*_INTERVALS, NEVER)
_MAX_HOURS = 24 * 366


def parse_cadence(text: str) -> str:
    """The cadence in its usual form; raises ValueError."""
    word = text.strip().lower()
    if word in WORDS:
        return word
    try:
        hours = float(word)
    except ValueError:
        hours = 0.0
    if not 0.25 <= hours <= _MAX_HOURS:
        choices = f"use {', '.join(WORDS)}, or a number of hours from 0.25 to {_MAX_HOURS:,}"
        raise ValueError(did_you_mean(word, WORDS) or choices)
    return describe_interval(hours * _HOUR)


def to_interval(cadence: str) -> timedelta | None:
    """The time between two runs; None: no run is started automatically."""
    if cadence == NEVER:
        return None
    return _INTERVALS.get(cadence) or float(cadence) * _HOUR


def describe_interval(interval: timedelta | None) -> str:
    """The cadence for an interval: a word, or the number of hours."""
    if interval is None:
        return NEVER
    words = {known: word for word, known in _INTERVALS.items()}
    return words.get(interval) or f"{interval / _HOUR:.10g}"
