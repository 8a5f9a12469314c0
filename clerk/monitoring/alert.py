"""What an alert is: a condition that needs an operator. `KINDS` has all of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from clerk.humanize import format_timestamp

RUNBOOK = "docs/runbooks/alerts.md"
"""A path in the repository. The dashboard serves it at the same path."""
RUNBOOK_ROUTE = "/runbooks/alerts"
"""A short address of the dashboard."""


class Severity(StrEnum):
    ERROR = "error"
    """Documents or results are missing or late until somebody acts."""
    WARNING = "warning"
    """The rest continues. Somebody should look at it some day, or has caused it."""


KINDS: dict[str, Severity] = {
    "triggers": Severity.ERROR,
    "standby_wait": Severity.ERROR,
    "no_worker": Severity.ERROR,
    "periodic_task": Severity.ERROR,
    "host_problem": Severity.ERROR,
    "disk_low": Severity.ERROR,
    "stuck": Severity.ERROR,
    "dead_worker": Severity.ERROR,
    "violations": Severity.ERROR,
    "connections": Severity.ERROR,
    "idle_in_transaction": Severity.ERROR,
    "notification_queue": Severity.ERROR,
    "old_snapshot": Severity.ERROR,
    "dead_rows": Severity.ERROR,
    "index_bloat": Severity.ERROR,
    "failures": Severity.ERROR,
    "source": Severity.ERROR,
    "failed": Severity.ERROR,
    "partial": Severity.WARNING,
    "no_documents": Severity.WARNING,
    "documents": Severity.WARNING,
    "deliveries": Severity.ERROR,
    "skipped": Severity.WARNING,
    "edited_extractor": Severity.WARNING,
    "queue_paused": Severity.WARNING,
    "site_paused": Severity.WARNING,
    "unchecked": Severity.WARNING,
    "sandbox": Severity.ERROR,
}
"""Code of a kind of alert → severity. The runbook has a section for each."""


@dataclass(frozen=True)
class Alert:
    kind: str
    """Code for programs, one of `KINDS`."""
    what: str
    remedy: str
    count: int = 1
    """How many sites, documents, workers …"""
    since: datetime | None = None
    """None: unknown."""
    site: str | None = None
    """The only site that it is about."""
    queue: str | None = None

    @property
    def severity(self) -> Severity:
        return KINDS[self.kind]

    @property
    def runbook(self) -> str:
        return f"{RUNBOOK}#{self.kind}"

    def describe(self, now: datetime) -> str:
        """What is wrong, and since when."""
        return f"{self.what}; since {format_timestamp(self.since, now)}" if self.since else self.what

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "severity": str(self.severity), "runbook_url": self.runbook}
