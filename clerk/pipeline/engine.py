"""The state machine's moves: one function per public SQL function, with its name and arguments.

Everything of substance happens in `sql/functions`; here are types and errors. Each call is one statement and so
one transaction, on a connection in autocommit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from clerk.errors import PIPELINE_ERRORS

Connection = psycopg.Connection[Any]

PHASES = {1: ("fetch",), 2: ("ocr",), 3: ("compilation", "extraction"), 4: ("deploy",)}
"""Phase of a run → its stages, as in the table stage_policy."""
STAGES = tuple(stage for stages in PHASES.values() for stage in stages)
"""In pipeline order. Each stage has a queue of the same name."""
COORDINATOR_QUEUE = "coordinator"
QUEUES = (*STAGES, COORDINATOR_QUEUE)


@dataclass(frozen=True)
class Retried:
    run_id: int | None
    stage: str | None
    units: int


def now(connection: Connection) -> datetime:
    """The database's clock, the only one that counts."""
    found = _call(connection, "clerk_now", locals())
    assert isinstance(found, datetime)
    return found


def start_run(
    connection: Connection,
    subdomain: str,
    reason: str = "requested",
    supersede: bool = False,
    first_phase: int = 1,
    units: list[int] | None = None,
) -> int:
    """Start a run; raises RunGoing while one is going, unless told to supersede it."""
    return int(_call(connection, "clerk_start_run", locals()))


def start_phase(connection: Connection, subdomain: str, run_id: int, phase: int, units: list[int] | None = None) -> int:
    """Start all stages of a phase; returns the number of units."""
    return int(_call(connection, "clerk_start_phase", locals()))


def settle_unit(
    connection: Connection,
    job_id: int,
    subdomain: str,
    run_id: int,
    stage: str,
    content_item_id: int,
    succeeded: bool,
    error_code: str | None,
    error_message: str | None,
) -> str:
    """What the trigger calls when a job ends: `counted`, `late` or `stale`."""
    return str(_call(connection, "clerk_settle_unit", locals()))


def advance_phase(connection: Connection, subdomain: str, run_id: int, phase: int) -> str:
    """What a coordinator calls; says `stale` if that phase is behind us."""
    return str(_call(connection, "clerk_advance_phase", locals()))


def start_refresh_run(connection: Connection, subdomain: str) -> int | None:
    """A new run from phase 3 for a dirty site whose run is over; None if there is nothing to do."""
    return _optional_int(_call(connection, "clerk_start_refresh_run", locals()))


def cancel_run(connection: Connection, subdomain: str, reason: str = "cancelled by an operator") -> int | None:
    """End the run that is going; returns its id, or None if none was."""
    return _optional_int(_call(connection, "clerk_cancel_run", locals()))


def retry_failed(
    connection: Connection, subdomain: str, stage: str | None = None, failed_only: bool = False
) -> Retried:
    """Try failed units again, in place or in a new run."""
    run_id, stage, units = _call_row(connection, "clerk_retry_failed", locals())
    return Retried(run_id, stage, units)


def retry_units(connection: Connection, subdomain: str, stage: str, items: list[int]) -> Retried:
    """Try these failed documents of a stage again, in place or in a new run."""
    run_id, units = _call_row(connection, "clerk_retry_units", locals())
    return Retried(run_id, stage, units)


def rewind(connection: Connection, subdomain: str, stage: str) -> int:
    """Do a stage again for every document, and all that follows."""
    return int(_call(connection, "clerk_rewind", locals()))


def pause_site(connection: Connection, subdomain: str, by: str) -> bool:
    """Hold back the site's jobs; False if they already were."""
    return bool(_call(connection, "clerk_pause_site", locals()))


def resume_site(connection: Connection, subdomain: str) -> bool:
    return bool(_call(connection, "clerk_resume_site", locals()))


def pause_queue(connection: Connection, queue: str, by: str) -> bool:
    """Hold back a queue's jobs; False if they already were."""
    return bool(_call(connection, "clerk_pause_queue", locals()))


def resume_queue(connection: Connection, queue: str) -> bool:
    return bool(_call(connection, "clerk_resume_queue", locals()))


def start_next_due_site(connection: Connection, reason: str = "scheduled") -> str | None:
    """Start the site that has waited longest; None when none is due."""
    found = _call(connection, "clerk_start_next_due_site", locals())
    return None if found is None else str(found)


def defer_reconciliation(connection: Connection) -> bool:
    """Have a worker reconcile now; False if a reconciliation waits for a worker already."""
    return bool(_call(connection, "clerk_defer_reconciliation", locals()))


def report_progress(connection: Connection, job_id: int, attempt: int, done: int, total: int | None) -> bool:
    """Steps done so far, from the process that holds the claim; False if the claim is lost and the job should stop."""
    return bool(_call(connection, "clerk_report_progress", locals()))


def rescue_job(connection: Connection, job_id: int) -> str:
    """`rescued`, `failed` (attempts used up) or `left alone` (its lease lives)."""
    return str(_call(connection, "clerk_rescue_job", locals()))


