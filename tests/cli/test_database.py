"""`clerk db …`, `clerk verify` and `clerk config`, as a person or a program meets them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.procrastinate_schema import package_version
from clerk.db.migrations.sqlfiles import SqlFolder
from tests.cli.conftest import Clerk
from tests.conftest import Url


@pytest.fixture
def empty(new_database: Callable[[], Url], monkeypatch: pytest.MonkeyPatch) -> Url:
    """DATABASE_URL names an empty database."""
    url = new_database()
    monkeypatch.setenv("DATABASE_URL", url)
    return url


@pytest.fixture
def migrated(database: Url, monkeypatch: pytest.MonkeyPatch) -> Url:
    monkeypatch.setenv("DATABASE_URL", database)
    return database


def run(url: Url, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_from_nothing_to_the_top_and_back(clerk_command: Clerk, empty: Url, folder: SqlFolder) -> None:
    rehearsal = clerk_command("db", "up", "--dry-run")
    assert rehearsal.code == 0
    assert rehearsal.out.endswith("Nothing was done.\n")
    assert "is empty" in clerk_command("db", "status").out

    done = clerk_command("db", "up")
    assert done.code == 0
    assert done.out == rehearsal.out.replace("Nothing was done.", "Done.")
    assert f"applying {folder.migrations[0].name}" in done.err, "progress does not mix with what is piped"
    assert clerk_command("db", "up").out == "The database is up to date.\n"

    shown = json.loads(clerk_command("db", "status", "--json").out)
    assert shown["version"] == shown["newest"] == folder.newest
    assert shown["procrastinate"] == str(package_version())
    assert shown["pending"] == []
    assert all(migration["applied"] for migration in shown["migrations"])

    run(empty, "insert into sites (subdomain) values ('springfield')")
    rehearsal = clerk_command("db", "down", "--to", "0", "--dry-run")
    assert "1 rows of sites" in rehearsal.err
    refused = clerk_command("db", "down", "--to", "0")
    assert refused.code == 1
    assert "would delete 1 rows of sites" in refused.err
    assert "add --yes if that is meant" in refused.err
    taken_back = clerk_command("db", "down", "--to", "0", "--yes")
    assert taken_back.code == 0
    assert "note: " not in done.err + taken_back.err, "Postgres itself has much to say that is nobody's business"
    assert "is empty" in clerk_command("db", "status").out
    assert clerk_command("db", "down").out == "There is nothing to revert.\n"


def test_down_takes_back_the_newest(clerk_command: Clerk, migrated: Url, folder: SqlFolder) -> None:
    newest = folder.migrations[-1].name
    planned = clerk_command("db", "down", "--json", "--dry-run")
    assert json.loads(planned.out) == {"steps": [{"action": "revert", "what": newest}]}
    assert clerk_command("db", "down", "--yes").code == 0
    pending = json.loads(clerk_command("db", "plan", "--json").out)["steps"]
    assert {"action": "apply", "what": newest} in pending
    assert "run: clerk db up" in clerk_command("db", "plan").out


def test_a_foreign_database(clerk_command: Clerk, empty: Url) -> None:
    run(empty, "create table theirs (id int)")
    refused = clerk_command("db", "up")
    assert refused.code == 1
    assert "holds tables of another application (theirs)" in refused.err
    assert "is of something else" in clerk_command("db", "status").out
    assert json.loads(clerk_command("db", "status", "--json").out)["database"] == "foreign"


def test_status_of_a_database_that_is_not_migrated(clerk_command: Clerk, empty: Url) -> None:
    refused = clerk_command("status")
    assert refused.code == 1
    assert 'it has not been migrated): run "clerk db up"' in refused.err


def test_a_database_of_yours_is_migrated_by_nothing_else(clerk_command: Clerk, empty: Url) -> None:
    """One of clerk's own is, when the first site is added: the quick start does so."""
    refused = clerk_command("site", "add", "springfield")
    assert refused.code == 1
    assert 'it has not been migrated): run "clerk db up"' in refused.err


