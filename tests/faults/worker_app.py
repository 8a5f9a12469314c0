"""The Procrastinate app of the test workers: clerk's engine, with stage tasks that follow the test's plan.

Tests and tasks share only the folder FAULTS_FOLDER, so that it works during a database outage:

- `plan.json` has the behaviour of each attempt: `{"ocr:7": ["kill", "ok"]}` means that the OCR of content item 7 kills
  its worker at the first attempt and succeeds from the second on. `"ocr"` is for every OCR without its own entry.
- `steps` has a line for each step of a task: what it is about to do, for which unit, in which process.
- any other file opens a gate: `wait:NAME` waits until the file NAME exists.

FAULTS_CLOCK shifts the clock of this process by so many seconds. FAULTS_DEADLINES has the deadlines of the worker's and
of the tasks' statements.
"""

from __future__ import annotations

# ruff: noqa: I001 (the clock is shifted before other modules are imported)
import tests.faults.clock as _clock  # noqa: F401

import ctypes
import json
import os
import resource
import signal
import time
from pathlib import Path
from typing import Any

from procrastinate import JobContext, exceptions

from clerk.pipeline.engine import STAGES
from clerk.app import ClerkApp
from clerk.documents import storage as storage_files
from clerk.errors import DownloadFailed, NotAPdf, PdfEncrypted, PdfTruncated
from clerk.ocr import poppler
from clerk.pipeline import engine
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry

FOLDER = Path(os.environ.get("FAULTS_FOLDER", "."))
_INITIAL_DELAY = 0.02
_PERMANENT = {error.code: error for error in (PdfEncrypted, NotAPdf, PdfTruncated)}


def _record(step: str, context: JobContext) -> None:
    job = context.job
    arguments = job.task_kwargs
    item = arguments.get("content_item_id", arguments.get("phase"))
    line = json.dumps([step, arguments.get("stage", "coordinate"), item, job.id, job.attempts, os.getpid()])
    with (FOLDER / "steps").open("a") as file:
        file.write(line + "\n")


def _planned(context: JobContext, *keys: str) -> str:
    plan: dict[str, list[str]] = json.loads((FOLDER / "plan.json").read_text())
    for key in keys:
        if key in plan:
            return plan[key][min(context.job.attempts, len(plan[key]) - 1)]
    return "ok"


def _run(behaviour: str, context: JobContext) -> None:
    """One step, or several separated by commas."""
    for step in behaviour.split(","):
        _run_step(step, context)


def _run_step(step: str, context: JobContext) -> None:
    verb, _, argument = step.partition(":")
    match verb:
        case "ok":
            pass
        case "transient":
            raise DownloadFailed("the source closed the connection")
        case "permanent":
            raise _PERMANENT[argument or "PdfEncrypted"](f"attempt {context.job.attempts + 1} failed")
        case "work":
            time.sleep(float(argument))
        case "wait":
            _wait_for(argument, context, stops=False)
        case "wait_or_stop":
            _wait_for(argument, context, stops=True)
        case "pages":
            _process_pages(context, argument)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            _run_out_of_memory()
        case "query":
            _query(context, "select 'query of a task'")
        case "sqlstate":
            _query(context, f"do $$ begin raise exception 'planned' using errcode = '{argument}'; end $$")
        case "transaction":
            _transaction(context)
        case "write":
            _write(context, int(argument))
        case "tools":
            poppler.version()
        case _:
            raise AssertionError(f"no such step: {step}")


def _query(context: JobContext, query: str) -> None:
    assert isinstance(context.app.connector, ClerkConnector)
    with context.app.connector.connection() as connection:
        connection.execute(query.encode())


def _transaction(context: JobContext) -> None:
    """A transaction during which the server is restarted."""
    assert isinstance(context.app.connector, ClerkConnector)
    with context.app.connector.connection() as connection, connection.transaction():
        connection.execute("select 1")
        _record("in transaction", context)
        _wait_for(f"restarted-{context.job.attempts}", context, stops=False)
        connection.execute("select 1")


def _write(context: JobContext, kilobytes: int) -> None:
    assert isinstance(context.app.connector, ClerkConnector)
    storage = context.app.connector.settings.storage_dir
    storage_files.write(storage / "anytown" / f"{context.job.id}", b"x" * 1000 * kilobytes)


def _wait_for(gate: str, context: JobContext, *, stops: bool) -> None:
    """Wait for a gate; if `stops`, end when the job is asked to stop."""
    while not (FOLDER / gate).exists():
        if stops and context.should_abort():
            raise exceptions.JobAborted
        time.sleep(0.005)


def _process_pages(context: JobContext, pages: str) -> None:
    """`pages:..x.` has four pages, of which the third fails; `|` is a page that waits for the gate `page`."""
    assert isinstance(context.app.connector, ClerkConnector)
    assert context.job.id is not None
    with context.app.connector.connection() as connection:
        for number, page in enumerate(pages, start=1):
            if page == "x":
                raise PdfTruncated(f"page {number} failed")
            if page == "|":
                _wait_for("page", context, stops=False)
            held = engine.report_progress(connection, context.job.id, context.job.attempts, number, len(pages))
            _record("page" if held else "page, claim lost", context)


def _run_out_of_memory() -> None:
    """Raises MemoryError, as under a resource limit. The kernel's out-of-memory killer is simulated by `kill`."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (64 << 20), limits[1]))
    blocks = []
    try:
        while True:
            blocks.append(bytearray(1 << 20))
    finally:
        blocks.clear()
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _stage_task(context: JobContext, /, stage: str, content_item_id: int, **_: Any) -> None:
    behaviour = _planned(context, f"{stage}:{content_item_id}", stage)
    _record(behaviour, context)
    _run(behaviour, context)
    _record("done", context)


app = ClerkApp()
app.worker_defaults = json.loads(os.environ.get("FAULTS_WORKER", "{}"))
assert isinstance(app.job_manager, ClerkJobManager)
assert isinstance(app.connector, ClerkConnector)
if _deadlines := json.loads(os.environ.get("FAULTS_DEADLINES", "null")):
    app.connector.statement_deadline, app.connector.job_statement_deadline = _deadlines
for _stage in STAGES:
    app.task(
        name=f"clerk.{_stage}",
        queue=_stage,
        aliases=[f"clerk.old_{_stage}"],
        retry=StageRetry(app.job_manager, _stage, initial_delay=_INITIAL_DELAY),
        pass_context=True,
    )(_stage_task)

# The tests call rescue, reconciliation and the scheduler themselves. One periodic task is needed: a Procrastinate
# worker without any does not monitor its heartbeat and listener.
app.periodic_registry.periodic_tasks.clear()


@app.periodic(cron="0 0 1 1 *")
@app.task(name="faults.new_year", queue="nowhere")
def _new_year(timestamp: int) -> None: ...


_coordinate = app.tasks["clerk.coordinate"]
_original_coordinate: Any = _coordinate.func


def _coordinate_with_plan(context: JobContext, subdomain: str, run_id: int, phase: int) -> str:
    behaviour = _planned(context, f"coordinate:{phase}")
    _record(behaviour, context)
    _run(behaviour, context)
    result: str = _original_coordinate(context, subdomain=subdomain, run_id=run_id, phase=phase)
    _record(result, context)
    _run(_planned(context, f"coordinated:{phase}"), context)
    return result


_coordinate.func = _coordinate_with_plan
