"""Processing of malicious files, with assertions that it stays within its limits on CPU time and memory."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from clerk.errors import PdfError
from clerk.ocr import document_readers, reader_client
from clerk.ocr.process_document import Options
from tests.ocr.conftest import ProcessPdf, document, process_pdf, storage

__all__ = ["document", "process_pdf", "storage"]

Outcome = Callable[..., str]
MAX_CPU_SECONDS = 60
MAX_MEMORY = 1 << 30


@pytest.fixture
def outcome(process_pdf: ProcessPdf, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """A function that processes the given bytes and returns `processed` or the error code, within the limits."""

    # The limits on CPU time must apply first, also on a busy machine.
    monkeypatch.setattr(document_readers, "_WALL_PER_CPU_SECOND", 100.0)

    def process(content: bytes, options: Options | None = None) -> str:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            process_pdf(content, options)
            result = "processed"
        except PdfError as error:
            result = error.code if str(error) else f"{error.code} without a message"
        reader_client.close()  # then its CPU time and memory count as those of a child process
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # CPU time, since other tests use the same cores. The memory is that of the largest child process so far.
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < MAX_CPU_SECONDS
        assert after.ru_maxrss * 1024 < MAX_MEMORY
        return result

    return process
