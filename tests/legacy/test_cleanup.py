"""`clerk legacy cleanup`: when it may be done, what it takes away, and that all of it comes back."""

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
from tests.db.schema import facts
from tests.db.schema import rows as all_rows
from tests.engine.helpers import Connection, Worker, add_site, drain, next_job_of, one, rows, site, worker
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


ALL_THAT_CAN_STAND_ON_A_COLUMN = """
create index odd_status on sites (status) where status <> 'new';
create index "Odd, both" on sites (lower(last_updated), name);
comment on index odd_status is 'it''s odd';
create statistics odd_statistics on status, scraper from sites;
comment on statistics odd_statistics is 'dependent';
create table words (word varchar primary key);
insert into words select distinct status from sites where status is not null;
alter table sites
    add constraint odd_check check (status is null or length(status) < 40) not valid,
    add constraint odd_word foreign key (status) references words,
    add constraint odd_pair unique (subdomain, last_extracted),
    alter column last_deployed type varchar(30) collate "C",
    alter column last_extracted set default '';
comment on constraint odd_check on sites is 'short';
update sites set extraction_status = 'pending' where extraction_status is null;
alter table sites alter column extraction_status set not null;
comment on column sites.status is 'read by others';
grant select (status), update (status, last_updated) on sites to pg_monitor with grant option;
grant select (last_updated) on sites to public;
"""


def schema(url: Url) -> list[str]:
    """Every line of a dump, in no order: columns that come back come last."""
    command = [str(bundled(18) / "pg_dump"), "--schema-only", url]
    dumped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sorted(line.rstrip(",") for line in dumped.splitlines() if not re.match(r"--|\\(un)?restrict ", line))


def test_it_takes_away_and_gives_back(
    adopted: psycopg.Connection, folder: SqlFolder, clerk_command: Clerk, backup: Path
) -> None:
    adopted.execute(ALL_THAT_CAN_STAND_ON_A_COLUMN.encode())
    url = os.environ["DATABASE_URL"]
    dumped, verified = schema(url), verify_schema(adopted, folder)
    before = facts(adopted, folder), {name: all_rows(adopted, name) for name in ("site_progress", "job_tracking")}
    sites = all_rows(adopted, "sites")
    forced = [word for name in ("migrated", "stuck", "health", "repairs") for word in ("--force", name)]
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
    assert schema(url) == dumped
    assert verify_schema(adopted, folder) == verified
    logged = rows(adopted, "select action, via, detail -> 'overridden' from recent_actions where action like '%clean%'")
    assert [row[:2] for row in logged] == [("undo clean-up", "cli"), ("clean up", "cli")]
    assert {"migrated", "repairs"} <= logged[1][2].keys()


def test_all_comes_back_on_an_older_postgres(older_server: Url, folder: SqlFolder) -> None:
    """Where "not null" has no name yet."""
    databases = Databases(older_server)
    try:
        url = databases.create()
        with connect_to(url) as connection:
            BASELINES[0].build(connection)
            migrator = Migrator(connection, folder)
            migrator.up()
            connection.execute(ALL_THAT_CAN_STAND_ON_A_COLUMN.encode())
            before = schema(url), all_rows(connection, "sites")
            assert migrator.clean_up(lambda: None)
            assert migrator.revert_cleanup(lambda: None)
            assert (schema(url), all_rows(connection, "sites")) == before
    finally:
        databases.drop_all()


def test_a_right_of_somebody_who_is_gone_stops_nothing(connection: Connection, folder: SqlFolder) -> None:
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


def test_going_down_to_nothing_gives_back_what_was_found(new_database: Callable[[], Url], folder: SqlFolder) -> None:
    with connect_to(new_database()) as connection:
        BASELINES[0].build(connection)
        before = facts(connection, folder), all_rows(connection, "sites"), all_rows(connection, "site_progress")
        migrator = Migrator(connection, folder)
        migrator.up()
        assert migrator.clean_up(lambda: None)
        assert not migrator.clean_up(lambda: None), "once"
        assert str(migrator.plan_down(0)[0]) == "take back the clean-up"
        assert not {"site_progress", "sites"} & migrator.data_loss(0).keys()
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


# --- what moves between the clean-up and its undoing ---------------------------------------------------------


def play(hand: Worker, town: str, *failing: str, until_phase: int = 5) -> None:
    """Units and coordinators of the site's run, a minute each; those of some stages fail."""
    while (found := site(hand.connection, town))["phase"] < until_phase:
        job = next_job_of(hand, found["run_id"])
        tick(hand.connection)
        if job.is_unit:
            hand.finish(job, "failed" if job.queue in failing else "succeeded")
        else:
            hand.coordinate(job)


def tick(connection: Connection) -> None:
    connection.execute("select set_config('clerk.now', (clerk_now() + interval '1 minute')::text, false)")


