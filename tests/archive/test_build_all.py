"""One database of all sites, and the commands."""

from __future__ import annotations

import json
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result

from clerk.archive.build_all import build_all
from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from clerk.cli import cli
from clerk.errors import SiteNotFound
from clerk.publish.versions import SiteVersions
from tests.archive.library import Shelf, add_site, is_whole, rows


def archive_of(root: Path, subdomain: str, *texts: str) -> Path:
    shelf = Shelf(root, subdomain)
    shelf.put(*texts)
    compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()))
    return shelf.storage.database


def test_all_sites_are_in_one_database_even_with_the_same_pages(tmp_path: Path) -> None:
    for name in ("springfield", "shelbyville"):
        archive_of(tmp_path, name, "the same", "and more")
    output = tmp_path / "_all" / "meetings.db"
    sites = [("springfield", "Springfield"), ("shelbyville", "Shelbyville?#"), ("ogdenville", "Ogdenville")]
    collected = build_all(tmp_path, sites, output)
    assert (collected.sites, collected.without_archive) == (["shelbyville", "springfield"], ["ogdenville"])
    assert rows(output, "select subdomain, municipality, page from minutes order by 1, 3") == [
        ("shelbyville", "Shelbyville?#", 1),
        ("shelbyville", "Shelbyville?#", 2),
        ("springfield", "Springfield", 1),
        ("springfield", "Springfield", 2),
    ]
    assert rows(output, "select count(*) from minutes_fts where minutes_fts match 'same'") == [(2,)]
    assert is_whole(output)
    again = build_all(tmp_path, reversed(sites), output)
    assert again.built is not None
    assert collected.built is not None
    assert again.built.content_hash == collected.built.content_hash


def test_a_damaged_site_is_named_and_the_others_do_not_wait(tmp_path: Path) -> None:
    archive_of(tmp_path, "springfield", "one")
    archive_of(tmp_path, "shelbyville", "two").write_bytes(b"rubbish" * 1000)
    output = tmp_path / "_all" / "meetings.db"
    collected = build_all(tmp_path, [("springfield", "S"), ("shelbyville", "S"), ("a", "A")], output)
    assert list(collected.damaged) == ["shelbyville"]
    assert rows(output, "select subdomain from minutes") == [("springfield",)]


@pytest.fixture
def run(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    return CliRunner()


def said(run: CliRunner, *words: str) -> Result:
    return run.invoke(cli, words, catch_exceptions=True)


def test_the_command_builds_all(run: CliRunner, connection: psycopg.Connection, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    for name in ("springfield", "shelbyville"):
        add_site(connection, name)
    archive_of(storage, "springfield", "one")
    assert said(run, "build-all", "--dry-run").exit_code == 0
    assert not (storage / "_all").exists()
    result = said(run, "build-all", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert (found["sites"], found["without_archive"], found["pages"]) == (["springfield"], ["shelbyville"], 1)
    assert rows(storage / "_all" / "meetings.db", "select municipality from minutes") == [("Springfield",)]
    archive_of(storage, "shelbyville", "two").write_bytes(b"rubbish")
    result = said(run, "build-all", "--output", str(tmp_path / "all.db"))
    assert result.exit_code == 1
    assert "shelbyville" in result.stdout


def test_the_command_rolls_back(run: CliRunner, connection: psycopg.Connection, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    add_site(connection)
    published = SiteVersions(storage / "_published", "springfield")
    nothing = said(run, "rollback", "springfield")
    assert nothing.exit_code == 1
    assert "no version before" in str(nothing.exception)
    for text in ("one", "two"):
        published.publish(archive_of(storage, "springfield", text), keep=5)
    newest = published.versions()[-1]
    connection.execute(
        "with run as (insert into pipeline_runs (subdomain, reason) values ('springfield', 'test') returning run_id)"
        " insert into publications (subdomain, run_id, content_hash, pages)"
        " select 'springfield', run_id, %s, 1 from run",
        [newest.content_hash],
    )
    listed = json.loads(said(run, "rollback", "springfield", "--list", "--json").stdout)
    assert [one["current"] for one in listed] == [False, True]
    assert said(run, "rollback", "springfield", "--dry-run").exit_code == 0
    assert published.current == newest
    assert said(run, "rollback", "springfield").exit_code == 0
    assert published.current == published.versions()[0]
    (withdrawn,) = connection.execute("select withdrawn_by from publications").fetchall()
    assert withdrawn[0].startswith("rolled back by")
    assert said(run, "rollback", "springfield", "--to", newest.name).exit_code == 0
    assert published.current == newest
    assert connection.execute("select withdrawn_by from publications").fetchall() == [(None,)]
    logged = connection.execute("select via, action, subdomain, detail ->> 'to' from operator_actions order by id")
    assert logged.fetchall() == [
        ("cli", "rollback", "springfield", published.versions()[0].name),
        ("cli", "rollback", "springfield", newest.name),
    ]
    assert isinstance(said(run, "rollback", "nowhere").exception, SiteNotFound)
