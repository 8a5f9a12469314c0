"""Web pages and Word documents become pages of text, in the real reader process."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import docx
import pytest
from docx.enum.text import WD_BREAK

from clerk.documents.manifest import DOCX, HTML, page_texts
from clerk.documents.storage import Document, SiteStorage, write
from clerk.errors import NotAPdf, PdfBroken, PdfEmpty, PdfTooLarge
from clerk.ocr import docx_text, html_text, text_lines
from clerk.ocr.process_document import Options, process

AGENDA = """<!DOCTYPE html><html><head><title>Springfield</title><style>p { color: red }</style></head><body>
<nav><a href="/">Home</a></nav><script>document.write("written by a script")</script>
<h1>City  Council</h1><p>Regular meeting of <a href="/council">the council</a><br>March 5, 2024</p>
<table><tr><td>1.</td><td>Call to order</td></tr>
<tr><td>2.</td><td><p>Votes</p><table><tr><th>Smith</th><td>Aye</td></tr></table></td></tr></table>
<div hidden>hidden text</div><form><input value="a value"><button>Send</button></form></body></html>"""
Convert = Callable[[bytes, str], list[str]]


@pytest.fixture
def convert(storage: SiteStorage[Path], document: Document) -> Convert:
    """A function that processes a file with this extension and returns the texts of its pages."""

    def convert(content: bytes, extension: str) -> list[str]:
        stored = replace(document, extension=extension)
        write(storage.pdf(stored), content)
        result = process(storage, stored, Options(), lambda done, total: None, lambda: None)
        assert {(page.method, page.error) for page in result.pages} == {(extension, None)}
        assert not storage.images(stored).exists()
        return [text for _, text in page_texts(storage, stored)]

    return convert


def word_document(*paragraphs: str) -> bytes:
    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    return saved(document)


def saved(document: docx.document.Document) -> bytes:
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def with_part(content: bytes, name: str, part: bytes) -> bytes:
    """The archive with one file replaced or added."""
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            if entry.filename != name:
                new.writestr(entry.filename, old.read(entry))
        new.writestr(name, part)
    return target.getvalue()


def test_a_web_page_keeps_blocks_and_rows_and_loses_scripts_and_navigation(convert: Convert) -> None:
    expected = "City Council\nRegular meeting of the council\nMarch 5, 2024\n1.  Call to order\n2.  Votes\nSmith  Aye"
    assert convert(AGENDA.encode(), HTML) == [expected]


@pytest.mark.parametrize(
    "content",
    [
        "<p>Señor Muñoz</p>".encode(),
        "<p>Señor Muñoz</p>".encode("utf-16"),
        "<p>Señor Muñoz</p>".encode("cp1252"),
        '<meta charset="iso-8859-15"><p>Señor Muñoz</p>'.encode("iso-8859-15"),
        '<meta charset="no such encoding"><p>Señor Muñoz</p>'.encode(),
    ],
)
def test_the_encoding_of_a_web_page(content: bytes) -> None:
    assert html_text.html_pages(content)[0] == ["Señor Muñoz"]


def test_a_long_web_page_is_divided_at_headings_and_at_the_latest_at_the_longest_length() -> None:
    section = f"<p>{'word ' * 1000}</p>" * 5
    pages, _ = html_text.html_pages(f"<h2>A</h2>{section}<h2>B</h2>{section}<h2>C</h2>{section}".encode())
    assert [page[0] for page in pages] == ["A", "B", "C"]
    pages, _ = html_text.html_pages(f"<p>{'x' * (2 * text_lines.LONGEST + 5)}</p><p>end</p>".encode())
    assert [len(page) for page in pages] == [text_lines.LONGEST, text_lines.LONGEST, len("xxxxx\nend")]


def test_control_characters_are_removed() -> None:
    assert html_text.html_pages(b"<p>a\x1b[31mb\x00&#x9b;</p>")[0] == ["a[31mb\u203a"]


def test_a_word_document_has_headers_tables_and_its_page_breaks(convert: Convert) -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Town of Springfield"
    document.add_heading("Minutes", 1)
    document.add_paragraph("The meeting was called to order.")
    table = document.add_table(2, 2)
    for row, values in zip(table.rows, (("1.", "Smith"), ("2.", "Jones\nAbsent")), strict=True):
        for cell, value in zip(row.cells, values, strict=True):
            cell.text = value
    document.add_paragraph().add_run().add_break(WD_BREAK.PAGE)
    document.add_paragraph("Adjourned.")
    first = "Town of Springfield\nMinutes\nThe meeting was called to order.\n1.  Smith\n2.  Jones\nAbsent"
    assert convert(saved(document), DOCX) == [first, "Adjourned."]


@pytest.mark.parametrize(
    ("content", "extension", "error", "message"),
    [
        (b"", HTML, PdfEmpty, "the file is empty"),
        (b"<html><script>load()</script></html>", HTML, PdfEmpty, "a web page without text"),
        (b'<form>Log in <input type="Password"></form>', HTML, NotAPdf, "the web page has a login form"),
        (b"\x89PNG\r\n", HTML, NotAPdf, "it is a PNG image, not a web page"),
        (AGENDA.encode(), DOCX, NotAPdf, "it is something else, not a Word document"),
        (b"PK\x03\x04 damaged", DOCX, PdfBroken, "the Word document cannot be opened"),
        (word_document(), DOCX, PdfEmpty, "a Word document without text"),
    ],
)
def test_a_file_that_is_not_a_document_fails_with_the_reason(
    convert: Convert, content: bytes, extension: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        convert(content, extension)


def test_an_office_file_that_is_not_a_word_document(convert: Convert) -> None:
    types = zipfile.ZipFile(io.BytesIO(word_document("x"))).read("[Content_Types].xml")
    sheet = types.replace(b"wordprocessingml.document.main", b"spreadsheetml.sheet.main")
    with pytest.raises(NotAPdf, match="not a Word document"):
        convert(with_part(word_document("x"), "[Content_Types].xml", sheet), DOCX)


def test_nested_and_huge_web_pages_are_refused_at_once(convert: Convert) -> None:
    with pytest.raises(PdfTooLarge, match="at most 33,554,432 are read"):
        convert(b"<div>" * 10_000_000, HTML)
    with pytest.raises(PdfTooLarge, match="nested elements"):
        convert(b"<div>" * 1_000_000, HTML)


@pytest.mark.parametrize(
    ("name", "limit"), [("word/document.xml", "a part of the Word document"), ("word/media/a.png", "when unpacked")]
)
def test_a_zip_bomb_is_refused_before_it_is_unpacked(convert: Convert, name: str, limit: str) -> None:
    bomb = with_part(word_document("x"), name, bytes((docx_text._MAX_BYTES if "media" in name else 65 << 20) + 1))
    assert len(bomb) < 1 << 20
    with pytest.raises(PdfTooLarge, match=limit):
        convert(bomb, DOCX)


def test_external_entities_are_not_read_and_internal_ones_not_expanded(convert: Convert, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    part = zipfile.ZipFile(io.BytesIO(word_document("before AB after"))).read("word/document.xml")
    declaration, _, rest = part.partition(b"?>")
    doctype = f'<!DOCTYPE x [<!ENTITY a SYSTEM "{secret.as_uri()}"><!ENTITY b "{"ha" * 1000}">]>'.encode()
    hostile = declaration + b"?>" + doctype + rest.replace(b"AB", b"&a;&b;")
    (text,) = convert(with_part(word_document("x"), "word/document.xml", hostile), DOCX)
    assert text.startswith("before")
    assert "secret" not in text
    assert "haha" not in text
