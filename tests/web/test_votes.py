"""The dashboard's pages about votes and people."""

from __future__ import annotations

import csv
import html
import io
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
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


def test_the_list_of_votes_links_to_a_page_per_vote(client: TestClient, connection: psycopg.Connection) -> None:
    assert "<h1>Votes of town</h1>" in fetch(client, "/sites/town/votes")
    connection.execute("insert into sites (subdomain, name) values ('town', 'Our Town')")
    page = fetch(client, "/sites/town/votes")
    assert "<h1>Votes of Our Town</h1>" in page
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
    assert (
        '<a href="/sites/town?text=2024-03-05#documents"><bdi>City Council</bdi></a></th><td class="number">2</td>'
        in page
    )
    people = fetch(client, "/sites/town/people?text=chen")
    assert 'href="/sites/town/people/li-wei-chen"' in people
    assert "ellen-ortiz" not in people


_OUTCOMES = """PRESENT: Mayor Ellen Ortiz, Council Members Dana Whitfield, Li Wei Chen
Council Member Chen moved to adopt the budget. Council Member Whitfield seconded. Motion carried 2-1.

Council Member Chen moved to pave Elm Street. Council Member Whitfield seconded. Motion failed 1-2.

Council Member Whitfield moved to waive the fee. Council Member Chen seconded. Motion carried 1-2.
"""


def test_a_failed_motion_never_looks_like_a_passed_one(client: TestClient, tmp_path: Path) -> None:
    publish_votes(tmp_path, "north", _OUTCOMES)
    page = fetch(client, "/sites/north/votes")
    rows = re.findall(r'vote-result (\w+)"><span aria-hidden="true">(.)</span> ([\w ]+)</span>', page)
    assert {("passed", "✓", "Passed"), ("failed", "✗", "Failed"), ("contradictory", "≠", "Contradictory")} <= set(rows)
    failed = fetch(client, "/sites/north/votes?result=failed")
    assert "to pave Elm Street" in failed
    assert "to adopt the budget" not in failed
    assert 'class="vote-result passed"' not in failed
    assert "to waive the fee" not in fetch(client, "/sites/north/votes?result=passed"), "it is contradictory"
    with closing(sqlite3.connect(tmp_path / "north/current/meetings.db")) as connection, connection:
        connection.execute("update votes set result = '', ayes = 2, nays = 2 where result = 'failed'")
        connection.execute(
            "update votes set result = '', ayes = null, nays = null where contradictory = 0 and ayes <> 2"
        )
        connection.execute("update votes set result = 'tabled' where motion like '%budget%'")
    page = fetch(client, "/sites/north/votes")
    assert set(re.findall(r'aria-hidden="true">.</span> ([\w ]+)</span>', page)) == {"Tied", "Tabled", "Contradictory"}
    assert "Whether a tie means that the motion failed" in fetch(client, "/sites/north/votes/1-2")


def test_votes_by_result_body_and_year_with_counts(client: TestClient, tmp_path: Path) -> None:
    change(tmp_path, "update votes set meeting = 'Parks', date = '2023-01-02' where id = '1-2'")
    page = html.unescape(fetch(client, "/sites/town/votes"))
    assert "2 votes." in page
    assert re.findall(r'<bdi>(2023|2024|Parks)</bdi></a> <span class="count">(\d)', page) == [
        ("Parks", "1"),
        ("2024", "1"),
        ("2023", "1"),
    ]
    assert 'href="/sites/town/votes?body=Parks"' in page
    page = html.unescape(fetch(client, "/sites/town/votes?body=Parks&year=2023"))
    assert "to waive the fee" in page
    assert "to adopt Ordinance 12" not in page
    assert 'href="/sites/town/votes.csv?body=Parks&year=2023"' in page
    assert "No vote matches these filters." in fetch(client, "/sites/town/votes?body=Parks&year=2024")
    assert "2 votes." in fetch(client, "/sites/town/votes?result=nonsense&year=never")


def test_votes_and_people_as_csv(client: TestClient, tmp_path: Path) -> None:
    change(tmp_path, "update votes set motion = '=1+1' where id = '1-2'")
    answer = client.get("/sites/town/votes.csv")
    assert answer.headers["content-disposition"] == 'attachment; filename="votes of town.csv"'
    rows = {row["vote_id"]: row for row in csv.DictReader(io.StringIO(answer.text))}
    assert rows["1-1"]["voted_nay"] == "Ortiz"
    assert rows["1-2"]["motion"] == "'=1+1", "not a formula"
    assert len(list(csv.reader(io.StringIO(client.get("/sites/town/votes.csv?result=contradictory").text)))) == 2
    people = list(csv.DictReader(io.StringIO(client.get("/sites/town/people.csv?text=chen").text)))
    assert [(row["site"], row["name"], row["motions"]) for row in people] == [("town", "Li Wei Chen", "1")]


def test_an_archive_without_votes_says_why(client: TestClient, tmp_path: Path) -> None:
    publish_votes(tmp_path, "quiet", "The agenda of the evening.")
    assert "No votes were found in this archive, because" in fetch(client, "/sites/quiet/votes")
    assert "No people were found in this archive, because" in fetch(client, "/sites/quiet/people")


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
    assert "Nothing of this site has been published yet." in fetch(client, "/sites/other/votes")
    fetch(client, "/sites/other/votes.csv", 404)
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
