"""The page of a document: its files come from a storage that may be absent, damaged or hostile."""

from __future__ import annotations

import html
import io
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest
from PIL import Image
from starlette.testclient import TestClient

from clerk.documents.storage import Document, SiteStorage, write
from clerk.ocr import page_render
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from clerk.web.files import SHOWN_AT_MOST
from clerk.web.pages import document as document_page
from tests.archive.helpers import write_texts
from tests.ocr import pdfs

Connection = psycopg.Connection[Any]
PNG = b"\x89PNG\r\n\x1a\n" + b"not much of a picture"


@pytest.fixture
def storage(tmp_path: Path) -> SiteStorage:
    return SiteStorage(tmp_path / "storage", "town")


@pytest.fixture
def client(reader: ReadOnlyPool, storage: SiteStorage) -> TestClient:
    return TestClient(create_app(reader, storage_dir=storage.root), base_url="http://localhost")


@pytest.fixture
def document(connection: Connection) -> Document:
    """Of two pages, not read yet as far as files go."""
    return add(connection, page_count=2, sha256="ab" * 32, size_bytes=123_456, source_url="https://town.example/a.pdf")


def add(connection: Connection, **values: Any) -> Document:
    connection.execute("insert into sites (subdomain) values ('town') on conflict do nothing")
    row = {"kind": "minutes", "meeting": "City Council", "date": date(2024, 3, 5), "revision": 1, **values}
    found = connection.execute(
        """
        insert into content_items (subdomain, kind, meeting, date, revision, page_count, sha256, size_bytes, source_url,
                                   lineage_id, superseded_at)
        values ('town', %(kind)s, %(meeting)s, %(date)s, %(revision)s, %(page_count)s, %(sha256)s, %(size_bytes)s,
                %(source_url)s, %(lineage_id)s, %(superseded_at)s)
        returning id
        """,
        dict.fromkeys(("page_count", "sha256", "size_bytes", "source_url", "lineage_id", "superseded_at")) | row,
    ).fetchone()
    assert found is not None
    return Document(found[0], "town", row["kind"], row["meeting"], row["date"], 1, row["revision"])


def address(document: Document, rest: str = "") -> str:
    return f"/sites/town/documents/{document.id}{rest}"


def shown(client: TestClient, document: Document, query: str = "") -> str:
    response = client.get(address(document, query))
    assert response.status_code == 200, response.text
    return str(response.text)


def test_image_beside_text_with_the_words_marked(client: TestClient, storage: SiteStorage, document: Document) -> None:
    write_texts(storage, document, ["The first page", "New bike lanes & <b>more</b>"])
    write(storage.page_image(document, 2), PNG)
    page = shown(client, document, "?page=2&q=bike")
    assert "New <mark>bike</mark> lanes &amp; &lt;b&gt;more&lt;/b&gt;" in page
    assert f'<img src="{address(document, "/pages/2.png")}"' in page
    assert "Page 2 of 2" in page
    assert f'rel="prev" href="{address(document)}?page=1&amp;q=bike#pages"' in page
    assert 'value="bike"' in page, "the search box keeps the words"

    image = client.get(address(document, "/pages/2.png"))
    assert image.content == PNG
    assert image.headers["Content-Type"] == "image/png"
    assert image.headers["Cache-Control"].startswith("private")
    assert image.headers["X-Content-Type-Options"] == "nosniff"
    first = shown(client, document)
    assert "The first page" in first
    assert "Neither an image of this page nor the PDF" in first
    assert "as it looks on paper" not in first


def test_a_page_of_which_no_image_was_kept_is_drawn(
    client: TestClient, storage: SiteStorage, document: Document
) -> None:
    write_texts(storage, document, ["one", "two"])
    write(storage.pdf(document), pdfs.digital(2))
    assert f'<img src="{address(document, "/pages/2.png")}"' in shown(client, document, "?page=2")
    answers = [client.get(address(document, f"/pages/{number}.png")) for number in (1, 2)]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "image/png"
        assert answer.headers["Cache-Control"].startswith("private, max-age=")
        with Image.open(io.BytesIO(answer.content)) as image:
            assert image.size == (850, 1100)
            assert len(image.convert("L").getcolors() or ()) > 1, "nothing is on it"
    assert answers[0].content != answers[1].content, "both are of the same page"
    assert client.get(address(document, "/pages/3.png")).status_code == 404
    write(storage.page_image(document, 1), PNG)
    assert client.get(address(document, "/pages/1.png")).content == PNG, "what was kept needs no drawing"


