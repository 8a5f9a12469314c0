"""`clerk legacy cleanup`: its checks, what it removes, and that --undo restores all of it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.embedded.server import bundled
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import require_known_schema, verify_schema
from clerk.pipeline import engine
from clerk.reconcile.apply import reconcile
from tests.cli.conftest import Clerk
from tests.conftest import Databases, Url
from tests.db.conftest import older_server as older_server
from tests.db.legacy import BASELINES, Baseline
from tests.db.schema import rows as all_rows
from tests.db.schema import schema_lines, tables
from tests.engine.helpers import Connection, Worker, add_site, connect_worker, drain, next_job_of, one, rows, site
from tests.legacy.legacy_system import stuck_site

COLUMNS = {"status", "extraction_status", "last_updated", "last_deployed", "last_extracted"}


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    file = tmp_path / "clerk.dump"
    file.write_bytes(b"PGDMP and more")
    return file


def columns(connection: psycopg.Connection) -> set[str]:
    query = "select attname from pg_attribute where attrelid = 'sites'::regclass and attnum > 0 and not attisdropped"
    return {row[0] for row in connection.execute(query)}


@pytest.fixture(params=BASELINES, ids=lambda baseline: baseline.name)
def legacy_database(
    request: pytest.FixtureRequest,
    new_database: Callable[[], Url],
    folder: SqlFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[psycopg.Connection]:
    """A database of each legacy variant, migrated."""
    baseline: Baseline = request.param
    url = new_database()
    monkeypatch.setenv("DATABASE_URL", url)
    with connect_to(url) as connection:
        baseline.build(connection)
        Migrator(connection, folder).up()
        connection.execute("update site_progress set updated_at = '2024-05-01'")
        yield connection


DEPENDENT_OBJECTS = """
create index legacy_status on sites (status) where status <> 'new';
create index "Quoted, both" on sites (lower(last_updated), name);
comment on index legacy_status is 'with a '' quote';
create statistics legacy_statistics on status, scraper from sites;
comment on statistics legacy_statistics is 'dependent';
create table words (word varchar primary key);
insert into words select distinct status from sites where status is not null;
alter table sites
    add constraint legacy_check check (status is null or length(status) < 40) not valid,
    add constraint legacy_word foreign key (status) references words,
    add constraint legacy_pair unique (subdomain, last_extracted),
    alter column last_deployed type varchar(30) collate "C",
    alter column last_extracted set default '';
