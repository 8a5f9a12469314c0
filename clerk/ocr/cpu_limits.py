"""CPU limits of a document: in all, for its failed pages together, and for each page. Used in the reader process."""

from __future__ import annotations

import contextlib
import resource
from collections.abc import Callable, Iterator

from clerk.errors import PdfTimeout
from clerk.ocr.inspection import Inspection
from clerk.ocr.protocol import Task
from clerk.ocr.sandbox import OutOfTime


class DocumentCpu:
    """The CPU time that a document has used, and its limits."""

    def __init__(self, task: Task, inspection: Inspection, engine_seconds: Callable[[], float]) -> None:
        self.limit = document_cpu_limit(task, inspection)
        self.failed_limit = task.failed_seconds
        self.failed = 0.0
        """CPU seconds that were used in vain: by programs that failed and for pages that failed."""
        self.engine_seconds = engine_seconds

    def used(self) -> float:
        """CPU seconds of this process, of its ended children, and of the engine's running processes."""
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime + self.engine_seconds()

    def remaining(self) -> float:
        """CPU seconds until the document's limit, and until the limit for failed pages, whichever is less."""
        used = self.used()
        if used >= self.limit:
            raise PdfTimeout(f"OCR used more than {self.limit:.0f} s of CPU time")
        if self.failed >= self.failed_limit:
            raise PdfTimeout(f"failed pages used more than {self.failed_limit:.0f} s of CPU time")
        return min(self.limit - used, self.failed_limit - self.failed)

    @contextlib.contextmanager
    def counting_failure(self, *errors: type[Exception]) -> Iterator[None]:
        """Count the CPU time of the block as failed if it raises one of these errors."""
        before = self.used()
        try:
            yield
        except errors:
            self.failed += self.used() - before
            raise


class PageCpu:
    """The CPU limit of one page, over all programs that are run for it."""

    def __init__(self, seconds: float, document: DocumentCpu) -> None:
        self.document = document
        self.limit = document.used() + min(seconds, document.remaining())

    def remaining(self) -> float:
        remaining = self.limit - self.document.used()
        if remaining <= 0:
            raise OutOfTime("the page used more CPU time than a page may use")
        return remaining


def document_cpu_limit(task: Task, inspection: Inspection) -> float:
    return task.cpu_limit(inspection.page_count)