def test_looking_at_the_text_draws_nothing(
    client: TestClient, storage: SiteStorage, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_texts(storage, document, ["one", "two"])
    write(storage.pdf(document), pdfs.digital(2))
    monkeypatch.setattr(document_page, "draw", lambda pdf, page: pytest.fail("it was drawn"))
    assert "as it looks on paper" in shown(client, document)


ENDLESS = b"q " + b"1 0 0 1 0 0 cm /F1 9 Tf 0 0 m 600 700 l S " * 400_000


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "pdftoppm drew nothing"),
        (b"<html>moved</html>", "pdftoppm drew nothing"),
        (pdfs.digital(2)[:300], "pdftoppm drew nothing"),
        (pdfs.digital(1), "pdftoppm drew nothing"),
        (pdfs.document([(b"", ""), (ENDLESS, "")]), "CPU time"),
    ],
    ids=["empty", "html", "truncated", "fewer pages", "endless"],
)
def test_what_cannot_be_drawn_says_why(
    client: TestClient, storage: SiteStorage, document: Document, content: bytes, why: str
) -> None:
    write(storage.pdf(document), content)
    answer = client.get(address(document, "/pages/2.png"))
    assert answer.status_code == 503
    assert "The page could not be drawn: pdftoppm" in answer.text
    assert why in answer.text
    assert str(storage.root) not in answer.text
    assert client.get("/livez").status_code == 200


def test_a_page_as_large_as_a_field_is_drawn_small(
    client: TestClient, storage: SiteStorage, document: Document
) -> None:
    write(storage.pdf(document), pdfs.document([(b"0 0 m 200000 100000 l S", "")] * 2, box="0 0 200000 100000"))
    with Image.open(io.BytesIO(client.get(address(document, "/pages/2.png")).content)) as image:
        assert image.size == (1100, 550)


