"""Ends a run as failed when the same repair of it has made no progress three times."""

from __future__ import annotations

from dataclasses import replace

from clerk.pipeline import engine
from clerk.reconcile.repair import ABANDONED, Connection, Repair

MAX_REPEATS = 3

Key = tuple[str | None, int | None, str, str | None]

# All repairs of one reconciliation count once, however many units they concern.
_REPEATED = """
    with repeated as (
        select subdomain, run_id, kind, stage
        from reconcile_log
        where subdomain = any (%(sites)s) and run_id = any (%(runs)s)
          -- Another session had locked the row: the repair was not tried.
          and coalesce(error, '') not like 'LockNotAvailable:%%'
        group by 1, 2, 3, 4
        having count(distinct reconciliation) >= %(max_repeats)s
    )
    select l.subdomain, l.run_id, l.kind, l.stage,
           clerk_run_is_active(l.run_id) and not clerk_has_live_job(l.subdomain, l.run_id)
    from (select repeated.*, clerk_last_progress(subdomain, run_id) as progress from repeated) t
    join reconcile_log l on l.subdomain = t.subdomain and l.run_id = t.run_id and l.kind = t.kind
                        and l.stage is not distinct from t.stage
    where l.at > coalesce(t.progress, '-infinity') and coalesce(l.error, '') not like 'LockNotAvailable:%%'
    group by 1, 2, 3, 4
    having count(distinct l.reconciliation) >= %(max_repeats)s
"""


def fail_repeated(connection: Connection, repairs: list[Repair]) -> list[Repair]:
    """The plan with every repeated repair replaced by the end of its run. If the run has ended, or a worker with a live
    lease works for it, the repair is left out instead."""
    repeated = _find_repeated(connection, repairs)
    if not repeated:
        return repairs
    plan: list[Repair] = []
    abandoned: set[tuple[str | None, int | None]] = set()
    for repair in repairs:
        run = (repair.subdomain, repair.run_id)
        can_end = None if repair.immediate else repeated.get(_key(repair))
        if can_end and run not in abandoned:
            abandoned.add(run)
            plan.append(_end_of_run(repair))
        elif can_end is None:
            plan.append(repair)
    # Ending a run makes its other repairs unnecessary.
    return [r for r in plan if r.kind == ABANDONED or r.immediate or (r.subdomain, r.run_id) not in abandoned]


def _key(repair: Repair) -> Key:
    return repair.subdomain, repair.run_id, repair.kind, repair.stage


def _find_repeated(connection: Connection, repairs: list[Repair]) -> dict[Key, bool]:
    """Repairs that were made three times since the last progress of their run → whether the run can be ended."""
    runs = {(repair.subdomain, repair.run_id) for repair in repairs if repair.run_id is not None}
    if not runs:
        return {}
    rows = connection.execute(
        _REPEATED,
        {"sites": [site for site, _ in runs], "runs": [run for _, run in runs], "max_repeats": MAX_REPEATS},
    ).fetchall()
    return {(subdomain, run_id, kind, stage): can_end for subdomain, run_id, kind, stage, can_end in rows}


def _end_of_run(repair: Repair) -> Repair:
    assert repair.subdomain is not None
    assert repair.run_id is not None
    subdomain, run_id = repair.subdomain, repair.run_id
    repeats = f"repaired {MAX_REPEATS} times without progress ({repair.action})"
    reason = f"abandoned: {repair.found}; {repeats}"
    return replace(
        repair,
        kind=ABANDONED,
        action="end the run as failed",
        why=repeats,
        apply=lambda c: engine.abandon_run(c, subdomain, run_id, reason),
        content_item_id=None,
    )
