"""The Procrastinate app of bin/torture: clerk's engine, compilation, extraction and deploy, and an OCR without PDFs.

Fetch only waits. OCR writes page texts and manifest with clerk's own functions, with the same text at every attempt.
Every stage first waits for a random time within TORTURE_WORK, so that most workers hold a job when a fault occurs.

Each task appends a line to TORTURE_RECORD with the result that its worker is about to send, and with the sender. The
record needs no database.
"""

from __future__ import annotations

# ruff: noqa: I001 (the clock is shifted before other modules are imported)
import tests.faults.clock as _clock  # noqa: F401

import json
import os
import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import procrastinate
from procrastinate import RetryDecision, RetryStrategy, jobs

from clerk.app import ClerkApp
from clerk.documents import manifest
from clerk.documents.manifest import TEXT_LAYER, Manifest, Page, digest
from clerk.documents.repository import document_by_id
from clerk.documents.storage import Document, SiteStorage, write_files
from clerk.error_causes import code_and_message
from clerk.errors import PdfEncrypted
from clerk.pipeline.job_context import JobContext
from clerk.pipeline.retry import StageRetry
from clerk.pipeline.tasks.compilation import compilation
from clerk.pipeline.tasks.deploy import deploy
from clerk.pipeline.tasks.extraction import extraction
from clerk.saved_searches.jobs import DELIVER_TASK, MATCH_TASK

PLANNED_ERROR = PdfEncrypted.code
"""The error of every document that is meant to fail."""
_PAGES = 3
_MAX_DELAY = timedelta(seconds=0.5)


def is_planned_to_fail(document: Document) -> bool:
    return document.date.day % 7 == 3


class _QuickRetry(StageRetry):
    """Like the stage's own strategy, but without its long delays: a document may meet dozens of faults."""

    def get_retry_decision(self, *, exception: BaseException, job: jobs.Job) -> RetryDecision | None:
        decision = super().get_retry_decision(exception=exception, job=job)
        if decision is None or decision.retry_at is None:
            return decision
        return RetryDecision(retry_at=min(decision.retry_at, datetime.now(UTC) + _MAX_DELAY))


def _work(job: JobContext) -> None:
    shortest, longest = json.loads(os.environ["TORTURE_WORK"])
    end = time.monotonic() + random.uniform(shortest, longest)  # noqa: S311 (not for secrets)
    while (left := end - time.monotonic()) > 0:
        job.raise_if_cancelled()
        time.sleep(min(left, 0.05))


def fetch(job: JobContext) -> None:
    _work(job)


def ocr(job: JobContext) -> None:
    with job.connection() as connection:
        document = document_by_id(connection, job.content_item_id)
    _work(job)
    if is_planned_to_fail(document):
        raise PdfEncrypted(f"{document.stem} is planned to fail")
    storage = SiteStorage(job.settings.storage_dir, job.subdomain)
    pages = []
    for number in range(1, _PAGES + 1):
        job.heartbeat(number - 1, _PAGES)
        text = _text(document, number).encode()
        write_files(storage.texts(document), {f"{number}.txt": text})
        pages.append(Page(number, TEXT_LAYER, len(text), None, 0, 0, digest(text)))
    job.heartbeat(_PAGES, _PAGES)
    manifest.save(storage.manifest(document), Manifest(None, _PAGES, "eng", tuple(pages)))


def _text(document: Document, page: int) -> str:
    return (
        f"Minutes of {document.subdomain}, {document.date}, page {page}.\n"
        f"Motion by Council Member Jane Doe, seconded by Council Member John Roe, to approve item {page}.\n"
        "Motion carried 5-0.\n"
    )


def _with_work(task: Callable[[JobContext], Any]) -> Callable[[JobContext], Any]:
    def run(job: JobContext) -> Any:
        _work(job)
        return task(job)

    return run


def _record(context: procrastinate.JobContext, result: str) -> None:
    arguments = context.job.task_kwargs
    line = {
        "job": context.job.id,
        "attempt": context.job.attempts,
        "holder": app.connector.holder,  # type: ignore[attr-defined]
        "run": arguments.get("run_id"),
        "stage": arguments.get("stage", "coordinate"),
        "result": result,
    }
    # One write of less than a page to a file in append mode: lines of several processes do not mix.
    descriptor = os.open(os.environ["TORTURE_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)


def _recorded(task: Callable[..., Any]) -> Callable[..., Any]:
    """Records the result before the worker can send it."""

    def run(context: procrastinate.JobContext, /, **arguments: Any) -> Any:
        try:
            result = task(context, **arguments)
        except BaseException as error:
            _record(context, code_and_message(error)[0])
            raise
        _record(context, "ok")
        return result

    return run


def _stage_task(task: Callable[[JobContext], Any]) -> Callable[..., Any]:
    return _recorded(lambda context, **arguments: task(JobContext(context)))


_TASKS: dict[str, Callable[[JobContext], Any]] = {
    "fetch": fetch,
    "ocr": ocr,
    "compilation": _with_work(compilation),
    "extraction": _with_work(extraction),
    "deploy": _with_work(deploy),
}

app = ClerkApp()
for _stage, _task in _TASKS.items():
    app.task(name=f"clerk.{_stage}", queue=_stage, retry=_QuickRetry(app.job_manager, _stage), pass_context=True)(
        _stage_task(_task)
    )
for _name in ("clerk.coordinate", "clerk.refresh", MATCH_TASK, DELIVER_TASK):
    _other: Any = app.tasks[_name]
    _other.retry_strategy = RetryStrategy(max_attempts=10, wait=1)
    _other.func = _recorded(_other.func)

# bin/torture itself runs two schedulers and two reconcilers. One periodic task is needed: a Procrastinate worker
# without any does not monitor its heartbeat and listener.
app.periodic_registry.periodic_tasks.clear()


@app.periodic(cron="0 0 1 1 *")
@app.task(name="torture.new_year", queue="nowhere")
def _new_year(timestamp: int) -> None: ...