def test_without_poppler_the_page_says_so(
    client: TestClient, storage: SiteStorage, document: Document, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_texts(storage, document, ["one", "two"])
    write(storage.pdf(document), pdfs.digital(2))
    monkeypatch.setenv("PATH", str(tmp_path))
    page = shown(client, document)
    assert "pdftoppm is not installed on this machine" in page
    assert "as it looks on paper" not in page
    answer = client.get(address(document, "/pages/1.png"))
    assert answer.status_code == 503
    assert "pdftoppm is not installed" in answer.text


def test_a_drawing_process_that_does_not_end_is_ended(
    storage: SiteStorage, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(storage.pdf(document), pdfs.digital(1))
    monkeypatch.setattr(page_render, "_WALL_SECONDS", 0.0)
    with pytest.raises(page_render.RenderFailed, match="did not end in time"):
        page_render.render_page(storage.pdf(document), 1)


def test_two_are_drawn_at_once_and_nobody_else_waits(
    reader: ReadOnlyPool, storage: SiteStorage, document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(storage.pdf(document), pdfs.digital(2))
    going, most, both, go_on = [0], [0], threading.Event(), threading.Event()
    lock = threading.Lock()

    def slow(pdf: Path, page: int) -> bytes:
        with lock:
            going[0] += 1
            most[0] = max(most[0], going[0])
            if going[0] == 2:
                both.set()
        assert go_on.wait(60)
        with lock:
            going[0] -= 1
        return PNG

    monkeypatch.setattr(document_page, "draw", slow)
    # As one server, with one event loop; more visitors than the threads that all pages share.
    with (
        TestClient(create_app(reader, storage_dir=storage.root), base_url="http://localhost") as client,
        ThreadPoolExecutor(50) as visitors,
    ):
        try:
            answers = [visitors.submit(client.get, address(document, "/pages/1.png")) for _ in range(48)]
            assert both.wait(60)
            assert client.get(address(document)).status_code == 200
        finally:
            go_on.set()
        assert [answer.result().status_code for answer in answers] == [200] * 48
    assert most == [2]


def test_the_pdf_itself_is_offered_where_there_is_no_source_to_link(
    client: TestClient, connection: Connection, storage: SiteStorage, document: Document
) -> None:
    copy = add(connection, meeting="Zoning Böard", source_url="file:///srv/minutes/a.pdf", page_count=1)
    link = f'href="{address(copy, "/document.pdf")}"'
    assert link not in shown(client, copy), "it is not here"
    assert client.get(address(copy, "/document.pdf")).status_code == 404
    for one in (copy, document):
        write(storage.pdf(one), pdfs.digital(1))
    assert link in shown(client, copy)
    assert "document.pdf" not in shown(client, document), "the source is a link"
    answer = client.get(address(copy, "/document.pdf"))
    assert answer.content == pdfs.digital(1)
    assert answer.headers["Content-Type"] == "application/pdf"
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_a_pdf_that_is_a_link_out_of_the_folder_is_not_there(
    client: TestClient, storage: SiteStorage, document: Document, tmp_path: Path
) -> None:
    (tmp_path / "secret.pdf").write_bytes(pdfs.digital(1))
    storage.pdf(document).parent.mkdir(parents=True)
    storage.pdf(document).symlink_to(tmp_path / "secret.pdf")
    for rest in ("/document.pdf", "/pages/1.png"):
        assert client.get(address(document, rest)).status_code == 404


def test_facts_and_stages_with_the_remedy(client: TestClient, connection: Connection, document: Document) -> None:
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status, attempt_count, error_code,"
        " error_message) values (%s, 'ocr', 'failed_terminal', 3, 'PdfEncrypted', 'it is locked')",
        [document.id],
    )
    page = html.unescape(shown(client, document))
    assert '<a class="outside" href="https://town.example/a.pdf" rel="noreferrer noopener">' in page
    assert "ab" * 32 in page
    assert "123.5 kB" in page
    assert "it is locked" in page
    assert "ask the publisher for an open copy" in page


@pytest.mark.parametrize(
    "source", ["javascript:alert(1)", "file:///etc/passwd", "data:text/html,x", "ftp://x/y", "//x/y"]
)
def test_only_the_web_is_linked(client: TestClient, connection: Connection, source: str) -> None:
    page = html.unescape(shown(client, add(connection, source_url=source)))
    assert f"<bdi>{source}</bdi>" in page
    assert f'href="{source}' not in page


def test_other_versions_are_linked(client: TestClient, connection: Connection, document: Document) -> None:
    newer = add(connection, revision=2, lineage_id=document.id)
    assert f'href="{address(newer)}"' in shown(client, document)
    assert f'href="{address(document)}"' in shown(client, newer)


def test_files_on_another_machine(
    reader: ReadOnlyPool, client: TestClient, storage: SiteStorage, document: Document
) -> None:
    said = "The files of this document are not on this machine."
    without = TestClient(create_app(reader), base_url="http://localhost")
    assert said in shown(without, document)
    assert said in shown(client, document), "there is no such folder"
    for one in (client, without):
        assert one.get(address(document, "/pages/1.png")).status_code == 404
    write_texts(storage, document, ["one", "two"])
    storage.page_text(document, 1).unlink()
    assert "The text of this page is not on this machine." in shown(client, document)


def test_not_read_failed_and_damaged(
    client: TestClient, connection: Connection, storage: SiteStorage, document: Document
) -> None:
    assert "It has not been read yet" in shown(client, add(connection, meeting="New"))
    write_texts(storage, document, ["one", None])
    assert "Boom: it burst" in shown(client, document, "?page=2")
    storage.manifest(document).write_text("{")
    damaged = shown(client, document)
    assert "the storage is damaged here" in damaged
    assert str(storage.root) not in damaged
    assert ">one</pre>" in damaged


def test_hostile_text_is_shown_as_text(client: TestClient, storage: SiteStorage, document: Document) -> None:
    hostile = "a\x00b\x02c\x1b[31md\x7f\u202eevil\u2066\r\nline\x0c<script>alert(1)</script></pre>\ud800".encode(
        errors="surrogatepass"
    )
    write_texts(storage, document, ["one", "two"])
    storage.page_text(document, 1).write_bytes(hostile + b"\xff\xfe")
    page = shown(client, document, "?q=evil")
    assert "<script" not in page.replace('<script type="module" src="/static/', "")
    assert "&lt;/pre&gt;" in page
    assert "<mark>" in page
    assert not set("\x00\x02\x1b\x7f\u202e\u2066\x0c") & set(page)


def test_a_huge_page_is_cut_and_said_to_be(client: TestClient, storage: SiteStorage, document: Document) -> None:
    write_texts(storage, document, ["x" * 10_000_000, "y" * SHOWN_AT_MOST])
    page = shown(client, document, "?q=x")
    assert len(page) < 2 * SHOWN_AT_MOST
    assert "Only the beginning is shown" in page
    assert "Only the beginning is shown" not in shown(client, document, "?page=2")


@pytest.mark.parametrize(
    "query", ["?page=0", "?page=3", "?page=x", "?page=99999999999", "?page=²", "?q=%00", "?q=%22*("]
)
def test_odd_addresses_are_taken_calmly(
    client: TestClient, storage: SiteStorage, document: Document, query: str
) -> None:
    write_texts(storage, document, ["the first page", "the second page"])
    assert ("the second page" if query in ("?page=3",) else "the first page") in shown(client, document, query)


def test_only_what_there_is(
    client: TestClient, connection: Connection, storage: SiteStorage, document: Document
) -> None:
    connection.execute("insert into sites (subdomain) values ('other')")
    write_texts(storage, document, ["one", "two"])
    for number in (1, 2, 3):
        write(storage.page_image(document, number), PNG if number != 2 else b"<html>")
    answers = {
        rest: client.get(rest).status_code
        for rest in (
            f"/sites/other/documents/{document.id}",
            f"/sites/other/documents/{document.id}/pages/1.png",
            "/sites/town/documents/99999999999999999999999",
            address(document, "/pages/1.png"),
            address(document, "/pages/2.png"),
            address(document, "/pages/3.png"),
            address(document, "/pages/0.png"),
            address(document, "/pages/1.txt"),
            address(document, "/pages/..%2f1.png"),
        )
    }
    assert [code for code in answers.values() if code != 404] == [200], answers
    assert answers[address(document, "/pages/1.png")] == 200


def test_a_link_does_not_lead_out_of_the_folder(
    client: TestClient, storage: SiteStorage, document: Document, tmp_path: Path
) -> None:
    write_texts(storage, document, ["one", "two"])
    (tmp_path / "secret.txt").write_text("the secret")
    (tmp_path / "secret.png").write_bytes(PNG)
    storage.page_text(document, 1).unlink()
    storage.page_text(document, 1).symlink_to(tmp_path / "secret.txt")
    image = storage.page_image(document, 1)
    image.parent.mkdir(parents=True)
    image.symlink_to(tmp_path / "secret.png")
    assert "the secret" not in shown(client, document)
    assert client.get(address(document, "/pages/1.png")).status_code == 404


def test_a_name_cannot_lead_out_of_the_folder(client: TestClient, connection: Connection, storage: SiteStorage) -> None:
    odd = add(connection, meeting="../../../etc", page_count=1)
    write_texts(storage, odd, ["inside"])
    assert storage.texts(odd).is_relative_to(storage.folder)
    assert "inside" in shown(client, odd)
    connection.execute("insert into sites (subdomain) values ('../town')")
    connection.execute("update content_items set subdomain = '../town' where id = %s", [odd.id])
    assert "not on this machine" in client.get(f"/sites/..%2ftown/documents/{odd.id}").text
