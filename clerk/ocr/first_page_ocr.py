"""OCR of the first page of a scan at fetch, to find its date. In a reader process, like every other OCR.

A worker process recognizes one such page at a time: a fetch has many downloads at once, and a machine few cores.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from clerk.documents.manifest import EMPTY, FAILED, OCR
from clerk.documents.media_types import PDF
from clerk.errors import HostError, PdfError, ReaderCrashed, ReaderOutputInvalid, ReaderStalled
from clerk.ocr.document_readers import DocumentReaders
from clerk.ocr.first_page import MAX_TEXT, FirstPageUnreadable
from clerk.ocr.ocr_engine import EngineReference
from clerk.ocr.process_document import Options, make_task
from clerk.ocr.scratch import scratch_folder

_PAGE_SECONDS = 15.0
_TIMEOUT = 60.0
"""Seconds of one page, after the wait for its turn."""
_POLL_INTERVAL = 1.0
_MIN_CONFIDENCE = 70.0
"""A date in a text that was recognized with less may be wrong, and nobody would notice."""
_one_page = threading.Lock()


def recognize_first_page(pdf: Path, engine: EngineReference, languages: str, heartbeat: Callable[[], None]) -> str:
    """The text of the first page; empty if it has none, or none that can be trusted. Raises FirstPageUnreadable.

    `heartbeat` is called about once a second.
    """
    while not _one_page.acquire(timeout=_POLL_INTERVAL):
        heartbeat()
    try:
        return _recognize(pdf, engine, languages, heartbeat)
    except (PdfError, HostError, ReaderCrashed, ReaderOutputInvalid, ReaderStalled) as error:
        raise FirstPageUnreadable(f"OCR failed: {error}") from error
    finally:
        _one_page.release()


def _recognize(pdf: Path, engine: EngineReference, languages: str, heartbeat: Callable[[], None]) -> str:
    options = Options(
        engine,
        languages,
        images="none",
        page_seconds=_PAGE_SECONDS,
        failed_seconds=_PAGE_SECONDS,
        extra_page_seconds=0.0,
    )
    deadline = time.monotonic() + _TIMEOUT

    def check_time() -> None:
        heartbeat()
        if time.monotonic() > deadline:
            raise ReaderStalled(f"it did not finish within {_TIMEOUT:g} s")

    with (
        scratch_folder("first-page-ocr") as scratch,
        DocumentReaders(make_task(pdf, PDF, options), scratch, check_time) as readers,
    ):
        readers.inspect()
        _, (result,) = next(readers.results([1]))
    if result.method == FAILED:
        raise FirstPageUnreadable(f"OCR failed: {result.error}")
    is_trusted = result.method != OCR or (result.confidence or 0.0) >= _MIN_CONFIDENCE
    return result.text[:MAX_TEXT] if is_trusted and result.method != EMPTY else ""
