"""What the database can see by itself. What is broken is for SQL views to say; how it is mended, for SQL functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, LiteralString

from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair

Found = Iterator[Repair]


def run_checks(connection: Connection, site: str | None) -> list[Repair]:
    """Jobs without a worker, then what must be right before units can be judged: which run, which phase, its end."""
    finders = (find_expired, _claims, _lost_runs, _misplaced, _ends, _transitions)
    return [repair for find in finders for repair in find(connection, site)]


def unit_checks(connection: Connection, site: str | None) -> list[Repair]:
    """Units, counters and coordinators, and what waits for nothing."""
    finders = (_orphaned, _miscounted, _without_coordinator, _stale, _dirty, _stranded)
    return [repair for find in finders for repair in find(connection, site)]


def find_expired(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select job_id, subdomain, stage, holder from expired_claims
        where %(site)s::text is null or subdomain = %(site)s order by job_id
    """
    for job_id, subdomain, stage, holder in _rows(connection, query, site):
        yield Repair(
            "lease",
            subdomain,
            None,
            stage,
            f"job {job_id} runs without a live lease",
            "another attempt, or failed when its attempts are used up",
            f"its worker ({holder or 'unknown'}) died, froze or ran past the time limit",
            partial(_rescue, job_id),
            immediate=True,
        )


def _rescue(job_id: int, connection: Connection) -> bool:
    return engine.rescue_job(connection, job_id) != "left alone"


