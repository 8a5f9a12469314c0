"""The app that the workers of these tests run: clerk's own engine, with stage bodies that do what the test says.

A folder, named by FAULTS_FOLDER, is all that test and bodies share, so that it works while the database does not:

- `plan.json` says what a body does: `{"ocr:7": ["kill", "ok"]}` means that the OCR of content item 7 kills its
  worker at the first attempt and succeeds from the second on. `"ocr"` speaks for every OCR without a plan of its own.
- `said` has a line per step of a body: what it is about to do, for whom, and in which process.
- any other file opens a gate: `wait:NAME` waits for the file NAME.

FAULTS_CLOCK sets this process's clock ahead (or back) by so many seconds.
"""

from __future__ import annotations

# ruff: noqa: I001 (the clock is set before anybody can look at it)
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
from clerk.errors import NotAPdf, PdfEncrypted, PdfTruncated
from clerk.pipeline import engine
from clerk.pipeline.connector import ClerkConnector
from clerk.pipeline.job_manager import ClerkJobManager
from clerk.pipeline.retry import StageRetry

FOLDER = Path(os.environ.get("FAULTS_FOLDER", "."))
_INITIAL_DELAY = 0.02


_PERMANENT = {error.code: error for error in (PdfEncrypted, NotAPdf, PdfTruncated)}


def _say(step: str, context: JobContext) -> None:
    job = context.job
    arguments = job.task_kwargs
    about = arguments.get("content_item_id", arguments.get("phase"))
    line = json.dumps([step, arguments.get("stage", "coordinate"), about, job.id, job.attempts, os.getpid()])
    with (FOLDER / "said").open("a") as file:
        file.write(line + "\n")


def _planned(context: JobContext, *keys: str) -> str:
    plan: dict[str, list[str]] = json.loads((FOLDER / "plan.json").read_text())
    for key in keys:
        if key in plan:
            return plan[key][min(context.job.attempts, len(plan[key]) - 1)]
    return "ok"


def _do(what: str, context: JobContext) -> None:
    """One thing, or several with commas between them."""
    for step in what.split(","):
        _do_one(step, context)


def _do_one(what: str, context: JobContext) -> None:
    verb, _, rest = what.partition(":")
    match verb:
        case "ok":
            pass
        case "transient":
            raise ConnectionError("the source hung up")
        case "permanent":
            raise _PERMANENT[rest or "PdfEncrypted"](f"no luck with attempt {context.job.attempts + 1}")
        case "wait":  # deaf: does not look whether it should stop
            _wait_for(rest, context, heeds=False)
        case "heed":
            _wait_for(rest, context, heeds=True)
        case "pages":
            _read_pages(context, rest)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "memory":
            _run_out_of_memory()
        case _:
            raise AssertionError(f"no such behaviour: {what}")


def _wait_for(gate: str, context: JobContext, *, heeds: bool) -> None:
    while not (FOLDER / gate).exists():
        if heeds and context.should_abort():
            raise exceptions.JobAborted
        time.sleep(0.005)


def _read_pages(context: JobContext, pages: str) -> None:
    """`pages:..x.` reads five pages, of which the third fails; `|` waits for the gate `page`."""
    assert isinstance(context.app.connector, ClerkConnector)
    assert context.job.id is not None
    with context.app.connector.connection() as connection:
        for number, page in enumerate(pages, start=1):
            if page == "x":
                raise PdfTruncated(f"page {number} cannot be read")
            if page == "|":
                _wait_for("page", context, heeds=False)
            held = engine.report_progress(connection, context.job.id, context.job.attempts, number, len(pages))
            _say("page" if held else "page, not ours", context)


def _run_out_of_memory() -> None:
    """As under a limit on the process; the kernel's own way of saying it is the SIGKILL of `kill`."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (64 << 20), limits[1]))
    hoard = []
    try:
        while True:
            hoard.append(bytearray(1 << 20))
    finally:
        hoard.clear()
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _body(context: JobContext, subdomain: str, run_id: int, stage: str, content_item_id: int) -> None:
    what = _planned(context, f"{stage}:{content_item_id}", stage)
    _say(what, context)
    _do(what, context)
    _say("done", context)


app = ClerkApp()
app.worker_defaults = json.loads(os.environ.get("FAULTS_WORKER", "{}"))
assert isinstance(app.job_manager, ClerkJobManager)
for _stage in STAGES:
    app.task(
        name=f"clerk.{_stage}",
        queue=_stage,
        aliases=[f"clerk.old_{_stage}"],
        retry=StageRetry(app.job_manager, _stage, initial_delay=_INITIAL_DELAY),
        pass_context=True,
    )(_body)

# The tests call rescue, reconciliation and the scheduler when they want them. One periodic task has to stay: a
# worker without any does not watch its heartbeat and listener.
app.periodic_registry.periodic_tasks.clear()


@app.periodic(cron="0 0 1 1 *")
@app.task(name="faults.new_year", queue="nowhere")
def _new_year(timestamp: int) -> None: ...


_coordinate = app.tasks["clerk.coordinate"]
_coordinate_body: Any = _coordinate.func


def _coordinated(context: JobContext, subdomain: str, run_id: int, phase: int) -> str:
    before = _planned(context, f"coordinate:{phase}")
    _say(before, context)
    _do(before, context)
    result: str = _coordinate_body(context, subdomain=subdomain, run_id=run_id, phase=phase)
    _say(result, context)
    _do(_planned(context, f"coordinated:{phase}"), context)
    return result


_coordinate.func = _coordinated
