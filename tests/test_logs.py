from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from procrastinate import jobs

from clerk import logs
from clerk.errors import PdfEmpty, PluginProgrammingError, PluginRaised, SiteNotFound
from clerk.telemetry.trace_context import SpanIds


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("human", stream=stream)
    yield stream
    root.handlers[:] = before
    root.setLevel(level)


@pytest.mark.parametrize(
    ("error", "has_traceback"),
    [
        (SiteNotFound("there is no site x", "add it"), False),
        (PluginRaised("mine"), True),
        (PluginProgrammingError("mine"), True),
        (KeyError("x"), True),
    ],
)
def test_only_unexpected_errors_and_errors_in_plugins_have_a_traceback(
    written: io.StringIO, error: Exception, has_traceback: bool
) -> None:
    try:
        raise error
    except Exception:
        logging.getLogger("x").exception("job failed")
    assert type(error).__name__ in written.getvalue()
    assert ("Traceback" in written.getvalue()) == has_traceback


def test_lines_of_jobs_have_the_reason_and_no_arguments(written: io.StringIO) -> None:
    job = jobs.Job(
        id=7, queue="ocr", lock=None, queueing_lock=None, task_name="clerk.ocr", attempts=0,
        task_kwargs={"subdomain": "town", "content_item_id": 24, "run_id": 3},
    )  # fmt: skip
    worker = logging.getLogger("procrastinate.worker")
    logging.getLogger("procrastinate.periodic").info("Registering task clerk.schedule with periodic id ''")
    with logs.job_logging(job, SpanIds("", "")):
        worker.info(f"Starting job {job.call_string}")
        worker.error(f"Job {job.call_string} ended with status: Error, lasted 1 s", exc_info=PdfEmpty("no page"))
    fields = "  [run_id=3 site=town stage=ocr document=24 job=7 attempt=1]"
    assert [line.split(maxsplit=3)[3] for line in written.getvalue().splitlines()] == [
        f"Starting job{fields}",
        f"Job ended with status: Error, lasted 1 s: PdfEmpty: no page{fields}",
    ]
