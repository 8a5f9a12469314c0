"""Both engines give the same result for a document, through the real reader process, within the same limits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from PIL import Image

from clerk import config
from clerk.documents import integrity, word_boxes
from clerk.documents.manifest import EMPTY, FAILED, OCR, TEXT_LAYER, page_texts
from clerk.documents.storage import Document, SiteStorage
from clerk.documents.storage_scan import find_documents
from clerk.documents.word_boxes import SCALE, Word, WordBoxes
from clerk.errors import PluginMissing, ReaderOutputInvalid, ToolMissing
from clerk.ocr import image as page_image
from clerk.ocr import process_document, sandbox
from clerk.ocr.engines import engine_classes, find_engine
from clerk.ocr.ocr_engine import EngineReference, OcrEngine, Tools, limited_runner, limited_server
from clerk.ocr.process_document import Options
from clerk.ocr.protocol import PageResult
from clerk.ocr.sandbox import Limits, OutOfMemory, OutOfTime
from clerk.ocr.tesseract_engines import PytesseractEngine, TesserocrEngine
from tests.helpers import until
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf
from tests.ocr.malicious import bombs

ENGINES = {"tesserocr": TesserocrEngine, "pytesseract": PytesseractEngine}


@pytest.fixture(params=ENGINES)
def options(request: pytest.FixtureRequest) -> Options:
    return Options(engine=EngineReference.of(ENGINES[request.param]))


@pytest.fixture
def load_boxes(storage: SiteStorage[Path], document: Document) -> Callable[[], WordBoxes]:
    def load() -> WordBoxes:
        boxes = word_boxes.load(storage.word_boxes(document, 1))
        assert boxes is not None
        return boxes

    return load


def ink_in(image: Image.Image, word: Word) -> float:
    """The share of dark pixels in the box of a word."""
    x, y = image.width / SCALE, image.height / SCALE
    box = image.convert("L").crop(
        (round(word.left * x), round(word.top * y), round(word.right * x), round(word.bottom * y))
    )
    return sum(count for value, count in enumerate(box.histogram()) if value < 128) / (box.width * box.height)


def check_boxes(image_path: Path, boxes: WordBoxes) -> None:
    """Every box encloses ink, and there is none below the last line of text."""
    with Image.open(image_path) as image:
        assert boxes.proportion == pytest.approx(image.height / image.width, abs=0.001)
        assert all(ink_in(image, word) > 0.1 for word in boxes.words if len(word.text) > 3)
        last = max(word.bottom for word in boxes.words)
        assert ink_in(image, Word("", 0, min(last + 50, SCALE - 1), SCALE, SCALE)) == 0


def test_a_scanned_page(
    storage: SiteStorage[Path],
    document: Document,
    process_pdf: ProcessPdf,
    options: Options,
    load_boxes: Callable[[], WordBoxes],
) -> None:
    (page,) = process_pdf(pdfs.scanned([pdfs.page_image()]), options).pages
    assert page.method == OCR
    assert (page.confidence or 0) > 85
    # Without spaces: some versions of tesseract miss one.
    expected = [line.replace(" ", "") for line in pdfs.MINUTES]
    text = page_texts(storage, document)[0][1]
    assert [line.replace(" ", "") for line in text.split("\n") if line] == expected
    boxes = load_boxes()
    assert ["".join(word.text for word in line) for line in boxes.lines] == expected
    assert (boxes.rotation, boxes.skew) == (0, 0.0)
    check_boxes(storage.page_image(document, 1), boxes)


@pytest.mark.parametrize("turned", [90, 180])
def test_boxes_of_a_rotated_page_fit_the_stored_image(
    storage: SiteStorage[Path],
    document: Document,
    process_pdf: ProcessPdf,
    options: Options,
    load_boxes: Callable[[], WordBoxes],
    turned: int,
) -> None:
    (page,) = process_pdf(pdfs.scanned([pdfs.page_image(pdfs.MINUTES * 3, turned=turned)]), options).pages
    assert "repair of the school roof" in page_texts(storage, document)[0][1]
    boxes = load_boxes()
    assert boxes.rotation == page.rotation == 360 - turned
    check_boxes(storage.page_image(document, 1), boxes)


def test_boxes_of_a_skewed_page_fit_the_stored_image(
    storage: SiteStorage[Path],
    document: Document,
    process_pdf: ProcessPdf,
    options: Options,
    load_boxes: Callable[[], WordBoxes],
) -> None:
    process_pdf(pdfs.scanned([pdfs.page_image(pdfs.MINUTES * 3, skew=9)]), options)
    assert "repair of the school roof" in page_texts(storage, document)[0][1]
    boxes = load_boxes()
    assert boxes.skew == pytest.approx(-9, abs=0.5)
    check_boxes(storage.page_image(document, 1), boxes)


def test_small_print(storage: SiteStorage[Path], document: Document, process_pdf: ProcessPdf, options: Options) -> None:
    """Drawn at 300 dpi with letters of half the usual size."""
    page = pdfs.page_image(pdfs.MINUTES * 3, dpi=150)
    sheet = Image.new("L", (page.width * 2, page.height * 2), 255)
    sheet.paste(page, (0, 0))
    process_pdf(pdfs.scanned([sheet], 300), options)
    assert (
        "Member Castellano asked for a report on the repair of the school roof." in page_texts(storage, document)[0][1]
    )


def test_text_layer_and_blank_page(
    storage: SiteStorage[Path], document: Document, process_pdf: ProcessPdf, options: Options
) -> None:
    text = pdfs.lines_of_text(pdfs.MINUTES)
    result = process_pdf(pdfs.document([(text, ""), (b"", "")]), options)
    assert [page.method for page in result.pages] == [TEXT_LAYER, EMPTY]
    assert not storage.word_boxes(document, 1).exists()


def test_word_boxes_of_a_replaced_pdf_are_deleted(
    storage: SiteStorage[Path], document: Document, process_pdf: ProcessPdf
) -> None:
    process_pdf(pdfs.numbered(2))
    assert storage.word_boxes(document, 2).exists()
    process_pdf(pdfs.digital(1))
    assert not list(storage.texts(document).glob("*.words.gz"))


def test_the_program_that_is_killed_fails_only_its_page(process_pdf: ProcessPdf, options: Options) -> None:
    killers = []

    def kill_tesseract() -> None:
        until(lambda: [process for process in _busy_tesseracts() if process.cpu_times().user > 0.05])[0].kill()

    def report(done: int, total: int) -> None:
        if done == 1:
            killers.append(threading.Thread(target=kill_tesseract))
            killers[0].start()

    idle_cpu.clear()
    pages = [pdfs.page_image(pdfs.MINUTES), pdfs.dense_page(), pdfs.page_image(pdfs.MINUTES)]
    result = process_pdf(pdfs.scanned(pages), replace(options, max_failed_share=0.5), report)
    killers[0].join()
    assert [page.method for page in result.pages] == [OCR, FAILED, OCR]
    assert "tesseract was ended by SIGKILL" in (result.pages[1].error or "")


idle_cpu: dict[int, float] = {}


def _busy_tesseracts() -> list[psutil.Process]:
    """The processes that run tesseract now: the program, or the process with the library once it works."""
    busy = []
    for process in psutil.Process().children(recursive=True):
        try:
            command = process.cmdline()
            if command and Path(command[0]).name == "tesseract":
                busy.append(process)
            elif process.name() == "clerk-tesseract" and not process.children():
                used = process.cpu_times().user
                if used > idle_cpu.setdefault(process.pid, used) + 0.05:
                    busy.append(process)
        except psutil.NoSuchProcess:
            continue
    return busy


@pytest.mark.parametrize("engine", ENGINES.values(), ids=ENGINES)
def test_limits_on_cpu_time_and_memory(
    engine: type[OcrEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On a busy machine the limit on wall-clock time would end the program first.
    monkeypatch.setattr(sandbox, "_WALL_PER_CPU_SECOND", 100.0)
    pdf, image, limits = tmp_path / "bomb.pdf", tmp_path / "1.pgm", Limits(140 << 20)
    tools = Tools(pdf, tmp_path, limited_runner(limits, tmp_path, None), limited_server(limits, 60, tmp_path, None), 0)
    with closing(engine(tools)) as created:
        pdf.write_bytes(bombs.huge_content(40))
        with pytest.raises(OutOfTime, match="CPU time"):
            created.render(1, 150, image, 1)
        pdf.write_bytes(pdfs.digital(1))
        with pytest.raises(OutOfMemory):
            created.render(1, 1500, image, 20)
        created.render(1, 75, image, 20)
        assert page_image.size(image) == (638, 825)


def test_no_process_remains(process_pdf: ProcessPdf, options: Options) -> None:
    before = set(psutil.Process().children(recursive=True))  # of other tests, such as a database server
    process_pdf(pdfs.numbered(2), options)
    until(lambda: _names(set(psutil.Process().children(recursive=True)) - before) <= {"clerk-fork"})


def _names(processes: set[psutil.Process]) -> set[str]:
    names = set()
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            names.add(process.name())
    return names


# --- which engine


def test_the_engine_is_chosen_by_a_setting() -> None:
    assert find_engine(config.load({"CLERK_OCR_ENGINE": "pytesseract"})) is PytesseractEngine
    assert find_engine(config.load({})) is TesserocrEngine
    assert set(engine_classes(config.load({}))) >= {"tesserocr", "pytesseract"}


def test_an_unknown_engine_is_an_error_that_lists_the_names() -> None:
    with pytest.raises(PluginMissing, match=r"CLERK_OCR_ENGINE is 'easyocr' .*; the engines are pytesseract,"):
        find_engine(config.load({"CLERK_OCR_ENGINE": "easyocr"}))


@pytest.mark.parametrize(("engine", "missing"), [(TesserocrEngine, "pdfinfo"), (PytesseractEngine, "pdfinfo")])
def test_missing_poppler_is_named(
    engine: type[TesserocrEngine], missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.require_installed()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match=f"{missing} is not installed"):
        engine.require_installed()


def test_the_program_tesseract_is_needed_by_pytesseract_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("pdfinfo", "pdftotext", "pdfimages", "pdftoppm"):
        (tmp_path / program).write_text("#!/bin/sh\necho 'pdfinfo version 24.02.0' >&2\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    TesserocrEngine.require_installed()
    with pytest.raises(ToolMissing, match="tesseract is not installed"):
        PytesseractEngine.require_installed()


def test_a_document_without_word_boxes_is_complete(
    storage: SiteStorage[Path], document: Document, process_pdf: ProcessPdf
) -> None:
    """Neither missing nor damaged boxes make a document incomplete; it is not processed again for them."""
    process_pdf(pdfs.numbered(2))
    storage.word_boxes(document, 1).unlink()
    storage.word_boxes(document, 2).write_bytes(b"damaged")
    assert integrity.texts_status(storage, document, full=True).are_complete
    assert [found.stem for found in find_documents(storage)] == [document.stem]
    written = storage.page_text(document, 1).stat().st_mtime_ns
    process_pdf(None)
    assert storage.page_text(document, 1).stat().st_mtime_ns == written
    assert not storage.word_boxes(document, 1).exists()


def test_a_reader_that_returns_invalid_word_boxes_is_refused(storage: SiteStorage[Path], document: Document) -> None:
    result = PageResult(1, OCR, "a", words="clerk-words 1 0 0.00 1.0000\n0 0 99999 1 wide\n")
    with pytest.raises(ReaderOutputInvalid, match="invalid word boxes"):
        process_document._store(storage, document, storage.root, [result])
    assert not storage.texts(document).exists()
