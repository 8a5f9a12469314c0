"""Text of pages that are hard to read, and of files that are damaged but readable. With the real reader process."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pytest

from clerk.documents import manifest
from clerk.documents.manifest import EMPTY, OCR, TEXT_LAYER, Manifest, page_texts
from clerk.documents.storage import Document, SiteStorage
from clerk.errors import PdfBroken
from clerk.ocr.process_document import Options
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf
from tests.ocr.pdfs import LEFT_COLUMN, MINUTES, RIGHT_COLUMN

UNUSABLE = tuple(line.replace("e", "c").replace("m", "rn").replace("th", "tk") for line in MINUTES)
"""A text layer as poor OCR wrote it."""


def share_of_words(expected: Sequence[str], text: str) -> float:
    """The share of the expected words that the text has."""
    words, found = (Counter(re.findall(r"\w+", part)) for part in (" ".join(expected), text))
    return (words & found).total() / words.total()


@pytest.fixture
def texts(storage: SiteStorage, document: Document, process_pdf: ProcessPdf) -> Processed:
    return Processed(storage, document, process_pdf)


class Processed:
    """Processes a PDF and returns the manifest and the texts of its pages."""

    def __init__(self, storage: SiteStorage, document: Document, process_pdf: ProcessPdf) -> None:
        self.storage = storage
        self.document = document
        self.process_pdf = process_pdf

    def __call__(self, content: bytes, options: Options | None = None) -> tuple[Manifest, list[str]]:
        result = self.process_pdf(content, options)
        return result, [text for _, text in page_texts(self.storage, self.document)]


# --- text layer or OCR


def test_a_scan_with_an_unusable_text_layer_is_processed_by_ocr(texts: Processed) -> None:
    result, (text,) = texts(pdfs.with_layer(pdfs.page_image(MINUTES * 3), UNUSABLE * 3))
    (page,) = result.pages
    assert page.method == OCR
    assert re.fullmatch(r"\d+ % of the words by OCR are known, \d+ % of the text layer's", page.reason or "")
    assert share_of_words(MINUTES * 3, text) > 0.95


def test_a_scan_with_a_good_text_layer_keeps_it_without_ocr(texts: Processed) -> None:
    result, (text,) = texts(pdfs.with_layer(pdfs.page_image(MINUTES * 3), MINUTES * 3))
    (page,) = result.pages
    assert (page.method, page.confidence) == (TEXT_LAYER, None)
    assert re.fullmatch(r"\d+ % of the text layer's words are known", page.reason or "")
    assert "repair of the school roof" in text
    assert not texts.storage.page_image(texts.document, 1).exists(), "it was not rendered"


def test_a_text_layer_without_known_words_is_kept_if_ocr_is_not_better(texts: Processed) -> None:
    """A language that the site does not have. After a sample, further pages are not compared with OCR."""
    line = "Rada miasta zebrala sie w bibliotece o siodmej wieczorem, wszyscy czlonkowie byli obecni."
    pages = [(pdfs.lines_of_text([f"Strona {number}", *[line] * 6]), "") for number in range(1, 7)]
    result, found = texts(pdfs.document(pages))
    assert [page.method for page in result.pages] == [TEXT_LAYER] * 6
    assert line in found[5]
    compared = [(page.reason or "").startswith("only") for page in result.pages]
    assert compared == [False, False, False, True, True, True]
    assert "OCR was not better on 3 pages like this" in (result.pages[5].reason or "")


def test_text_with_a_wrong_encoding_is_processed_by_ocr(texts: Processed) -> None:
    """The page shows English, but its font maps the letters to others."""
    mapping = "".join(f"<{code:02x}> <{code + 1:04x}>\n" for code in range(0x61, 0x7B))
    cmap = f"/CIDInit /ProcSet findresource begin begincmap 26 beginbfchar\n{mapping}endbfchar endcmap end"
    pdf = pdfs.Pdf()
    unicode_map = pdf.stream(cmap.encode())
    font = pdf.add(f"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode {unicode_map} 0 R >>")
    contents = pdf.stream(pdfs.lines_of_text(MINUTES * 2))
    page = pdf.add(
        f"<< /Type /Page /Parent 5 0 R /MediaBox [0 0 612 792] /Contents {contents} 0 R"
        f" /Resources << /Font << /F1 {font} 0 R >> >> >>"
    )
    tree = pdf.add(f"<< /Type /Pages /Count 1 /Kids [{page} 0 R] >>")
    assert tree == 5
    result, (text,) = texts(pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>")))
    assert result.pages[0].method == OCR
    assert share_of_words(MINUTES * 2, text) > 0.95


# --- forced OCR


def test_forced_ocr_ignores_text_layers_and_complete_texts(texts: Processed) -> None:
    content = pdfs.digital(2)
    assert [page.method for page in texts(content)[0].pages] == [TEXT_LAYER] * 2
    forced = Options(forced_by_run=41)
    result, found = texts(content, forced)
    assert [page.method for page in result.pages] == [OCR] * 2
    assert result.pages[0].reason == "OCR of every page was requested"
    assert "repair of the school roof" in found[0]
    loaded = manifest.load(texts.storage.manifest(texts.document))
    assert loaded is not None
    assert loaded.forced_by_run == 41


def test_forced_ocr_is_repeated_by_another_run_only(texts: Processed) -> None:
    content = pdfs.numbered(1)
    path = texts.storage.page_text(texts.document, 1)
    written = []
    for run in (41, 41, None, 42):
        texts(content, Options(forced_by_run=run))
        written.append(path.stat().st_mtime_ns)
    assert written[0] == written[1] == written[2]
    assert written[3] > written[2]


def test_forced_ocr_keeps_the_text_layer_of_a_page_that_ocr_cannot_process(texts: Processed) -> None:
    huge = pdfs.document([(pdfs.lines_of_text(MINUTES), "")], box="0 0 200000 200000")
    result, (text,) = texts(huge, Options(forced_by_run=41))
    assert result.pages[0].method == TEXT_LAYER
    assert "OCR failed (PdfTooLarge" in (result.pages[0].reason or "")
    assert "school roof" in text


# --- skew and columns


@pytest.mark.parametrize("skew", [-4, 4])
def test_a_skewed_page_keeps_its_words(texts: Processed, skew: float) -> None:
    """Tesseract is confident about the words that it finds on a skewed page, and misses the others."""
    result, (text,) = texts(pdfs.scanned([pdfs.page_image(MINUTES * 4, skew=skew)]))
    assert result.pages[0].method == OCR
    assert share_of_words(MINUTES * 4, text) > 0.96


@pytest.mark.parametrize("skew", [0, 3])
def test_columns_are_read_one_after_another(texts: Processed, skew: float) -> None:
    image = pdfs.blocks_image([(0.7, 0.5, ["MINUTES OF THE REGULAR MEETING OF THE TOWN COUNCIL"]), *pdfs.TWO_COLUMNS])
    _, (text,) = texts(pdfs.scanned([image.rotate(skew, fillcolor=255)]))
    lines = " ".join(text.split())
    expected = ["MINUTES OF", LEFT_COLUMN[0], LEFT_COLUMN[5], LEFT_COLUMN[11], RIGHT_COLUMN[0], RIGHT_COLUMN[11]]
    places = [lines.find(part[:25]) for part in expected]
    assert -1 not in places
    assert places == sorted(places)


# --- pages with little on them


def test_pages_with_nothing_but_a_few_letters_are_not_rendered(texts: Processed) -> None:
    pages = [(pdfs.lines_of_text([f"Exhibit {number}"]), "") for number in range(1, 121)]
    pages[60:80] = [(b"", "")] * 20
    result, found = texts(pdfs.document(pages), Options(images="scanned"))
    assert [page.method for page in result.pages] == [TEXT_LAYER] * 60 + [EMPTY] * 20 + [TEXT_LAYER] * 40
    assert {page.reason for page in result.pages} == {"there is no more on the page"}
    assert found[99] == "Exhibit 100\n"
    assert not texts.storage.page_image(texts.document, 1).parent.exists()


def test_text_that_is_drawn_as_strokes_is_processed_by_ocr(texts: Processed) -> None:
    """The page has no image and nearly no text layer, but everything else on it is drawn."""
    strokes = []
    for row in range(6):
        for column, letter in enumerate("EXHIBIT"):
            shapes = {
                "E": "0 0 m 0 20 l 12 20 l 0 10 m 10 10 l 0 0 m 12 0 l",
                "X": "0 0 m 12 20 l 0 20 m 12 0 l",
                "H": "0 0 m 0 20 l 12 0 m 12 20 l 0 10 m 12 10 l",
                "I": "6 0 m 6 20 l",
                "B": "0 0 m 0 20 l 8 20 l 11 15 l 8 11 l 0 11 l 8 11 m 12 6 l 9 0 l 0 0 l",
                "T": "6 0 m 6 20 l 0 20 m 12 20 l",
            }
            strokes.append(f"q 1 0 0 1 {100 + column * 17} {600 - row * 60} cm 2 w {shapes[letter]} S Q")
    content = "\n".join(strokes).encode() + b"\n" + pdfs.lines_of_text(["7"])
    result, (text,) = texts(pdfs.document([(content, "")]))
    assert result.pages[0].method == OCR
    assert text.count("EXHIBIT") >= 2


def test_a_small_page_beside_a_failing_one_is_still_processed(texts: Processed) -> None:
    """Poppler's messages do not name the page, so both are rendered on their own."""
    text = pdfs.lines_of_text(MINUTES)
    pages = [(text, "")] * 12
    pages[3], pages[4] = (b"/Nothing Do", ""), (pdfs.lines_of_text(["Exhibit 5"]), "")
    result, _ = texts(pdfs.document(pages))
    assert result.note == "1 of 12 pages failed"
    assert result.pages[4].method == TEXT_LAYER


