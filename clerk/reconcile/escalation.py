"""A repair that leads nowhere three times is not made a fourth time: the run ends, and says why."""

from __future__ import annotations

from dataclasses import replace

from clerk.pipeline import engine
from clerk.reconcile.repair import GIVEN_UP, Connection, Repair

TIMES = 3

Key = tuple[str | None, int | None, str, str | None]

# Tries of one reconciliation are one try, however many units it was about.
_TRIED = """
    with tried as (
        select subdomain, run_id, kind, stage
        from reconcile_log
        where subdomain = any (%(sites)s) and run_id = any (%(runs)s)
          -- Somebody else held the row: that says nothing about the repair.
          and coalesce(error, '') not like 'LockNotAvailable:%%'
        group by 1, 2, 3, 4
        having count(distinct reconciliation) >= %(times)s
    )
    select l.subdomain, l.run_id, l.kind, l.stage,
           clerk_run_is_active(l.run_id) and not clerk_has_live_job(l.subdomain, l.run_id)
    from (select tried.*, clerk_last_progress(subdomain, run_id) as progress from tried) t
    join reconcile_log l on l.subdomain = t.subdomain and l.run_id = t.run_id and l.kind = t.kind
                        and l.stage is not distinct from t.stage
    where l.at > coalesce(t.progress, '-infinity') and coalesce(l.error, '') not like 'LockNotAvailable:%%'
    group by 1, 2, 3, 4
    having count(distinct l.reconciliation) >= %(times)s
"""


def fail_repeated(connection: Connection, repairs: list[Repair]) -> list[Repair]:
    """The plan with every exhausted repair replaced by the end of its run. What has ended already is left as it is, and
    so, for the time being, is a run that somebody works for."""
    exhausted = _exhausted(connection, repairs)
    if not exhausted:
        return repairs
    plan: list[Repair] = []
    ended: set[tuple[str | None, int | None]] = set()
    for repair in repairs:
        run = (repair.subdomain, repair.run_id)
        ends = None if repair.immediate else exhausted.get(_key(repair))
        if ends and run not in ended:
            ended.add(run)
            plan.append(_end_of_run(repair))
        elif ends is None:
            plan.append(repair)
    # What else was wrong with a run that ends goes with it.
    return [r for r in plan if r.kind == GIVEN_UP or r.immediate or (r.subdomain, r.run_id) not in ended]


def _key(repair: Repair) -> Key:
    return repair.subdomain, repair.run_id, repair.kind, repair.stage


def _exhausted(connection: Connection, repairs: list[Repair]) -> dict[Key, bool]:
    """Repairs that were made three times since their run last got anywhere → is it to be ended?"""
    about = {(repair.subdomain, repair.run_id) for repair in repairs if repair.run_id is not None}
    if not about:
        return {}
    rows = connection.execute(
        _TRIED, {"sites": [site for site, _ in about], "runs": [run for _, run in about], "times": TIMES}
    ).fetchall()
    return {(subdomain, run_id, kind, stage): ends for subdomain, run_id, kind, stage, ends in rows}


def _end_of_run(repair: Repair) -> Repair:
    assert repair.subdomain is not None
    assert repair.run_id is not None
    subdomain, run_id = repair.subdomain, repair.run_id
    reason = f"given up: {repair.found}; tried {TIMES} times without progress: {repair.do}"
    return replace(
        repair,
        kind=GIVEN_UP,
        do="the run ended as failed",
        why=f"{TIMES} times without progress: {repair.do}",
        apply=lambda c: engine.abandon_run(c, subdomain, run_id, reason),
        content_item_id=None,
    )