comment on constraint legacy_check on sites is 'short';
update sites set extraction_status = 'pending' where extraction_status is null;
alter table sites alter column extraction_status set not null;
comment on column sites.status is 'used by other programs';
grant select (status), update (status, last_updated) on sites to pg_monitor with grant option;
grant select (last_updated) on sites to public;
"""


def schema(url: Url) -> list[str]:
    """The lines of a schema dump, sorted: restored columns come last in the table."""
    command = [str(bundled(18) / "pg_dump"), "--schema-only", url]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted(line.rstrip(",") for line in dumped.splitlines() if not re.match(r"--|\\(un)?restrict ", line))


def test_clean_up_and_undo(
    legacy_database: psycopg.Connection, folder: SqlFolder, clerk_command: Clerk, backup: Path
) -> None:
    legacy_database.execute(DEPENDENT_OBJECTS.encode())
    url = os.environ["DATABASE_URL"]
    dumped, verified = schema(url), verify_schema(legacy_database, folder)
    legacy_tables = {"site_progress", "job_tracking"} & set(tables(legacy_database))
    before = (
        schema_lines(legacy_database, folder),
        {name: all_rows(legacy_database, name) for name in legacy_tables},
    )
    sites = all_rows(legacy_database, "sites")
    forced = [word for name in ("migrated", "stuck", "health", "repairs") for word in ("--force", name)]
    done = clerk_command("legacy", "cleanup", "--apply", "--backup", str(backup), *forced)
    assert done.code == 0, done
    assert not COLUMNS & columns(legacy_database)
    assert one(legacy_database, "select to_regclass('site_progress') is null and to_regclass('job_tracking') is null")
    triggers = "select string_agg(tgname, ' ') from pg_trigger where tgrelid = 'sites'::regclass and not tgisinternal"
    assert one(legacy_database, triggers) == "clerk_apply_weight"
    assert [check.name for check in verify_schema(legacy_database, folder) if not check.ok] == []
    require_known_schema(legacy_database, folder)
    assert Migrator(legacy_database, folder).up() == [], "db up does not restore them"
    assert json.loads(clerk_command("db", "status", "--json").out)["cleaned_up"] is True
    legacy_database.execute("insert into sites (subdomain) values ('newtown')")
    engine.start_run(legacy_database, "newtown")
    legacy_database.execute("delete from procrastinate_jobs")
    legacy_database.execute("delete from sites where subdomain = 'newtown'")

    assert clerk_command("legacy", "cleanup", "--undo").code == 0
    after = (
        schema_lines(legacy_database, folder),
        {name: all_rows(legacy_database, name) for name in legacy_tables},
    )
    assert after == before
    assert all_rows(legacy_database, "sites") == sites
    assert schema(url) == dumped
    assert verify_schema(legacy_database, folder) == verified
    logged = rows(
        legacy_database, "select action, via, detail -> 'overridden' from recent_actions where action like '%clean%'"
    )
    assert [row[:2] for row in logged] == [("undo clean-up", "cli"), ("clean up", "cli")]
    assert {"migrated", "repairs"} <= logged[1][2].keys()


def test_undo_on_an_older_postgres(older_server: Url, folder: SqlFolder) -> None:
    """In which not null is not a named constraint."""
    databases = Databases(older_server)
    try:
        url = databases.create()
        with connect_to(url) as connection:
            BASELINES[0].build(connection)
            migrator = Migrator(connection, folder)
            migrator.up()
            connection.execute(DEPENDENT_OBJECTS.encode())
            before = schema(url), all_rows(connection, "sites")
            assert migrator.clean_up(lambda: None)
            assert migrator.revert_cleanup(lambda: None)
            assert (schema(url), all_rows(connection, "sites")) == before
    finally:
        databases.drop_all()


def test_a_privilege_of_a_dropped_role_does_not_stop_the_undo(connection: Connection, folder: SqlFolder) -> None:
    role = f"reader_{os.getpid()}"
    connection.execute(f"create role {role}".encode())
    try:
        connection.execute(f"grant select (status) on sites to {role}, pg_monitor".encode())
        migrator = Migrator(connection, folder)
        migrator.clean_up(lambda: None)
    finally:
        connection.execute(f"drop role {role}".encode())
    assert migrator.revert_cleanup(lambda: None)
    assert one(connection, "select has_column_privilege('pg_monitor', 'sites', 'status', 'select')")


def test_migrating_down_to_0_restores_the_original_database(new_database: Callable[[], Url], folder: SqlFolder) -> None:
    with connect_to(new_database()) as connection:
        BASELINES[0].build(connection)
        before = schema_lines(connection, folder), all_rows(connection, "sites"), all_rows(connection, "site_progress")
        migrator = Migrator(connection, folder)
        migrator.up()
        assert migrator.clean_up(lambda: None)
        assert not migrator.clean_up(lambda: None), "once"
        assert str(migrator.plan_down(0)[0]) == "revert the legacy clean-up"
        assert not {"site_progress", "sites"} & migrator.data_loss(0).keys()
        migrator.down(0)
        assert (
            schema_lines(connection, folder),
            all_rows(connection, "sites"),
            all_rows(connection, "site_progress"),
        ) == before


def test_a_run_succeeds_without_the_legacy_columns(connection: Connection, folder: SqlFolder, database: Url) -> None:
    Migrator(connection, folder).clean_up(lambda: None)
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute(
        "insert into content_items (subdomain, kind, meeting, date) values ('town', 'minutes', 'Council', '2020-01-01')"
    )
    engine.start_run(connection, "town")
    with connect_worker(database, "worker") as executor:
        drain(executor)
    assert rows(connection, "select current_stage, outcome from sites") == [("completed", "succeeded")]


# --- changes between the clean-up and its undo ---------------------------------------------------------------


def run_jobs(executor: Worker, town: str, *failing: str, until_phase: int = 5) -> None:
    """Run the units and coordinators of the site's run, one per minute; those of the stages `failing` fail."""
    while (state := site(executor.connection, town))["phase"] < until_phase:
        job = next_job_of(executor, state["run_id"])
        tick(executor.connection)
        if job.is_unit:
            executor.finish(job, "failed" if job.queue in failing else "succeeded")
        else:
            executor.coordinate(job)


