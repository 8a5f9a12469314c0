"""One site, about to be compared with its files: what the books say of it as a whole, and the run it will need."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from clerk.config import Settings
from clerk.documents.storage import SiteStorage
from clerk.errors import RunInProgress
from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair

RUN = "storage-run"
_MOST_RUNS_A_DAY = 3


@dataclass(frozen=True)
class SiteState:
    subdomain: str
    run_id: int | None
    going: bool
    phase: int | None
    scraper: str | None
    extra: str | None
    clean_at: datetime | None
    compiled: bool
    """The ledger says that there is a meetings.db."""
    published_hash: str | None
    """What meetings.db holds if `local` is among the site's deployers, and its last run got as far as them."""
    published_here: bool
    """The deployer `local` has published it."""
    shown_hash: str | None
    """Content of what it published last, unless an operator rolled that back."""
    runs_of_ours: int
    """Started by what was found in storage, within a day."""

    @property
    def extra_values(self) -> dict[str, Any]:
        try:
            values = json.loads(self.extra or "{}")
        except ValueError:  # the fetcher's to complain
            return {}
        return values if isinstance(values, dict) else {}


@dataclass
class SiteCheck:
    site: SiteState
    settings: Settings
    thorough: bool
    """Hash everything; otherwise only what is in doubt."""
    can_see_published: bool = True
    """The folder of published archives is there."""
    first_phase: int | None = None
    """Where the run has to begin that mends what was found."""
    reasons: list[str] = field(default_factory=list)
    """Of what was found and has been put into the books by now: without any, no run is needed."""

    @property
    def storage(self) -> SiteStorage:
        return SiteStorage(self.settings.storage_dir, self.site.subdomain)

    def is_in_doubt(self, path: Path) -> bool:
        """Younger than our last look, or we never looked."""
        if self.thorough or self.site.clean_at is None:
            return True
        try:
            return path.stat().st_mtime > self.site.clean_at.timestamp()
        except FileNotFoundError:
            return True

    def wants_run(self, phase: int) -> None:
        self.first_phase = min(phase, self.first_phase or phase)

    def run(self) -> list[Repair]:
        """One run for all that was found, from the earliest phase that any of it needs."""
        if self.first_phase is None:
            return []
        if self.site.runs_of_ours >= _MOST_RUNS_A_DAY:
            return [
                Repair.report(
                    RUN,
                    self.site.subdomain,
                    "what was lost from storage is to be made again",
                    "storage loses what is written there",
                    "nothing today: it came back three times",
                )
            ]
        return [
            Repair(
                kind=RUN,
                subdomain=self.site.subdomain,
                run_id=self.site.run_id,
                stage=None,
                found="what was lost from storage is to be made again",
                do=f"a new run from phase {self.first_phase}",
                why="the ledger knows what is missing by now",
                apply=self._start,
                immediate=True,
            )
        ]

    def _start(self, connection: Connection) -> bool:
        if not self.reasons or self.first_phase is None:
            return False
        try:
            with connection.transaction():
                reason = f"lost from storage: {'; '.join(sorted(set(self.reasons)))}"[:200]
                engine.start_run(connection, self.site.subdomain, reason, first_phase=self.first_phase)
        except RunInProgress:
            return False
        return True
