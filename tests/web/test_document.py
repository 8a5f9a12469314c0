"""The page of a document. Its files may be missing, damaged or hostile."""

from __future__ import annotations

import html
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest
from PIL import Image
from starlette.testclient import TestClient

from clerk.documents import manifest, media_types, word_boxes
from clerk.documents.storage import Document, SiteStorage, write
from clerk.errors import PdfEncrypted
from clerk.ocr import page_render
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from clerk.web.files import MAX_TEXT_BYTES
from clerk.web.pages import document as document_page
from tests.archive.helpers import write_texts
from tests.helpers import TIMEOUT
from tests.ocr import pdfs
from tests.web.conftest import without_labels

Connection = psycopg.Connection[Any]
PNG = b"\x89PNG\r\n\x1a\n" + b"not a real image"


@pytest.fixture
def storage(tmp_path: Path) -> SiteStorage[Path]:
    return SiteStorage(tmp_path / "storage", "town")


@pytest.fixture
def client(pool: ReadOnlyPool, storage: SiteStorage[Path]) -> TestClient:
    return TestClient(create_app(pool, storage_dir=storage.root), base_url="http://localhost")


@pytest.fixture
def document(connection: Connection) -> Document:
    """With two pages, and without files."""
    return add_document(
        connection, page_count=2, sha256="ab" * 32, size_bytes=123_456, source_url="https://town.example/a.pdf"
    )


def add_document(connection: Connection, **values: Any) -> Document:
    connection.execute("insert into sites (subdomain) values ('town') on conflict do nothing")
    row = {"kind": "minutes", "meeting": "City Council", "date": date(2024, 3, 5), "revision": 1, **values}
    inserted = connection.execute(
        """
        insert into content_items (subdomain, kind, meeting, date, revision, page_count, sha256, size_bytes, source_url,
                                   lineage_id, superseded_at, storage_key)
        values ('town', %(kind)s, %(meeting)s, %(date)s, %(revision)s, %(page_count)s, %(sha256)s, %(size_bytes)s,
                %(source_url)s, %(lineage_id)s, %(superseded_at)s, %(storage_key)s)
        returning id
        """,
        dict.fromkeys(
            ("page_count", "sha256", "size_bytes", "source_url", "lineage_id", "superseded_at", "storage_key")
        )
        | row,
    ).fetchone()
    assert inserted is not None
    return Document(inserted[0], "town", row["kind"], row["meeting"], row["date"], 1, row["revision"])


def document_url(document: Document, rest: str = "") -> str:
    return f"/sites/town/documents/{document.id}{rest}"


def test_the_page_tells_why_its_text_layer_or_ocr_was_used(
    client: TestClient, document: Document, storage: SiteStorage
) -> None:
    text = b"The text"
    write(storage.page_text(document, 1), text)
    reason = "98 % of the words by OCR are known, 69 % of the <i>text layer's</i>"
    page = manifest.Page(1, manifest.OCR, 8, 93.0, 1, 0, manifest.digest(text), reason=reason)
    manifest.save(storage.manifest(document), manifest.Manifest(document.sha256, 1, "eng", (page,)))
    shown = fetch(client, document)
    assert f"OCR, confidence 93 %: <bdi>{html.escape(reason)}</bdi>." in shown.replace("&#39;", "&#x27;")


def fetch(client: TestClient, document: Document, query: str = "") -> str:
    response = client.get(document_url(document, query))
    assert response.status_code == 200, response.text
    return without_labels(response.text)


def test_image_and_highlighted_text_side_by_side(
    client: TestClient, storage: SiteStorage[Path], document: Document
) -> None:
    write_texts(storage, document, ["The first page", "New bike lanes & <b>more</b>"])
    write(storage.page_image(document, 2), PNG)
    page = fetch(client, document, "?page=2&q=bike")
    assert "New <mark>bike</mark> lanes &amp; &lt;b&gt;more&lt;/b&gt;" in page
    assert f'<img src="{document_url(document, "/pages/2.png")}"' in page
    assert "Page 2 of 2" in page
    assert f'rel="prev" href="{document_url(document)}?page=1&amp;q=bike#pages"' in page
    assert 'value="bike"' in page, "the search field keeps its text"

    image = client.get(document_url(document, "/pages/2.png"))
    assert image.content == PNG
    assert image.headers["Content-Type"] == "image/png"
    assert image.headers["Cache-Control"].startswith("private")
    assert image.headers["X-Content-Type-Options"] == "nosniff"
    first = fetch(client, document)
    assert "The first page" in first
    assert "Neither an image of this page nor the PDF" in first
    assert "Image of page" not in first


