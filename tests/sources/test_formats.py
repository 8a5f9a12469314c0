"""Web pages and Word documents: how they are fetched, and a run of a real worker with a folder of all types."""

from __future__ import annotations

import io
import json
import sqlite3
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import docx
import psycopg
import pytest
from click.testing import CliRunner

from clerk.cli import cli
from clerk.documents import manifest, storage_scan
from clerk.documents.html_content import has_same_text
from clerk.documents.media_types import DOCX, HTML, PDF, PDF_OR_HTML, type_of_content
from clerk.documents.repository import FetchOutcome, list_documents
from clerk.documents.storage import Document, SiteStorage, write
from clerk.errors import NotAPdf, PdfEmpty
from clerk.pipeline import engine
from clerk.sources.http.body import Sink
from clerk.sources.sync import check_content
from tests.sources.conftest import Town, Work
from tests.sources.documents import text_pdf
from tests.sources.web import Reply, Web

PHASES = ("fetch", "ocr", "compilation", "extraction", "deploy")
PAGE = b"<!DOCTYPE html><html><body><h1>City Council</h1><p>Agenda of the hydrant committee</p></body></html>"


def word_document(*paragraphs: str) -> bytes:
    document = docx.Document()
    for paragraph in paragraphs:
        document.add_paragraph(paragraph)
    file = io.BytesIO()
    document.save(file)
    return file.getvalue()


def sink_of(content: bytes) -> Sink:
    sink = Sink(io.BytesIO(), 1 << 20)
    sink.write(content)
    return sink


def test_the_type_of_content() -> None:
    assert type_of_content(text_pdf("x")[:1024]) == PDF
    assert type_of_content(PAGE) == HTML
    assert type_of_content("<p>x</p>".encode("utf-16")) == HTML
    assert type_of_content(b"  \n<div>fragment") == HTML
    assert type_of_content(word_document("x")[:1024]) == DOCX
    for other in (b"", b"plain text", b'{"error": 1}', b"\x89PNG <p>", b"\xd0\xcf\x11\xe0", b"<p>\0\0"):
        assert type_of_content(other) is None


def test_a_download_must_be_of_the_listed_type_or_a_pdf() -> None:
    for expected in (PDF, HTML, DOCX, PDF_OR_HTML):
        assert check_content(sink_of(text_pdf("x")), expected) == PDF
        with pytest.raises(PdfEmpty):
            check_content(sink_of(b""), expected)
    assert check_content(sink_of(PAGE), HTML) == HTML
    assert check_content(sink_of(PAGE), PDF_OR_HTML) == HTML
    assert check_content(sink_of(word_document("x")), DOCX) == DOCX
    with pytest.raises(NotAPdf, match="returned a web page instead of a PDF"):
        check_content(sink_of(PAGE), PDF)
    with pytest.raises(NotAPdf, match="returned a web page instead of a Word document"):
        check_content(sink_of(PAGE), DOCX)
    with pytest.raises(NotAPdf, match="returned application/json instead of a web page"):
        check_content(sink_of(b'{"error": 1}'), HTML, "application/json")


def test_links_to_word_documents_are_followed_and_web_pages_only_if_the_site_says_so(town: Town, web: Web) -> None:
    names = ("minutes-2024-03-05.docx", "minutes-2024-03-06.doc", "minutes-2024-03-07.html")
    web.serve_html("/list", "".join(f'<a href="/{name}">Minutes</a>' for name in names))
    web.routes[f"/{names[0]}"] = Reply(word_document("text"))
    web.routes[f"/{names[2]}"] = Reply(PAGE)
    extra = {"pages": f"{web.url}/list", "meeting": "Council"}
    assert town.fetch("links", extra).outcomes == {FetchOutcome.NEW: 1}
    (reason,) = town.skipped
    assert "is a Word document of the older format, which clerk does not read" in reason
    assert town.fetch("links", {**extra, "link": r"\.(?:docx|html)$"}).outcomes[FetchOutcome.NEW] == 1
    assert town.rows("storage_key") == [("pdfs/Council/2024-03-05.docx",), ("pdfs/Council/2024-03-07.html",)]


