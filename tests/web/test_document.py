"""The page of a document: its files come from a storage that may be absent, damaged or hostile."""

from __future__ import annotations

import html
from datetime import date
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.documents.storage import Document, SiteStorage, write
from clerk.web.app import create_app
from clerk.web.files import SHOWN_AT_MOST
from clerk.web.reading import Reader
from tests.archive.library import write_texts

Connection = psycopg.Connection[Any]
PNG = b"\x89PNG\r\n\x1a\n" + b"not much of a picture"


@pytest.fixture
def storage(tmp_path: Path) -> SiteStorage:
    return SiteStorage(tmp_path / "storage", "town")


@pytest.fixture
def client(reader: Reader, storage: SiteStorage) -> TestClient:
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
                                   series, superseded_at)
        values ('town', %(kind)s, %(meeting)s, %(date)s, %(revision)s, %(page_count)s, %(sha256)s, %(size_bytes)s,
                %(source_url)s, %(series)s, %(superseded_at)s)
        returning id
        """,
        dict.fromkeys(("page_count", "sha256", "size_bytes", "source_url", "series", "superseded_at")) | row,
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
    assert "No image of this page is kept" in first


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
    newer = add(connection, revision=2, series=document.id)
    assert f'href="{address(newer)}"' in shown(client, document)
    assert f'href="{address(document)}"' in shown(client, newer)


def test_files_on_another_machine(reader: Reader, client: TestClient, storage: SiteStorage, document: Document) -> None:
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
