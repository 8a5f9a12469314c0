"""Each check of the database in its failing state, and `clerk doctor` itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from clerk import config
from clerk.doctor import database_checks
from clerk.doctor.finding import Finding, run_check
from clerk.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNKNOWN
from tests.cli.conftest import Clerk, clerk_command  # noqa: F401 (fixture)
from tests.conftest import Url
from tests.engine.helpers import add_site

Check = Callable[..., dict[str, Finding]]


@pytest.fixture
def check(database: Url, tmp_path: Path) -> Check:
    """Makes all checks of the database. Returns those that are not ok, by name."""

    def run(**environ: str) -> dict[str, Finding]:
        settings = config.load({"DATABASE_URL": database, **environ}, tmp_path)
        findings = database_checks.check_database(settings)
        assert len({finding.name for finding in findings}) == len(findings) == 9
        return {finding.name: finding for finding in findings if finding.status != "ok"}

    return run


def test_each_check_in_its_failing_state(check: Check, connection: psycopg.Connection) -> None:
    assert check() == {}
    add_site(connection)

    connection.execute("""update sites set extra = '{"languages": "eng+tlh"}'""")
    connection.execute("update content_items set sha256 = repeat('a', 64)")
    connection.execute("update stage_policy set time_limit = '1 hour' where stage = 'fetch'")
    connection.execute("grant create on schema public to public")
    connection.execute("drop view due_sites")
    found = check()
    assert {name: finding.status for name, finding in found.items()} == dict.fromkeys(
        ("languages", "storage", "limits", "privileges", "schema"), "problem"
    )
    assert found["languages"].remedy == "on Debian: apt install tesseract-ocr-tlh"
    assert "has no folder of any site" in found["storage"].what
    assert found["limits"].what.startswith("CLERK_RUN_HOURS is 1.5, and the job of a fetch is aborted after 60 min")
    assert 'run "revoke create on schema public from public"' in (found["privileges"].remedy or "")
    assert "due_sites" in found["schema"].what
    assert found["schema"].remedy == "run: clerk db up; `clerk db verify` lists all differences"


def test_roles(connection: psycopg.Connection) -> None:
    connection.execute("set role clerk_dashboard")
    found = database_checks.check_roles(connection)
    assert (
        found.what == "the database user clerk_dashboard may not run workers (missing: select on clerk_schema_objects)"
    )
    assert found.remedy == 'as the owner of the database, run "grant clerk_worker to clerk_dashboard" in psql'
    connection.execute("reset role")
    assert database_checks.check_roles(connection).status == "ok"


def test_privileges_of_workers(connection: psycopg.Connection) -> None:
    """Each table, view, sequence and function that workers use, not only the tables of sites and documents."""
    add_site(connection)
    runs = connection.execute("select count(*) from pipeline_runs").fetchone()

    def check(user: str = "clerk_worker") -> Finding:
        connection.execute(sql.SQL("set role {}").format(sql.Identifier(user)))
        found = database_checks.check_roles(connection)
        connection.execute("reset role")
        return found

    assert check().status == "ok"
    assert connection.execute("select count(*) from pipeline_runs").fetchone() == runs, "the run was rolled back"
    for object_name, privilege in (
        ("job_errors", "insert"),
        ("due_sites", "select"),
        ("sequence procrastinate_events_id_seq", "usage"),
        ("function clerk_delete_old_records", "execute"),
    ):
        target = sql.SQL(object_name)
        connection.execute(sql.SQL("revoke {} on {} from clerk_worker").format(sql.SQL(privilege), target))
        found = check()
        assert found.what.startswith(
            f"the database user clerk_worker may not run workers (missing: {privilege} on {object_name.split()[-1]}"
        )
        assert found.remedy == "as the owner of the database, run: clerk db up"
        connection.execute(sql.SQL("grant {} on {} to clerk_worker").format(sql.SQL(privilege), target))
    connection.execute("revoke select on all tables in schema public from clerk_worker")
    connection.execute("grant select on clerk_schema_objects to clerk_worker")
    assert check().what.endswith(" more)")


def test_a_statement_of_workers_that_is_refused(connection: psycopg.Connection) -> None:
    """As the scheduler was, when it locked rows of a view, which nothing grants."""
    connection.execute("""
        create or replace function clerk_start_next_due_site(p_reason text default 'scheduled') returns text
        language plpgsql set search_path = public, pg_temp as $$
        begin
            perform d.subdomain from due_sites d limit 1 for no key update skip locked;
            return null;
        end $$
    """)
    connection.execute("set role clerk_worker")
    found = database_checks.check_roles(connection)
    assert found.what == (
        "the database user clerk_worker has the privileges of a worker, and cannot start runs"
        " (permission denied for view due_sites)"
    )
    assert "clerk db up" in (found.remedy or "")


def test_the_clock(connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    assert database_checks.check_clock(connection).status == "ok"

    class Fast(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Fast:
            return cls.fromtimestamp(datetime.now(tz).timestamp(), tz) + timedelta(minutes=3, seconds=30)

    monkeypatch.setattr(database_checks, "datetime", Fast)
    found = database_checks.check_clock(connection)
    assert found.what == "this machine's clock is 3 min ahead of the database's"
    assert "timedatectl set-ntp true" in (found.remedy or "")


def test_a_pooler_of_another_database(check: Check, database: Url, new_database: Callable[[], Url]) -> None:
    found = check(DATABASE_URL=new_database(), CLERK_DIRECT_DATABASE_URL=database)
    assert list(found) == ["pooler"]
    assert "lead to different databases" in found["pooler"].what


def test_databases_that_are_not_migrated(check: Check, new_database: Callable[[], Url]) -> None:
    url = new_database()
    found = check(DATABASE_URL=url)
    assert found["schema"].what == "this database has not been migrated"
    assert (found["roles"].status, found["languages"].status) == ("unknown", "unknown")
    with psycopg.connect(url) as connection:
        connection.execute("create table invoices ()")
    assert "belongs to another application" in check(DATABASE_URL=url)["schema"].what


def test_a_database_that_cannot_be_reached(check: Check) -> None:
    found = check(DATABASE_URL="postgresql://me:s3cret@127.0.0.1:1/clerk")
    assert found["database"].status == "problem"
    assert "s3cret" not in found["database"].what
    assert {finding.status for finding in found.values()} == {"problem", "unknown"}


def test_a_check_that_takes_too_long_is_unknown(database: Url, connection: psycopg.Connection) -> None:
    connection.execute("set statement_timeout = 1")
    with psycopg.connect(database) as locking:
        locking.execute("lock table stage_policy in access exclusive mode")
        settings = config.load({"DATABASE_URL": database})
        found = run_check("limits", lambda: database_checks.check_limits(settings, connection))
    assert (found.status, found.what) == ("unknown", "not checked: the database has not answered in time")


@pytest.mark.usefixtures("clerk_command")
def test_the_command(clerk_command: Clerk, database: Url, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:  # noqa: F811
    """Exit code 0, 1 or 3; the sandbox depends on the kernel of the machine that runs the tests."""
    monkeypatch.setattr("clerk.ocr.restrictions.find_problem", lambda: None)
    result = clerk_command("doctor")
    assert (result.code, result.err) == (EXIT_OK, "")
    assert "none yet; `clerk up` creates one" in result.out
    assert result.out.endswith("\nThis machine and the database are in order.\n")
    assert list(tmp_path.iterdir()) == [], "no database was created"

    monkeypatch.setenv("DATABASE_URL", database)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("insert into sites (subdomain, paused_at, paused_by) values ('town', now(), 'me')")
    result = clerk_command("doctor")
    assert result.code == EXIT_OK
    assert result.out.endswith("are in order.\nThe pipeline: 1 problem, see `clerk status`.\n")
    monkeypatch.setenv("CLERK_KEEP_VERSION", "3")
    result = clerk_command("doctor")
    assert result.code == EXIT_FAILURE
    assert "PROBLEM  settings" in result.out
    assert "→ rename it to CLERK_KEEP_VERSIONS\n" in result.out
    assert "\n1 problem.\n" in result.out
    report = json.loads(clerk_command("doctor", "--json").out)
    assert report["ok"] is False
    assert report["checks"][0]["remedy"] == "rename it to CLERK_KEEP_VERSIONS"

    monkeypatch.delenv("CLERK_KEEP_VERSION")
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(sql.SQL("alter table stage_policy rename column time_limit to other"))
    monkeypatch.setattr(database_checks, "verify_schema", lambda *_: [])
    result = clerk_command("doctor")
    assert result.code == EXIT_UNKNOWN
    assert "?   limits" in result.out
    assert "\n1 check could not be made.\n" in result.out

    monkeypatch.setenv("CLERK_OCR_DPI", "many")
    result = clerk_command("doctor")
    assert result.code == EXIT_FAILURE
    assert "not checked: the settings are invalid" in result.out
