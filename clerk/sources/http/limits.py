"""Limits of the HTTP client: identification, rate, time and size, from the settings and a site's `extra`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from clerk.config import Network, Settings
from clerk.sources.http.budget import BudgetLimits

_MAX_USER_AGENT_LENGTH = 500


@dataclass(frozen=True)
class HttpLimits:
    user_agent: str
    interval: float = 0.5
    concurrency: int = 2
    timeout: float = 30.0
    time_limit: float = 900.0
    max_bytes: int = 500_000_000
    allow_loopback: bool = False
    allow_networks: tuple[Network, ...] = ()
    attempts: int = 4
    retry_delay: float = 1.0
    """Seconds before the second attempt; four times as long before each further one."""
    max_wait: float = 300.0
    """If a host asks for a longer pause, the request fails instead of waiting."""
    honour_robots: bool = True
    budget: BudgetLimits = field(default_factory=BudgetLimits)

    @classmethod
    def from_settings(
        cls, settings: Settings, extra: Mapping[str, Any] | None = None, vendor_interval: float = 0.0
    ) -> HttpLimits:
        """With the keys `user_agent` and `budget` of a site's `extra`. Raises ValueError if they are invalid."""
        check_request_settings(extra or {})
        return cls(
            user_agent=(extra or {}).get("user_agent") or settings.user_agent_with_contact,
            # 0 turns intervals off, also those of vendors.
            interval=max(settings.host_interval, vendor_interval) if settings.host_interval else 0.0,
            concurrency=settings.host_concurrency,
            timeout=settings.request_timeout,
            time_limit=settings.download_time_limit,
            max_bytes=settings.max_download_bytes,
            allow_loopback=settings.allow_loopback,
            allow_networks=settings.allow_networks,
            honour_robots=settings.robots == "honour",
            budget=BudgetLimits.from_settings(settings, extra or {}),
        )


def check_request_settings(extra: Mapping[str, Any]) -> None:
    """Raise ValueError if `user_agent` or `budget` in a site's `extra` is invalid."""
    BudgetLimits().override(extra)
    agent = extra.get("user_agent")
    if agent is not None and not (
        isinstance(agent, str) and agent.isascii() and agent.isprintable() and 0 < len(agent) <= _MAX_USER_AGENT_LENGTH
    ):
        raise ValueError("extra 'user_agent' must be text in printable ASCII, such as Mozilla/5.0 (…)")
