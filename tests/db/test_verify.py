"""Every check of `verify` reports the damage that it is for."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.embedded.server import bundled
from clerk.db.migrations import procrastinate_schema
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.db.migrations.verify import Check, require_known_schema, require_triggers, verify_schema
from clerk.errors import SchemaMismatch

ALL_CHECKS = [
    "migrations", "types", "tables", "columns", "constraints", "indexes", "views", "triggers",
    "functions", "procrastinate", "privileges", "ledger_key", "ledger_status",
]  # fmt: skip

UNIT = """
    insert into sites (subdomain) values ('springfield');
    insert into content_items (subdomain, kind) values ('springfield', 'archive');
"""
DAMAGES = [
    (
        "drop table reconcile_log cascade",
        {"tables", "columns", "constraints", "indexes", "views", "functions"},
        "create table reconcile_log",
    ),
    ("alter table content_items drop column etag", {"columns"}, "content_items add column etag text"),
    ("alter table sites alter column ocr_total drop not null", {"columns"}, "ocr_total integer not null"),
    ("alter table sites alter column ocr_total drop default", {"columns"}, "default 0"),
    ("alter table sites drop constraint sites_outcome_check", {"constraints"}, "sites_outcome_check"),
    ("alter table pipeline_runs drop constraint pipeline_runs_subdomain_fkey", {"constraints"}, "references sites"),
    ("drop index idx_sites_updated_at", {"indexes"}, "idx_sites_updated_at"),
    (
        "update pg_index set indisvalid = false where indexrelid = 'idx_sites_updated_at'::regclass",
        {"indexes"},
        "idx_sites_updated_at",
    ),
    ("drop view queue_backlog", {"views", "functions"}, "queue_backlog"),
    ("drop view queue_backlog; create view queue_backlog as select 1 as queue", {"views"}, "queue_backlog"),
    ("alter type procrastinate_job_status add value 'sleeping'", {"types"}, "procrastinate_job_status"),
    ("alter table procrastinate_jobs disable trigger clerk_fence", {"triggers", "functions"}, "clerk_fence"),
    ("alter table procrastinate_jobs enable replica trigger clerk_fence", {"triggers", "functions"}, "clerk_fence"),
    ("drop trigger clerk_fence on procrastinate_jobs", {"triggers", "functions"}, "clerk_fence"),
    (
        "alter table procrastinate_jobs enable trigger procrastinate_trigger_status_events_update_v1",
        {"triggers", "functions"},
        "trigger procrastinate_trigger_status_events_update_v1 is enabled, but clerk needs it disabled",
    ),
    (
        "create or replace function clerk_phase(p_stage text) returns int language sql immutable as 'select 1'",
        {"functions"},
        "function clerk_phase was changed by hand",
    ),
    ("drop function clerk_notify_queue", {"functions"}, "function clerk_notify_queue is missing"),
    (
        """create or replace function procrastinate_prune_stalled_workers_v1(seconds_since_heartbeat float)
        returns table (worker_id bigint) language sql as $$ select 1::bigint $$""",
        {"procrastinate"},
        "procrastinate_prune_stalled_workers_v1(seconds_since_heartbeat double precision)",
    ),
    ("update clerk_procrastinate set version = '3.9.0'", {"procrastinate"}, "schema version 3.9.0, package version"),
    ("delete from clerk_migrations where version = 3", {"migrations"}, "0003_ledger is not applied"),
    ("update clerk_migrations set checksum = 'x' where version = 3", {"migrations"}, "0003_ledger was changed after"),
    (
        "insert into clerk_migrations (version, name, checksum, milliseconds) values (9000, 'later', 'x', 0)",
        {"migrations"},
        "the database is at 9000, this clerk has migrations up to",
    ),
    (
        f"""{UNIT} drop index uix_cips_content_item_pipeline;
        insert into content_item_pipeline_state (content_item_id, pipeline)
        select id, 'ocr' from content_items, generate_series(1, 2)""",
        {"indexes", "ledger_key"},
        "has 2 rows for ocr",
    ),
    (
        f"""{UNIT} alter table content_item_pipeline_state drop constraint cips_status_check;
        insert into content_item_pipeline_state (content_item_id, pipeline, status)
        select id, 'ocr', 'sleeping' from content_items""",
        {"constraints", "ledger_status"},
        "1 rows have the status 'sleeping'",
    ),
    (
        "grant create on schema public to public",
        {"privileges"},
        "every user may create objects in schema public",
    ),
]  # fmt: skip


def failed(checks: list[Check]) -> dict[str, list[str]]:
    return {check.name: check.problems for check in checks if not check.ok}


def test_a_migrated_database_passes_every_check(connection: psycopg.Connection, folder: SqlFolder) -> None:
    checks = verify_schema(connection, folder)
    assert [check.name for check in checks] == ALL_CHECKS
    assert failed(checks) == {}
    require_known_schema(connection, folder)


@pytest.mark.parametrize(("damage", "names", "words"), DAMAGES, ids=[damage[0][:60] for damage in DAMAGES])
def test_damage_is_found(
    connection: psycopg.Connection, folder: SqlFolder, damage: str, names: set[str], words: str
) -> None:
    connection.execute(damage.encode())
    failures = failed(verify_schema(connection, folder))
    assert set(failures) >= names
    # Dropping a column or table drops dependent objects; only checks of the snapshot may fail as well.
    assert set(failures) - names <= {"constraints", "indexes", "views"}
    problems = [problem.lower() for name in names for problem in failures[name]]
    assert any(words.lower() in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("alter table procrastinate_jobs disable trigger clerk_fence", "trigger clerk_fence is disabled"),
        ("drop function clerk_notify_queue", "function clerk_notify_queue is missing"),
        ("delete from clerk_migrations where version = 3", "0003_ledger is not applied"),
        ("update clerk_procrastinate set version = '3.9.0'", "schema version 3.9.0"),
    ],
)
def test_workers_refuse_an_unknown_schema(
    connection: psycopg.Connection, folder: SqlFolder, damage: str, words: str
) -> None:
    connection.execute(damage.encode())
    with pytest.raises(SchemaMismatch) as refusal:
        require_known_schema(connection, folder)
    sentence = str(refusal.value)
    assert words in sentence
    assert sentence.endswith('): run "clerk db up"; "clerk db verify" lists all differences.')
    assert "\n" not in sentence


def test_a_trigger_of_the_same_name_on_another_table_does_not_count(
    connection: psycopg.Connection, folder: SqlFolder
) -> None:
    connection.execute("drop trigger clerk_fence on procrastinate_jobs")
    connection.execute(
        "create trigger clerk_fence before update on pipeline_runs for each row"
        " execute function suppress_redundant_updates_trigger()"
    )
    with pytest.raises(SchemaMismatch, match="trigger clerk_fence is missing"):
        require_triggers(connection)


def test_every_trigger_is_checked(connection: psycopg.Connection, folder: SqlFolder) -> None:
    """The view trigger_problems lists the triggers; it would never report one that it does not list."""
    triggers = {item.name for item in folder.objects if item.kind == "trigger"}
    for name, table in connection.execute(
        "select tgname, tgrelid::regclass::text from pg_trigger where tgname = any (%s)", [list(triggers)]
    ).fetchall():
        connection.execute(f"alter table {table} disable trigger {name}".encode())
    problems = connection.execute("select name, problem from trigger_problems").fetchall()
    assert sorted(problems) == [(name, "is disabled") for name in sorted(triggers)]


def test_a_database_that_was_never_migrated(empty: psycopg.Connection, folder: SqlFolder) -> None:
    assert failed(verify_schema(empty, folder)) == {"migrations": ["this database has not been migrated"]}
    with pytest.raises(SchemaMismatch, match="it has not been migrated"):
        require_known_schema(empty, folder)


def test_a_database_at_an_older_migration(empty: psycopg.Connection, folder: SqlFolder) -> None:
    Migrator(empty, folder).up(folder.newest - 1)
    failures = failed(verify_schema(empty, folder))
    assert failures["migrations"] == [f"{folder.migrations[-1].name} is not applied"]


def test_additional_objects_are_allowed(connection: psycopg.Connection, folder: SqlFolder) -> None:
    connection.execute("alter table sites add column notes text; create table theirs (id int primary key)")
    connection.execute("create index on sites (notes); create view their_view as select 1 as one")
    assert failed(verify_schema(connection, folder)) == {}


def test_every_function_of_procrastinate_is_checked(connection: psycopg.Connection) -> None:
    recorded = connection.execute("select functions from clerk_procrastinate").fetchone()
    assert recorded is not None
    assert len(recorded[0]) > 15
    assert recorded[0] == procrastinate_schema.function_checksums(connection)


def test_a_restored_database_passes_every_check(
    database: str, new_database: Callable[[], str], folder: SqlFolder, tmp_path: Path
) -> None:
    """Postgres prints some constraints differently after it has restored them from a dump."""
    restored, dump = new_database(), tmp_path / "dump"
    tools = bundled(18)
    subprocess.run([tools / "pg_dump", "--format=custom", f"--file={dump}", database], check=True)
    subprocess.run([tools / "pg_restore", "--exit-on-error", "--no-owner", f"--dbname={restored}", dump], check=True)
    with connect_to(restored) as connection:
        assert [check for check in verify_schema(connection, folder) if not check.ok] == []
