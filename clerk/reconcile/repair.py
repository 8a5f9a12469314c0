"""A planned repair: what was found, what will be done, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

Connection = psycopg.Connection[Any]

ABANDONED = "abandoned"
"""The kind of repair that ends a run because the same repair made no progress three times."""


@dataclass(frozen=True)
class Repair:
    """One row of the plan. `found`, `action` and `why` are sentences for people."""

    kind: str
    """What was found, as a stable identifier. The same site, run, stage and kind is the same repair, repeated."""
    subdomain: str | None
    run_id: int | None
    stage: str | None
    found: str
    action: str
    why: str
    apply: Callable[[Connection], bool]
    """Checks again under its own locks and returns False if nothing is left to do. Runs in an open transaction; changes
    one site at most."""
    content_item_id: int | None = None
    """Together with `stage`, the unit concerned. The plan has one repair per unit, the first that was found."""
    immediate: bool = False
    """Applied regardless of the threshold, and never counted as a repeated repair."""
    recounts: bool = False
    """Also corrects counters and coordinator of the site, so the plan omits separate repairs of those."""
    is_report: bool = False
    """Only shown to the operator: nothing is changed or logged."""

    @classmethod
    def report(cls, kind: str, subdomain: str | None, found: str, why: str, action: str = "nothing") -> Repair:
        return cls(
            kind, subdomain, None, None, found, action, why, lambda connection: False, immediate=True, is_report=True
        )
