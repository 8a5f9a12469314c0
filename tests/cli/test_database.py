"""`clerk db` and `clerk config`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from clerk.db.connection import connect_to
from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.procrastinate_schema import package_version
from clerk.db.migrations.sqlfiles import SqlFolder
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.db.legacy import ALEMBIC, CREATE_ALL, RAW_SCRIPT, Baseline
from tests.db.schema import schema_lines


@pytest.fixture
def empty(new_database: Callable[[], Url], monkeypatch: pytest.MonkeyPatch) -> Url:
    """DATABASE_URL is an empty database."""
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


def test_up_summarizes_grants(clerk_command: Clerk, migrated: Url) -> None:
    """As after an administrator has created the roles: one statement for each table and view."""
    run(migrated, "revoke select on all tables in schema public from clerk_worker")
    plan = clerk_command("db", "up", "--dry-run").out.splitlines()[0]
    assert re.fullmatch(r"  execute \d+ statements \(--verbose lists them\)", plan)


def test_up_and_down_from_an_empty_database(clerk_command: Clerk, empty: Url, folder: SqlFolder) -> None:
    dry_run = clerk_command("db", "up", "--dry-run")
    assert dry_run.code == 0
    assert dry_run.out.endswith("Nothing was done.\n")
    assert "is empty" in clerk_command("db", "status").out

    listed = clerk_command("db", "up", "--dry-run", "--verbose").out
    assert len(listed.splitlines()) > 200
    assert f"  apply {folder.migrations[0].name}\n" in listed

    done = clerk_command("db", "up")
    assert done.code == 0
    plan, summary = done.out.splitlines()
    assert plan == dry_run.out.splitlines()[0]
    assert f"apply {folder.newest} migrations, create " in plan
    assert re.fullmatch(rf"The database is at migration {folder.newest:04}, after \d+\.\d s\.", summary)
    assert done.err == f"applying {folder.newest} migrations …\n", "progress is printed to standard error"
    assert clerk_command("db", "up").out == "The database is up to date.\n"

    result = json.loads(clerk_command("db", "status", "--json").out)
    assert result["version"] == result["newest"] == folder.newest
    assert result["procrastinate"] == str(package_version())
    assert result["pending"] == []
    assert all(migration["applied"] for migration in result["migrations"])

    run(empty, "insert into sites (subdomain) values ('springfield')")
    dry_run = clerk_command("db", "down", "--to", "0", "--dry-run")
    assert "1 row of sites" in dry_run.err
    result = clerk_command("db", "down", "--to", "0")
    assert result.code == 1
    assert "would delete 1 row of sites" in result.err
    assert "add --yes to delete them" in result.err
    taken_back = clerk_command("db", "down", "--to", "0", "--yes")
    assert taken_back.code == 0
    assert "note: " not in done.err + taken_back.err, "notices of Postgres are not printed"
    assert "is empty" in clerk_command("db", "status").out
    assert clerk_command("db", "down").out == "There is no migration to revert.\n"


@pytest.mark.parametrize("baseline", [ALEMBIC, CREATE_ALL, RAW_SCRIPT], ids=lambda baseline: baseline.name)
def test_up_verify_and_down_of_a_legacy_database(
    clerk_command: Clerk, empty: Url, folder: SqlFolder, baseline: Baseline
) -> None:
    with connect_to(empty) as connection:
        baseline.build(connection)
        before = schema_lines(connection, folder)
        assert clerk_command("db", "up").code == 0
        verified = clerk_command("db", "verify")
        assert verified.code == 0, verified.out
        index = connection.execute("select pg_get_indexdef('idx_sites_coordinator_enqueued'::regclass)").fetchone()
        assert index is not None
        assert index[0].endswith("(subdomain, coordinator_enqueued) WHERE (coordinator_enqueued = false)")
        assert clerk_command("db", "down", "--to", "0", "--yes").code == 0
        assert schema_lines(connection, folder) == before


def test_a_database_with_the_earlier_index_gets_the_documented_one(
    clerk_command: Clerk, migrated: Url, folder: SqlFolder
) -> None:
    earlier = "(coordinator_enqueued) WHERE (coordinator_enqueued = false)"
    with connect_to(migrated) as connection:
        assert clerk_command("db", "down", "--to", "20", "--yes").code == 0
        index = connection.execute("select pg_get_indexdef('idx_sites_coordinator_enqueued'::regclass)").fetchone()
        assert index is not None
        assert index[0].endswith(earlier)
    assert clerk_command("db", "up").code == 0
    assert clerk_command("db", "verify").code == 0


def test_the_keyword_form_of_libpq(clerk_command: Clerk, migrated: Url, monkeypatch: pytest.MonkeyPatch) -> None:
    keywords = make_conninfo("", **{key: str(value) for key, value in conninfo_to_dict(migrated).items()})
    assert "://" not in keywords
    monkeypatch.setenv("DATABASE_URL", keywords)
    assert clerk_command("db", "verify").code == 0
    assert clerk_command("config").code == 0


def test_down_reverts_the_newest_migration(clerk_command: Clerk, migrated: Url, folder: SqlFolder) -> None:
    newest = folder.migrations[-1].name
    planned = clerk_command("db", "down", "--json", "--dry-run")
    assert json.loads(planned.out) == {"steps": [{"action": "revert", "what": newest}]}
    assert clerk_command("db", "down", "--yes").code == 0
    pending = json.loads(clerk_command("db", "up", "--dry-run", "--json").out)["steps"]
    assert {"action": "apply", "what": newest} in pending


def test_a_foreign_database(clerk_command: Clerk, empty: Url) -> None:
    run(empty, "create table theirs (id int)")
    result = clerk_command("db", "up")
    assert result.code == 1
    assert "holds tables of another application (theirs)" in result.err
    assert "belongs to another application" in clerk_command("db", "status").out
    assert json.loads(clerk_command("db", "status", "--json").out)["database"] == "foreign"


def test_status_of_a_database_that_is_not_migrated(clerk_command: Clerk, empty: Url) -> None:
    result = clerk_command("status")
    assert result.code == 1
    assert 'it has not been migrated): run "clerk db up"' in result.err


def test_other_commands_do_not_migrate_a_given_database(clerk_command: Clerk, empty: Url) -> None:
    """The embedded database is migrated when the first site is added."""
    result = clerk_command("site", "add", "springfield", "--scraper", "legistar", "--client", "x")
    assert result.code == 1
    assert 'it has not been migrated): run "clerk db up"' in result.err


def test_verify_of_a_correct_schema(clerk_command: Clerk, migrated: Url) -> None:
    assert clerk_command("db", "verify").code == 0
    report = json.loads(clerk_command("db", "verify", "--json").out)
    assert report["ok"] is True
    assert {check["name"] for check in report["checks"]} >= {"tables", "functions", "ledger_key"}
    assert all(check["ok"] and check["problems"] == [] for check in report["checks"])


def test_verify_reports_a_difference_with_exit_code_1(clerk_command: Clerk, migrated: Url) -> None:
    run(migrated, "drop index idx_cips_updated_at")
    plain = clerk_command("db", "verify")
    assert plain.code == 1
    assert "WRONG  indexes" in plain.out
    outcome = clerk_command("db", "verify", "--json")
    assert outcome.code == 1
    report = json.loads(outcome.out)
    assert report["ok"] is False
    wrong = [check for check in report["checks"] if not check["ok"]]
    assert [check["name"] for check in wrong] == ["indexes"]
    assert "idx_cips_updated_at" in wrong[0]["problems"][0]


def test_verify_can_migrate_first(clerk_command: Clerk, empty: Url) -> None:
    assert clerk_command("db", "verify").code == 1
    outcome = clerk_command("db", "verify", "--apply-migration", "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out)["ok"] is True


def test_snapshot_prints_the_committed_schema(clerk_command: Clerk, migrated: Url, folder: SqlFolder) -> None:
    assert clerk_command("db", "snapshot").out == folder.read(schema_snapshot.FILE)


def test_config_shows_origins_and_no_passwords(
    clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("DATABASE_URL=postgres://me:s3cret@db/clerk?sslpassword=s3cret\n")
    monkeypatch.setenv("CLERK_LOCK_TIMEOUT", "5")
    plain, as_json = clerk_command("config"), clerk_command("config", "--json")
    assert "s3cret" not in plain.out + as_json.out
    result = {row["name"]: (row["value"], row["origin"]) for row in json.loads(as_json.out)}
    assert result["DATABASE_URL"] == ("postgresql://me:***@db/clerk?sslpassword=***", str(tmp_path / ".env"))
    assert result["CLERK_LOCK_TIMEOUT"] == ("5.0", "environment")
    assert result["CLERK_HOME"] == (str(tmp_path / ".clerk"), "default")


def test_config_warns_if_robots_txt_is_ignored_and_asks_for_a_contact(
    clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    polite = clerk_command("config")
    assert "Hint: set CLERK_CONTACT" in polite.err
    assert "Warning" not in polite.err
    monkeypatch.setenv("CLERK_CONTACT", "me@example.org")
    monkeypatch.setenv("CLERK_ROBOTS", "ignore")
    careless = clerk_command("config")
    assert "Hint" not in careless.err
    assert "Warning: CLERK_ROBOTS=ignore" in careless.err


def test_start_and_stop_need_the_embedded_server(clerk_command: Clerk, migrated: Url) -> None:
    for arguments in (["db", "start"], ["db", "stop"], ["db", "start", "--dry-run"]):
        result = clerk_command(*arguments)
        assert result.code == 2
        assert "DATABASE_URL is set, so there is no embedded Postgres" in result.err
    assert clerk_command("db", "url").out == f"{migrated}\n"
    assert json.loads(clerk_command("db", "url", "--json").out) == {"url": migrated}


def test_start_and_stop_the_embedded_server(
    clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLERK_POSTGRES_IDLE_TIMEOUT", "0.5")
    assert clerk_command("db", "stop").out == "No embedded Postgres is running here.\n"
    assert clerk_command("db", "start", "--dry-run").out == f"Would start the embedded Postgres in {tmp_path}/.clerk.\n"
    assert not (tmp_path / ".clerk").exists(), "a dry run creates nothing"
    try:
        started = clerk_command("db", "start")
        assert started.code == 0, started
        url = clerk_command("db", "url").out.strip()
        assert started.out == f"The embedded Postgres is running: {url}\n"
        assert "Would keep" in clerk_command("db", "start", "--dry-run").out
        assert clerk_command("db", "up").code == 0
        assert clerk_command("status").out.startswith("0 sites. Add one with")
        assert "Would stop" in clerk_command("db", "stop", "--dry-run").out
    finally:
        assert clerk_command("db", "stop", "--force").out == "The embedded Postgres has stopped.\n"


def test_up_names_what_the_read_only_role_has_created(clerk_command: Clerk, empty: Url) -> None:
    """The operator changes the meaning of clerk's queries, and migrating does not drop it."""
    assert clerk_command("db", "up").code == 0
    with connect_to(empty) as connection:
        connection.execute("grant create on schema public to public; set role clerk_dashboard")
        connection.execute("""
            create function public.planted(procrastinate_job_status, procrastinate_job_status) returns boolean
            language sql as 'select true';
            create operator public.= (
                leftarg = procrastinate_job_status, rightarg = procrastinate_job_status, function = public.planted)
        """)
    done = clerk_command("db", "up", "--verbose")
    assert done.code == 0
    assert "revoke create on schema public from public" in done.out
    operator = "operator public.=(public.procrastinate_job_status,public.procrastinate_job_status)"
    assert f"note: {operator} belongs to clerk_dashboard" in done.err
    verified = clerk_command("db", "verify")
    assert verified.code == 1
    assert f'run "drop {operator}"' in " ".join(verified.out.split())
