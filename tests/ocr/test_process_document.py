"""Reading through the real child, with real poppler and tesseract."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PIL import Image

from clerk.documents import manifest
from clerk.documents.manifest import EMPTY, FAILED, OCR, TEXT_LAYER, page_texts
from clerk.documents.storage import Document, SiteStorage
from clerk.errors import NotAPdf, PdfAltered, PdfBroken, PdfEmpty, PdfMissing, PdfTooLarge, PdfTruncated, ReaderCrashed
from clerk.ocr.process_document import Options
from tests.helpers import until
from tests.ocr import pdfs
from tests.ocr.conftest import Read


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()


def test_born_digital_pages_are_taken_as_they_are(storage: SiteStorage, document: Document, read: Read) -> None:
    found = read(pdfs.digital(3))
    assert [page.method for page in found.pages] == [TEXT_LAYER] * 3
    texts = dict(page_texts(storage, document))
    assert "Page 2\nMINUTES OF THE REGULAR MEETING" in texts[2]
    assert files_of(storage.texts(document)) == {"1.txt", "2.txt", "3.txt", "manifest.json"}
    assert not storage.page_image(document, 1).exists()


def test_scanned_pages_are_read_and_kept(storage: SiteStorage, document: Document, read: Read) -> None:
    found = read(pdfs.scanned([pdfs.page_image()]))
    (page,) = found.pages
    assert page.method == OCR
    assert page.confidence is not None
    assert page.confidence > 85
    assert "Member Ortega moved to approve the budget of the water department." in page_texts(storage, document)[0][1]
    with Image.open(storage.page_image(document, 1)) as image:
        assert image.size == (1275, 1650)


def test_all_kinds_in_one_document(storage: SiteStorage, document: Document, read: Read) -> None:
    blank = b""
    text = pdfs.lines_of_text(pdfs.MINUTES)
    found = read(pdfs.document([(text, ""), (blank, ""), (text, "")]))
    assert [page.method for page in found.pages] == [TEXT_LAYER, EMPTY, TEXT_LAYER]
    assert storage.page_text(document, 2).read_bytes() == b""


@pytest.mark.parametrize("turned", [90, 180, 270])
def test_pages_that_lie_on_their_side_are_turned(
    storage: SiteStorage, document: Document, read: Read, turned: int
) -> None:
    (page,) = read(pdfs.scanned([pdfs.page_image(pdfs.MINUTES * 3, turned=turned)])).pages
    assert page.rotation == 360 - turned
    assert "repair of the school roof" in page_texts(storage, document)[0][1]
    with Image.open(storage.page_image(document, 1)) as image:
        assert image.height > image.width


def test_skewed_pages_are_straightened(storage: SiteStorage, document: Document, read: Read) -> None:
    read(pdfs.scanned([pdfs.page_image(pdfs.MINUTES * 3, skew=9)]))
    assert "repair of the school roof" in page_texts(storage, document)[0][1]


def test_small_print_is_read_once_from_a_finer_image(storage: SiteStorage, document: Document, read: Read) -> None:
    """Drawn at 300 dpi with letters half the usual size: at 150 dpi they are ten pixels high, or less."""
    half = pdfs.page_image(pdfs.MINUTES * 3, dpi=150)
    small = Image.new("L", (2550, 3300), 255)
    small.paste(half, (100, 100))
    read(pdfs.scanned([small], 300))
    assert "Castellano asked for a report on the repair of the school roof" in page_texts(storage, document)[0][1]
    with Image.open(storage.page_image(document, 1)) as image:
        assert 1800 < image.width <= 2550


def test_a_page_that_kills_tesseract_fails_alone(storage: SiteStorage, document: Document, read: Read) -> None:
    killers = []

    def kill_it_at_work(tesseract: psutil.Process, rested: float) -> None:
        until(lambda: tesseract.cpu_times().user > rested + 0.05)
        tesseract.kill()

    def report(done: int, total: int) -> None:
        if done == 1:
            (tesseract,) = (
                process for process in readers(below=True) if "clerk.ocr.tesseract_server" in process.cmdline()
            )
            killers.append(threading.Thread(target=kill_it_at_work, args=(tesseract, tesseract.cpu_times().user)))
            killers[0].start()

    pages = [pdfs.page_image(pdfs.MINUTES * 4)] * 3
    found = read(pdfs.scanned(pages), Options(failed_share=0.5), report)
    killers[0].join()
    assert [page.method for page in found.pages] == [OCR, FAILED, OCR]
    assert "tesseract was ended by SIGKILL" in (found.pages[1].error or "")


def test_images_of_all_pages_or_of_none(storage: SiteStorage, document: Document, read: Read) -> None:
    read(pdfs.digital(1), Options(images="all"))
    assert storage.page_image(document, 1).exists()
    storage.page_image(document, 1).unlink()
    read(pdfs.scanned([pdfs.page_image()]), Options(images="none"))
    assert not storage.page_image(document, 1).exists()


def test_a_text_layer_without_meaning_is_not_believed(storage: SiteStorage, document: Document, read: Read) -> None:
    """A scan with a stamp as its only text: the stamp does not stand for the page."""
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
    (found,) = read(pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>"))).pages
    assert found.method == OCR
    assert "school roof" in page_texts(storage, document)[0][1]


def test_progress_is_told_page_by_page(read: Read) -> None:
    told: list[tuple[int, int]] = []
    read(pdfs.numbered(3), report=lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


class Stopped(Exception):
    pass


def stop_at(page: int) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        if done == page:
            raise Stopped

    return report


def test_goes_on_where_it_stopped(storage: SiteStorage, document: Document, read: Read) -> None:
    content = pdfs.numbered(5)
    with pytest.raises(Stopped):
        read(content, report=stop_at(3))
    assert not storage.manifest(document).exists()
    written_at = {page: storage.page_text(document, page).stat().st_mtime_ns for page in (1, 2, 3)}
    told: list[int] = []
    found = read(content, report=lambda done, total: told.append(done))
    assert told == [3, 4, 5]
    assert found.is_complete
    assert {page: storage.page_text(document, page).stat().st_mtime_ns for page in (1, 2, 3)} == written_at
    assert [text.splitlines()[0] for _, text in page_texts(storage, document)] == [
        f"This is page number {page}" for page in range(1, 6)
    ]
    assert not {name for name in files_of(storage.texts(document)) if name.startswith(".")}


def test_a_page_whose_text_was_lost_is_read_again(storage: SiteStorage, document: Document, read: Read) -> None:
    content = pdfs.digital(4)
    first = read(content)
    storage.page_text(document, 2).unlink()
    storage.page_text(document, 3).write_text("something else")
    told: list[int] = []
    again = read(content, report=lambda done, total: told.append(done))
    assert told[0] == 2
    assert [page.sha256 for page in again.pages] == [page.sha256 for page in first.pages]


def test_a_torn_journal_loses_one_page(storage: SiteStorage, document: Document, read: Read) -> None:
    content = pdfs.numbered(3)
    with pytest.raises(Stopped):
        read(content, report=stop_at(2))
    journal = storage.texts(document) / ".reading.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    told: list[int] = []
    read(content, report=lambda done, total: told.append(done))
    assert told[0] == 1


def test_another_pdf_starts_afresh_and_leaves_nothing_behind(
    storage: SiteStorage, document: Document, read: Read
) -> None:
    read(pdfs.numbered(3))
    found = read(pdfs.digital(2))
    assert found.page_count == 2
    assert files_of(storage.texts(document)) == {"1.txt", "2.txt", "manifest.json"}
    assert files_of(storage.page_image(document, 1).parent) <= {"1.png", "2.png"}


def test_other_languages_read_again(storage: SiteStorage, document: Document, read: Read) -> None:
    content = pdfs.numbered(1)
    read(content)
    told: list[int] = []
    assert read(content, Options(languages="osd+eng"), lambda done, total: told.append(done)).languages == "osd+eng"
    assert told == [0, 1]


def readers(*, below: bool = False) -> list[psutil.Process]:
    """Children of ours that read, and with `below` whom those started; a test session's own Postgres is none."""
    children = psutil.Process().children(recursive=below)
    return [child for child in children if child.status() != "zombie" and child.name() != "postgres"]


