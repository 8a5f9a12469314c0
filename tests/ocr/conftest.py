"""A site's storage with one document. The tests use the real reader process, poppler and tesseract."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from clerk.documents.manifest import Manifest
from clerk.documents.storage import Document, SiteStorage, make_folder
from clerk.object_storage.path import StoragePath
from clerk.ocr import poppler, process_document, tesseract
from clerk.ocr.process_document import Options

ProcessPdf = Callable[..., Manifest]


@pytest.fixture(autouse=True)
def _tools() -> None:
    for program in poppler.PROGRAMS:
        if shutil.which(program) is None:
            pytest.fail(f"{program} is not installed: apt install poppler-utils")
    tesseract.models()


@pytest.fixture
def storage(storage_root: StoragePath) -> SiteStorage[Any]:
    return SiteStorage(storage_root, "springfield")


@pytest.fixture
def document() -> Document:
    return Document(7, "springfield", "minutes", "Town Council", date(2024, 3, 5))


@pytest.fixture
def process_pdf(storage: SiteStorage[Any], document: Document) -> ProcessPdf:
    """A function that stores the given bytes as the document's PDF and processes it."""

    def process(
        content: bytes | None,
        options: Options | None = None,
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> Manifest:
        if content is not None:
            make_folder(storage.pdf(document).parent)
            storage.pdf(document).write_bytes(content)
        return process_document.process(storage, document, options or Options(), report, lambda: None)

    return process
