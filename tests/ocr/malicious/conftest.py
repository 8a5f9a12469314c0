"""Reading as in tests/documents, watched: whatever the file, it ends in time and within its memory."""

from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from clerk.errors import PdfError
from clerk.ocr.process_document import Options
from tests.ocr.conftest import Read, document, read, storage

__all__ = ["document", "read", "storage"]

Outcome = Callable[..., str]
SECONDS = 60
MEMORY = 1 << 30


@pytest.fixture
def outcome(read: Read) -> Outcome:
    """What becomes of these bytes: `processed`, or the class of the failure. Fails if that takes too much."""

    def find_out(content: bytes, options: Options | None = None) -> str:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            read(content, options)
            found = "processed"
        except PdfError as error:
            found = type(error).__name__ if str(error) else f"{type(error).__name__} without a word"
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # CPU time: other tests run on the same cores. Memory: the largest process so far, of whatever test.
        assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < SECONDS
        assert after.ru_maxrss * 1024 < MEMORY
        return found

    return find_out
