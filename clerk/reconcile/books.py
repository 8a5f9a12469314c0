"""What the database can see by itself. What is broken is for SQL views to say; how it is mended, for SQL functions."""

from __future__ import annotations

from functools import partial
from typing import Any

from clerk.pg import engine
from clerk.reconcile.repair import Connection, Repair


def find_structure(connection: Connection, site: str | None) -> list[Repair]:
    """What must be right before single units can be judged."""
    return find_expired(connection, site)


def find_units(connection: Connection, site: str | None) -> list[Repair]:
    """Units, counters, coordinators, and what waits for nothing."""
    return [
        repair
        for find in (_orphaned, _miscounted, _without_coordinator, _dirty, _stranded)
        for repair in find(connection, site)
    ]


def find_expired(connection: Connection, site: str | None) -> list[Repair]:
    return [
        Repair(
            "lease",
            subdomain,
            None,
            stage,
            f"job {job_id} runs without a live lease",
            "another attempt, or failed when its attempts are used up",
            f"its worker ({holder or 'unknown'}) died, froze or ran past the time limit",
            partial(_rescue, job_id),
            at_once=True,
        )
        for job_id, subdomain, stage, holder in _rows(
            connection, "select job_id, subdomain, stage, holder from expired_claims order by job_id", site, 1
        )
    ]


def _rescue(job_id: int, connection: Connection) -> bool:
    return engine.rescue_job(connection, job_id) != "left alone"


def _orphaned(connection: Connection, site: str | None) -> list[Repair]:
    return [
        Repair(
            "unit",
            subdomain,
            run_id,
            stage,
            f"content item {item} is {status} without a job",
            "a new job",
            "its job ended or vanished without a word",
            lambda c, item=item, stage=stage: engine.redefer_unit(c, item, stage),  # type: ignore[misc]
            content_item_id=item,
        )
        for subdomain, run_id, stage, item, status in _rows(
            connection,
            "select subdomain, run_id, stage, content_item_id, status from orphaned_units order by 1, 3, 4",
            site,
        )
    ]


def _miscounted(connection: Connection, site: str | None) -> list[Repair]:
    return [
        Repair(
            "counters",
            subdomain,
            run_id,
            None,
            problems,
            "count again",
            "the ledger is the truth",
            partial(_recount, subdomain),
        )
        for subdomain, run_id, problems in _rows(
            connection,
            "select subdomain, run_id, string_agg(stage || ': ' || problem, '; ') from pipeline_conservation"
            " where invariant = 'I2' group by 1, 2 order by 1",
            site,
        )
    ]


def _recount(subdomain: str, connection: Connection) -> bool:
    engine.recount_site(connection, subdomain)
    return True


def _without_coordinator(connection: Connection, site: str | None) -> list[Repair]:
    return [
        Repair(
            "coordinator",
            subdomain,
            run_id,
            None,
            f"phase {phase} is complete and nobody ends it",
            "the coordinator again",
            "its coordinator was lost",
            lambda c, subdomain=subdomain: engine.redefer_coordinator(c, subdomain),  # type: ignore[misc]
        )
        for subdomain, run_id, phase in _rows(
            connection, "select subdomain, run_id, phase from lost_coordinators order by 1", site
        )
    ]


def _dirty(connection: Connection, site: str | None) -> list[Repair]:
    return [
        Repair(
            "dirty",
            subdomain,
            run_id,
            None,
            "documents were healed after their phase",
            "a new run from phase 3",
            "the published archive lacks them",
            lambda c, subdomain=subdomain: engine.refresh(c, subdomain) is not None,  # type: ignore[misc]
        )
        for subdomain, run_id in _rows(
            connection,
            "select subdomain, run_id from sites where dirty and current_stage = 'completed' order by 1",
            site,
        )
    ]


def _stranded(connection: Connection, site: str | None) -> list[Repair]:
    return [
        Repair(
            "stranded",
            subdomain,
            None,
            None,
            f"{jobs} jobs are held back although nothing is paused",
            "due at once",
            "they were given back in the very moment of resuming",
            lambda c: engine.release_held_back(c) > 0,
            at_once=True,
        )
        for subdomain, jobs in _rows(
            connection, "select subdomain, count(*) from stranded_jobs group by 1 order by 1", site
        )
    ]


def _rows(connection: Connection, query: str, site: str | None, column: int = 0) -> list[tuple[Any, ...]]:
    """Those about one site, or all. `column` is where the query has the subdomain."""
    rows = [tuple(row) for row in connection.execute(query.encode()).fetchall()]
    return [row for row in rows if site is None or row[column] == site]
