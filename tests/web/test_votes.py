"""The dashboard's pages about votes and people."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from tests.archive.vote_pages import PAGE, publish_votes
from tests.web.conftest import HOSTILE, fetch


@pytest.fixture
def client(pool: ReadOnlyPool, tmp_path: Path) -> TestClient:
    return TestClient(create_app(pool, publish_dir=tmp_path), base_url="http://localhost")


@pytest.fixture
def database(tmp_path: Path, database: str) -> str:
    publish_votes(tmp_path, "town", PAGE)
    return database


def change(tmp_path: Path, statement: str, *values: str) -> None:
    with closing(sqlite3.connect(tmp_path / "town/current/meetings.db")) as connection, connection:
        connection.execute(statement, values)


def test_the_list_of_votes_links_to_a_page_per_vote(client: TestClient) -> None:
    page = fetch(client, "/sites/town/votes")
    assert '<a href="/sites/town/votes/1-1"><bdi>to adopt Ordinance 12</bdi></a>' in page
    page = fetch(client, "/sites/town/votes/1-1")
    assert "2 for, 1 against" in page
    assert '<a href="/sites/town/people/ellen-ortiz"><bdi>Ortiz</bdi></a></th><td>nay</td>' in page
    assert "Minutes, page 1" in page
    assert "disagree" not in page
    assert "The stated result and the tally disagree." in fetch(client, "/sites/town/votes/1-2")


def test_the_votes_of_a_person(client: TestClient) -> None:
    assert "to adopt Ordinance 12" in fetch(client, "/sites/town/votes?text=ortiz")
    assert "to waive the fee" not in fetch(client, "/sites/town/votes?text=ortiz")
    page = fetch(client, "/sites/town/people/li-wei-chen")
    assert "<h1>Li Wei Chen</h1>" in page
    assert "<td>moved, aye</td>" in page
    assert "<td>seconded</td>" in page
    people = fetch(client, "/sites/town/people?text=chen")
    assert 'href="/sites/town/people/li-wei-chen"' in people
    assert "ellen-ortiz" not in people


def test_text_from_documents_is_escaped(client: TestClient, tmp_path: Path) -> None:
    change(tmp_path, "update votes set motion = ?, raw_text = ?, meeting = ?, motion_by = ?", *[HOSTILE] * 4)
    change(tmp_path, "update people set name = ?, role = ?", *[HOSTILE] * 2)
    change(tmp_path, "update vote_rolls set name = ?, vote = ?", *[HOSTILE] * 2)
    for url in ("votes", "votes/1-1", "people", "people/li-wei-chen"):
        page = fetch(client, f"/sites/town/{url}")
        assert HOSTILE not in page
        assert "&lt;script&gt;" in page


@pytest.mark.parametrize("url", ["votes/none", "people/none", "votes/1-1%27--", "people/%00"])
def test_unknown_votes_and_people_are_not_found(client: TestClient, url: str) -> None:
    fetch(client, f"/sites/town/{url}", 404)


def test_sites_without_an_archive_or_without_tables_say_so(client: TestClient, tmp_path: Path) -> None:
    assert "No archive of this site has been published yet: clerk why other" in fetch(client, "/sites/other/votes")
    change(tmp_path, "drop table people")
    for url in ("votes", "votes/1-1", "people", "people/x"):
        assert "clerk rewind town --to extraction" in fetch(client, f"/sites/town/{url}")
    (tmp_path / "town/current/meetings.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    assert "cannot be read" in fetch(client, "/sites/town/votes")


def test_long_lists_have_pages(client: TestClient, tmp_path: Path) -> None:
    for number in range(150):
        change(
            tmp_path,
            "insert into people values (?, ?, null, 1, 0, 0, 0, '2024', '2024')",
            f"p{number:03}",
            f"Person {number}",
        )
    first = fetch(client, "/sites/town/people")
    assert 'rel="next" href="/sites/town/people?page=2"' in first
    second = fetch(client, "/sites/town/people?page=2")
    assert 'rel="next"' not in second
    assert "Person 149" in second
