"""For every corruption of a running system: verify reports it, reconciliation repairs it, the run ends with every unit
accounted for, and a second plan is empty. States that constraints rule out are refused."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from clerk.db.migrations.verify import verify_invariants
from clerk.reconcile.plan import make_plan
from clerk.reconcile.repair import Repair
from tests.engine.helpers import Connection, Worker, add_site, drain, one, rows, site, start
from tests.reconcile.corruptions import CORRUPTIONS, HARMLESS, Corruption, Town
from tests.reconcile.repair_helpers import repair_all

DOCUMENTS = 3

by_name = pytest.mark.parametrize("case", CORRUPTIONS, ids=lambda case: case.name.replace(" ", "_"))


def violations(connection: Connection) -> dict[str, list[str]]:
    """Failed checks of `clerk verify --full` → problems."""
    return {check.name: check.problems for check in verify_invariants(connection, full=True) if not check.ok}


def plan(connection: Connection) -> list[Repair]:
    return make_plan(connection, None, threshold=timedelta(0))


def as_rows(repairs: list[Repair]) -> list[tuple[object, ...]]:
    return [(r.kind, r.subdomain, r.run_id, r.stage, r.content_item_id, r.found, r.action, r.why) for r in repairs]


@pytest.fixture
def town(connection: Connection) -> Town:
    items = add_site(connection, documents=DOCUMENTS)
    return Town(connection, Worker(connection), items, 0)


def corrupt(town: Town, case: Corruption) -> None:
    town.run = start(town.connection, phase=case.phase)
    case.prepare(town)
    assert violations(town.connection) == {} or case.prepare.__name__ == "fail_coordinator"
    case.corrupt(town)


def finish_everything(town: Town) -> None:
    """Workers process all jobs; leases are expired and refresh jobs are due."""
    while True:
        town.connection.execute("update procrastinate_jobs set scheduled_at = null where task_name = 'clerk.refresh'")
        town.connection.execute("update job_claims set lease_until = now() - interval '1 s' where settled_as is null")
        if not drain(town.worker) + len([r for r in repair_all(town.connection) if r.kind == "lease"]):
            return


@by_name
def test_corruption_is_reported_and_repaired_and_the_run_ends(town: Town, case: Corruption) -> None:
    connection = town.connection
    corrupt(town, case)
    assert case.check in violations(connection)

    planned = plan(connection)
    assert case.kind in {repair.kind for repair in planned}
    assert as_rows(repair_all(connection)) == as_rows(planned), "applying does what the plan says"
    assert as_rows(plan(connection)) == [], "a second plan is empty"

    finish_everything(town)
    assert violations(connection) == {}
    assert plan(connection) == []
    assert site(connection)["current_stage"] in ("completed", None)
    assert_all_ended(town)
    assert_nothing_lost(town)


@pytest.mark.parametrize("case", HARMLESS, ids=lambda case: case.name.replace(" ", "_"))
def test_harmless_corruption_needs_no_repair(town: Town, case: Corruption) -> None:
    corrupt(town, case)
    assert violations(town.connection) == {}
    assert plan(town.connection) == []
    drain(town.worker)
    assert site(town.connection)["outcome"] == "succeeded"
    assert violations(town.connection) == {}
    assert_all_ended(town)
    assert_nothing_lost(town)


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("update sites set run_id = 4711", psycopg.errors.ForeignKeyViolation),
        ("delete from pipeline_runs", psycopg.errors.ForeignKeyViolation),
        ("insert into pipeline_runs (subdomain, reason) values ('town', 'x')", psycopg.errors.UniqueViolation),
    ],
    ids=["run that does not exist", "run deleted", "second open run"],
)
def test_the_database_refuses(town: Town, statement: str, error: type[psycopg.Error]) -> None:
    start(town.connection, phase=2)
    with pytest.raises(error):
        town.connection.execute(statement.encode())


def test_a_site_with_runs_can_be_deleted(town: Town) -> None:
    start(town.connection, phase=5)
    start(town.connection, phase=2)
    town.connection.execute("delete from sites")
    assert one(town.connection, "select count(*) from pipeline_runs") == 0


def test_a_site_with_runs_can_be_renamed(town: Town) -> None:
    run = start(town.connection, phase=5)
    town.connection.execute("update sites set subdomain = 'city'")
    assert rows(town.connection, "select subdomain, run_id from pipeline_runs") == [("city", run)]


def test_an_open_run_that_the_site_does_not_know_does_not_block_the_next(town: Town) -> None:
    older = start(town.connection, phase=2)
    town.connection.execute("update sites set run_id = null, current_stage = null")
    run = one(town.connection, "select clerk_start_run('town', p_supersede => true)")
    assert rows(town.connection, "select run_id, outcome from pipeline_runs order by 1") == [
        (older, "cancelled"),
        (run, None),
    ]
    drain(town.worker)
    assert violations(town.connection) == {}


def assert_all_ended(town: Town) -> None:
    assert rows(town.connection, "select run_id from pipeline_runs where ended_at is null") == []
    assert rows(town.connection, "select id from procrastinate_jobs where status in ('todo', 'doing')") == []


def assert_nothing_lost(town: Town) -> None:
    """After one more run, every document is processed and extracted."""
    one(town.connection, "select clerk_start_run('town')")
    drain(town.worker)
    assert violations(town.connection) == {}
    unprocessed = rows(
        town.connection,
        "select i.id, s.stage from content_items i cross join (values ('ocr'), ('extraction')) as s (stage)"
        " where i.kind <> 'archive' and not exists (select from content_item_pipeline_state l"
        " where l.content_item_id = i.id and l.pipeline = s.stage and l.status = 'processed')",
    )
    assert unprocessed == []
    assert site(town.connection)["outcome"] in ("succeeded", "unchanged")