def test_verify_says_ok(clerk_command: Clerk, migrated: Url) -> None:
    for arguments in (["db", "verify"], ["verify", "--schema"]):
        assert clerk_command(*arguments).code == 0
        found = json.loads(clerk_command(*arguments, "--json").out)
        assert found["ok"] is True
        assert {check["name"] for check in found["checks"]} >= {"tables", "functions", "ledger_key"}
        assert all(check["ok"] and check["problems"] == [] for check in found["checks"])


def test_verify_names_what_is_wrong_with_exit_code_1(clerk_command: Clerk, migrated: Url) -> None:
    run(migrated, "drop index idx_cips_updated_at")
    plain = clerk_command("db", "verify")
    assert plain.code == 1
    assert "WRONG  indexes" in plain.out
    outcome = clerk_command("verify", "--schema", "--json")
    assert outcome.code == 1
    found = json.loads(outcome.out)
    assert found["ok"] is False
    wrong = [check for check in found["checks"] if not check["ok"]]
    assert [check["name"] for check in wrong] == ["indexes"]
    assert "idx_cips_updated_at" in wrong[0]["problems"][0]


def test_verify_can_migrate_first(clerk_command: Clerk, empty: Url) -> None:
    assert clerk_command("db", "verify").code == 1
    outcome = clerk_command("db", "verify", "--apply-migration", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["ok"] is True


def test_snapshot_prints_what_is_committed(clerk_command: Clerk, migrated: Url, folder: SqlFolder) -> None:
    assert clerk_command("db", "snapshot").out == folder.read(schema_snapshot.FILE)


def test_config_shows_origins_and_no_passwords(
    clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("DATABASE_URL=postgres://me:s3cret@db/clerk?sslpassword=s3cret\n")
    monkeypatch.setenv("CLERK_LOCK_TIMEOUT", "5")
    plain, as_json = clerk_command("config"), clerk_command("config", "--json")
    assert "s3cret" not in plain.out + as_json.out
    shown = {row["name"]: (row["value"], row["origin"]) for row in json.loads(as_json.out)}
    assert shown["DATABASE_URL"] == ("postgresql://me:***@db/clerk?sslpassword=***", str(tmp_path / ".env"))
    assert shown["CLERK_LOCK_TIMEOUT"] == ("5.0", "environment")
    assert shown["CLERK_HOME"] == (str(tmp_path / ".clerk"), "default")


def test_commands_of_the_embedded_server_refuse_another_one(clerk_command: Clerk, migrated: Url) -> None:
    for arguments in (["db", "start"], ["db", "stop"], ["db", "start", "--dry-run"]):
        refused = clerk_command(*arguments)
        assert refused.code == 2
        assert "DATABASE_URL is set, so there is no embedded Postgres" in refused.err
    assert clerk_command("db", "url").out == f"{migrated}\n"
    assert json.loads(clerk_command("db", "url", "--json").out) == {"url": migrated}


def test_the_embedded_server_from_start_to_stop(
    clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLERK_POSTGRES_IDLE_TIMEOUT", "0.5")
    assert clerk_command("db", "stop").out == "No embedded Postgres is running here.\n"
    assert clerk_command("db", "start", "--dry-run").out == f"Would start the embedded Postgres in {tmp_path}/.clerk.\n"
    assert not (tmp_path / ".clerk").exists(), "a dry run makes nothing"
    try:
        started = clerk_command("db", "start")
        assert started.code == 0, started
        url = clerk_command("db", "url").out.strip()
        assert started.out == f"The embedded Postgres runs: {url}\n"
        assert "Would keep up" in clerk_command("db", "start", "--dry-run").out
        assert clerk_command("db", "up").code == 0
        assert clerk_command("status").out.startswith("0 sites. Add one with")
        assert "Would stop" in clerk_command("db", "stop", "--dry-run").out
    finally:
        assert clerk_command("db", "stop", "--force").out == "The embedded Postgres has stopped.\n"