def test_a_page_without_a_stored_image_is_rendered(
    client: TestClient, storage: SiteStorage[Path], document: Document
) -> None:
    write_texts(storage, document, ["one", "two"])
    write(storage.pdf(document), pdfs.digital(2))
    assert f'<img src="{document_url(document, "/pages/2.png")}"' in fetch(client, document, "?page=2")
    responses = [client.get(document_url(document, f"/pages/{number}.png")) for number in (1, 2)]
    for response in responses:
        assert response.status_code == 200, response.text
        assert response.headers["Content-Type"] == "image/png"
        assert response.headers["Cache-Control"].startswith("private, max-age=")
        with Image.open(io.BytesIO(response.content)) as image:
            assert image.size == (850, 1100)
            assert len(image.convert("L").getcolors() or ()) > 1, "the image is empty"
    assert responses[0].content != responses[1].content, "both images show the same page"
    assert client.get(document_url(document, "/pages/3.png")).status_code == 404
    write(storage.page_image(document, 1), PNG)
    assert client.get(document_url(document, "/pages/1.png")).content == PNG, "the stored image is used"


def test_showing_the_text_renders_no_image(
    client: TestClient, storage: SiteStorage[Path], document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_texts(storage, document, ["one", "two"])
    write(storage.pdf(document), pdfs.digital(2))
    monkeypatch.setattr(document_page, "render_page", lambda pdf, page: pytest.fail("it was rendered"))
    assert "Image of page" in fetch(client, document)


ENDLESS = b"q " + b"1 0 0 1 0 0 cm /F1 9 Tf 0 0 m 600 700 l S " * 400_000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "pdftoppm wrote no image"),
        (b"<html>moved</html>", "pdftoppm wrote no image"),
        (pdfs.digital(2)[:300], "pdftoppm wrote no image"),
        (pdfs.digital(1), "pdftoppm wrote no image"),
        (pdfs.document([(b"", ""), (ENDLESS, "")]), "CPU time"),
    ],
    ids=["empty", "html", "truncated", "fewer pages", "endless"],
)
def test_a_render_failure_shows_the_reason(
    client: TestClient, storage: SiteStorage[Path], document: Document, content: bytes, reason: str
) -> None:
    write(storage.pdf(document), content)
    response = client.get(document_url(document, "/pages/2.png"))
    assert response.status_code == 503
    assert "The page could not be rendered: pdftoppm" in response.text
    assert reason in response.text
    assert str(storage.root) not in response.text
    assert client.get("/livez").status_code == 200


def test_a_huge_page_size_is_scaled_down(client: TestClient, storage: SiteStorage[Path], document: Document) -> None:
    write(storage.pdf(document), pdfs.document([(b"0 0 m 200000 100000 l S", "")] * 2, box="0 0 200000 100000"))
    with Image.open(io.BytesIO(client.get(document_url(document, "/pages/2.png")).content)) as image:
        assert image.size == (1100, 550)