def gets_to(phase: int, then: str = "select %s") -> Callable[[Worker, str], None]:
    def move(hand: Worker, town: str) -> None:
        play(hand, town, until_phase=phase)
        tick(hand.connection)
        hand.connection.execute(then.encode(), [town])

    return move


MOVES: dict[str, Callable[[Worker, str], None]] = {
    "succeeds": play,
    "fails in fetching": lambda hand, town: play(hand, town, "fetch"),
    "fails in reading": lambda hand, town: play(hand, town, "ocr"),
    "fails in extraction": lambda hand, town: play(hand, town, "extraction"),
    "fails in compilation": lambda hand, town: play(hand, town, "compilation"),
    "fails in deploy": lambda hand, town: play(hand, town, "deploy"),
    "is being fetched": gets_to(1),
    "is being read": gets_to(2),
    "is being extracted": gets_to(3),
    "is being deployed": gets_to(4),
    "is cancelled while it is read": gets_to(2, "select clerk_cancel_run(%s)"),
    "is cancelled while it is extracted": gets_to(3, "select clerk_cancel_run(%s)"),
    "is started over": gets_to(4, "select clerk_start_run(%s, p_supersede => true)"),
}
OLDER = "select subdomain, status, extraction_status, last_updated, last_deployed, last_extracted from sites order by 1"


def test_a_site_that_moved_on_gets_what_the_trigger_would_have_written(
    server: Url, template: str, folder: SqlFolder
) -> None:
    """The same history in two databases, minute by minute, in one of them with a clean-up around the last run."""
    databases, seen = Databases(server), []
    try:
        for cleaned in (False, True):
            with worker(databases.create(template), "hand") as hand:
                connection = hand.connection
                connection.execute("select set_config('clerk.now', '2030-01-01 12:00+00', false)")
                for move in MOVES:
                    add_site(connection, move, documents=1)
                    add_site(connection, f"deployed, {move}", documents=1)
                    engine.start_run(connection, f"deployed, {move}")
                    play(hand, f"deployed, {move}")
                migrator = Migrator(connection, folder)
                assert not cleaned or migrator.clean_up(lambda: None)
                for move, make in MOVES.items():
                    for town in (move, f"deployed, {move}"):
                        tick(connection)
                        engine.start_run(connection, town)
                        make(hand, town)
                assert not cleaned or migrator.revert_cleanup(lambda: None)
                seen.append(rows(connection, OLDER))
    finally:
        databases.drop_all()
    assert len({row[1] for row in seen[0]}) == 5, "every word of the older system's that a run can leave"
    assert seen[1] == seen[0]


def test_sites_that_stay_where_they_are_keep_their_values_to_the_letter(
    connection: Connection, folder: SqlFolder
) -> None:
    connection.execute(
        "insert into sites (subdomain, status, last_updated, last_deployed) values"
        " ('odd', 'needs_ocr', 'yesterday', ''), ('removed', 'deployed', '', ''), ('older name', 'deployed', 'x', '')"
    )
    migrator = Migrator(connection, folder)
    migrator.clean_up(lambda: None)
    connection.execute("delete from sites where subdomain = 'removed'")
    connection.execute("update sites set subdomain = 'renamed' where subdomain = 'older name'")
    connection.execute("insert into sites (subdomain) values ('added'), ('removed')")
    migrator.revert_cleanup(lambda: None)
    assert rows(connection, "select subdomain, status, last_updated, last_deployed from sites order by 1") == [
        ("added", "new", None, None),
        ("odd", "needs_ocr", "yesterday", ""),
        ("removed", "new", None, None),
        ("renamed", "deployed", "x", ""),
    ]
    assert one(connection, "select extraction_status from sites where subdomain = 'added'") == "pending"


# --- the checks ----------------------------------------------------------------------------------------------


def passes(connection: Connection, count: int, *, repaired: int = 4, failed: int = 9, of: str | None = None) -> None:
    connection.execute(
        "insert into reconcile_runs (reconciliation, ended_at, subdomain, repaired, failed)"
        " select gen_random_uuid(), now(), %s, %s, %s from generate_series(1, %s)",
        [of, repaired, failed, count],
    )


def test_all_checks_hold_on_a_healthy_system(
    settled: None, connection: Connection, clerk_command: Clerk, backup: Path
) -> None:
    for _ in range(10):
        reconcile(connection, None)
    checked = clerk_command("legacy", "cleanup", "--check", "--backup", str(backup))
    assert checked.code == 0, checked
    assert checked.out.count("ok  ") == 7
    rehearsed = clerk_command("legacy", "cleanup", "--apply", "--dry-run", "--backup", str(backup))
    assert (rehearsed.code, "nothing was done) Set aside would be status, " in rehearsed.out) == (0, True)
    assert "Done" in clerk_command("legacy", "cleanup", "--apply", "--backup", str(backup)).out