def test_a_killed_child_is_a_failed_attempt_and_pages_stay(
    storage: SiteStorage, document: Document, read: Read
) -> None:
    content = pdfs.numbered(4)

    def kill_the_child(done: int, total: int) -> None:
        if done == 2:
            (child,) = readers()
            os.kill(child.pid, signal.SIGKILL)

    with pytest.raises(ReaderCrashed, match="SIGKILL"):
        read(content, report=kill_the_child)
    told: list[int] = []
    read(content, report=lambda done, total: told.append(done))
    assert told[0] >= 2


def test_nothing_of_the_child_outlives_the_reading(read: Read) -> None:
    with pytest.raises(Stopped):
        read(pdfs.numbered(2), report=stop_at(1))
    assert not readers(below=True)


def broken_page(pages: int, broken: int) -> bytes:
    """One page whose contents cannot be drawn."""
    text = pdfs.lines_of_text(pdfs.MINUTES)
    return pdfs.document([(b"/Nothing Do" if page == broken else text, "") for page in range(1, pages + 1)])


def test_a_failed_page_is_named_in_the_note(storage: SiteStorage, document: Document, read: Read) -> None:
    found = read(broken_page(12, 5))
    assert found.note == "1 of 12 pages failed"
    assert found.pages[4].method == FAILED
    assert (found.pages[4].error or "").startswith("PdfBroken: it was rendered blank")
    assert not storage.page_text(document, 5).exists()
    assert len(page_texts(storage, document)) == 11


def test_too_many_failed_pages_fail_the_document(storage: SiteStorage, document: Document, read: Read) -> None:
    content = broken_page(4, 2)
    with pytest.raises(PdfBroken, match="1 of 4 pages failed; page 2"):
        read(content)
    assert manifest.load(storage.manifest(document)) is None
    assert read(content, replace(Options(), failed_share=0.25)).note == "1 of 4 pages failed"


def test_the_file_must_be_the_one_that_was_fetched(storage: SiteStorage, document: Document, read: Read) -> None:
    with pytest.raises(PdfMissing):
        read(None)
    storage.pdf(document).parent.mkdir(parents=True)
    storage.pdf(document).write_bytes(b"%PDF-")
    from clerk.ocr import process_document

    with pytest.raises(PdfAltered):
        process_document.process(
            storage, replace(document, sha256="0" * 64), Options(), lambda a, b: None, lambda: None
        )


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        (b"", PdfEmpty, "the file is empty"),
        (b"<!DOCTYPE html><title>Not found</title>", NotAPdf, "web page"),
        (b"PK\x03\x04" + b"x" * 100, NotAPdf, "Office"),
        (b"no more of this", NotAPdf, "does not begin"),
        (pdfs.digital(4)[:700], PdfTruncated, "no page"),
        (b"%PDF-1.4\n%%EOF\n", PdfBroken, "no page"),
        (pdfs.document([]), PdfEmpty, "no page"),
        (pdfs.document([(b"0 0 m 9 9 l S", "")], box="0 0 200000 200000"), PdfTooLarge, "200000 x 200000 points"),
    ],
    ids=["empty", "html", "docx", "text", "truncated", "nothing", "no pages", "huge box"],
)
def test_bad_files_say_what_they_are(read: Read, content: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        read(content)
