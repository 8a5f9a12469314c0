from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from clerk.web.pages import search
from tests.archive.published import publish

Connection = psycopg.Connection[Any]


@pytest.fixture
def client(pool: ReadOnlyPool, tmp_path: Path) -> TestClient:
    return TestClient(create_app(pool, publish_dir=tmp_path), base_url="http://localhost")


def fetch(client: TestClient, query: str) -> str:
    response = client.get(f"/search?{query}")
    assert response.status_code == 200, response.text
    return str(response.text)


def test_a_hit_links_to_its_page_and_to_the_source(client: TestClient, connection: Connection, tmp_path: Path) -> None:
    """Also if the archive and the database have different names for the meeting."""
    connection.execute("insert into sites (subdomain) values ('town')")
    (number,) = connection.execute(
        "insert into content_items (subdomain, kind, meeting, date, occurrence, storage_key, source_url)"
        " values ('town', 'agenda', 'Council', '2024-03-05', 2, '_agendas/pdfs/Council/2024-03-05_2.pdf',"
        " 'https://town.example/2')"
        " returning id"
    ).fetchone() or (None,)
    page_image = "/_agendas/Council/2024-03-05_2/7.png"
    text = "About <b>bike</b> lanes"
    publish(
        tmp_path,
        "town",
        {"text": text, "kind": "agenda", "meeting": "Council (2)", "page": 7, "page_image": page_image},
    )
    page = fetch(client, "q=bike")
    assert f'href="/sites/town/documents/{number}?page=7&amp;q=bike#pages"' in page
    assert '<a class="external" href="https://town.example/2" rel="noreferrer noopener">' in page
    assert "About &lt;b&gt;<mark>bike</mark>&lt;/b&gt; lanes" in page
    assert "1 page found in 1 archive." in " ".join(page.split())


@pytest.mark.parametrize(
    ("shown", "expected"),
    [("Council", "Council 1 r2"), ("Council (2)", "Council 2 r1"), ("Council (3)", "Council (3) 1 r1"),
     ("Council (4)", "Council 2 r1"), ("Parks", None)],
)  # fmt: skip
def test_a_page_without_an_image_is_found_by_its_meeting(
    client: TestClient, connection: Connection, tmp_path: Path, shown: str, expected: str | None
) -> None:
    """`Council (4)` is a second meeting whose name was taken; it has no document of its own."""
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute(
        "insert into content_items (subdomain, kind, meeting, date, occurrence, revision, source_url)"
        " select 'town', 'minutes', meeting, '2024-03-05', occurrence, revision,"
        " format('https://town.example/%s %s r%s', meeting, occurrence, revision)"
        " from (values ('Council', 1, 1), ('Council', 1, 2), ('Council', 2, 1), ('Council (3)', 1, 1))"
        " as d (meeting, occurrence, revision)"
    )
    publish(tmp_path, "town", {"text": "bike", "meeting": shown})
    page = html.unescape(fetch(client, "q=bike"))
    assert re.findall(r'href="https://town.example/([^"]*)"', page) == ([expected] if expected else [])


def test_a_document_that_is_not_in_the_database(client: TestClient, tmp_path: Path) -> None:
    publish(tmp_path, "town", {"text": "bike", "page_image": "/nonsense"}, {"text": "bike", "page_image": "/A/b/1.png"})
    page = fetch(client, "q=bike")
    assert page.count("the document is not in this database") == 2


def test_hostile_texts_are_escaped(client: TestClient, tmp_path: Path) -> None:
    publish(
        tmp_path, "town", {"text": "bike \x03\x02\x02 <script>alert(1)</script> \u202e\x1b", "meeting": "<i>\u202e"}
    )
    page = fetch(client, "q=bike")
    assert "<script" not in page.replace('<script type="module" src="/static/', "")
    assert "<i>" not in page
    assert page.count("<mark>") == page.count("</mark>") >= 1
    assert not {"\u202e", "\x1b", "\x02", "\x03"} & set(page)


def test_site_and_since(client: TestClient, tmp_path: Path) -> None:
    publish(
        tmp_path, "alpha", {"text": "bike", "date": "2024-01-01"}, {"text": "bike", "date": "2025-01-01", "page": 2}
    )
    publish(tmp_path, "beta", {"text": "bike", "date": "2026-01-01"})

    def hits(query: str) -> list[str]:
        return sorted(re.findall(r'<span class="date">([\d-]+)', fetch(client, query)))

    assert hits("q=bike") == ["2024-01-01", "2025-01-01", "2026-01-01"]
    assert hits("q=bike&site=alpha") == ["2024-01-01", "2025-01-01"]
    assert hits("q=bike&site=ALPHA&since=2025-01-01") == ["2025-01-01"]
    assert "No archive of <bdi>gamma</bdi> is published" in fetch(client, "q=bike&site=gamma")


