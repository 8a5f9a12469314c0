"""Database checks: a table of queries for inconsistent state, each with the SQL function that repairs a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, LiteralString

from psycopg.rows import dict_row

from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair


@dataclass(frozen=True)
class _Check:
    """One kind of inconsistent state. `apply` is called with the connection and the `arguments` of a row; every other
    column of a row is a field of Repair, and overrides the check's own."""

    kind: str
    query: LiteralString
    action: str
    why: str
    apply: Callable[..., bool]
    immediate: bool = False
    recounts: bool = False

    def find(self, connection: Connection, site: str | None) -> list[Repair]:
        with connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(self.query, {"site": site}).fetchall()
        return [self._repair(**row) for row in rows]

    def _repair(self, arguments: list[Any], **columns: Any) -> Repair:
        fields: dict[str, Any] = {
            "kind": self.kind,
            "run_id": None,
            "stage": None,
            "action": self.action,
            "why": self.why,
            "immediate": self.immediate,
            "recounts": self.recounts,
        }
        return Repair(**(fields | columns), apply=lambda connection: self.apply(connection, *arguments))


def _rescue(connection: Connection, job_id: int) -> bool:
    return engine.rescue_job(connection, job_id) != "left alone"


def _repair_units(connection: Connection, subdomain: str) -> bool:
    row = connection.execute(
        "select exists (select from counter_mismatches where differs and subdomain = %s)", [subdomain]
    ).fetchone()
    if not (row and row[0]):
        return False
    engine.repair_units(connection, subdomain)
    return True


def _start_refresh(connection: Connection, subdomain: str) -> bool:
    return engine.start_refresh_run(connection, subdomain) is not None


def _at_least_one(function: Callable[..., int], connection: Connection, *arguments: Any) -> bool:
    return function(connection, *arguments) > 0


_EXPIRED_CLAIMS = _Check(
    "lease",
    """
    select subdomain, stage, format('job %%s is running without a live lease', job_id) as found,
           format('its worker (%%s) died, froze or exceeded the time limit', coalesce(holder, 'unknown')) as why,
           jsonb_build_array(job_id) as arguments
    from expired_claims
    where %(site)s::text is null or subdomain = %(site)s
    order by job_id
    """,
    "retry the job, or fail it if it has no attempts left",
    "",
    _rescue,
    immediate=True,
)

_CHECKS = (
    _EXPIRED_CLAIMS,
    _Check(
        "claim",
        """
        select subdomain, stage, problem as found, jsonb_build_array(job_id) as arguments
        from claim_mismatches
        where %(site)s::text is null or subdomain = %(site)s
        order by job_id
        """,
        "set the claim to the status of its job, or delete it if there is no job",
        "the job changed while the accounting triggers were disabled",
        engine.repair_claim,
    ),
    _Check(
        "run",
        """
        select m.subdomain, m.run_id, bool_or(s.run_id = m.run_id) as recounts,
               min(m.problem) || case when count(*) > 1 then format('; %%s more', count(*) - 1) else '' end as found,
               jsonb_build_array(m.run_id) as arguments
        from run_mismatches m
        join sites s on s.subdomain = m.subdomain
        where %(site)s::text is null or m.subdomain = %(site)s
        group by m.subdomain, m.run_id
        order by m.subdomain, m.run_id
        """,
        "make the site, its units and its jobs agree with the record of the run",
        "the record of a run says whether it has ended; the next run takes up its open units",
        engine.repair_run,
    ),
    _Check(
        "unit",
        """
        select subdomain, run_id, stage, content_item_id, late as recounts,
               format('content item %%s is %%s and has no job', content_item_id, status) as found,
               case when late then 'defer a late job, for which the run does not wait' else 'defer a new job' end
                   as action,
               jsonb_build_array(content_item_id, stage) as arguments
        from orphaned_units
        where %(site)s::text is null or subdomain = %(site)s
        order by subdomain, stage, content_item_id
        """,
        "",
        "its job ended or was deleted without accounting",
        engine.redefer_unit,
    ),
    # With a site, its ledger is counted even if the site has been idle for long.
    _Check(
        "counters",
        """
        select m.subdomain, m.run_id, m.found,
               case when missing.units > 0 then 'missing-units' else 'counters' end as kind,
               case when missing.units > 0
                    then format('create a ledger row and a job for %%s units, then count again', missing.units)
                    else 'count again' end as action,
               case when missing.units > 0 then 'the run counts units that have no ledger row'
                    else 'the ledger is authoritative' end as why,
               jsonb_build_array(m.subdomain) as arguments
        from (
            select subdomain, run_id, string_agg(stage || ': ' || problem, '; ' order by stage, problem) as found
            from counter_mismatches
            where differs and case when %(site)s::text is null then recently_changed else subdomain = %(site)s end
            group by subdomain, run_id
        ) m
        cross join lateral (select count(*) as units from clerk_missing_units(m.subdomain)) missing
        order by m.subdomain
        """,
        "",
        "",
        _repair_units,
        recounts=True,
    ),
    _Check(
        "coordinator",
        """
        select subdomain, run_id, stage, format('phase %%s is complete and has no coordinator', phase) as found,
               jsonb_build_array(subdomain) as arguments
        from missing_coordinators
        where %(site)s::text is null or subdomain = %(site)s
        order by subdomain
        """,
        "defer the coordinator again",
        "its coordinator failed or was deleted",
        engine.redefer_coordinator,
    ),
    # Not of runs that are repaired above, which cancels their jobs.
    _Check(
        "stale-jobs",
        """
        select subdomain, run_id, format('%%s jobs are waiting although run %%s has ended', count(*), run_id) as found,
               jsonb_build_array(subdomain, run_id) as arguments
        from stale_jobs
        where (%(site)s::text is null or subdomain = %(site)s)
          and run_id not in (select m.run_id from run_mismatches m)
        group by subdomain, run_id
        order by subdomain, run_id
        """,
        "cancel them",
        "their results would be stale",
        partial(_at_least_one, engine.cancel_stale_jobs),
    ),
    _Check(
        "dirty",
        """
        select subdomain, run_id, 'late documents were processed after their phase' as found,
               jsonb_build_array(subdomain) as arguments
        from sites
        where dirty and current_stage = 'completed' and (%(site)s::text is null or subdomain = %(site)s)
        order by subdomain
        """,
        "start a run from phase 3",
        "the published archive lacks them",
        _start_refresh,
    ),
    _Check(
        "paused-jobs",
        """
        select subdomain, format('%%s jobs are paused although nothing is', count(*)) as found,
               jsonb_build_array(subdomain) as arguments
        from wrongly_paused_jobs
        where %(site)s::text is null or subdomain = %(site)s
        group by subdomain
        order by subdomain
        """,
        "schedule them now",
        "their rows were locked while the pause ended",
        partial(_at_least_one, engine.release_paused_jobs),
        immediate=True,
    ),
)
"""In the order of repair: jobs without a worker, then runs, then units, counters and coordinators."""


def run_checks(connection: Connection, site: str | None) -> list[Repair]:
    """All repairs that the database needs, of one site or of all."""
    return [repair for check in _CHECKS for repair in check.find(connection, site)]


def find_expired(connection: Connection) -> list[Repair]:
    """Running jobs without a live lease."""
    return _EXPIRED_CLAIMS.find(connection, None)
