"""`clerk document pdf`: scanned pages become searchable, other pages stay as they are."""

from __future__ import annotations

import json
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pikepdf
import psycopg
import pytest

from clerk.documents import word_boxes
from clerk.documents.storage import Document, SiteStorage, write
from clerk.documents.word_boxes import Word, WordBoxes
from clerk.ocr import process_document
from clerk.ocr.process_document import Options
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.ocr import pdfs


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch, database: Url, tmp_path: Path) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    (tmp_path / "current").mkdir()
    monkeypatch.chdir(tmp_path / "current")


@pytest.fixture
def storage(tmp_path: Path) -> SiteStorage[Path]:
    return SiteStorage(tmp_path / "storage", "town")


@pytest.fixture
def document(connection: psycopg.Connection[Any]) -> Document:
    connection.execute("insert into sites (subdomain) values ('town')")
    row = connection.execute(
        "insert into content_items (subdomain, kind, meeting, date) values ('town', 'minutes', 'City Council', %s)"
        " returning id",
        [date(2024, 3, 5)],
    ).fetchone()
    assert row is not None
    return Document(row[0], "town", "minutes", "City Council", date(2024, 3, 5))


def process(storage: SiteStorage[Path], document: Document, content: bytes) -> None:
    write(storage.pdf(document), content)
    process_document.process(storage, document, Options(), lambda done, total: None, lambda: None)


def text_of(pdf: Path, *options: str) -> str:
    return subprocess.run(["pdftotext", *options, pdf, "-"], check=True, capture_output=True, text=True).stdout


def test_scanned_pages_get_text(storage: SiteStorage[Path], document: Document, clerk_command: Clerk) -> None:
    """Of three pages, the second is rotated and the third skewed."""
    lines = pdfs.MINUTES * 3
    images = [pdfs.page_image(lines), pdfs.page_image(lines, turned=90), pdfs.page_image(lines, skew=9)]
    process(storage, document, pdfs.scanned(images))
    assert "roof" not in text_of(storage.pdf(document))
    result = clerk_command("document", "pdf", str(document.id))
    exported = Path("town CityCouncil 2024-03-05.pdf")
    assert (result.code, result.out) == (0, f"{exported}: 3 pages, 3 with text from OCR.\n")
    for page in ("1", "2", "3"):
        text = text_of(exported, "-f", page, "-l", page)
        assert "The motion carried with four ayes and no nays." in text
        # The words are at their place on the page, which is upright: the first line is at the top.
        boxes = text_of(exported, "-f", page, "-l", page, "-bbox")
        left, top = boxes.partition('<word xMin="')[2].partition('"')[0], boxes.partition('yMin="')[2].partition('"')[0]
        assert float(left) == pytest.approx(0.7 * 72, abs=12)
        assert float(top) == pytest.approx(0.9 * 72, abs=12)
    with pikepdf.open(exported) as pdf:
        assert [int(page.obj.get("/Rotate", 0)) for page in pdf.pages] == [0, 270, 0]


def test_a_pdf_with_a_text_layer_is_exported_as_it_is(
    storage: SiteStorage[Path], document: Document, clerk_command: Clerk
) -> None:
    process(storage, document, pdfs.digital(2))
    result = clerk_command("document", "pdf", str(document.id), "-o", "out.pdf", "--json")
    assert result.code == 0
    assert json.loads(result.out) == {
        "id": document.id,
        "site": "town",
        "file": "out.pdf",
        "pages": 2,
        "text_added": [],
        "without_word_boxes": [],
        "failed": [],
    }
    assert Path("out.pdf").read_bytes() == storage.pdf(document).read_bytes()


def test_an_existing_file_is_replaced_only_with_force(
    storage: SiteStorage[Path], document: Document, clerk_command: Clerk
) -> None:
    process(storage, document, pdfs.digital(1))
    Path("out.pdf").write_text("mine")
    assert "'abc' is not the number of a document: `clerk status SITE" in clerk_command("document", "pdf", "abc").err
    assert "`clerk status SITE --all` lists the IDs" in clerk_command("document", "pdf", "999999").err
    result = clerk_command("document", "pdf", str(document.id), "-o", "out.pdf")
    assert result.code == 1
    assert "out.pdf exists" in result.err
    assert Path("out.pdf").read_text() == "mine"
    assert clerk_command("document", "pdf", str(document.id), "-o", "out.pdf", "--force").code == 0
    assert Path("out.pdf").read_bytes().startswith(b"%PDF")