def tick(connection: Connection) -> None:
    connection.execute("select set_config('clerk.now', (clerk_now() + interval '1 minute')::text, false)")


def stop_in(phase: int, then: str = "select %s") -> Callable[[Worker, str], None]:
    def change(executor: Worker, town: str) -> None:
        run_jobs(executor, town, until_phase=phase)
        tick(executor.connection)
        executor.connection.execute(then.encode(), [town])

    return change


CHANGES: dict[str, Callable[[Worker, str], None]] = {
    "succeeds": run_jobs,
    "fails in fetch": lambda executor, town: run_jobs(executor, town, "fetch"),
    "fails in OCR": lambda executor, town: run_jobs(executor, town, "ocr"),
    "fails in extraction": lambda executor, town: run_jobs(executor, town, "extraction"),
    "fails in compilation": lambda executor, town: run_jobs(executor, town, "compilation"),
    "fails in deploy": lambda executor, town: run_jobs(executor, town, "deploy"),
    "is in fetch": stop_in(1),
    "is in OCR": stop_in(2),
    "is in extraction": stop_in(3),
    "is in deploy": stop_in(4),
    "is cancelled in OCR": stop_in(2, "select clerk_cancel_run(%s)"),
    "is cancelled in extraction": stop_in(3, "select clerk_cancel_run(%s)"),
    "is superseded": stop_in(4, "select clerk_start_run(%s, p_supersede => true)"),
}
LEGACY_COLUMNS = (
    "select subdomain, status, extraction_status, last_updated, last_deployed, last_extracted from sites order by 1"
)


def test_undo_writes_the_values_of_the_trigger_for_changed_sites(server: Url, template: str, folder: SqlFolder) -> None:
    """The same runs in two databases, in one of them with a clean-up before the last run."""
    databases, results = Databases(server), []
    try:
        for cleaned in (False, True):
            with connect_worker(databases.create(template), "worker") as executor:
                connection = executor.connection
                connection.execute("select set_config('clerk.now', '2030-01-01 12:00+00', false)")
                for change in CHANGES:
                    add_site(connection, change, documents=1)
                    add_site(connection, f"deployed, {change}", documents=1)
                    engine.start_run(connection, f"deployed, {change}")
                    run_jobs(executor, f"deployed, {change}")
                migrator = Migrator(connection, folder)
                assert not cleaned or migrator.clean_up(lambda: None)
                for change, apply in CHANGES.items():
                    for town in (change, f"deployed, {change}"):
                        tick(connection)
                        engine.start_run(connection, town)
                        apply(executor, town)
                assert not cleaned or migrator.revert_cleanup(lambda: None)
                results.append(rows(connection, LEGACY_COLUMNS))
    finally:
        databases.drop_all()
    assert len({row[1] for row in results[0]}) == 5, "every status that a run can leave"
    assert results[1] == results[0]


def test_undo_restores_the_exact_values_of_unchanged_sites(connection: Connection, folder: SqlFolder) -> None:
    connection.execute(
        "insert into sites (subdomain, status, last_updated, last_deployed) values"
        " ('unchanged', 'needs_ocr', 'yesterday', ''), ('removed', 'deployed', '', ''),"
        " ('old name', 'deployed', 'x', '')"
    )
    migrator = Migrator(connection, folder)
    migrator.clean_up(lambda: None)
    connection.execute("delete from sites where subdomain = 'removed'")
    connection.execute("update sites set subdomain = 'renamed' where subdomain = 'old name'")
    connection.execute("insert into sites (subdomain) values ('added'), ('removed')")
    migrator.revert_cleanup(lambda: None)
    assert rows(connection, "select subdomain, status, last_updated, last_deployed from sites order by 1") == [
        ("added", "new", None, None),
        ("removed", "new", None, None),
        ("renamed", "deployed", "x", ""),
        ("unchanged", "needs_ocr", "yesterday", ""),
    ]
    assert one(connection, "select extraction_status from sites where subdomain = 'added'") == "pending"