def test_missing_poppler_is_reported(
    client: TestClient, storage: SiteStorage[Path], document: Document, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_texts(storage, document, ["one", "two"])
    write(storage.pdf(document), pdfs.digital(2))
    monkeypatch.setenv("PATH", str(tmp_path))
    page = fetch(client, document)
    assert "pdftoppm is not installed on this machine" in page
    assert "Image of page" not in page
    response = client.get(document_url(document, "/pages/1.png"))
    assert response.status_code == 503
    assert "pdftoppm is not installed" in response.text


def test_a_hanging_render_process_is_killed(
    storage: SiteStorage[Path], document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(storage.pdf(document), pdfs.digital(1))
    monkeypatch.setattr(page_render, "_TIMEOUT", 0.0)
    with pytest.raises(page_render.RenderFailed, match="did not finish within"):
        page_render.render_page(storage.pdf(document), 1)


def test_two_pages_are_rendered_in_parallel_and_other_requests_do_not_wait(
    pool: ReadOnlyPool, storage: SiteStorage[Path], document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(storage.pdf(document), pdfs.digital(2))
    active, peak, two_active, release = [0], [0], threading.Event(), threading.Event()
    lock = threading.Lock()

    def slow_render(pdf: Path, page: int) -> bytes:
        with lock:
            active[0] += 1
            peak[0] = max(peak[0], active[0])
            if active[0] == 2:
                two_active.set()
        assert release.wait(TIMEOUT)
        with lock:
            active[0] -= 1
        return PNG

    monkeypatch.setattr(document_page, "render_page", slow_render)
    # One event loop, as in the server; more requests than threads in its pool.
    with (
        TestClient(create_app(pool, storage_dir=storage.root), base_url="http://localhost") as client,
        ThreadPoolExecutor(50) as executor,
    ):
        try:
            responses = [executor.submit(client.get, document_url(document, "/pages/1.png")) for _ in range(48)]
            assert two_active.wait(TIMEOUT)
            assert client.get(document_url(document)).status_code == 200
        finally:
            release.set()
        assert [response.result().status_code for response in responses] == [200] * 48
    assert peak == [2]


def test_the_pdf_can_be_downloaded_if_the_source_is_not_a_link(
    client: TestClient, connection: Connection, storage: SiteStorage[Path], document: Document
) -> None:
    copy = add_document(connection, meeting="Zoning Böard", source_url="file:///srv/minutes/a.pdf", page_count=1)
    link = f'href="{document_url(copy, "/document.pdf")}"'
    assert link not in fetch(client, copy), "the file does not exist"
    assert client.get(document_url(copy, "/document.pdf")).status_code == 404
    for stored in (copy, document):
        write(storage.pdf(stored), pdfs.digital(1))
    assert link in fetch(client, copy)
    assert document_url(document, "/document.pdf") in fetch(client, document), "also if the source is a link"
    response = client.get(document_url(copy, "/document.pdf"))
    assert response.content == pdfs.digital(1)
    assert response.headers["Content-Type"] == "application/pdf"
    assert response.headers["Content-Disposition"].startswith("attachment;")
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_the_text_and_the_searchable_pdf_can_be_downloaded(
    client: TestClient, storage: SiteStorage[Path], document: Document
) -> None:
    assert "Download:" not in fetch(client, document), "there are no files"
    for path in ("/text.txt", "/searchable.pdf"):
        assert client.get(document_url(document, path)).status_code == 404
    write(storage.pdf(document), pdfs.digital(2))
    texts = {1: b"The text layer", 2: b"Recognized <b>"}
    pages = []
    for number, text in texts.items():
        write(storage.page_text(document, number), text)
        method = manifest.OCR if number == 2 else manifest.TEXT_LAYER
        pages.append(manifest.Page(number, method, len(text), None, 1, 0, manifest.digest(text)))
    manifest.save(storage.manifest(document), manifest.Manifest(None, 2, "eng", tuple(pages[:1])))
    assert "searchable.pdf" not in fetch(client, document), "OCR added no text"
    manifest.save(storage.manifest(document), manifest.Manifest(None, 2, "eng", tuple(pages)))
    words = word_boxes.WordBoxes([[word_boxes.Word("Recognized", 10, 10, 900, 900)]])
    write(storage.word_boxes(document, 2), word_boxes.compress(word_boxes.dumps(words)))
    shown = fetch(client, document)
    assert f'<a href="{document_url(document, "/text.txt")}" download>Text</a>' in shown
    assert document_url(document, "/searchable.pdf") in shown
    answer = client.get(document_url(document, "/text.txt"))
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="town CityCouncil 2024-03-05.txt"'
    assert answer.text.startswith("[Page 1 of 2]\n\nThe text layer\n\n[Page 2 of 2]\n\nRecognized")
    answer = client.get(document_url(document, "/searchable.pdf"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/pdf")
    assert answer.content.startswith(b"%PDF-")
    assert len(answer.content) > len(pdfs.digital(2)), "the words were added"


@pytest.mark.parametrize(
    ("extension", "name", "served_as"),
    [("html", "web page", "text/plain; charset=utf-8"), ("docx", "Word document", media_types.DOCX)],
)
def test_a_document_without_page_images_shows_its_text_and_the_file_is_only_downloaded(
    client: TestClient, connection: Connection, storage: SiteStorage[Path], extension: str, name: str, served_as: str
) -> None:
    key = f"pdfs/Zoning/2024-03-05.{extension}"
    copy = add_document(connection, meeting="Zoning", source_url="file:///home/me/x", page_count=1, storage_key=key)
    copy = replace(copy, extension=extension)
    content = b"<p>Text</p><script>alert(1)</script>"
    write(storage.pdf(copy), content)
    assert storage.storage_key(copy) == key
    write(storage.page_text(copy, 1), b"Text")
    page = manifest.Page(1, extension, 4, None, 1, 0, manifest.digest(b"Text"), reason=f"the document is a {name}")
    manifest.save(storage.manifest(copy), manifest.Manifest(None, 1, "eng", (page,)))
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status) values (%s, 'ocr', 'processed')",
        [copy.id],
    )
    shown = fetch(client, copy)
    assert '<span class="good">done</span> <small>without OCR</small>' in shown
    assert "Zoning, minutes of 5 March 2024, page 1. <a" in shown, "no private path in the citation"
    assert f"A {name} has no images of its pages." in shown
    assert f'<p class="meta">Text of the {name}.</p>' in shown
    assert "pages/1.png" not in shown
    assert client.get(document_url(copy, "/pages/1.png")).status_code == 404
    assert client.get(document_url(copy, "/document.pdf")).status_code == 404
    path = document_url(copy, f"/document.{extension}")
    assert f'<a href="{path}" download>{name[0].upper()}{name[1:]}</a>' in shown
    response = client.get(path)
    assert response.content == content
    assert response.headers["Content-Type"] == served_as
    assert response.headers["Content-Disposition"].startswith("attachment;")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_pdf_that_is_a_link_out_of_the_folder_is_not_served(
    client: TestClient, storage: SiteStorage[Path], document: Document, tmp_path: Path
) -> None:
    (tmp_path / "secret.pdf").write_bytes(pdfs.digital(1))
    storage.pdf(document).parent.mkdir(parents=True)
    storage.pdf(document).symlink_to(tmp_path / "secret.pdf")
    for rest in ("/document.pdf", "/pages/1.png"):
        assert client.get(document_url(document, rest)).status_code == 404


def test_details_and_stages_with_the_remedy(client: TestClient, connection: Connection, document: Document) -> None:
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status, attempt_count, error_code,"
        " error_message) values (%s, 'ocr', 'failed_terminal', 3, 'PdfEncrypted', 'it is locked')",
        [document.id],
    )
    page = html.unescape(fetch(client, document))
    assert '<a class="external" href="https://town.example/a.pdf" rel="noreferrer noopener">' in page
    assert "ab" * 32 in page
    assert "123.5 kB" in page
    assert "it is locked" in page
    assert PdfEncrypted.remedy in page


@pytest.mark.parametrize(
    "source", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ftp://x/y", "//x/y"]
)
def test_only_web_urls_are_linked(client: TestClient, connection: Connection, source: str) -> None:
    page = html.unescape(fetch(client, add_document(connection, source_url=source)))
    assert f"<bdi>{source}</bdi>" in page
    assert f'href="{source}' not in page


def test_other_versions_are_linked(client: TestClient, connection: Connection, document: Document) -> None:
    newer = add_document(connection, revision=2, lineage_id=document.id)
    assert f'href="{document_url(newer)}"' in fetch(client, document)
    assert f'href="{document_url(document)}"' in fetch(client, newer)


def test_files_on_another_machine(
    pool: ReadOnlyPool, client: TestClient, storage: SiteStorage[Path], document: Document
) -> None:
    message = "The files of this document are not on this machine."
    without = TestClient(create_app(pool), base_url="http://localhost")
    assert message in fetch(without, document)
    assert message in fetch(client, document), "the folder does not exist"
    for browser in (client, without):
        assert browser.get(document_url(document, "/pages/1.png")).status_code == 404
    write_texts(storage, document, ["one", "two"])
    storage.page_text(document, 1).unlink()
    assert "The text of this page is not on this machine." in fetch(client, document)


def test_document_without_ocr_with_failed_ocr_and_damaged(
    client: TestClient, connection: Connection, storage: SiteStorage[Path], document: Document
) -> None:
    assert "OCR has not processed this document yet." in fetch(client, add_document(connection, meeting="New"))
    write_texts(storage, document, ["one", None])
    assert "OcrError: failed" in fetch(client, document, "?page=2")
    storage.manifest(document).write_text("{")
    damaged = fetch(client, document)
    assert "The manifest of this document is damaged" in damaged
    assert str(storage.root) not in damaged
    assert ">one</pre>" in damaged


def test_hostile_text_is_escaped(client: TestClient, storage: SiteStorage[Path], document: Document) -> None:
    hostile = "a\x00b\x02c\x1b[31md\x7f\u202eevil\u2066\r\nline\x0c<script>alert(1)</script></pre>\ud800".encode(
        errors="surrogatepass"
    )
    write_texts(storage, document, ["one", "two"])
    storage.page_text(document, 1).write_bytes(hostile + b"\xff\xfe")
    page = fetch(client, document, "?q=evil")
    assert "<script" not in page.replace('<script type="module" src="/static/', "")
    assert "&lt;/pre&gt;" in page
    assert "<mark>" in page
    assert not set("\x00\x02\x1b\x7f\u202e\u2066\x0c") & set(page)


def test_a_huge_text_is_truncated(client: TestClient, storage: SiteStorage[Path], document: Document) -> None:
    write_texts(storage, document, ["x" * 10_000_000, "y" * MAX_TEXT_BYTES])
    page = fetch(client, document, "?q=x")
    assert len(page) < 2 * MAX_TEXT_BYTES
    assert "Only the first 100 kB of the text are shown." in page
    assert "Only the first 100 kB of the text are shown." not in fetch(client, document, "?page=2")


@pytest.mark.parametrize(
    "query", ["?page=0", "?page=3", "?page=x", "?page=99999999999", "?page=²", "?q=%00", "?q=%22*("]
)
def test_invalid_query_parameters_are_ignored(
    client: TestClient, storage: SiteStorage[Path], document: Document, query: str
) -> None:
    write_texts(storage, document, ["the first page", "the second page"])
    assert ("the second page" if query in ("?page=3",) else "the first page") in fetch(client, document, query)


def test_only_existing_pages_are_served(
    client: TestClient, connection: Connection, storage: SiteStorage[Path], document: Document
) -> None:
    connection.execute("insert into sites (subdomain) values ('other')")
    write_texts(storage, document, ["one", "two"])
    for number in (1, 2, 3):
        write(storage.page_image(document, number), PNG if number != 2 else b"<html>")
    statuses = {
        rest: client.get(rest).status_code
        for rest in (
            f"/sites/other/documents/{document.id}",
            f"/sites/other/documents/{document.id}/pages/1.png",
            "/sites/town/documents/99999999999999999999999",
            document_url(document, "/pages/1.png"),
            document_url(document, "/pages/2.png"),
            document_url(document, "/pages/3.png"),
            document_url(document, "/pages/0.png"),
            document_url(document, "/pages/1.txt"),
            document_url(document, "/pages/..%2f1.png"),
        )
    }
    assert [code for code in statuses.values() if code != 404] == [200], statuses
    assert statuses[document_url(document, "/pages/1.png")] == 200


def test_a_symbolic_link_out_of_the_folder_is_not_followed(
    client: TestClient, storage: SiteStorage[Path], document: Document, tmp_path: Path
) -> None:
    write_texts(storage, document, ["one", "two"])
    (tmp_path / "secret.txt").write_text("the secret")
    (tmp_path / "secret.png").write_bytes(PNG)
    storage.page_text(document, 1).unlink()
    storage.page_text(document, 1).symlink_to(tmp_path / "secret.txt")
    image = storage.page_image(document, 1)
    image.parent.mkdir(parents=True)
    image.symlink_to(tmp_path / "secret.png")
    assert "the secret" not in fetch(client, document)
    assert client.get(document_url(document, "/pages/1.png")).status_code == 404


def test_a_meeting_name_cannot_lead_out_of_the_folder(
    client: TestClient, connection: Connection, storage: SiteStorage[Path]
) -> None:
    document = add_document(connection, meeting="../../../etc", page_count=1)
    write_texts(storage, document, ["inside"])
    assert storage.texts(document).is_relative_to(storage.folder)
    assert "inside" in fetch(client, document)
    connection.execute("insert into sites (subdomain) values ('../town')")
    connection.execute("update content_items set subdomain = '../town' where id = %s", [document.id])
    assert "not on this machine" in client.get(f"/sites/..%2ftown/documents/{document.id}").text
