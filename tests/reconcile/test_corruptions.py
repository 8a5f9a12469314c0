"""A running system broken by hand in every way that was thought of: verify names it, reconciling heals it, the run ends
with every unit accounted for, and a second look finds nothing to do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from clerk.db.migrations.verify import verify_invariants
from clerk.reconcile.plan import make_plan
from clerk.reconcile.repair import Repair
from tests.engine.helpers import Connection, Worker, add_site, drain, one, rows, site, start
from tests.reconcile.corruptions import BREAKS, Break, Town
from tests.reconcile.repair_helpers import heal

DOCUMENTS = 3


def named(connection: Connection) -> dict[str, list[str]]:
    """What `clerk verify --full` says is wrong: check → problems."""
    return {check.name: check.problems for check in verify_invariants(connection, full=True) if not check.ok}


def plan(connection: Connection) -> list[Repair]:
    return make_plan(connection, None, threshold=timedelta(0))


def as_shown(repairs: list[Repair]) -> list[tuple[object, ...]]:
    return [(r.kind, r.subdomain, r.run_id, r.stage, r.content_item_id, r.found, r.do, r.why) for r in repairs]


@pytest.fixture
def town(connection: Connection) -> Town:
    items = add_site(connection, documents=DOCUMENTS)
    return Town(connection, Worker(connection), items, 0)


def bring(town: Town, case: Break) -> None:
    town.run = start(town.connection, phase=case.phase)
    case.before(town)
    assert named(town.connection) == {} or case.before.__name__ == "failed_coordinator"
    case.how(town)


def let_all_end(town: Town) -> None:
    """Workers go on; what waits for its time is due."""
    while True:
        town.connection.execute("update procrastinate_jobs set scheduled_at = null where task_name = 'clerk.refresh'")
        # A job that was running when the system broke is some worker's still.
        town.connection.execute("update job_claims set lease_until = now() - interval '1 s' where settled_as is null")
        if not drain(town.hand) + len([r for r in heal(town.connection) if r.kind == "lease"]):
            return


@pytest.mark.parametrize("case", BREAKS, ids=lambda case: case.name.replace(" ", "_"))
def test_named_healed_and_ended(town: Town, case: Break) -> None:
    connection = town.connection
    bring(town, case)
    assert case.named in named(connection)

    planned = plan(connection)
    assert case.kind in {repair.kind for repair in planned}
    assert as_shown(heal(connection)) == as_shown(planned), "the plan is what is done"
    assert as_shown(plan(connection)) == [], "a second look finds nothing to do"

    let_all_end(town)
    assert named(connection) == {}
    assert plan(connection) == []
    found = site(connection)
    assert found["current_stage"] in ("completed", None)
    assert rows(connection, "select run_id from pipeline_runs where ended_at is null") == []
    assert rows(connection, "select id from procrastinate_jobs where status in ('todo', 'doing')") == []
    nothing_is_lost(town)


def nothing_is_lost(town: Town) -> None:
    """Every document is read and has its people and votes, at the latest after the next run."""
    one(town.connection, "select clerk_start_run('town')")
    drain(town.hand)
    assert named(town.connection) == {}
    unread = rows(
        town.connection,
        "select i.id, s.stage from content_items i cross join (values ('ocr'), ('extraction')) as s (stage)"
        " where i.kind <> 'archive' and not exists (select from content_item_pipeline_state l"
        " where l.content_item_id = i.id and l.pipeline = s.stage and l.status = 'processed')",
    )
    assert unread == []
    assert site(town.connection)["outcome"] in ("succeeded", "unchanged")
