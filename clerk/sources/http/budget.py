"""What one fetch of a site may use: requests, bytes, time and disk. Beyond it the run ends with what was fetched."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clerk import host
from clerk.config import Settings
from clerk.errors import BudgetExceeded

_KEYS = ("requests", "megabytes", "hours")
_LISTING_SHARE = 0.5
"""Otherwise an endless listing would leave nothing for the documents."""


@dataclass(frozen=True)
class BudgetLimits:
    requests: int = 20_000
    bytes: int = 50_000_000_000
    hours: float = 1.5
    min_free_bytes: int = 1_000_000_000

    @classmethod
    def from_settings(cls, settings: Settings, extra: Mapping[str, Any]) -> BudgetLimits:
        limits = cls(settings.run_requests, settings.run_bytes, settings.run_hours, settings.min_free_bytes)
        return limits.override(extra)

    def override(self, extra: Mapping[str, Any]) -> BudgetLimits:
        """With the values of the site's `budget`. Raises ValueError if it is invalid."""
        budget = extra.get("budget") or {}
        if not isinstance(budget, dict) or not set(budget) <= set(_KEYS) or not all(map(_is_positive, budget.values())):
            raise ValueError(f"extra 'budget' must be an object with numbers above 0 for {', '.join(_KEYS)}")
        return replace(
            self,
            requests=max(1, int(budget.get("requests", self.requests))),
            bytes=int(budget["megabytes"] * 1_000_000) if "megabytes" in budget else self.bytes,
            hours=float(budget.get("hours", self.hours)),
        )


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 1_000_000_000


class Budget:
    """Counts what a fetch uses, and raises BudgetExceeded beyond its limits."""

    def __init__(self, limits: BudgetLimits) -> None:
        self.limits = limits
        self.requests = 0
        self.bytes = 0
        self._started_at = time.monotonic()
        self._share = 1.0

    def begin_listing(self) -> None:
        self._share = _LISTING_SHARE

    def end_listing(self) -> None:
        self._share = 1.0

    def count_request(self) -> None:
        """Count a request that is about to be sent."""
        hours = (time.monotonic() - self._started_at) / 3600
        self._check(self.requests + 1, self.limits.requests, "requests", "CLERK_RUN_REQUESTS")
        self._check(hours, self.limits.hours, "hours", "CLERK_RUN_HOURS")
        self._check(self.bytes / 1e6, self.limits.bytes / 1e6, "MB", "CLERK_RUN_MB")
        self.requests += 1

    def count_bytes(self, number: int) -> None:
        self.bytes += number
        self._check(self.bytes / 1e6, self.limits.bytes / 1e6, "MB", "CLERK_RUN_MB")

    def check_disk(self, folder: Path) -> None:
        if space := host.describe_low_space(folder, self.limits.min_free_bytes):
            raise BudgetExceeded(
                f"the fetch stopped because the disk of {folder} is almost full: {space} (CLERK_MIN_FREE_MB)"
            )

    def _check(self, used: float, limit: float, unit: str, setting: str) -> None:
        if used > limit * self._share:
            what = "the fetch" if self._share == 1.0 else "the listing used half of the budget of the fetch, so it"
            raise BudgetExceeded(f"{what} stopped: at most {limit:,.10g} {unit} per run ({setting})")
