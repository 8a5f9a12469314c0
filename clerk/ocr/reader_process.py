"""Reader process: the only process that parses an untrusted PDF. One process per document, with one thread.

`clerk.ocr.fork_server` forks it; `clerk.ocr.protocol` describes how the worker talks to it. An error in a page fails
that page; an error in the document ends the process. It writes only to its scratch folder; the worker stores the
results.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clerk import host
from clerk.error_causes import classify
from clerk.errors import DiskFailed, DiskFull, DiskReadOnly, HostError, PdfError
from clerk.ocr import tesseract_server
from clerk.ocr.inspection import inspect
from clerk.ocr.ocr_engine import PopplerAndTesseract, environment, limited_runner
from clerk.ocr.page_processor import PageProcessor, document_cpu_limit, error_text
from clerk.ocr.protocol import Task
from clerk.ocr.sandbox import ForkedLineServer, Limits, ParentGone, ToolFailed, set_own_cpu_limit, set_own_limits
from clerk.ocr.tesseract import Start, Tesseract

_INSPECTION_SECONDS = 8.0
_OWN_MEMORY_SHARE = 0.3
_IDLE_TESSERACT_MEMORY_SHARE = 0.15
"""Memory for the idle tesseract process while another program runs. The running program gets the rest."""


def process_document(task: Task, parent_pipe: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events of the protocol. Sets the limits before it opens the file."""
    scratch = Path(task.scratch)
    own = int(task.memory * _OWN_MEMORY_SHARE)
    idle = int(task.memory * _IDLE_TESSERACT_MEMORY_SHARE)
    limits = Limits(task.memory - own - idle)
    set_own_limits(Limits(own), task.memory - own, 3 * _INSPECTION_SECONDS)
    run = limited_runner(limits, scratch, parent_pipe)
    try:
        inspection = inspect(run, Path(task.pdf), scratch, task.max_pages, _INSPECTION_SECONDS)
        set_own_cpu_limit(3 * _INSPECTION_SECONDS + task.extra_page_seconds * inspection.page_count)
        yield {
            "event": "inspected",
            "page_count": inspection.page_count,
            "is_truncated": inspection.is_truncated,
            "notes": inspection.notes,
        }
        start = _forked_tesseract(limits, document_cpu_limit(task, inspection), parent_pipe)
        engine = PopplerAndTesseract(Path(task.pdf), run, Tesseract(start, idle), scratch)
        with contextlib.closing(engine):
            for results in PageProcessor(task, engine, inspection).pages():
                yield {"event": "pages", "pages": [asdict(result) for result in results]}
    except (PdfError, HostError) as error:
        yield {"event": "failed", "error": error.code, "message": str(error)}
    except OSError as error:
        # Not a lack of memory or descriptors: both are limited for this process.
        if classify(error) not in (DiskFull, DiskReadOnly, DiskFailed):
            raise
        problem = host.disk_problem(scratch) or classify(error)(f"{scratch} cannot be written: {error.strerror}")
        yield {"event": "failed", "error": problem.code, "message": str(problem)}
    except ToolFailed as error:
        code, _, message = error_text(error).partition(": ")
        yield {"event": "failed", "error": code, "message": message}
    except MemoryError:
        yield {"event": "failed", "error": "PdfMemory", "message": "the OCR process ran out of memory"}
    else:
        yield {"event": "done"}


def _forked_tesseract(limits: Limits, cpu_seconds: float, parent_pipe: int | None) -> Start:
    """Build a function that forks a tesseract process, which has the models that the fork server loaded."""

    def start(name: str, *arguments: str | Path) -> ForkedLineServer:
        work = functools.partial(tesseract_server.main, Path(arguments[-1]))
        return ForkedLineServer(name, work, limits, cpu_seconds, parent_pipe)

    return start


def main() -> None:
    parent_pipe = sys.stdin.fileno()
    task = Task(**json.loads(_first_line(parent_pipe)))
    os.chdir(task.scratch)
    os.environ.update(environment(Path(task.scratch)))
    try:
        for event in process_document(task, parent_pipe):
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
    except (ParentGone, BrokenPipeError):
        shutil.rmtree(task.scratch, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)


def _first_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, 65536)
        if not chunk:
            sys.exit(1)
        line += chunk
    return line