def test_broken_and_unreached_archives_are_reported(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(tmp_path, "alpha", {"text": "bike"}).write_bytes(b"no database at all" * 100)
    publish(tmp_path, "beta", {"text": "bike"})
    page = fetch(client, "q=bike")
    assert "1 page found in 1 archive." in " ".join(page.split())
    assert '1 archive could not be searched: <a href="/sites/alpha">' in page
    monkeypatch.setattr(search, "_TIMEOUT", 0.0)
    assert "before 2 archives could be searched" in fetch(client, "q=bike")


def test_no_archives(pool: ReadOnlyPool, client: TestClient, connection: Connection, tmp_path: Path) -> None:
    assert "No archive is published on this machine yet." in fetch(client, "q=bike")
    without = {
        folder: TestClient(create_app(pool, publish_dir=folder), base_url="http://localhost")
        for folder in (None, tmp_path / "nowhere")
    }
    assert "Nothing has been published yet." in fetch(without[tmp_path / "nowhere"], "q=bike")
    assert "The published archives are not on this machine." in fetch(without[None], "q=bike")
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute(
        "with run as (insert into pipeline_runs (subdomain, reason) values ('town', 'manual') returning run_id)"
        " insert into publications (subdomain, run_id, content_hash, pages, deployed_at)"
        " select 'town', run_id, repeat('0', 64), 1, now() from run"
    )
    assert "The published archives are not on this machine." in fetch(without[tmp_path / "nowhere"], "q=bike")
    publish(tmp_path, "town", {"text": "bike"})
    assert "1 archive on this machine." in fetch(client, "")
    assert "No page found in 1 archive." in fetch(client, "q=nowhere")


@pytest.mark.parametrize(
    ("query", "warning"),
    [
        ("q=%00", ""), ("q=%22%22", ""), ("q=*%28%29", ""), ("q=" + "x" * 5000, ""), ("q=%ED%A0%80", ""),
        ("q=AND+OR+NEAR", ""), ("q=bike&since=yesterday", "“yesterday” is not a date"),
        ("q=bike&since=2024-02-31", "is not a date"), ("q=bike&site=../../etc", "“../../etc” is not a valid site name"),
        ("q=bike&site=%3Cscript%3E", "“<script>” is not a valid site name"),
    ],
)  # fmt: skip
def test_invalid_parameters_are_ignored(client: TestClient, tmp_path: Path, query: str, warning: str) -> None:
    publish(tmp_path, "town", {"text": "bike"})
    page = fetch(client, query)
    assert warning in html.unescape(page)
    assert "<script>" not in page


def test_every_page_has_the_search_form(client: TestClient) -> None:
    for url in ("/", "/sites", "/nowhere"):
        assert '<form class="search" action="/search" method="get"' in client.get(url).text


@pytest.mark.parametrize("kind", ["minutes", "ordinance"])
def test_the_permanent_path_of_a_page_leads_to_its_document(
    client: TestClient, connection: Connection, tmp_path: Path, kind: str
) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    (number,) = connection.execute(
        "insert into content_items (subdomain, kind, meeting, date, page_count, source_url)"
        " values ('town', %s, 'Parks/Trees', '2024-03-05', 9, 'https://town.example/1') returning id",
        [kind],
    ).fetchone() or (None,)
    publish(tmp_path, "town", {"text": "bike", "meeting": "Parks/Trees", "page": 7, "kind": kind})
    path = f"/-/pages/town/{kind}/2024-03-05/Parks%2FTrees/7"
    assert f'<a href="{path}">Permanent link</a>' in fetch(client, "q=bike")
    answer = client.get(path, follow_redirects=False)
    assert answer.headers["location"] == f"/sites/town/documents/{number}?page=7#pages"
    for missing in (f"/-/pages/town/{kind}/2024-03-06/Parks/7", f"/-/pages/town/{kind}/never/Parks/7"):
        assert client.get(missing).status_code == 404


def test_an_invalid_query_is_reported(client: TestClient, tmp_path: Path) -> None:
    publish(tmp_path, "town", {"text": "bike"})
    page = html.unescape(fetch(client, "q=bike+XOR+%3Cb%3E"))
    assert "XOR is an unknown operator: there are AND, OR, NOT" in page
    assert "No page found" not in page
