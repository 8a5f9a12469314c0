"""Finds what reality broke and mends it: a plan first, then each repair in a short transaction of its own.

What is broken is for SQL views to say; how it is mended, for the SQL functions that operators' moves use too.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg

from clerk.pg import engine

logger = logging.getLogger(__name__)
Connection = psycopg.Connection[Any]

_LOCK_KEY = 0x7265636F6E  # "recon"


@dataclass(frozen=True)
class Repair:
    subdomain: str | None
    run_id: int | None
    stage: str | None
    found: str
    do: str
    why: str
    apply: Callable[[Connection], object]


def make_plan(connection: Connection, site: str | None = None) -> list[Repair]:
    """What would be mended now, in the order in which it would be."""
    return [repair for find in _FINDERS for repair in find(connection) if site is None or repair.subdomain == site]


def reconcile_once(connection: Connection, site: str | None = None) -> list[Repair]:
    """Make a plan and apply it, unless another reconciler is at it: then leave quietly. Returns what was mended."""
    if not _alone(connection):
        return []
    try:
        reconciliation = uuid.uuid4()
        done = []
        # One kind after the other: a job that is given back may settle the books that the next look is about.
        for find in _FINDERS:
            for repair in find(connection):
                if (site is None or repair.subdomain == site) and _mend(connection, reconciliation, repair):
                    done.append(repair)
        return done
    finally:
        connection.execute("select pg_advisory_unlock(%s)", [_LOCK_KEY])


def rescue_expired(connection: Connection) -> int:
    """The one repair that cannot wait for a quarter of an hour."""
    reconciliation = uuid.uuid4()
    return sum(_mend(connection, reconciliation, repair) for repair in _expired(connection))


def _alone(connection: Connection) -> bool:
    row = connection.execute("select pg_try_advisory_lock(%s)", [_LOCK_KEY]).fetchone()
    return bool(row and row[0])


def _mend(connection: Connection, reconciliation: uuid.UUID, repair: Repair) -> bool:
    with connection.transaction():
        before = _picture(connection, repair)
        result = repair.apply(connection)
        if result in (False, "left alone", None) and repair.do != "count again":
            return False
        connection.execute(
            "insert into reconcile_log (reconciliation, subdomain, run_id, stage, found, done, why, before, after)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [
                reconciliation,
                repair.subdomain,
                repair.run_id,
                repair.stage,
                repair.found,
                repair.do,
                repair.why,
                json.dumps(before, default=str),
                json.dumps(_picture(connection, repair), default=str),
            ],
        )
    logger.info("%s: %s, so: %s", repair.subdomain, repair.found, repair.do)
    return True


def _picture(connection: Connection, repair: Repair) -> dict[str, Any] | None:
    row = connection.execute(
        "select to_jsonb(s) from pipeline_overview s where s.subdomain = %s", [repair.subdomain]
    ).fetchone()
    return row[0] if row else None


def _expired(connection: Connection) -> list[Repair]:
    return [
        Repair(
            subdomain,
            None,
            stage,
            f"job {job_id} runs without a live lease",
            "another attempt, or failed when its attempts are used up",
            f"its worker ({holder or 'unknown'}) died, froze or ran past the time limit",
            lambda c, job_id=job_id: engine.rescue_job(c, job_id),  # type: ignore[misc]
        )
        for job_id, subdomain, stage, holder in connection.execute(
            "select job_id, subdomain, stage, holder from expired_claims order by job_id"
        ).fetchall()
    ]


def _orphaned(connection: Connection) -> list[Repair]:
    return [
        Repair(
            subdomain,
            run_id,
            stage,
            f"content item {item} is {status} without a job",
            "a new job",
            "its job ended or vanished without a word",
            lambda c, item=item, stage=stage: engine.redefer_unit(c, item, stage),  # type: ignore[misc]
        )
        for subdomain, run_id, stage, item, status in connection.execute(
            "select subdomain, run_id, stage, content_item_id, status from orphaned_units order by 1, 3, 4"
        ).fetchall()
    ]


def _miscounted(connection: Connection) -> list[Repair]:
    return [
        Repair(
            subdomain,
            run_id,
            None,
            problems,
            "count again",
            "the ledger is the truth",
            lambda c, subdomain=subdomain: engine.recount_site(c, subdomain),  # type: ignore[misc]
        )
        for subdomain, run_id, problems in connection.execute(
            "select subdomain, run_id, string_agg(stage || ': ' || problem, '; ') from pipeline_conservation"
            " where invariant = 'I2' group by 1, 2 order by 1"
        ).fetchall()
    ]


def _without_coordinator(connection: Connection) -> list[Repair]:
    return [
        Repair(
            subdomain,
            run_id,
            None,
            f"phase {phase} is complete and nobody ends it",
            "the coordinator again",
            "its coordinator was lost",
            lambda c, subdomain=subdomain: engine.redefer_coordinator(c, subdomain),  # type: ignore[misc]
        )
        for subdomain, run_id, phase in connection.execute(
            "select subdomain, run_id, phase from lost_coordinators order by 1"
        ).fetchall()
    ]


def _dirty(connection: Connection) -> list[Repair]:
    return [
        Repair(
            subdomain,
            run_id,
            None,
            "documents were healed after their phase",
            "a new run from phase 3",
            "the published archive lacks them",
            lambda c, subdomain=subdomain: engine.refresh(c, subdomain),  # type: ignore[misc]
        )
        for subdomain, run_id in connection.execute(
            "select s.subdomain, s.run_id from sites s where s.dirty and s.current_stage = 'completed' order by 1"
        ).fetchall()
    ]


def _stranded(connection: Connection) -> list[Repair]:
    return [
        Repair(
            subdomain,
            None,
            None,
            f"{jobs} jobs are held back although nothing is paused",
            "due at once",
            "they were given back in the very moment of resuming",
            engine.release_held_back,
        )
        for subdomain, jobs in connection.execute(
            "select subdomain, count(*) from stranded_jobs group by 1 order by 1"
        ).fetchall()
    ]


_FINDERS = (_expired, _orphaned, _miscounted, _without_coordinator, _dirty, _stranded)
