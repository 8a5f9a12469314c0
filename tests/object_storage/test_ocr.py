"""OCR of a document in a bucket, by the real reader process."""

from __future__ import annotations

import contextlib
from datetime import date
from pathlib import Path

import psutil
import pytest

from clerk.documents import manifest
from clerk.documents.storage import Document, SiteStorage
from clerk.object_storage.path import ObjectPath, object_root
from clerk.object_storage.url import parse_bucket_url
from clerk.ocr import process_document
from clerk.ocr.process_document import Options
from tests.object_storage.fault_proxy import FaultProxy
from tests.ocr import pdfs
from tests.s3 import BUCKET, CREDENTIALS

DOCUMENT = Document(7, "springfield", "minutes", "Town Council", date(2024, 3, 5))


@pytest.fixture
def storage(root: ObjectPath) -> SiteStorage[ObjectPath]:
    return SiteStorage(root, "springfield")


def test_the_processes_that_read_a_pdf_get_no_credentials_of_the_storage(storage: SiteStorage[ObjectPath]) -> None:
    storage.pdf(DOCUMENT).write(pdfs.digital(1))
    environments: list[str] = []

    def read_environments(done: int, total: int) -> None:
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(OSError):  # it has ended
                environments.append(Path(f"/proc/{child.pid}/environ").read_text())

    process_document.process(storage, DOCUMENT, Options(), read_environments, lambda: None)
    readers = [text for text in environments if "OMP_THREAD_LIMIT" in text]
    assert readers
    for text in readers:
        assert "AWS_" not in text
        assert not any(secret in text for secret in CREDENTIALS.values())


def test_the_manifest_is_written_after_all_texts(
    storage: SiteStorage[ObjectPath], proxy: FaultProxy, tmp_path: Path
) -> None:
    storage.pdf(DOCUMENT).write(pdfs.digital(3))
    url = parse_bucket_url(f"s3://{BUCKET}/{storage.root.bucket.url.prefix}?endpoint={proxy.url}")
    behind = SiteStorage(object_root(url, tmp_path / "other-cache", 10_000_000), "springfield")
    process_document.process(behind, DOCUMENT, Options(), lambda done, total: None, lambda: None)
    written = [path.rpartition("/")[2] for method, path in proxy.requests if method == "PUT"]
    assert written[-1] == "manifest.json"
    assert {"1.txt", "2.txt", "3.txt"} < set(written)
    assert {path.name for path in storage.texts(DOCUMENT).iterdir()} == {"1.txt", "2.txt", "3.txt", "manifest.json"}
    assert len(proxy.requests) < 20, "requests for three pages"


def test_pages_that_are_stored_are_not_processed_again(storage: SiteStorage[ObjectPath]) -> None:
    storage.pdf(DOCUMENT).write(pdfs.numbered(3))
    finished: list[int] = []

    def stop_after_one(done: int, total: int) -> None:
        finished.append(done)
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process_document.process(storage, DOCUMENT, Options(), stop_after_one, lambda: None)
    stored = [path for path in storage.texts(DOCUMENT).iterdir() if path.suffix == ".txt"]
    before = {path.name: path.info() for path in stored}
    assert 1 <= len(before) == finished[-1] < 3
    assert manifest.load(storage.manifest(DOCUMENT)) is None
    process_document.process(storage, DOCUMENT, Options(), lambda done, total: finished.append(done), lambda: None)
    assert finished[2] == finished[1], "the next attempt begins with the pages of the first"
    assert {path.name: path.info() for path in stored} == before
    loaded = manifest.load(storage.manifest(DOCUMENT))
    assert loaded is not None
    assert loaded.is_complete