def test_the_date_of_a_web_page_and_of_a_word_document_is_found_in_the_text(town: Town, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.html").write_bytes(b"<h1>City Council</h1><p>Minutes</p><p>Regular Meeting of March 5, 2024</p>")
    (folder / "b.docx").write_bytes(word_document("Planning Board", "Agenda", "Regular Meeting of March 6, 2024"))
    assert town.fetch("directory", {"path": str(folder)}).outcomes == {FetchOutcome.NEW: 2}
    assert set(town.rows("kind, date, date_origin")) == {
        ("minutes", date(2024, 3, 5), "text"),
        ("agenda", date(2024, 3, 6), "text"),
    }


def test_a_web_page_is_revised_only_if_its_text_changes(town: Town, web: Web) -> None:
    hidden = '<!-- {0} --><input type="hidden" value="{0}"><script>at = {0} < 1</script>'
    page = f"<html><body>{hidden}<p>{{1}}</p></body></html>"

    def fetch(token: str, text: str) -> FetchOutcome:
        web.routes["/minutes-2024-03-07.html"] = Reply(page.format(token, text).encode())
        (outcome,) = town.fetch("links", {"pages": f"{web.url}/list", "meeting": "Council", "link": "html$"}).outcomes
        return outcome

    web.serve_html("/list", '<a href="/minutes-2024-03-07.html">Minutes</a>')
    assert fetch("1", "The motion carried.") == FetchOutcome.NEW
    assert fetch("2", "The motion carried.") == FetchOutcome.UNCHANGED
    assert fetch("3", "The motion failed.") == FetchOutcome.REVISED
    assert len(town.rows()) == 2


@pytest.mark.parametrize(
    "page", [b"", b"text", b"<", b"<p", b"<!-- x", b"<script>", b"a<b>c</b", b"<script>1</script>x"]
)
def test_texts_of_incomplete_pages(page: bytes) -> None:
    assert has_same_text(page, page)
    assert not has_same_text(page, b"other " + page)


def test_a_scan_of_the_storage_finds_documents_with_their_type(tmp_path: Path) -> None:
    storage = SiteStorage(tmp_path, "town")
    texts = Document(0, "town", "agenda", "Council", date(2024, 3, 7))
    stored = [replace(texts, kind="minutes", extension=extension) for extension in ("html", "docx")]
    stored[1] = replace(stored[1], occurrence=2)
    for document in stored:
        write(storage.pdf(document), b"content")
        write(storage.page_text(document, 1), b"text")
    write(storage.page_text(texts, 1), b"text")
    assert storage_scan.find_documents(storage) == [*stored, texts]


def test_a_folder_of_a_pdf_a_web_page_and_a_word_document_is_published(
    connection: psycopg.Connection[Any], work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(tmp_path / "published"))
    monkeypatch.setenv("CLERK_PLUGIN_TIME_LIMIT", "60")
    folder = tmp_path / "folder" / "Council"
    folder.mkdir(parents=True)
    contents = {
        "2024-03-05.pdf": text_pdf("Minutes about the sidewalk"),
        "agenda 2024-03-05.html": PAGE,
        "2024-03-06.docx": word_document("Minutes about the library"),
        "2024-03-07.doc": b"\xd0\xcf\x11\xe0",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    connection.execute(
        "insert into sites (subdomain, name, scraper, extra) values ('town', 'Town', 'directory', %s)",
        [json.dumps({"path": str(folder.parent)})],
    )
    engine.start_run(connection, "town")
    for phase in PHASES:
        work(phase)
        work("coordinator")
        work("coordinator")  # of phases without units
    assert connection.execute("select storage_key, state from site_documents order by date, kind").fetchall() == [
        ("_agendas/pdfs/Council/2024-03-05.html", "done"),
        ("pdfs/Council/2024-03-05.pdf", "done"),
        ("pdfs/Council/2024-03-06.docx", "done"),
    ]
    assert connection.execute("select name, reason_code from skipped_documents").fetchall() == [
        ("Council/2024-03-07.doc", "UnreadableType")
    ]
    storage = SiteStorage(tmp_path / "storage", "town")
    documents = list_documents(connection, "town")
    methods = {}
    for document in documents:
        loaded = manifest.load(storage.manifest(document))
        assert loaded is not None
        methods[document.extension] = [page.method for page in loaded.pages]
        assert storage.pdf(document).read_bytes() in contents.values()
    assert methods == {"pdf": ["text-layer"], "html": ["html"], "docx": ["docx"]}
    with sqlite3.connect(tmp_path / "published/town/current/meetings.db") as archive:
        texts = archive.execute("select text, page_image from minutes union select text, page_image from agendas")
        assert sorted((text.strip(), image) for text, image in texts) == [
            ("City Council\nAgenda of the hydrant committee", None),
            ("Minutes about the library", None),
            ("Minutes about the sidewalk", None),
        ]
    found = CliRunner().invoke(cli, ["search", "hydrant", "--json"])
    assert json.loads(found.stdout)["total"] == 1
    page = next(document for document in documents if document.extension == "html")
    exported = CliRunner().invoke(cli, ["document", "pdf", str(page.id)])
    assert exported.exit_code != 0
    assert f"document {page.id} is a web page, not a PDF" in str(exported.exception or exported.stderr)
    assert connection.execute("select * from invariant_violations").fetchall() == []
