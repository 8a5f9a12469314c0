"""`clerk build-all` and `clerk rollback`."""

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
from tests.archive.helpers import SiteDocuments, add_site, is_intact, rows


def make_archive(root: Path, subdomain: str, *texts: str) -> Path:
    site = SiteDocuments(root, subdomain)
    site.add(*texts)
    compile_site(site.storage, select(site.storage, site.candidates.values()))
    database: Path = site.storage.database
    return database


def test_all_sites_are_in_one_database_even_with_the_same_pages(tmp_path: Path) -> None:
    for name in ("springfield", "shelbyville"):
        make_archive(tmp_path, name, "the same", "and more")
    output = tmp_path / "_all" / "meetings.db"
    sites = [("springfield", "Springfield"), ("shelbyville", "Shelbyville?#"), ("ogdenville", "Ogdenville")]
    result = build_all(tmp_path, sites, output)
    assert (result.sites, result.without_archive) == (["shelbyville", "springfield"], ["ogdenville"])
    assert rows(output, "select subdomain, municipality, page from minutes order by 1, 3") == [
        ("shelbyville", "Shelbyville?#", 1),
        ("shelbyville", "Shelbyville?#", 2),
        ("springfield", "Springfield", 1),
        ("springfield", "Springfield", 2),
    ]
    assert rows(output, "select count(*) from minutes_fts where minutes_fts match 'same'") == [(2,)]
    assert is_intact(output)
    second = build_all(tmp_path, reversed(sites), output)
    assert second.built is not None
    assert result.built is not None
    assert second.built.content_hash == result.built.content_hash


def test_a_damaged_site_is_reported_and_the_others_are_built(tmp_path: Path) -> None:
    make_archive(tmp_path, "springfield", "one")
    make_archive(tmp_path, "shelbyville", "two").write_bytes(b"rubbish" * 1000)
    output = tmp_path / "_all" / "meetings.db"
    result = build_all(tmp_path, [("springfield", "S"), ("shelbyville", "S"), ("a", "A")], output)
    assert list(result.damaged) == ["shelbyville"]
    assert rows(output, "select subdomain from minutes") == [("springfield",)]


@pytest.fixture
def runner(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    return CliRunner()


def invoke(runner: CliRunner, *words: str) -> Result:
    return runner.invoke(cli, words, catch_exceptions=True)


def test_the_command_builds_all(runner: CliRunner, connection: psycopg.Connection, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    for name in ("springfield", "shelbyville"):
        add_site(connection, name)
    make_archive(storage, "springfield", "one")
    assert invoke(runner, "build-all", "--dry-run").exit_code == 0
    assert not (storage / "_all").exists()
    result = invoke(runner, "build-all", "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["sites"], report["without_archive"], report["pages"]) == (["springfield"], ["shelbyville"], 1)
    assert rows(storage / "_all" / "meetings.db", "select municipality from minutes") == [("Springfield",)]
    make_archive(storage, "shelbyville", "two").write_bytes(b"rubbish")
    result = invoke(runner, "build-all", "--output", str(tmp_path / "all.db"))
    assert result.exit_code == 1
    assert "shelbyville" in result.stdout


def test_the_command_rolls_back(runner: CliRunner, connection: psycopg.Connection, tmp_path: Path) -> None:
    storage = tmp_path / "storage"
    add_site(connection)
    published = SiteVersions(storage / "_published", "springfield")
    refused = invoke(runner, "rollback", "springfield")
    assert refused.exit_code == 1
    assert "nothing of springfield has been published yet" in str(refused.exception)
    for text in ("one", "two"):
        published.publish(make_archive(storage, "springfield", text), keep=5)
    newest = published.versions()[-1]
    connection.execute(
        "with run as (insert into pipeline_runs (subdomain, reason) values ('springfield', 'test') returning run_id)"
        " insert into publications (subdomain, run_id, content_hash, pages)"
        " select 'springfield', run_id, %s, 1 from run",
        [newest.content_hash],
    )
    listed = json.loads(invoke(runner, "rollback", "springfield", "--list", "--json").stdout)
    assert [version["current"] for version in listed] == [False, True]
    assert invoke(runner, "rollback", "springfield", "--dry-run").exit_code == 0
    assert published.current == newest
    assert invoke(runner, "rollback", "springfield").exit_code == 0
    assert published.current == published.versions()[0]
    (withdrawn,) = connection.execute("select withdrawn_by from publications").fetchall()
    assert withdrawn[0].startswith("rolled back by")
    assert invoke(runner, "rollback", "springfield", "--to", newest.name).exit_code == 0
    assert published.current == newest
    assert connection.execute("select withdrawn_by from publications").fetchall() == [(None,)]
    logged = connection.execute("select via, action, subdomain, detail ->> 'to' from operator_actions order by id")
    assert logged.fetchall() == [
        ("cli", "rollback", "springfield", published.versions()[0].name),
        ("cli", "rollback", "springfield", newest.name),
    ]
    assert isinstance(invoke(runner, "rollback", "nowhere").exception, SiteNotFound)
