"""Processing of documents with the real reader process, poppler and tesseract."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from PIL import Image

from clerk.documents import manifest
from clerk.documents.manifest import EMPTY, FAILED, OCR, TEXT_LAYER, page_texts
from clerk.documents.storage import Document, SiteStorage, make_folder, write
from clerk.error_causes import classify
from clerk.errors import (
    DiskFull,
    NotAPdf,
    PdfAltered,
    PdfBroken,
    PdfEmpty,
    PdfMissing,
    PdfTooLarge,
    PdfTruncated,
    ReaderCrashed,
)
from clerk.ocr import process_document
from clerk.ocr.process_document import Options
from tests import disks
from tests.helpers import until
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf
from tests.s3 import BOTH_IF_LONG

STORAGES = BOTH_IF_LONG


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def test_the_text_layer_of_digital_pages_is_used(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    result = process_pdf(pdfs.digital(3))
    assert [page.method for page in result.pages] == [TEXT_LAYER] * 3
    texts = dict(page_texts(storage, document))
    assert "Page 2\nMINUTES OF THE REGULAR MEETING" in texts[2]
    assert files_of(storage.texts(document)) == {"1.txt", "2.txt", "3.txt", "manifest.json"}
    assert not storage.page_image(document, 1).exists()


def test_scanned_pages_get_text_and_image(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    result = process_pdf(pdfs.scanned([pdfs.page_image()]))
    (page,) = result.pages
    assert page.method == OCR
    assert page.confidence is not None
    assert page.confidence > 85
    assert "Member Ortega moved to approve the budget of the water department." in page_texts(storage, document)[0][1]
    with Image.open(io.BytesIO(storage.page_image(document, 1).read_bytes())) as image:
        assert image.size == (1105, 1430)


@pytest.mark.parametrize("kind", ["digital", "scanned"])
def test_scratch_disk_is_full(
    process_pdf: ProcessPdf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The host is the cause, not the document. pdftotext writes a part of its output and exits with 0."""
    content = pdfs.digital(3) if kind == "digital" else pdfs.scanned([pdfs.page_image()])
    with disks.small_disk(tmp_path / "scratch") as disk:
        if kind == "digital":
            (disk / "ballast").write_bytes(b"x" * (shutil.disk_usage(disk).free - 12_288))
        with monkeypatch.context() as patch:
            patch.setattr(tempfile, "tempdir", str(disk))
            with pytest.raises(DiskFull, match=rf"the disk of {disk}/\S+ is full"):
                process_pdf(content)
    assert not process_pdf(content).failed


def test_storage_is_full(document: Document, tmp_path: Path) -> None:
    with disks.small_disk(tmp_path / "disk") as disk:
        storage = SiteStorage(disk, "springfield")
        write(storage.pdf(document), pdfs.digital(3))
        (disk / "ballast").write_bytes(b"x" * shutil.disk_usage(disk).free)
        with pytest.raises(OSError, match="No space left on device") as caught:
            process_document.process(storage, document, Options(), lambda done, total: None, lambda: None)
    assert classify(caught.value) is DiskFull


def test_text_pages_and_a_blank_page(storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf) -> None:
    blank = b""
    text = pdfs.lines_of_text(pdfs.MINUTES)
    result = process_pdf(pdfs.document([(text, ""), (blank, ""), (text, "")]))
    assert [page.method for page in result.pages] == [TEXT_LAYER, EMPTY, TEXT_LAYER]
    assert storage.page_text(document, 2).read_bytes() == b""


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_rotated_pages_are_rotated_back(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf, turned: int
) -> None:
    (page,) = process_pdf(pdfs.scanned([pdfs.page_image(pdfs.MINUTES * 3, turned=turned)])).pages
    assert page.rotation == 360 - turned
    assert "repair of the school roof" in page_texts(storage, document)[0][1]
    with Image.open(io.BytesIO(storage.page_image(document, 1).read_bytes())) as image:
        assert image.height > image.width


def test_skewed_pages_are_deskewed(storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf) -> None:
    process_pdf(pdfs.scanned([pdfs.page_image(pdfs.MINUTES * 3, skew=9)]))
    assert "repair of the school roof" in page_texts(storage, document)[0][1]