# --- damaged files


def with_page_tree(kids: str, count: int, more: Sequence[str] = ()) -> bytes:
    """A document with one real page, object 3, and this page tree. `more` are objects from number 6."""
    pdf = pdfs.Pdf()
    pdf.add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    contents = pdf.stream(pdfs.lines_of_text(MINUTES))
    pdf.add(
        f"<< /Type /Page /Parent 4 0 R /MediaBox [0 0 612 792] /Contents {contents} 0 R"
        " /Resources << /Font << /F1 1 0 R >> >> >>"
    )
    pdf.add(f"<< /Type /Pages /Count {count} /Kids [{kids}] >>")
    root = pdf.add("<< /Type /Catalog /Pages 4 0 R >>")
    for body in more:
        pdf.add(body)
    return pdf.write(root)


@pytest.mark.parametrize(
    "content",
    [
        with_page_tree("3 0 R", 2),
        with_page_tree(
            "3 0 R 6 0 R", 2, ["<< /Type /Pages /Count 1 /Kids [7 0 R] >>", "<< /Type /Pages /Kids [6 0 R] >>"]
        ),
        with_page_tree("3 0 R 6 0 R", 2, ["<< /Type /Pages /Parent 4 0 R /Count 1 /Kids [] >>"]),
    ],
    ids=["counted but not listed", "loop", "empty branch"],
)
def test_phantom_pages_are_no_failure(texts: Processed, content: bytes) -> None:
    result, (text,) = texts(content)
    assert result.page_count == 1
    assert "school roof" in text


def test_a_file_that_lacks_most_of_its_pages_is_damaged(texts: Processed) -> None:
    loop = ["<< /Type /Pages /Count 8 /Kids [7 0 R] >>", "<< /Type /Pages /Count 8 /Kids [6 0 R] >>", *["null"] * 9]
    with pytest.raises(PdfBroken, match="8 of 9 pages failed; page 2: PdfBroken: the file lists the page"):
        texts(with_page_tree("3 0 R 6 0 R", 9, loop))


@pytest.mark.parametrize("damage", ["no end", "no header", "other header", "garbage before", "no cross-references"])
def test_damaged_files_that_poppler_opens_are_processed(texts: Processed, damage: str) -> None:
    content = pdfs.digital(3)
    damaged = {
        "no end": content[: content.rindex(b"startxref")],
        "no header": content[content.index(b"1 0 obj") :],
        "other header": content.replace(b"%PDF-1.5", b"%RDF 1.5", 1),
        "garbage before": b"\x00\xff" * 600 + content,
        "no cross-references": content.replace(b"xref\n0 ", b"xxxx\n0 ", 1),
    }[damage]
    result, found = texts(damaged)
    assert [page.method for page in result.pages] == [TEXT_LAYER] * 3
    assert "school roof" in found[2]
