"""The alerts of the overview, each with the page that has the details and the action that remedies it."""

from __future__ import annotations

from dataclasses import dataclass, field

from clerk.monitoring.alert import Alert, Severity

_LINKS = {
    "triggers": ("/queues", "Show queues and workers"),
    "no_worker": ("/queues", "Show queues and workers"),
    "host_problem": ("/queues", "Show queues and workers"),
    "stuck": ("/sites?only=stuck", "Show stuck sites"),
    "dead_worker": ("/queues", "Show queues and workers"),
    "violations": ("#violations", "Show the violations"),
    "failures": ("/failures", "Show failures"),
    "source": ("/failures?stage=fetch", "Show failed fetches"),
    "failed": ("/sites?only=failed", "Show failed sites"),
    "partial": ("/sites?outcome=partial", "Show partial sites"),
    "no_documents": ("/sites?outcome=no_documents", "Show sites without documents"),
    "documents": ("/failures", "Show failures"),
    "deliveries": ("/failures?stage=delivery", "Show failed deliveries"),
    "disk_low": ("/queues", "Show queues and workers"),
    "skipped": ("/skipped", "Show skipped entries"),
    "queue_paused": ("/queues", "Show queues and workers"),
    "site_paused": ("/sites?only=paused", "Show paused sites"),
}
"""Kind of alert → page with the details, and the text of the link."""


@dataclass(frozen=True)
class AlertAction:
    name: str
    label: str
    fields: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AlertItem:
    alert: Alert
    url: str | None
    link_text: str
    action: AlertAction | None

    @property
    def is_minor(self) -> bool:
        """Nobody has to act now: a pause, a skipped entry or an unfinished check stops nothing."""
        return self.alert.severity is Severity.WARNING


def alert_item(alert: Alert) -> AlertItem:
    url, text = _LINKS.get(alert.kind, (None, ""))
    return AlertItem(alert, url, text, _action(alert))


def _action(alert: Alert) -> AlertAction | None:
    if alert.kind in ("stuck", "violations"):
        return AlertAction("reconcile", "Reconcile now")
    if alert.kind == "queue_paused" and alert.queue:
        return AlertAction("resume", f"Resume the queue {alert.queue}", {"queue": alert.queue})
    if alert.kind == "site_paused" and alert.site:
        return AlertAction("resume", f"Resume {alert.site}", {"site": alert.site})
    if alert.kind == "failed" and alert.site:
        return AlertAction("retry", f"Retry {alert.site}", {"site": alert.site})
    return None