def release_paused_jobs(connection: Connection, subdomain: str | None = None) -> int:
    """Jobs that are still held back although nothing they belong to is paused any more; returns how many."""
    return int(_call(connection, "clerk_release_paused_jobs", locals()))


def redefer_unit(connection: Connection, content_item_id: int, stage: str) -> bool:
    return bool(_call(connection, "clerk_redefer_unit", locals()))


def redefer_coordinator(connection: Connection, subdomain: str) -> bool:
    return bool(_call(connection, "clerk_redefer_coordinator", locals()))


def repair_site_run(connection: Connection, subdomain: str) -> bool:
    """The run that the site is really in, put back where it is missing."""
    return bool(_call(connection, "clerk_repair_site_run", locals()))


def repair_site_phase(connection: Connection, subdomain: str) -> bool:
    """The site back into the phase that its run is in."""
    return bool(_call(connection, "clerk_repair_site_phase", locals()))


def repair_run_end(connection: Connection, run_id: int) -> bool:
    """A run that is over for some is over for all."""
    return bool(_call(connection, "clerk_repair_run_end", locals()))


def repair_transitions(connection: Connection, subdomain: str) -> bool:
    return bool(_call(connection, "clerk_repair_transitions", locals()))


def repair_units(connection: Connection, subdomain: str) -> None:
    """Lost units again, all counted anew, and the coordinator if that makes the phase complete."""
    _call(connection, "clerk_repair_units", locals())


def repair_claim(connection: Connection, job_id: int) -> bool:
    return bool(_call(connection, "clerk_repair_claim", locals()))


def cancel_stale_jobs(connection: Connection, subdomain: str | None, run_id: int) -> int:
    """Waiting jobs of a run that is over; returns how many there were."""
    return int(_call(connection, "clerk_cancel_stale_jobs", locals()))


def abandon_run(connection: Connection, subdomain: str, run_id: int, reason: str) -> bool:
    """End a run that is going and whose repairs lead nowhere."""
    return bool(_call(connection, "clerk_abandon_run", locals()))


def recount_site(connection: Connection, subdomain: str) -> None:
    _call(connection, "clerk_recount_site", locals())


def mark_processed(connection: Connection, content_item_id: int, page_count: int) -> bool:
    """Its page texts are complete in storage: not to be read again. False if somebody is reading it."""
    return bool(_call(connection, "clerk_mark_processed", locals()))


def mark_files_lost(
    connection: Connection, content_item_id: int, stage: str, message: str, pdf_missing: bool = False
) -> bool:
    """What a finished unit left in storage is gone: the next run does it again.
    False if nothing changed, and while a run is going."""
    return bool(_call(connection, "clerk_mark_files_lost", locals()))


def remove_finished_jobs(connection: Connection, before: datetime, batch: int = 1000) -> int:
    """One batch of retention; call until it returns 0."""
    return int(_call(connection, "clerk_remove_finished_jobs", locals()))


def import_legacy_site(
    connection: Connection,
    subdomain: str,
    documents: Jsonb,
    phase: int | None,
    started_at: datetime | None = None,
    updated_at: datetime | None = None,
) -> int | None:
    """A site of the older system with its documents, and an open run for reconciliation to go on with; None if none."""
    return _optional_int(_call(connection, "clerk_import_legacy_site", locals()))


def initialize_stage(connection: Connection, subdomain: str, stage: str, total_jobs: int) -> None:
    """Compatibility with the older system's helpers, like the four below: no ledger, counters only."""
    _call(connection, "clerk_initialize_stage", locals())


def increment_completed(connection: Connection, subdomain: str, stage: str) -> None:
    _call(connection, "clerk_increment_completed", locals())


def increment_failed(connection: Connection, subdomain: str, stage: str, message: str, class_: str) -> None:
    _call(connection, "clerk_increment_failed", locals())


def should_trigger_coordinator(connection: Connection, subdomain: str, stage: str) -> bool:
    return bool(_call(connection, "clerk_should_trigger_coordinator", locals()))


def claim_coordinator_enqueue(connection: Connection, subdomain: str) -> bool:
    return bool(_call(connection, "clerk_claim_coordinator_enqueue", locals()))


def _call(connection: Connection, function: str, arguments: Mapping[str, Any]) -> Any:
    return _call_row(connection, function, arguments)[0]


def _call_row(connection: Connection, function: str, arguments: Mapping[str, Any]) -> tuple[Any, ...]:
    """Call by named arguments: `name` in Python is `p_name` in SQL."""
    values = {name.rstrip("_"): value for name, value in arguments.items() if name != "connection"}
    named = psycopg.sql.SQL(", ").join(
        psycopg.sql.SQL("{} => {}").format(psycopg.sql.Identifier(f"p_{name}"), psycopg.sql.Placeholder(name))
        for name in values
    )
    query = psycopg.sql.SQL("select * from {}({})").format(psycopg.sql.Identifier(function), named)
    try:
        row = connection.execute(query, values).fetchone()
    except psycopg.Error as error:
        known = PIPELINE_ERRORS.get(error.sqlstate or "")
        if known is None:
            raise
        raise known(error.diag.message_primary or "") from error
    assert row is not None
    return tuple(row)


def _optional_int(value: Any) -> int | None:
    return None if value is None else int(value)
