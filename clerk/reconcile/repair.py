"""A repair: what was found broken, what will be done about it, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

GIVEN_UP = "given up"
"""The kind of what ends a run: the same repair had led nowhere three times."""


@dataclass(frozen=True)
class Repair:
    """One row of the plan. Found, do and why are for people; all else is for the machine."""

    kind: str
    """A short, stable word for what was found. The same site, run, stage and kind is the same repair, come back."""
    subdomain: str | None
    run_id: int | None
    stage: str | None
    found: str
    do: str
    why: str
    apply: Callable[[Connection], bool]
    """Looks again under the locks that it takes, and says False if there is nothing to do any more. Runs in a
    transaction that is open already; one site at most."""
    content_item_id: int | None = None
    """The unit (with the stage), if it is about one: the plan has one repair per unit, the first that was found."""
    immediate: bool = False
    """Certain, and bounded by itself: neither the threshold nor the rule of three times holds it back."""
    recounts: bool = False
    """Leaves counters, transitions and coordinator of the site right: the plan has no repair of those beside it."""
    is_report: bool = False
    """Only said, to whoever can do something about it: nothing is done, and nothing logged."""

    @classmethod
    def report(cls, kind: str, subdomain: str | None, found: str, why: str, do: str = "nothing") -> Repair:
        return cls(
            kind, subdomain, None, None, found, do, why, lambda connection: False, immediate=True, is_report=True
        )
