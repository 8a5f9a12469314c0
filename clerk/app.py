"""The Procrastinate app: the composition root. `procrastinate --app=clerk.app.app worker` works as it is."""

from __future__ import annotations

from typing import Any

from procrastinate import App

from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.tasks import compilation, coordinator, deploy, extraction, fetch, ocr
from clerk.pipeline.worker import ClerkWorker


class ClerkApp(App):
    """An App whose workers keep claims, and whose manager keeps the fence. It coordinates; stages are added to it."""

    def __init__(self) -> None:
        connector = ClerkConnector()
        super().__init__(connector=connector)
        self.job_manager = ClerkJobManager(connector)
        coordinator.register(self)

    def _worker(self, **options: Any) -> ClerkWorker:
        return ClerkWorker(app=self, **{**self.worker_defaults, **options})


def create_app() -> ClerkApp:
    """With every stage of the pipeline."""
    made = ClerkApp()
    for stage in (fetch, ocr, compilation, extraction, deploy):
        stage.register(made)
    return made


app = create_app()
