"""Drives a site through its phases with a real worker in this process."""

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
from tests.archive.library import add_document


async def _drain(*queues: str) -> None:
    """Without queues, all of them."""
    which: dict[str, Any] = {"queues": queues} if queues else {}
    app = create_app()
    async with app.open_async():
        await app.run_worker_async(
            **which, wait=False, install_signal_handlers=False, listen_notify=False, concurrency=1
        )


@dataclass
class Town:
    connection: psycopg.Connection[Any]
    storage: SiteStorage
    folder: Path

    @property
    def published(self) -> SiteVersions:
        return SiteVersions(self.storage.root / "_published", "springfield")

    def read(self, *texts: str | None, **facts: Any) -> Document:
        return add_document(self.connection, self.storage, *texts, **facts)

    def start(self, phase: int = 3) -> int:
        return engine.start_run(self.connection, "springfield", supersede=True, first_phase=phase)

    def work(self) -> None:
        """What a worker finds to do, retries included, until nothing is left."""
        for _ in range(40):
            self.connection.execute("update procrastinate_jobs set scheduled_at = null where status = 'todo'")
            asyncio.run(_drain())
            (left,) = self.one(
                "select count(*) from procrastinate_jobs where status = 'todo' and task_name like 'clerk.%%'"
                " and args ? 'run_id'"
            )
            if not left:
                return
        raise AssertionError("the jobs do not end")

    def work_on(self, *queues: str) -> None:
        """What a worker of these queues finds to do just now."""
        asyncio.run(_drain(*queues))

    def run(self, phase: int = 3) -> str:
        """A run from this phase to its end; returns the outcome."""
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
