"""`clerk legacy cleanup`: when it may be done, what it takes away, and that all of it comes back."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from clerk.pg import engine
from clerk.pg.connection import connect_to
from clerk.pg.migrate import Migrator
from clerk.pg.sqlfiles import SqlFolder
from clerk.pg.verify import require_known_schema, verify_schema
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.driving import Connection, drain, one, rows, worker
from tests.legacy.old_system import stuck_site
from tests.pg.legacy import BASELINES, Baseline
from tests.pg.schema import facts
from tests.pg.schema import rows as all_rows

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
def adopted(
    request: pytest.FixtureRequest,
    new_database: Callable[[], Url],
    folder: SqlFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[psycopg.Connection]:
    """A database of each older form, migrated."""
    baseline: Baseline = request.param
    url = new_database()
    monkeypatch.setenv("DATABASE_URL", url)
    with connect_to(url) as connection:
        baseline.build(connection)
        Migrator(connection, folder).up()
        connection.execute("update site_progress set updated_at = '2024-05-01'")
        yield connection


def test_it_takes_away_and_gives_back(
    adopted: psycopg.Connection, folder: SqlFolder, clerk_command: Clerk, backup: Path
) -> None:
    before = facts(adopted, folder), {name: all_rows(adopted, name) for name in ("site_progress", "job_tracking")}
    sites = all_rows(adopted, "sites")
    forced = [word for name in ("migrated", "stuck", "health") for word in ("--force", name)]
    done = clerk_command("legacy", "cleanup", "--apply", "--backup", str(backup), *forced)
    assert done.code == 0, done
    assert not COLUMNS & columns(adopted)
    assert one(adopted, "select to_regclass('site_progress') is null and to_regclass('job_tracking') is null")
    assert one(adopted, "select count(*) from pg_trigger where tgrelid = 'sites'::regclass and not tgisinternal") == 0
    assert [check.name for check in verify_schema(adopted, folder) if not check.ok] == []
    require_known_schema(adopted, folder)
    assert Migrator(adopted, folder).up() == [], "db up does not bring them back"
    assert json.loads(clerk_command("db", "status", "--json").out)["cleaned_up"] is True
    adopted.execute("insert into sites (subdomain) values ('newtown')")
    engine.start_run(adopted, "newtown")
    adopted.execute("delete from procrastinate_jobs")
    adopted.execute("delete from sites where subdomain = 'newtown'")

    assert clerk_command("legacy", "cleanup", "--undo").code == 0
    after = facts(adopted, folder), {name: all_rows(adopted, name) for name in ("site_progress", "job_tracking")}
    assert after == before
    assert all_rows(adopted, "sites") == sites
    assert [check.name for check in verify_schema(adopted, folder) if not check.ok] == []
    logged = rows(adopted, "select found, done from reconcile_log where why = 'clean-up' order by id")
    assert "migrated overridden: " in logged[0][0]
    assert [row[1] for row in logged] == ["older tables and columns set aside", "older tables and columns given back"]


def test_going_down_to_nothing_gives_back_what_was_found(new_database: Callable[[], Url], folder: SqlFolder) -> None:
    with connect_to(new_database()) as connection:
        BASELINES[0].build(connection)
        before = facts(connection, folder), all_rows(connection, "sites"), all_rows(connection, "site_progress")
        migrator = Migrator(connection, folder)
        migrator.up()
        assert migrator.clean_up(lambda: None)
        assert not migrator.clean_up(lambda: None), "once"
        assert str(migrator.plan_down(0)[0]) == "take back the clean-up"
        assert not {"site_progress", "sites"} & migrator.losses(0).keys()
        migrator.down(0)
        assert (
            facts(connection, folder),
            all_rows(connection, "sites"),
            all_rows(connection, "site_progress"),
        ) == before


def test_a_run_goes_through_without_the_older_columns(connection: Connection, folder: SqlFolder, database: Url) -> None:
    Migrator(connection, folder).clean_up(lambda: None)
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute(
        "insert into content_items (subdomain, kind, meeting, date) values ('town', 'minutes', 'Council', '2020-01-01')"
    )
    engine.start_run(connection, "town")
    with worker(database, "hand") as hand:
        drain(hand)
    assert rows(connection, "select current_stage, outcome from sites") == [("completed", "succeeded")]


def test_all_checks_hold_on_a_healthy_system(settled: None, clerk_command: Clerk, backup: Path) -> None:
    checked = clerk_command("legacy", "cleanup", "--check", "--backup", str(backup))
    assert checked.code == 0, checked
    assert checked.out.count("ok  ") == 7
    rehearsed = clerk_command("legacy", "cleanup", "--apply", "--dry-run", "--backup", str(backup))
    assert (rehearsed.code, "Nothing was done" in rehearsed.out) == (0, True)
    assert "Done" in clerk_command("legacy", "cleanup", "--apply", "--backup", str(backup)).out


REPAIR = (
    "insert into reconcile_log (reconciliation, found, done, why) select %s, 'x', 'y', 'z' from generate_series(1, 5)"
)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("stuck", "update sites set updated_at = now() - interval '1 day'"),
        ("health", "update sites set updated_at = now() - interval '1 day'"),
        ("migrated", "insert into sites (subdomain, status) values ('old', 'needs_ocr')"),
        ("repairs", REPAIR.replace("%s", "'8a5a4b3c-1111-4222-8333-444455556666'::uuid")),
        ("operators", "select clerk_cancel('town', 'cancelled by me')"),
        ("operators", "select clerk_rewind('town', 'fetch')"),
        (
            "site_progress",
            "insert into site_progress (subdomain, current_stage, updated_at) values ('x', 'ocr', now())",
        ),
        ("backup", None),
    ],
)
def test_each_check_can_refuse_and_be_overridden_by_name(
    settled: None, connection: Connection, clerk_command: Clerk, backup: Path, name: str, wrong: str | None
) -> None:
    stuck_site(connection, "quiet", "completed", "deployed")
    connection.execute("update site_progress set updated_at = '2024-01-01'")
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    arguments = ["legacy", "cleanup", "--apply", "--backup", str(backup)]
    if wrong is None:
        os.utime(backup, (time.time() - 90_000,) * 2)
    else:
        connection.execute(wrong.encode())
    refused = clerk_command(*arguments)
    assert refused.code == 1
    assert f"NO   {name} " in refused.out
    assert columns(connection) >= COLUMNS
    broken = [line.split()[1] for line in refused.out.splitlines() if line.startswith("NO")]
    others = [word for check in broken if check != name for word in ("--force", check)]
    assert clerk_command(*arguments, *others).code == 1
    assert clerk_command(*arguments, *others, "--force", name).code == 0
    assert f"{name} overridden: " in one(connection, "select found from reconcile_log where why = 'clean-up'")
    assert not COLUMNS & columns(connection)


@pytest.mark.parametrize("content", [None, b"", b"hello"])
def test_what_is_no_backup(settled: None, clerk_command: Clerk, backup: Path, content: bytes | None) -> None:
    if content is None:
        backup.unlink()
    else:
        backup.write_bytes(content)
    assert "NO   backup" in clerk_command("legacy", "cleanup", "--backup", str(backup)).out


def test_an_unknown_check_cannot_be_overridden(settled: None, clerk_command: Clerk) -> None:
    assert clerk_command("legacy", "cleanup", "--apply", "--force", "everything").code == 2
