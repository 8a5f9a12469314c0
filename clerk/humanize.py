"""How clerk speaks of numbers and times to people: "3 documents", "14:05", "in 5 min", "2 h ago"."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def pluralize(number: int, one: str, many: str | None = None) -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def join_words(parts: Sequence[str], last: str = "and") -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def format_duration(length: timedelta | None) -> str:
    """One unit is enough to judge by: 40 s, 5 min, 3 h, 12 d."""
    if length is None:
        return ""
    seconds = abs(length.total_seconds())
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR:.0f} h"
    return f"{seconds // _DAY:,.0f} d"


def format_relative(moment: datetime, now: datetime) -> str:
    if abs((moment - now).total_seconds()) < 1:
        return "now"
    return f"in {format_duration(moment - now)}" if moment > now else f"{format_duration(now - moment)} ago"


def format_time(moment: datetime, now: datetime) -> str:
    """In the time zone of whoever looks; the date only if it is another day.

    On a page nobody knows where that is: with a `now` that was turned to UTC, it is UTC.
    """
    zone = UTC if now.tzinfo is UTC else None
    local, today = moment.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        return f"{local:%H:%M}"
    year = "" if local.year == today.year else f" {local.year}"
    return f"{local.day} {local:%b}{year} {local:%H:%M}"


def format_timestamp(moment: datetime, now: datetime) -> str:
    return f"{format_time(moment, now)} ({format_relative(moment, now)})"


def one_line_error(code: str | None, message: str | None) -> str:
    return " ".join(": ".join(filter(None, (code, message))).split())