# --- the checks ----------------------------------------------------------------------------------------------


def add_reconciliations(
    connection: Connection, count: int, *, repaired: int = 4, failed: int = 9, of: str | None = None
) -> None:
    connection.execute(
        "insert into reconcile_runs (reconciliation, ended_at, subdomain, repaired, failed)"
        " select gen_random_uuid(), now(), %s, %s, %s from generate_series(1, %s)",
        [of, repaired, failed, count],
    )


def test_all_checks_hold_in_a_healthy_system(
    legacy_settings: None, connection: Connection, clerk_command: Clerk, backup: Path
) -> None:
    for _ in range(10):
        reconcile(connection, None)
    checked = clerk_command("legacy", "cleanup", "--check", "--backup", str(backup))
    assert checked.code == 0, checked
    assert checked.out.count("ok  ") == 7
    dry_run = clerk_command("legacy", "cleanup", "--apply", "--dry-run", "--backup", str(backup))
    assert (dry_run.code, "(dry run): Would remove status, " in dry_run.out) == (0, True)
    assert "Done" in clerk_command("legacy", "cleanup", "--apply", "--backup", str(backup)).out


def test_fewer_than_ten_reconciliations_do_not_hold(
    legacy_settings: None, connection: Connection, clerk_command: Clerk
) -> None:
    add_reconciliations(connection, 9, repaired=0)
    add_reconciliations(connection, 20, repaired=0, of="town")
    connection.execute("insert into reconcile_runs (reconciliation) values (gen_random_uuid())")
    output = clerk_command("legacy", "cleanup").out
    assert "NO   repairs        9 of the last 10 reconciliations on record, up to 0 repairs in one" in output


def test_only_successful_repairs_of_the_last_ten_reconciliations_count(
    legacy_settings: None, connection: Connection, clerk_command: Clerk
) -> None:
    add_reconciliations(connection, 1, repaired=50)
    connection.execute("update reconcile_runs set started_at = now() - interval '1 day'")
    add_reconciliations(connection, 10, repaired=4, failed=50)
    assert "ok   repairs        10 of the last 10 reconciliations on record, up to 4 repairs in one" in (
        clerk_command("legacy", "cleanup").out
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("stuck", "update sites set updated_at = now() - interval '1 day'"),
        ("health", "update sites set updated_at = now() - interval '1 day'"),
        ("migrated", "insert into sites (subdomain, status) values ('old', 'needs_ocr')"),
        ("repairs", "update reconcile_runs set repaired = 5"),
        ("repairs", "update reconcile_runs set abandoned = 1"),
        ("operators", "select clerk_cancel_run('town', 'test')"),
        ("operators", "select clerk_rewind('town', 'fetch')"),
        ("operators", "select clerk_start_run('town', p_supersede => true)"),
        ("operators", "update reconcile_runs set subdomain = 'town' where started_at < now() - interval '1 hour'"),
        (
            "site_progress",
            "insert into site_progress (subdomain, current_stage, updated_at) values ('x', 'ocr', now())",
        ),
        ("backup", None),
    ],
)
def test_each_check_can_refuse_and_be_overridden(
    legacy_settings: None, connection: Connection, clerk_command: Clerk, backup: Path, name: str, wrong: str | None
) -> None:
    stuck_site(connection, "quiet", "completed", "deployed")
    connection.execute("update site_progress set updated_at = '2024-01-01'")
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    add_reconciliations(connection, 1)
    connection.execute("update reconcile_runs set started_at = now() - interval '1 day'")
    add_reconciliations(connection, 10)
    arguments = ["legacy", "cleanup", "--apply", "--backup", str(backup)]
    if wrong is None:
        os.utime(backup, (time.time() - 90_000,) * 2)
    else:
        connection.execute(wrong.encode())
    refused = clerk_command(*arguments)
    assert refused.code == 1
    assert f"NO   {name} " in refused.out
    assert columns(connection) >= COLUMNS
    failed = [line.split()[1] for line in refused.out.splitlines() if line.startswith("NO")]
    others = [word for check in failed if check != name for word in ("--force", check)]
    as_json = clerk_command(*arguments, *others, "--json")
    assert as_json.code == 1
    assert f"is not safe yet ({name})" in as_json.err
    output = json.loads(as_json.out)
    assert (output["cleaned_up"], output["refused"]) == (False, [name])
    assert [check["name"] for check in output["checks"] if not check["holds"]] == failed
    assert clerk_command(*arguments, *others, "--force", name).code == 0
    assert name in one(connection, "select detail -> 'overridden' from operator_actions where action = 'clean up'")
    assert not COLUMNS & columns(connection)


