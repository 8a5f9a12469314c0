"""Lists of names in sentences: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence

from clerk.humanize import pluralize

_MAX_NAMES = 3


def are(number: int, noun: str, plural: str | None = None) -> str:
    return f"{pluralize(number, noun, plural)} {'is' if number == 1 else 'are'}"


def first_names(names: Sequence[str], total: int) -> str:
    shown = names[:_MAX_NAMES]
    more = total - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