def _claims(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select job_id, subdomain, stage, problem from claim_mismatches
        where %(site)s::text is null or subdomain = %(site)s order by job_id
    """
    for job_id, subdomain, stage, problem in _rows(connection, query, site):
        yield Repair(
            "claim",
            subdomain,
            None,
            stage,
            problem,
            "the claim set to what its job says, or removed with it",
            "the job changed while nobody kept the books",
            lambda c, job_id=job_id: engine.repair_claim(c, job_id),  # type: ignore[misc]
        )


def _lost_runs(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, max(run_id), max(stage), string_agg(problem, '; ' order by run_id) from dangling_runs
        where %(site)s::text is null or subdomain = %(site)s group by subdomain order by subdomain
    """
    for subdomain, run_id, stage, problem in _rows(connection, query, site):
        yield Repair(
            "run",
            subdomain,
            run_id,
            stage,
            problem,
            "the site set to the run that it is really in",
            "the run that is going, or that the ledger knows, is the truth",
            lambda c, subdomain=subdomain: engine.repair_site_run(c, subdomain),  # type: ignore[misc]
            recounts=True,
        )


def _misplaced(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, run_id, current_stage, phase from phase_mismatches
        where %(site)s::text is null or subdomain = %(site)s order by subdomain
    """
    for subdomain, run_id, stage, phase in _rows(connection, query, site):
        yield Repair(
            "stage",
            subdomain,
            run_id,
            stage,
            f"the site says {stage or 'nothing'}, and its run is in phase {phase}",
            f"the site back in phase {phase}",
            "the ledger and the transitions of the run are the truth",
            lambda c, subdomain=subdomain: engine.repair_site_phase(c, subdomain),  # type: ignore[misc]
            recounts=True,
        )


def _ends(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select e.subdomain, e.run_id, min(e.problem), count(*), bool_or(s.run_id = e.run_id)
        from run_end_mismatches e join sites s on s.subdomain = e.subdomain
        where %(site)s::text is null or e.subdomain = %(site)s group by 1, 2 order by 1, 2
    """
    for subdomain, run_id, problem, problems, present in _rows(connection, query, site):
        yield Repair(
            "end",
            subdomain,
            run_id,
            None,
            problem + (f", and {problems - 1} more of its kind" if problems > 1 else ""),
            "the run ended for all: units closed, jobs cancelled, the site completed",
            "a run is over when its record or a newer run says so; the next run takes up what is undone",
            lambda c, run_id=run_id: engine.repair_run_end(c, run_id),  # type: ignore[misc]
            recounts=present,
        )


def _transitions(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, run_id, string_agg(problem, '; ' order by phase) from transition_mismatches
        where %(site)s::text is null or subdomain = %(site)s group by 1, 2 order by 1
    """
    for subdomain, run_id, problem in _rows(connection, query, site):
        yield Repair(
            "transition",
            subdomain,
            run_id,
            None,
            problem,
            "the transitions set to the phase that the run is in, and counted again",
            "the run would not go on, or could not prove that it did so once",
            lambda c, subdomain=subdomain: engine.repair_transitions(c, subdomain),  # type: ignore[misc]
            recounts=True,
        )


def _orphaned(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, run_id, stage, content_item_id, status, late from orphaned_units
        where %(site)s::text is null or subdomain = %(site)s order by 1, 3, 4
    """
    for subdomain, run_id, stage, item, status, late in _rows(connection, query, site):
        yield Repair(
            "unit",
            subdomain,
            run_id,
            stage,
            f"content item {item} is {status} without a job",
            "a new job, late: the run does not wait for it" if late else "a new job",
            "its job ended or vanished without a word",
            lambda c, item=item, stage=stage: engine.redefer_unit(c, item, stage),  # type: ignore[misc]
            content_item_id=item,
            recounts=late,
        )


def _miscounted(connection: Connection, site: str | None) -> Found:
    """For a site that was asked for by name its ledger is counted however long it has been at rest."""
    query: LiteralString = """
        select m.subdomain, m.run_id, m.problems, (select count(*) from clerk_missing_units(m.subdomain))
        from (
            select subdomain, run_id, string_agg(stage || ': ' || problem, '; ' order by stage) as problems
            from counter_mismatches
            where differs and case when %(site)s::text is null then in_motion else subdomain = %(site)s end
            group by 1, 2
        ) m
        order by 1
    """
    for subdomain, run_id, problems, lost in _rows(connection, query, site):
        yield Repair(
            "members" if lost else "counters",
            subdomain,
            run_id,
            None,
            problems,
            f"{lost} units get a row and a job again; then count again" if lost else "count again",
            "they were units of the run, and are nobody's now" if lost else "the ledger is the truth",
            partial(_mend_books, subdomain),
            recounts=True,
        )


def _mend_books(subdomain: str, connection: Connection) -> bool:
    row = connection.execute(
        "select exists (select from counter_mismatches where differs and subdomain = %s)", [subdomain]
    ).fetchone()
    if not (row and row[0]):
        return False
    engine.repair_units(connection, subdomain)
    return True


def _without_coordinator(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, run_id, stage, phase from missing_coordinators
        where %(site)s::text is null or subdomain = %(site)s order by 1
    """
    for subdomain, run_id, stage, phase in _rows(connection, query, site):
        yield Repair(
            "coordinator",
            subdomain,
            run_id,
            stage,
            f"phase {phase} is complete and nobody ends it",
            "the coordinator again",
            "its coordinator was lost",
            lambda c, subdomain=subdomain: engine.redefer_coordinator(c, subdomain),  # type: ignore[misc]
        )


def _stale(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, run_id, count(*) from stale_jobs
        where (%(site)s::text is null or subdomain = %(site)s)
          -- Those go with the run, when it is ended for all.
          and run_id not in (select run_id from run_end_mismatches where run_id is not null)
        group by 1, 2 order by 1, 2
    """
    for subdomain, run_id, jobs in _rows(connection, query, site):
        yield Repair(
            "stale",
            subdomain,
            run_id,
            None,
            f"{jobs} jobs wait although run {run_id} is over",
            "cancelled",
            "whatever they would report is stale",
            lambda c, s=subdomain, r=run_id: engine.cancel_stale_jobs(c, s, r) > 0,  # type: ignore[misc]
        )


def _dirty(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, run_id from sites
        where dirty and current_stage = 'completed' and (%(site)s::text is null or subdomain = %(site)s) order by 1
    """
    for subdomain, run_id in _rows(connection, query, site):
        yield Repair(
            "dirty",
            subdomain,
            run_id,
            None,
            "documents were healed after their phase",
            "a new run from phase 3",
            "the published archive lacks them",
            lambda c, subdomain=subdomain: engine.start_refresh_run(c, subdomain) is not None,  # type: ignore[misc]
        )


def _stranded(connection: Connection, site: str | None) -> Found:
    query: LiteralString = """
        select subdomain, count(*) from wrongly_paused_jobs
        where %(site)s::text is null or subdomain = %(site)s group by 1 order by 1
    """
    for subdomain, jobs in _rows(connection, query, site):
        yield Repair(
            "stranded",
            subdomain,
            None,
            None,
            f"{jobs} jobs are held back although nothing is paused",
            "due at once",
            "they were given back in the very moment of resuming",
            lambda c, subdomain=subdomain: engine.release_paused_jobs(c, subdomain) > 0,  # type: ignore[misc]
            immediate=True,
        )


def _rows(connection: Connection, query: LiteralString, site: str | None) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(query, {"site": site}).fetchall()]
