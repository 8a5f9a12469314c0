"""Runs a site through its phases with a real worker in this process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from clerk.app import create_app
from clerk.documents.storage import Document, SiteStorage
from clerk.pipeline import engine
from clerk.publish.versions import SiteVersions
from tests.archive.helpers import add_document


async def _drain(*queues: str) -> None:
    """Run a worker until its queues (default: all) are empty."""
    options: dict[str, Any] = {"queues": queues} if queues else {}
    app = create_app()
    async with app.open_async():
        await app.run_worker_async(
            **options, wait=False, install_signal_handlers=False, listen_notify=False, concurrency=1
        )


@dataclass
class Town:
    connection: psycopg.Connection[Any]
    storage: SiteStorage[Any]
    folder: Path

    @property
    def published(self) -> SiteVersions[Any]:
        return SiteVersions(self.storage.root / "_published", "springfield")

    def add_document(self, *texts: str | None, **fields: Any) -> Document:
        return add_document(self.connection, self.storage, *texts, **fields)

    def start(self, phase: int = 3) -> int:
        return engine.start_run(self.connection, "springfield", supersede=True, first_phase=phase)

    def work(self) -> None:
        """Run jobs, retries included, until none is left."""
        for _ in range(40):
            self.connection.execute("update procrastinate_jobs set scheduled_at = null where status = 'todo'")
            asyncio.run(_drain())
            (waiting,) = self.one(
                "select count(*) from procrastinate_jobs where status = 'todo' and task_name like 'clerk.%%'"
                " and args ? 'run_id'"
            )
            if not waiting:
                return
        raise AssertionError("there are still jobs after 40 passes")

    def work_on(self, *queues: str) -> None:
        """Run the jobs of these queues that are due now."""
        asyncio.run(_drain(*queues))

    def run(self, phase: int = 3) -> str:
        """Run the site from this phase to the end; return the outcome."""
        self.start(phase)
        self.work()
        stage, outcome = self.one("select current_stage, outcome from sites")
        assert stage == "completed", self.failures()
        return str(outcome)

    def configure(self, **extra: Any) -> None:
        self.connection.execute("update sites set extra = %s", [json.dumps(extra)])

    def one(self, query: str, *arguments: Any) -> tuple[Any, ...]:
        row: tuple[Any, ...] | None = self.connection.execute(query, arguments or None).fetchone()
        assert row is not None
        return row

    def failures(self) -> list[tuple[str, str, str]]:
        return self.connection.execute(
            "select pipeline, error_code, error_message from content_item_pipeline_state"
            " where status = 'failed_terminal' order by 1, 2"
        ).fetchall()