def test_pages_without_word_boxes_are_reported(
    storage: SiteStorage[Path], document: Document, clerk_command: Clerk
) -> None:
    process(storage, document, pdfs.numbered(2))
    storage.word_boxes(document, 2).unlink()
    result = clerk_command("document", "pdf", str(document.id), "-o", "out.pdf")
    assert result.code == 0
    assert result.out == "out.pdf: 2 pages, 1 with text from OCR.\n"
    assert "1 page without searchable text: no word boxes are stored" in result.err
    assert "page number 1" in text_of(Path("out.pdf"))
    assert "page number 2" not in text_of(Path("out.pdf"))


def test_any_characters(storage: SiteStorage[Path], document: Document, clerk_command: Clerk) -> None:
    """More different characters than one font has codes for."""
    process(storage, document, pdfs.numbered(1))
    texts = ["".join(map(chr, range(start, start + 10))) for start in range(0x4E00, 0x4E00 + 400, 10)]
    lines = [[Word(text, 1000, 200 * number, 5000, 200 * number + 150)] for number, text in enumerate(texts)]
    write(storage.word_boxes(document, 1), word_boxes.compress(word_boxes.dumps(WordBoxes(lines))))
    assert clerk_command("document", "pdf", str(document.id), "-o", "out.pdf").code == 0
    assert text_of(Path("out.pdf")).split() == texts


def test_unusable_invisible_text_is_replaced(
    storage: SiteStorage[Path], document: Document, clerk_command: Clerk
) -> None:
    process(storage, document, pdfs.numbered(1))
    with pikepdf.open(storage.pdf(document), allow_overwriting_input=True) as pdf:
        font = pdf.make_indirect(
            pikepdf.Dictionary(Type=pikepdf.Name.Font, Subtype=pikepdf.Name.Type1, BaseFont=pikepdf.Name.Helvetica)
        )
        name = pdf.pages[0].add_resource(font, pikepdf.Name.Font)
        invisible = f"q BT 3 Tr {name} 12 Tf 50 600 Td (oRDtrANcE) Tj ET Q BT {name} 12 Tf 50 500 Td (Visible) Tj ET"
        pdf.pages[0].contents_add(invisible.encode())
        pdf.save()
    assert "oRDtrANcE" in text_of(storage.pdf(document))
    assert clerk_command("document", "pdf", str(document.id), "-o", "out.pdf").code == 0
    text = text_of(Path("out.pdf"))
    assert "oRDtrANcE" not in text
    assert "Visible" in text
    assert "page number 1" in text


@pytest.mark.parametrize("damage", [b"", b"%PDF-1.4 nothing else", b"<html>"])
def test_a_damaged_pdf_is_an_error(
    storage: SiteStorage[Path], document: Document, clerk_command: Clerk, damage: bytes
) -> None:
    process(storage, document, pdfs.numbered(1))
    storage.pdf(document).write_bytes(damage)
    result = clerk_command("document", "pdf", str(document.id), "-o", "out.pdf")
    assert result.code == 1
    assert "the PDF could not be exported (the PDF is damaged:" in result.err
    assert not Path("out.pdf").exists()


def test_missing_files_and_documents(storage: SiteStorage[Path], document: Document, clerk_command: Clerk) -> None:
    result = clerk_command("document", "pdf", "999999")
    assert (result.code, "there is no document 999999" in result.err) == (2, True)
    result = clerk_command("document", "pdf", str(document.id))
    assert (result.code, "there are no texts of document" in result.err) == (1, True)
    process(storage, document, pdfs.numbered(1))
    storage.pdf(document).unlink()
    result = clerk_command("document", "pdf", str(document.id))
    assert (result.code, "the file" in result.err and "is missing" in result.err) == (1, True)
