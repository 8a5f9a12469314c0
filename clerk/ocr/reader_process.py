"""Reader process: the only process that parses an untrusted document. One process per document, with one thread.

`clerk.ocr.fork_server` forks it; `clerk.ocr.protocol` describes how the worker talks to it. An error in a page fails
that page; an error in the document ends the process. It writes only to its scratch folder; the worker stores the
results.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NoReturn

from clerk import host
from clerk.documents.media_types import PDF
from clerk.error_causes import classify
from clerk.errors import DiskFailed, DiskFull, DiskReadOnly, HostError, PdfError, ToolMissing
from clerk.ocr import restrictions, tesseract, text_documents, word_list
from clerk.ocr.cpu_limits import document_cpu_limit
from clerk.ocr.fast_inspection import inspect_undamaged
from clerk.ocr.inspection import inspect
from clerk.ocr.ocr_engine import EngineReference, OcrEngine, Tools, limited_runner, limited_server
from clerk.ocr.page_processor import PageProcessor, error_text
from clerk.ocr.protocol import Request, Task
from clerk.ocr.sandbox import (
    ForkedLineServer,
    Limits,
    LineServer,
    ParentGone,
    ToolFailed,
    set_own_cpu_limit,
    set_own_limits,
)
from clerk.ocr.tesseract import models

_INSPECTION_SECONDS = 8.0
_OWN_MEMORY_SHARE = 0.3
_IDLE_TESSERACT_MEMORY_SHARE = 0.15
"""Memory for the idle tesseract process while another program runs. The running program gets the rest."""


def process_document(
    task: Task, engine_class: type[OcrEngine], requests: Iterable[Request], parent_pipe: int
) -> Iterator[dict[str, Any]]:
    """Yield the events of the protocol. Sets the limits before it opens the file."""
    if task.media_type == PDF:
        yield from _process_pdf(task, engine_class, requests, parent_pipe)
    else:
        yield from _process_text(task, requests)


def _process_text(task: Task, requests: Iterable[Request]) -> Iterator[dict[str, Any]]:
    """A web page or a Word document: it has no images, and no other program reads it."""
    set_own_limits(Limits(task.memory), task.memory, task.document_seconds)
    try:
        pages = text_documents.read_pages(Path(task.pdf), task.media_type, task.max_pages)
        yield {"event": "inspected", "page_count": len(pages), "is_truncated": False, "notes": []}
        for request in requests:
            results = [text_documents.page_result(pages, number, task.media_type) for number in request.pages]
            yield {"event": "pages", "pages": [asdict(result) for result in results]}
            yield {"event": "done"}
    except PdfError as error:
        yield {"event": "failed", "error": error.code, "message": str(error)}
    except MemoryError:
        yield {"event": "failed", "error": "PdfMemory", "message": "the OCR process ran out of memory"}


def _process_pdf(
    task: Task, engine_class: type[OcrEngine], requests: Iterable[Request], parent_pipe: int
) -> Iterator[dict[str, Any]]:
    scratch = Path(task.scratch)
    own = int(task.memory * _OWN_MEMORY_SHARE)
    idle = int(task.memory * _IDLE_TESSERACT_MEMORY_SHARE)
    limits = Limits(task.memory - own - idle)
    set_own_limits(Limits(own), task.memory - own, 3 * _INSPECTION_SECONDS)
    run = limited_runner(limits, scratch, parent_pipe)
    try:
        arguments = (run, Path(task.pdf), scratch, task.max_pages, _INSPECTION_SECONDS)
        inspection = inspect_undamaged(*arguments) or inspect(*arguments)
        set_own_cpu_limit(3 * _INSPECTION_SECONDS + task.extra_page_seconds * inspection.page_count)
        yield {
            "event": "inspected",
            "page_count": inspection.page_count,
            "is_truncated": inspection.is_truncated,
            "notes": inspection.notes,
        }
        cpu_limit = document_cpu_limit(task, inspection)
        start = functools.partial(_start_forked, limits, cpu_limit, scratch, parent_pipe)
        engine = engine_class(Tools(Path(task.pdf), scratch, run, start, idle))
        processor = PageProcessor(task, engine, inspection)
        with contextlib.closing(engine):
            for request in requests:
                processor.cpu.limit = request.share * cpu_limit
                for results in processor.pages(request.pages):
                    yield {"event": "pages", "pages": [asdict(result) for result in results]}
                yield {"event": "done"}
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


def _start_forked(
    limits: Limits,
    cpu_seconds: float,
    scratch: Path,
    parent_pipe: int,
    name: str,
    *arguments: str | Path,
    runs_programs: bool = False,
) -> LineServer:
    """Start a process that answers requests. Those of the built-in engines are forked: they have the models that the
    fork server loaded, and a new interpreter could not list the folder of clerk's package. Their arguments end with
    their module and the folder of the models."""
    *_, module, folder = arguments
    if module in (tesseract.SERVER_MODULE, tesseract.PYTESSERACT_SERVER_MODULE):
        work = functools.partial(importlib.import_module(str(module)).main, Path(folder))
        return ForkedLineServer(name, work, replace(limits, runs_programs=runs_programs), cpu_seconds, parent_pipe)
    return limited_server(limits, cpu_seconds, scratch, parent_pipe)(name, *arguments, runs_programs=runs_programs)


def main() -> None:
    parent_pipe = sys.stdin.fileno()
    task = Task(**json.loads(read_line(parent_pipe)))
    os.chdir(task.scratch)
    # Before the restrictions: the module of a plugin may be anywhere.
    engine_class = EngineReference(**task.engine).load()
    restrictions.restrict_process([Path(task.pdf), *_model_folders()], [Path(task.scratch)])
    try:
        for event in process_document(task, engine_class, _requests(parent_pipe), parent_pipe):
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
    except (ParentGone, BrokenPipeError):
        end_without_worker(Path(task.scratch))


def end_without_worker(scratch: Path) -> NoReturn:
    """End this process and the programs that it runs, after the worker has died."""
    shutil.rmtree(scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
    raise AssertionError("unreachable: the process is in that group")


def prepare() -> None:
    """Do in the fork server what every reader process would do. A missing model is reported by the first page that
    needs it."""
    for folder in _model_folders():
        word_list.load(folder, tesseract.DEFAULT_LANGUAGES)
    # pypdf imports these when it needs them.
    for module in ("pypdf.filters", "pypdf._codecs._codecs"):
        importlib.import_module(module)


@functools.cache
def _model_folders() -> list[Path]:
    try:
        return [models()]
    except ToolMissing:
        return []  # the first page that needs OCR reports it


def _requests(descriptor: int) -> Iterator[Request]:
    while line := read_line(descriptor):
        yield Request(**json.loads(line))


def read_line(descriptor: int) -> bytes:
    """The next line; empty at end-of-file."""
    line = b""
    while not line.endswith(b"\n"):
        chunk = os.read(descriptor, 65536)
        if not chunk:
            return b""
        line += chunk
    return line