def test_operator_actions_count_for_seven_days(
    legacy_settings: None, connection: Connection, clerk_command: Clerk
) -> None:
    connection.execute("insert into operator_actions (action) values ('pause'), ('resume'), ('clean up')")
    connection.execute("insert into operator_actions (action, at) values ('retry', now() - interval '8 days')")
    assert "ok   operators " in clerk_command("legacy", "cleanup").out


@pytest.mark.parametrize("content", [b"PGDMP", b"toc.dat\0", b"-- PostgreSQL", b"\x1f\x8b", None])
def test_accepted_backup_files(
    legacy_settings: None, clerk_command: Clerk, backup: Path, content: bytes | None
) -> None:
    if content is None:
        backup.unlink()
        backup.mkdir()
        (backup / "toc.dat").write_bytes(b"PGDMP")
    else:
        backup.write_bytes(content)
    assert "ok   backup" in clerk_command("legacy", "cleanup", "--backup", str(backup)).out


@pytest.mark.parametrize("content", [None, b"", b"hello"])
def test_rejected_backup_files(
    legacy_settings: None, clerk_command: Clerk, backup: Path, content: bytes | None
) -> None:
    if content is None:
        backup.unlink()
    else:
        backup.write_bytes(content)
    assert "NO   backup" in clerk_command("legacy", "cleanup", "--backup", str(backup)).out


def test_an_unknown_check_cannot_be_overridden(legacy_settings: None, clerk_command: Clerk) -> None:
    assert clerk_command("legacy", "cleanup", "--apply", "--force", "everything").code == 2


# --- dry run, and other commands afterwards -------------------------------------------------------------------


def test_the_dry_run_of_undo_shows_what_would_be_restored(
    legacy_settings: None, connection: Connection, folder: SqlFolder, clerk_command: Clerk
) -> None:
    assert "Nothing was done" in clerk_command("legacy", "cleanup", "--undo", "--dry-run").out
    stuck_site(connection, "quiet", "completed", "deployed")
    connection.execute("insert into sites (subdomain) values ('town')")
    Migrator(connection, folder).clean_up(lambda: None)
    engine.start_run(connection, "town")
    assert clerk_command("legacy", "cleanup", "--undo", "--dry-run").out == (
        "planned, not done (dry run): Would restore site_progress (1 row), status, extraction_status, last_updated,"
        " last_deployed, last_extracted of 2 sites; new values for 1 changed site.\n"
    )
    output = json.loads(clerk_command("legacy", "cleanup", "--undo", "--dry-run", "--json").out)
    assert (output["cleaned_up"], output["tables"], output["sites"], output["changed_sites"]) == (
        True,
        {"site_progress": 1},
        2,
        1,
    )
    assert not COLUMNS & columns(connection)


@pytest.mark.usefixtures("legacy_settings", "legacy_rq")
def test_other_legacy_commands_refuse_after_the_clean_up(
    connection: Connection, folder: SqlFolder, clerk_command: Clerk
) -> None:
    Migrator(connection, folder).clean_up(lambda: None)
    for command in (["migrate-stuck-sites"], ["migrate-stuck-sites", "--dry-run"], ["legacy", "redis"]):
        refused = clerk_command(*command)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.count("\n") == 1
        assert "so there is nothing to import" in refused.err
