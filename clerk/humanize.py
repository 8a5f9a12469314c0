"""Formats numbers, times and errors for people: "3 documents", "14:05", "in 5 min", "2 h ago"."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from urllib.parse import unquote, urlsplit

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_MAX_TRACEBACK = 8000
_USERINFO = re.compile(r"(://)[^/@\s\"']+@")
_QUERY = re.compile(r"(://[^\s\"'?]+\?)[^\s\"')]+")


def pluralize(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def shorten(text: str, length: int = 60) -> str:
    """The beginning of a text, such as an address, that may be too long for a message."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def source_file(url: str | None) -> str:
    """The name of the file at an address, as its publisher knows it; the address if that has none. Empty for None."""
    if not url:
        return ""
    parts = urlsplit(url)
    name = unquote(parts.path.rpartition("/")[2])
    return name if parts.scheme == "file" or "." in name else url


def join_words(words: Sequence[str], conjunction: str = "and") -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} {conjunction} {words[-1]}"


def format_duration(duration: timedelta | None) -> str:
    """In one unit: 40 s, 5 min, 3 h, 12 d. Empty for None."""
    if duration is None:
        return ""
    seconds = abs(duration.total_seconds())
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE:.0f} min"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR:.0f} h"
    return f"{seconds // _DAY:,.0f} d"


def format_bytes(size: float) -> str:
    """In one unit, of 1000s: 512 bytes, 8.2 kB, 12 MB."""
    if size < 1000:
        return f"{size:.0f} bytes"
    units = ["kB", "MB", "GB", "TB"]
    size /= 1000
    while size >= 999.5 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:,.1f} {units[0]}" if size < 9.95 else f"{size:,.0f} {units[0]}"


def format_relative(moment: datetime, now: datetime) -> str:
    if abs((moment - now).total_seconds()) < 1:
        return "now"
    return f"in {format_duration(moment - now)}" if moment > now else f"{format_duration(now - moment)} ago"


def format_time(moment: datetime, now: datetime) -> str:
    """The time of day, with the date if it is not today.

    In the local time zone; in UTC if `now` is in UTC, as it is for web pages, whose reader may be anywhere.
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


def format_traceback(error: BaseException) -> str:
    """The end of an exception's traceback, as it is stored with a failed attempt.

    Without user names, passwords and queries of addresses, which may contain tokens, and without NUL, which Postgres
    cannot store.
    """
    text = "".join(traceback.format_exception(error)).replace("\0", "").strip()
    text = _QUERY.sub(r"\1…", _USERINFO.sub(r"\1", text))
    if len(text) <= _MAX_TRACEBACK:
        return text
    end = text[-(_MAX_TRACEBACK - 100) :]
    return f"({len(text) - len(end):,} characters left out)\n{end.partition(chr(10))[2]}"