def test_fewer_than_ten_reconciliations_prove_nothing(
    settled: None, connection: Connection, clerk_command: Clerk
) -> None:
    passes(connection, 9, repaired=0)
    passes(connection, 20, repaired=0, of="town")
    connection.execute("insert into reconcile_runs (reconciliation) values (gen_random_uuid())")
    said = clerk_command("legacy", "cleanup").out
    assert "NO   repairs        9 of the last 10 reconciliations on record, up to 0 repairs in one" in said


def test_only_the_last_ten_count_and_failed_tries_are_no_repairs(
    settled: None, connection: Connection, clerk_command: Clerk
) -> None:
    passes(connection, 1, repaired=50)
    connection.execute("update reconcile_runs set started_at = now() - interval '1 day'")
    passes(connection, 10, repaired=4, failed=50)
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
        ("repairs", "update reconcile_runs set given_up = 1"),
        ("operators", "select clerk_cancel_run('town', 'enough')"),
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
def test_each_check_can_refuse_and_be_overridden_by_name(
    settled: None, connection: Connection, clerk_command: Clerk, backup: Path, name: str, wrong: str | None
) -> None:
    stuck_site(connection, "quiet", "completed", "deployed")
    connection.execute("update site_progress set updated_at = '2024-01-01'")
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    passes(connection, 1)
    connection.execute("update reconcile_runs set started_at = now() - interval '1 day'")
    passes(connection, 10)
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
    as_json = clerk_command(*arguments, *others, "--json")
    assert as_json.code == 1
    assert f"is not safe yet ({name})" in as_json.err
    said = json.loads(as_json.out)
    assert (said["cleaned_up"], said["refused"]) == (False, [name])
    assert [check["name"] for check in said["checks"] if not check["holds"]] == broken
    assert clerk_command(*arguments, *others, "--force", name).code == 0
    assert name in one(connection, "select detail -> 'overridden' from operator_actions where action = 'clean up'")
    assert not COLUMNS & columns(connection)


def test_what_an_operator_did_a_week_ago_is_forgiven(
    settled: None, connection: Connection, clerk_command: Clerk
) -> None:
    connection.execute("insert into operator_actions (action) values ('pause'), ('resume'), ('clean up')")
    connection.execute("insert into operator_actions (action, at) values ('retry', now() - interval '8 days')")
    assert "ok   operators " in clerk_command("legacy", "cleanup").out


@pytest.mark.parametrize("content", [b"PGDMP", b"toc.dat\0", b"-- PostgreSQL", b"\x1f\x8b", None])
def test_what_is_a_backup(settled: None, clerk_command: Clerk, backup: Path, content: bytes | None) -> None:
    if content is None:
        backup.unlink()
        backup.mkdir()
        (backup / "toc.dat").write_bytes(b"PGDMP")
    else:
        backup.write_bytes(content)
    assert "ok   backup" in clerk_command("legacy", "cleanup", "--backup", str(backup)).out


@pytest.mark.parametrize("content", [None, b"", b"hello"])
def test_what_is_no_backup(settled: None, clerk_command: Clerk, backup: Path, content: bytes | None) -> None:
    if content is None:
        backup.unlink()
    else:
        backup.write_bytes(content)
    assert "NO   backup" in clerk_command("legacy", "cleanup", "--backup", str(backup)).out


def test_an_unknown_check_cannot_be_overridden(settled: None, clerk_command: Clerk) -> None:
    assert clerk_command("legacy", "cleanup", "--apply", "--force", "everything").code == 2


# --- around it -----------------------------------------------------------------------------------------------


def test_the_rehearsal_of_undoing_says_what_would_come_back(
    settled: None, connection: Connection, folder: SqlFolder, clerk_command: Clerk
) -> None:
    assert "Nothing was done" in clerk_command("legacy", "cleanup", "--undo", "--dry-run").out
    stuck_site(connection, "quiet", "completed", "deployed")
    connection.execute("insert into sites (subdomain) values ('town')")
    Migrator(connection, folder).clean_up(lambda: None)
    engine.start_run(connection, "town")
    assert clerk_command("legacy", "cleanup", "--undo", "--dry-run").out == (
        "(dry run, nothing was done) Back would come site_progress (1 row), status, extraction_status, last_updated,"
        " last_deployed, last_extracted of 2 sites; 1 have moved on since and get newer values.\n"
    )
    said = json.loads(clerk_command("legacy", "cleanup", "--undo", "--dry-run", "--json").out)
    assert (said["cleaned_up"], said["tables"], said["sites"], said["moved"]) == (True, {"site_progress": 1}, 2, 1)
    assert not COLUMNS & columns(connection)


@pytest.mark.usefixtures("settled", "old_rq")
def test_after_it_nothing_is_left_to_take_over(connection: Connection, folder: SqlFolder, clerk_command: Clerk) -> None:
    Migrator(connection, folder).clean_up(lambda: None)
    for command in (["migrate-stuck-sites"], ["migrate-stuck-sites", "--dry-run"], ["legacy", "redis"]):
        refused = clerk_command(*command)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err.count("\n") == 1
        assert "were cleaned up, so nothing of it is left to take over" in refused.err
