"""The Procrastinate app: the composition root. `procrastinate --app=clerk.app.app worker` starts a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import procrastinate
from procrastinate import App

from clerk.documents import repository
from clerk.documents.storage import require_mounted
from clerk.errors import StorageUnmounted
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry
from clerk.pipeline.tasks import compilation, coordinator, deploy, extraction, fetch, ocr, periodic, saved_searches
from clerk.pipeline.worker import ClerkWorker

_STAGE_TASKS: dict[str, Callable[[JobContext], Any]] = {
    "fetch": fetch.fetch,
    "ocr": ocr.ocr,
    "compilation": compilation.compilation,
    "extraction": extraction.extraction,
    "deploy": deploy.deploy,
}


class ClerkApp(App):
    """A Procrastinate app with clerk's worker and job manager, the tasks of coordinators and saved
    searches, periodic tasks, but no stages."""

    def __init__(self) -> None:
        connector = ClerkConnector()
        super().__init__(connector=connector)
        self.job_manager: ClerkJobManager = ClerkJobManager(connector)
        coordinator.register(self)
        periodic.register(self)
        saved_searches.register(self)

    def add_stage(self, stage: str, task: Callable[[JobContext], Any]) -> None:
        """Register the task that processes the units of a stage."""

        def run(context: procrastinate.JobContext, /, **arguments: Any) -> Any:
            job = JobContext(context)
            _require_storage(job)
            return task(job)

        self.task(name=f"clerk.{stage}", queue=stage, retry=StageRetry(self.job_manager, stage), pass_context=True)(run)

    def _worker(self, **options: Any) -> ClerkWorker:
        assert isinstance(self.connector, ClerkConnector)
        periodic.schedule_maintenance(self, self.connector.settings.maintain_hour)
        return ClerkWorker(app=self, **{**self.worker_defaults, **options})


def _require_storage(job: JobContext) -> None:
    """Raise StorageUnmounted. Otherwise every document would fail because its PDF is missing, and a fetch would
    download all documents to the disk under the mount point."""
    try:
        require_mounted(job.settings.storage_dir)
    except StorageUnmounted:
        with job.connection() as connection:
            if repository.has_stored_documents(connection):
                raise


def create_app() -> ClerkApp:
    created = ClerkApp()
    for stage, task in _STAGE_TASKS.items():
        created.add_stage(stage, task)
    return created


app = create_app()
