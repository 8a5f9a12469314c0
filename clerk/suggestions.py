"""Errors for unknown names, with the nearest known names: `no queue orc; did you mean ocr?`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from clerk.errors import EXIT_USAGE, ClerkError

_MIN_SCORE = 0.6
_SCORE_MARGIN = 0.1
_MAX_LENGTH = 80
"""Of a name that is shown."""
_MAX_LISTED = 12
"""Known names that are listed if none is near."""


class UnknownName(ClerkError):
    """A name that was given does not exist."""

    code = "UnknownName"
    exit_code = EXIT_USAGE


def near_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names that are most like this one, the nearest first; others only if they are about as near.

    Upper and lower case count as equal.
    """
    by_key: dict[str, str] = {}
    for each in known:
        by_key.setdefault(each.lower(), each)
    matcher = difflib.SequenceMatcher(b=name.lower())
    scores: dict[str, float] = {}
    for key in difflib.get_close_matches(name.lower(), by_key, n=limit, cutoff=_MIN_SCORE):
        matcher.set_seq1(key)
        scores[by_key[key]] = matcher.ratio()
    best = max(scores.values(), default=0.0)
    return [each for each, score in scores.items() if score >= best - _SCORE_MARGIN]


def did_you_mean(name: str, known: Iterable[str], limit: int = 3) -> str | None:
    """The remedy for an unknown name, as a question; None if no known name is near."""
    near = near_names(name, known, limit)
    return f"did you mean {' or '.join(near)}?" if near else None


def unknown_name(kind: str, name: str, known: Iterable[str], remedy: str | None = None) -> UnknownName:
    """The error for a name of this kind. `remedy`: what to do if no known name is near; default: the known names."""
    names = list(known)
    return UnknownName(f"no {kind} {name[:_MAX_LENGTH]}", did_you_mean(name, names) or remedy or _list_names(names))


def require_known(kind: str, name: str, known: Iterable[str], remedy: str | None = None) -> str:
    """Return the name, or raise UnknownName."""
    names = list(known)
    if name not in names:
        raise unknown_name(kind, name, names, remedy)
    return name


def _list_names(names: list[str]) -> str:
    if not names:
        return "there are none"
    further = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"known are {', '.join(names[:_MAX_LISTED])}{further}"
