"""Large documents: page ranges for several reader processes, if cores are free."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from clerk.documents.manifest import page_texts
from clerk.documents.storage import Document, SiteStorage
from clerk.errors import ReaderCrashed
from clerk.ocr import cores, document_readers
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf


@pytest.fixture(autouse=True)
def _cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two cores that other tests do not use, and a document of nine pages counts as large."""
    monkeypatch.setattr(cores, "_FOLDER", str(tmp_path / "cores"))
    monkeypatch.setattr(cores, "count_cores", lambda: 2)
    monkeypatch.setattr(document_readers, "count_cores", lambda: 2)
    monkeypatch.setattr(document_readers, "_LARGE", 8)
    monkeypatch.setattr(document_readers, "_MIN_RANGE", 2)
    monkeypatch.setattr(document_readers, "_SECOND_READER_AFTER", 0.0)


@contextlib.contextmanager
def taken(number: int) -> Iterator[None]:
    held = [cores.take() for _ in range(number)]
    assert None not in held
    yield
    for core in held:
        assert core is not None
        core.release()


class Progress:
    """Counts reader processes while a document is processed."""

    def __init__(self) -> None:
        self.most = 0
        self.reports: list[int] = []

    def __call__(self, done: int, total: int) -> None:
        self.reports.append(done)
        servers = [child for child in psutil.Process().children() if child.name() == "clerk-fork"]
        readers = [child for server in servers for child in server.children() if child.name() == "clerk-reader"]
        self.most = max(self.most, len(readers))


def first_lines(storage: SiteStorage, document: Document) -> list[str]:
    return [text.splitlines()[0] for _, text in page_texts(storage, document)]


def test_a_large_document_uses_the_free_cores(
    storage: SiteStorage, document: Document, process_pdf: ProcessPdf
) -> None:
    progress = Progress()
    result = process_pdf(pdfs.numbered(14), report=progress)
    assert progress.most == 2
    assert result.is_complete
    assert first_lines(storage, document) == [f"This is page number {page}" for page in range(1, 15)]
    assert progress.reports == sorted(progress.reports)
    assert cores.take() is not None, "the cores are free again"


@pytest.mark.parametrize(("pages", "busy"), [(14, 1), (14, 2), (8, 0)], ids=["one core", "no core", "short document"])
def test_otherwise_one_process_does_all(
    storage: SiteStorage, document: Document, process_pdf: ProcessPdf, pages: int, busy: int
) -> None:
    progress = Progress()
    with taken(busy):
        assert process_pdf(pdfs.numbered(pages), report=progress).is_complete
    assert progress.most == 1


def test_a_large_document_is_resumed(storage: SiteStorage, document: Document, process_pdf: ProcessPdf) -> None:
    content = pdfs.numbered(14)

    def kill_readers(done: int, total: int) -> None:
        if done >= 6:
            for server in psutil.Process().children():
                if server.name() == "clerk-fork":
                    for reader in server.children():
                        reader.kill()

    with pytest.raises(ReaderCrashed, match="SIGKILL"):
        process_pdf(content, report=kill_readers)
    written = {page: storage.page_text(document, page) for page in range(1, 15)}
    before = {page: path.stat().st_mtime_ns for page, path in written.items() if path.exists()}
    assert len(before) >= 6
    progress = Progress()
    assert process_pdf(content, report=progress).is_complete
    assert progress.reports[0] == len(before)
    assert {page: written[page].stat().st_mtime_ns for page in before} == before
    assert first_lines(storage, document) == [f"This is page number {page}" for page in range(1, 15)]


def test_a_core_is_taken_once() -> None:
    first, second = cores.take(), cores.take()
    assert first is not None
    assert second is not None
    assert cores.take() is None
    second.release()
    assert cores.take() is not None
    first.release()


def test_a_link_in_place_of_the_folder_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"{cores._FOLDER}-{os.geteuid()}").symlink_to(elsewhere)
    assert cores.take() is None
    assert not list(elsewhere.iterdir())