def test_small_print_is_rendered_with_a_higher_resolution(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    """Drawn at 300 dpi with letters of half the usual size, which are at most ten pixels high at 150 dpi."""
    half = pdfs.page_image(pdfs.MINUTES * 3, dpi=150)
    small = Image.new("L", (2550, 3300), 255)
    small.paste(half, (100, 100))
    process_pdf(pdfs.scanned([small], 300))
    assert "Castellano asked for a report on the repair of the school roof" in page_texts(storage, document)[0][1]
    with Image.open(io.BytesIO(storage.page_image(document, 1).read_bytes())) as image:
        assert 1800 < image.width <= 2550


def test_a_page_that_crashes_tesseract_fails_alone(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    killers = []

    def kill_when_busy(tesseract: psutil.Process, cpu_when_idle: float) -> None:
        until(lambda: tesseract.cpu_times().user > cpu_when_idle + 0.05)
        tesseract.kill()

    def report(done: int, total: int) -> None:
        if done == 1:
            (tesseract,) = (process for process in readers(recursive=True) if process.name() == "clerk-tesseract")
            killers.append(threading.Thread(target=kill_when_busy, args=(tesseract, tesseract.cpu_times().user)))
            killers[0].start()

    pages = [pdfs.page_image(pdfs.MINUTES), pdfs.dense_page(), pdfs.page_image(pdfs.MINUTES)]
    result = process_pdf(pdfs.scanned(pages), Options(max_failed_share=0.5), report)
    killers[0].join()
    assert [page.method for page in result.pages] == [OCR, FAILED, OCR]
    assert "tesseract was ended by SIGKILL" in (result.pages[1].error or "")


def test_images_of_all_pages_or_of_no_page(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    process_pdf(pdfs.digital(1), Options(images="all"))
    assert storage.page_image(document, 1).exists()
    storage.page_image(document, 1).unlink()
    process_pdf(pdfs.scanned([pdfs.page_image()]), Options(images="none"))
    assert not storage.page_image(document, 1).exists()


def test_a_stamp_on_a_scan_does_not_replace_ocr(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    """The only text of the text layer is a stamp."""
    scan = pdfs.page_image()
    pdf = pdfs.Pdf()
    image = pdf.stream(
        scan.tobytes(),
        f"/Type /XObject /Subtype /Image /Width {scan.width} /Height {scan.height}"
        " /ColorSpace /DeviceGray /BitsPerComponent 8",
    )
    font = pdf.add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    stamp = "BT /F1 8 Tf 60 20 Td (Received by the county recorder in the year 2024 as number 2024-0017-334-B) Tj ET"
    contents = pdf.stream(f"q 612 0 0 792 0 0 cm /Im Do Q {stamp}".encode())
    page = pdf.add(
        f"<< /Type /Page /Parent 5 0 R /MediaBox [0 0 612 792] /Contents {contents} 0 R"
        f" /Resources << /Font << /F1 {font} 0 R >> /XObject << /Im {image} 0 R >> >> >>"
    )
    tree = pdf.add(f"<< /Type /Pages /Count 1 /Kids [{page} 0 R] >>")
    assert tree == 5
    (result,) = process_pdf(pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>"))).pages
    assert result.method == OCR
    assert "school roof" in page_texts(storage, document)[0][1]


def test_progress_is_reported_after_each_page(process_pdf: ProcessPdf) -> None:
    progress: list[tuple[int, int]] = []
    process_pdf(pdfs.numbered(3), report=lambda done, total: progress.append((done, total)))
    assert progress == [(0, 3), (1, 3), (2, 3), (3, 3)]


class Stopped(Exception):
    pass


def stop_at(page: int) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        if done == page:
            raise Stopped

    return report


def test_processing_continues_after_the_last_finished_page(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    content = pdfs.numbered(5)
    with pytest.raises(Stopped):
        process_pdf(content, report=stop_at(3))
    assert not storage.manifest(document).exists()
    written_at = {page: storage.page_text(document, page).stat().st_mtime_ns for page in (1, 2, 3)}
    progress: list[int] = []
    result = process_pdf(content, report=lambda done, total: progress.append(done))
    assert progress == [3, 4, 5]
    assert result.is_complete
    assert {page: storage.page_text(document, page).stat().st_mtime_ns for page in (1, 2, 3)} == written_at
    assert [text.splitlines()[0] for _, text in page_texts(storage, document)] == [
        f"This is page number {page}" for page in range(1, 6)
    ]
    assert not {name for name in files_of(storage.texts(document)) if name.startswith(".")}


def test_a_page_whose_text_is_missing_is_processed_again(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    content = pdfs.digital(4)
    first = process_pdf(content)
    storage.page_text(document, 2).unlink()
    storage.page_text(document, 3).write_text("something else")
    progress: list[int] = []
    again = process_pdf(content, report=lambda done, total: progress.append(done))
    assert progress[0] == 2
    assert [page.sha256 for page in again.pages] == [page.sha256 for page in first.pages]


def test_an_incomplete_journal_line_loses_one_page(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    content = pdfs.numbered(3)
    with pytest.raises(Stopped):
        process_pdf(content, report=stop_at(2))
    journal = storage.texts(document) / ".reading.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    progress: list[int] = []
    process_pdf(content, report=lambda done, total: progress.append(done))
    assert progress[0] == 1


def test_another_pdf_replaces_all_files_of_the_first(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    process_pdf(pdfs.numbered(3))
    result = process_pdf(pdfs.digital(2))
    assert result.page_count == 2
    assert files_of(storage.texts(document)) == {"1.txt", "2.txt", "manifest.json"}
    assert files_of(storage.page_image(document, 1).parent) <= {"1.png", "2.png"}


def test_other_languages_process_every_page_again(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    content = pdfs.numbered(1)
    process_pdf(content)
    progress: list[int] = []
    assert (
        process_pdf(content, Options(languages="osd+eng"), lambda done, total: progress.append(done)).languages
        == "osd+eng"
    )
    assert progress == [0, 1]


def readers(*, recursive: bool = False) -> list[psutil.Process]:
    """The reader processes of this test, with `recursive` also their children."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            if child.name() == "clerk-fork":
                found += child.children(recursive=recursive)
    return [process for process in found if _is_running(process)]


def _is_running(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != "zombie")
    except psutil.NoSuchProcess:
        return False


def test_a_killed_reader_fails_the_attempt_and_keeps_finished_pages(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    content = pdfs.numbered(40)
    killed: list[int] = []

    def kill_reader(done: int, total: int) -> None:
        if 2 <= done < total and not killed:  # several pages may be reported at once
            (reader,) = readers()
            os.kill(reader.pid, signal.SIGKILL)
            killed.append(reader.pid)

    with pytest.raises(ReaderCrashed, match="SIGKILL"):
        process_pdf(content, report=kill_reader)
    progress: list[int] = []
    process_pdf(content, report=lambda done, total: progress.append(done))
    assert progress[0] >= 2


def test_no_process_remains_after_processing(process_pdf: ProcessPdf) -> None:
    with pytest.raises(Stopped):
        process_pdf(pdfs.numbered(2), report=stop_at(1))
    assert not readers(recursive=True)


def broken_page(pages: int, broken: int) -> bytes:
    """A document with one page that cannot be rendered."""
    text = pdfs.lines_of_text(pdfs.MINUTES)
    return pdfs.document([(b"/Nothing Do" if page == broken else text, "") for page in range(1, pages + 1)])


def test_a_failed_page_is_counted_in_the_note(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    result = process_pdf(broken_page(12, 5))
    assert result.note == "1 of 12 pages failed"
    assert result.pages[4].method == FAILED
    assert (result.pages[4].error or "").startswith("PdfBroken: the page was displayed blank (poppler: ")
    assert not storage.page_text(document, 5).exists()
    assert len(page_texts(storage, document)) == 11


def test_too_many_failed_pages_fail_the_document(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    content = broken_page(4, 2)
    with pytest.raises(PdfBroken, match="1 of 4 pages failed; page 2"):
        process_pdf(content)
    assert manifest.load(storage.manifest(document)) is None
    assert process_pdf(content, replace(Options(), max_failed_share=0.25)).note == "1 of 4 pages failed"


def test_a_missing_or_altered_file_is_refused(
    storage: SiteStorage[Any], document: Document, process_pdf: ProcessPdf
) -> None:
    with pytest.raises(PdfMissing):
        process_pdf(None)
    make_folder(storage.pdf(document).parent)
    storage.pdf(document).write_bytes(b"%PDF-")
    from clerk.ocr import process_document

    with pytest.raises(PdfAltered):
        process_document.process(
            storage, replace(document, sha256="0" * 64), Options(), lambda a, b: None, lambda: None
        )


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [
        (b"", PdfEmpty, "the file is empty"),
        (b"<!DOCTYPE html><title>Not found</title>", NotAPdf, "web page"),
        (b"PK\x03\x04" + b"x" * 100, NotAPdf, "Office"),
        (b"plain text", NotAPdf, "does not begin"),
        (b"%PDF", PdfTruncated, "no page can be displayed"),
        (b"%PDF\x00\x01 something else startxref", PdfBroken, "no page can be displayed"),
        (pdfs.digital(4)[:700], PdfTruncated, "no page"),
        (b"%PDF-1.4\n%%EOF\n", PdfBroken, "no page"),
        (pdfs.document([]), PdfEmpty, "no page"),
        (pdfs.document([(b"0 0 m 9 9 l S", "")], box="0 0 200000 200000"), PdfTooLarge, "200000 x 200000 points"),
    ],
    ids=[
        "empty",
        "html",
        "docx",
        "text",
        "header only",
        "header and garbage",
        "truncated",
        "nothing",
        "no pages",
        "huge box",
    ],
)
def test_unusable_files_are_refused(
    process_pdf: ProcessPdf, content: bytes, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        process_pdf(content)
