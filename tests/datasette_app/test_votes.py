"""The pages of votes and people in the Datasette application."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from clerk.datasette_app.app import create_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import DATABASE, SiteVersions
from tests.archive.vote_pages import PAGE, publish_votes

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def database(tmp_path: Path) -> StoragePath:
    draft = publish_votes(tmp_path / "drafts", "springfield", PAGE)
    return SiteVersions(tmp_path / "published", "springfield").publish(draft, keep=2).path / DATABASE


@pytest.fixture
def client(tmp_path: Path, database: Path) -> Iterator[TestClient]:
    site_metadata = SiteMetadata(list)
    site_metadata.refresh()
    with TestClient(create_app(tmp_path / "published", tmp_path / "storage", site_metadata)) as client:
        yield client


def fetch(client: TestClient, url: str, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status, response.text
    return str(response.text)


def test_the_tables_link_to_a_page_per_vote_and_person(client: TestClient) -> None:
    assert '<a href="/-/votes/springfield/1-1">to adopt Ordinance 12</a>' in fetch(client, "/springfield/votes")
    assert '<a href="/-/people/springfield/ellen-ortiz">Ellen Ortiz</a>' in fetch(client, "/springfield/people")
    assert "contradictory, the page says passed" in fetch(client, "/springfield/votes?id=1-2")
    rolls = fetch(client, "/springfield/vote_rolls")
    assert '<a href="/-/votes/springfield/1-1">nay</a>' in rolls
    assert '<a href="/-/people/springfield/ellen-ortiz">Ortiz</a>' in rolls


def test_the_page_of_a_vote(client: TestClient) -> None:
    page = fetch(client, "/-/votes/springfield/1-1")
    assert "to adopt Ordinance 12" in page
    assert '<a href="/-/people/springfield/ellen-ortiz"><bdi>Ortiz</bdi></a></dt><dd>nay</dd>' in page
    path = "/-/pages/springfield/minutes/2024-03-05/City%20Council/1"
    assert f'<a href="{path}">minutes, page 1</a>' in page
    fetch(client, path)
    assert "Contradictory:" in fetch(client, "/-/votes/springfield/1-2")
    assert '<a href="/-/meetings/springfield/2024-03-05/City%20Council">' in page


def test_the_votes_of_a_site_by_result(client: TestClient, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("update votes set result = 'failed', motion = ? where id = '1-1'", [HOSTILE])
    page = fetch(client, "/-/votes/springfield")
    assert "2 votes" in page
    assert '<span aria-hidden="true">✗</span> Failed</span></a> <span>1</span>' in page
    assert HOSTILE not in page
    failed = fetch(client, "/-/votes/springfield?result=failed")
    assert "to waive the fee" not in failed
    assert 'href="/-/votes/springfield.csv?result=failed"' in failed
    assert "No vote matches these filters." in fetch(client, "/-/votes/springfield?result=passed")
    rows = list(csv.DictReader(io.StringIO(fetch(client, "/-/votes/springfield.csv?result=failed"))))
    assert [row["vote_id"] for row in rows] == ["1-1"]
    fetch(client, "/-/votes/nowhere", 404)


def test_a_meeting_has_its_votes_and_people(client: TestClient, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("update votes set result = 'failed' where id = '1-1'")
    page = fetch(client, "/-/meetings/springfield/2024-03-05/City%20Council")
    assert '<span class="clerk-result failed"><span aria-hidden="true">✗</span> Failed</span>' in page
    assert "Passed" not in page
    assert 'href="/-/votes/springfield/1-1"><bdi>to adopt Ordinance 12</bdi>' in page
    assert '<a href="#minutes-1">page 1</a>' in page
    assert '<a href="/-/people/springfield/ellen-ortiz"><bdi>Ellen Ortiz</bdi></a>' in page
    person = fetch(client, "/-/people/springfield/li-wei-chen")
    assert '<a href="/-/meetings/springfield/2024-03-05/City%20Council"><bdi>City Council</bdi></a>' in person


def test_the_people_of_a_site(client: TestClient) -> None:
    page = fetch(client, "/-/people/springfield")
    assert '<a href="/-/people/springfield/ellen-ortiz"><bdi>Ellen Ortiz</bdi></a>' in page
    named = fetch(client, "/-/people/springfield?q=chen")
    assert "Li Wei Chen" in named
    assert "Ellen Ortiz" not in named
    assert "No person named “nobody” was found" in fetch(client, "/-/people/springfield?q=nobody")
    assert "This page of the list is empty." in fetch(client, "/-/people/springfield?page=2")
    fetch(client, "/-/people/nowhere", 404)


def test_the_page_of_a_person(client: TestClient) -> None:
    page = fetch(client, "/-/people/springfield/li-wei-chen")
    assert "Li Wei Chen" in page
    assert "moved, aye" in page
    assert "/-/votes/springfield/1-2" in page


def test_text_from_documents_is_escaped(client: TestClient, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("update votes set motion = ?, raw_text = ?, meeting = ?", [HOSTILE] * 3)
        connection.execute("update people set name = ?, role = ?", [HOSTILE] * 2)
        connection.execute("update vote_rolls set name = ?, vote = ?", [HOSTILE] * 2)
    for url in ("/-/votes/springfield/1-1", "/-/people/springfield/li-wei-chen"):
        page = fetch(client, url)
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page


@pytest.mark.parametrize(
    "url",
    [
        "/-/votes/springfield/none",
        "/-/people/springfield/none",
        "/-/votes/nowhere/1-1",
        "/-/people/..%2F/x",
        "/-/votes/springfield/%00",
    ],
)
def test_unknown_votes_and_people_are_not_found(client: TestClient, url: str) -> None:
    fetch(client, url, 404)


def test_an_archive_without_the_tables_has_no_such_pages(client: TestClient, database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("drop table people")
    fetch(client, "/-/people/springfield/li-wei-chen", 404)
