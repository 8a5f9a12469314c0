"""Removes characters from untrusted text that HTML escaping leaves in.

Control characters break markup, and bidirectional overrides reorder the text beside them.
"""

from __future__ import annotations

import re

from clerk.archive.query import HIGHLIGHT

_INVALID = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_BIDI_OVERRIDES = re.compile("[\u202a-\u202e\u2066-\u2069]")
_JOB = re.compile(r"(\bjob [0-9]{1,18}\b)")
_COMMAND = re.compile(
    r"(`[^`]+`|\bclerk (?!(?:does|is|has|can|cannot|reads|finds|looks)\b)"
    r"(?:(?:site|db|alert|plugins|legacy) )?[a-z][a-z-]*"
    r"(?: (?!--|(?:and|or|then|with|to|in|on|if|for|as|lists?|shows?)\b)[^;,)\s]+)?"
    r"(?: [A-Z]+\b)*(?: --[^;,)\s]+(?: [^;,)\s-][^;,)\s]*)?)*)"
)
"""What stands in backticks; or `clerk`, its command, at most one argument, names in capitals, then options."""


def sanitize_text(text: str) -> str:
    text = re.sub("\r\n?|[\x0b\x0c\x85]", "\n", text)
    return _INVALID.sub(" ", _BIDI_OVERRIDES.sub("", text))


def split_highlights(text: str) -> list[tuple[str, bool]]:
    """Split a text that contains HIGHLIGHT markers: each part sanitised, and whether it is highlighted."""
    parts: list[tuple[str, bool]] = []
    highlighted = False
    for part in re.split(f"([{''.join(HIGHLIGHT)}])", text):
        if part in HIGHLIGHT:
            highlighted = part == HIGHLIGHT[0]
        elif part:
            parts.append((sanitize_text(part), highlighted))
    return parts


def split_commands(text: str) -> list[tuple[str, bool]]:
    """Split a remedy into parts, and whether each is a command: ("start a worker: ", False), ("clerk worker", True).

    What stands in backticks is shown like a command, without them.
    """
    parts = _COMMAND.split(sanitize_text(text))
    return [(part.strip("`") if number % 2 else part, number % 2 == 1) for number, part in enumerate(parts) if part]


def without_name(reason: str, name: str) -> str:
    """The reason why an entry was skipped, without the entry's name at its beginning, which a table has already."""
    return re.sub(r"^ (\([^)]*\) )?", "", reason.removeprefix(name)) if reason.startswith(f"{name} ") else reason


def split_jobs(text: str) -> list[tuple[str, str]]:
    """Split a text into parts, each with the number of the job that it names, or with an empty string."""
    parts = _JOB.split(sanitize_text(text))
    return [(part, part.rpartition(" ")[2] if number % 2 else "") for number, part in enumerate(parts) if part]
