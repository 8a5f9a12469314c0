"""`clerk votes export`."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.archive.vote_pages import PAGE, publish_votes
from tests.cli.conftest import Clerk

OTHER = "Trustee Gray moved to close the pool. Trustee Boyd seconded. Ayes: Gray, Boyd. Nays: None. Motion carried."


@pytest.fixture(autouse=True)
def _folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(tmp_path / "published"))


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    publish_votes(tmp_path / "published", "springfield", PAGE)
    publish_votes(tmp_path / "published", "riverton", OTHER)
    return tmp_path / "published"


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.usefixtures("archives")
def test_csv_has_a_row_per_vote_of_every_site(clerk_command: Clerk) -> None:
    result = clerk_command("votes", "export", "--csv")
    assert result.code == 0, result
    rows = read_csv(result.out)
    shown = [
        (row["site"], row["motion"], row["result"], row["contradictory"], row["ayes"], row["nays"]) for row in rows
    ]
    assert shown == [
        ("riverton", "to close the pool", "passed", "", "2", "0"),
        ("springfield", "to adopt Ordinance 12", "passed", "", "2", "1"),
        ("springfield", "to waive the fee", "passed", "yes", "1", "2"),
    ]
    assert rows[1]["voted_aye"] == "Chen; Whitfield"
    assert rows[1]["voted_nay"] == "Ortiz"


@pytest.mark.usefixtures("archives")
def test_filters_by_site_person_and_day(clerk_command: Clerk) -> None:
    rows = json.loads(
        clerk_command("votes", "export", "--json", "--site", "springfield", "--person", "ellen ORTIZ").out
    )
    assert [row["motion"] for row in rows] == ["to adopt Ordinance 12"]
    assert rows[0]["voted_nay"] == ["Ortiz"]
    assert rows[0]["contradictory"] is False
    assert len(json.loads(clerk_command("votes", "export", "--json", "--since", "2024-03-05").out)) == 3
    nothing = clerk_command("votes", "export", "--since", "2024-03-06")
    assert (nothing.code, len(read_csv(nothing.out))) == (1, 0)
    assert "\nNobody is called Ortz; did you mean Ortiz?\n" in clerk_command("votes", "export", "--person", "Ortz").err


@pytest.mark.usefixtures("archives")
def test_rolls_have_a_row_per_person_and_vote(clerk_command: Clerk) -> None:
    rows = read_csv(clerk_command("votes", "export", "--rolls", "--person", "chen").out)
    assert [(row["person_id"], row["person"], row["vote"], row["result"]) for row in rows] == [
        ("li-wei-chen", "Chen", "aye", "passed")
    ]


@pytest.mark.usefixtures("archives")
def test_the_output_may_be_a_file(clerk_command: Clerk, tmp_path: Path) -> None:
    file = tmp_path / "votes.csv"
    result = clerk_command("votes", "export", "--output", str(file))
    assert (result.code, result.out) == (0, "")
    assert len(read_csv(file.read_text())) == 3
    assert "3 votes of 2 archives." in result.err


def test_a_text_that_a_spreadsheet_would_run_is_quoted(clerk_command: Clerk, archives: Path) -> None:
    with closing(sqlite3.connect(archives / "riverton/current/meetings.db")) as connection, connection:
        connection.execute("update votes set motion = '=HYPERLINK(1)'")
    (row,) = read_csv(clerk_command("votes", "export", "--site", "riverton").out)
    assert row["motion"] == "'=HYPERLINK(1)"


def test_archives_without_tables_and_broken_ones_are_reported(clerk_command: Clerk, archives: Path) -> None:
    with closing(sqlite3.connect(archives / "riverton/current/meetings.db")) as connection, connection:
        connection.execute("drop table people")
    result = clerk_command("votes", "export")
    assert (result.code, len(read_csv(result.out))) == (1, 2)
    assert "clerk rewind riverton --to extraction" in result.err
    (archives / "riverton/current/meetings.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    result = clerk_command("votes", "export")
    assert (result.code, len(read_csv(result.out))) == (1, 2)
    assert "The archive of riverton cannot be read" in result.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--csv", "--json"], "exclude each other"),
        (["--site", "../x"], "not a valid subdomain"),
        (["--since", "2024"], "'2024' is not a date: write it as 2024-03-05."),
    ],
)
def test_wrong_usage(clerk_command: Clerk, words: list[str], message: str) -> None:
    result = clerk_command("votes", "export", *words)
    assert result.code == 2
    assert message in result.err
