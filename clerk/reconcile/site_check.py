"""The check of one site's files: its state in the database, and the run that its repairs need."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from clerk.config import Settings
from clerk.documents.storage import SiteStorage
from clerk.errors import RunInProgress
from clerk.object_storage.path import StoragePath
from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair

RUN = "storage-run"
_MAX_RUNS_PER_DAY = 3


@dataclass(frozen=True)
class SiteState:
    subdomain: str
    run_id: int | None
    is_active: bool
    """The current run has not ended."""
    phase: int | None
    scraper: str | None
    extra: str | None
    clean_at: datetime | None
    compiled: bool
    """The ledger says that meetings.db exists."""
    published_hash: str | None
    """Content hash of meetings.db, if the deployer `local` published it and it was not compiled again since."""
    published_here: bool
    """The deployer `local` has published it."""
    shown_hash: str | None
    """Content hash of the last version published by `local`, unless an operator rolled it back."""
    recent_storage_runs: int
    """Runs that were started because of lost files within a day."""

    @property
    def extra_values(self) -> dict[str, Any]:
        try:
            values = json.loads(self.extra or "{}")
        except ValueError:  # reported by the fetcher
            return {}
        return values if isinstance(values, dict) else {}


@dataclass
class SiteCheck:
    site: SiteState
    settings: Settings
    full: bool
    """Hash every file, not only those that changed since the last clean scan."""
    can_see_published: bool = True
    """The folder of published archives is available."""
    first_phase: int | None = None
    """The phase with which the run that repairs the findings has to begin."""
    reasons: list[str] = field(default_factory=list)
    """Findings whose repair has changed the ledger. Without any, no run is needed."""

    _snapshot: SiteStorage | None = None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Within the block, the files of a bucket are those of one listing. Repairs, which are applied later, look at
        the files as they are then."""
        self._snapshot = SiteStorage(self.settings.storage_dir, self.site.subdomain).snapshot()
        try:
            yield
        finally:
            self._snapshot = None

    @property
    def storage(self) -> SiteStorage:
        return self._snapshot or SiteStorage(self.settings.storage_dir, self.site.subdomain)

    def needs_hash(self, path: StoragePath) -> bool:
        """Whether the file changed since the last clean scan, or there was none."""
        if self.full or self.site.clean_at is None:
            return True
        try:
            return path.stat().st_mtime > self.site.clean_at.timestamp()
        except FileNotFoundError:
            return True

    def require_run(self, phase: int) -> None:
        self.first_phase = min(phase, self.first_phase or phase)

    def run(self) -> list[Repair]:
        """One run for all findings, from the earliest phase that any of them needs."""
        if self.first_phase is None:
            return []
        found = "files lost from storage have to be created again"
        if self.site.recent_storage_runs >= _MAX_RUNS_PER_DAY:
            return [
                Repair.report(
                    RUN,
                    self.site.subdomain,
                    found,
                    "the storage loses files that are written to it",
                    f"nothing today: there were {_MAX_RUNS_PER_DAY} such runs within a day",
                )
            ]
        return [
            Repair(
                kind=RUN,
                subdomain=self.site.subdomain,
                run_id=self.site.run_id,
                stage=None,
                found=found,
                action=f"start a run from phase {self.first_phase}",
                why="the ledger now says what is missing",
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
