"""The SQL API of the state machine: one function per public SQL function, with the same name and arguments.

The logic is in `sql/functions`; this module adds types and errors. Each call is one statement, and so one transaction
on a connection in autocommit mode.
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
DELIVERY_QUEUE = "delivery"
"""Of the jobs of saved searches. Not `deploy`: a slow mail server must not delay publications."""
QUEUES = (*STAGES, COORDINATOR_QUEUE, DELIVERY_QUEUE)
CPU_QUEUES = ("ocr", "compilation", "extraction")
"""Their jobs use a whole core. Those of the other queues wait for the network or the database most of the time."""


@dataclass(frozen=True)
class Retried:
    run_id: int | None
    stage: str | None
    """The stages, in order, separated by commas; None if only scheduled retries were expedited, or nothing was done."""
    units: int


@dataclass(frozen=True)
class Purged:
    run_id: int | None
    """The run that was ended."""
    deleted_jobs: int
    running_jobs: int
    """Jobs that were asked to stop."""


def now(connection: Connection) -> datetime:
    """The database's clock. Every time in the database comes from it."""
    time = _call(connection, "clerk_now", locals())
    assert isinstance(time, datetime)
    return time


def start_run(
    connection: Connection,
    subdomain: str,
    reason: str = "requested",
    supersede: bool = False,
    first_phase: int = 1,
    units: list[int] | None = None,
) -> int:
    """Start a run; raises RunInProgress if the site has an open run, unless `supersede` is set."""
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
    """Called by the trigger when a job ends. Returns `counted`, `late` or `stale`."""
    return str(_call(connection, "clerk_settle_unit", locals()))


def advance_phase(connection: Connection, subdomain: str, run_id: int, phase: int) -> str:
    """Called by a coordinator. Returns `stale` if the run is not in that phase."""
    return str(_call(connection, "clerk_advance_phase", locals()))


def start_refresh_run(connection: Connection, subdomain: str) -> int | None:
    """Start a run from phase 3 for a dirty site without an open run; None if there is nothing to do."""
    return _optional_int(_call(connection, "clerk_start_refresh_run", locals()))


def cancel_run(connection: Connection, subdomain: str, reason: str = "cancelled by an operator") -> int | None:
    """End the open run of a site; returns its id, or None if there is none."""
    return _optional_int(_call(connection, "clerk_cancel_run", locals()))


def retry_failed(
    connection: Connection, subdomain: str, stage: str | None = None, failed_only: bool = False
) -> Retried:
    """Retry the failed units of a stage, or of every stage, in the active run or in a new one."""
    run_id, stage, units = _call_row(connection, "clerk_retry_failed", locals())
    return Retried(run_id, stage, units)


def retry_units(connection: Connection, subdomain: str, stage: str, items: list[int]) -> Retried:
    """Retry failed documents of a stage, in the active run or in a new one."""
    run_id, units = _call_row(connection, "clerk_retry_units", locals())
    return Retried(run_id, stage, units)


def rewind(connection: Connection, subdomain: str, stage: str, force_ocr: bool = False) -> int:
    """Repeat a stage for every document, and all later stages, in a new run.

    `force_ocr`: the OCR stage processes every page again and ignores text layers.
    """
    return int(_call(connection, "clerk_rewind", locals()))


def purge_site(connection: Connection, subdomain: str) -> Purged:
    """End the open run of a site and delete its jobs. Documents, ledger and files stay."""
    return Purged(*_call_row(connection, "clerk_purge_site", locals()))


def pause_site(connection: Connection, subdomain: str, by: str) -> bool:
    """Pause the jobs of a site; False if it was paused already."""
    return bool(_call(connection, "clerk_pause_site", locals()))


def resume_site(connection: Connection, subdomain: str) -> bool:
    return bool(_call(connection, "clerk_resume_site", locals()))


def pause_queue(connection: Connection, queue: str, by: str) -> bool:
    """Pause the jobs of a queue; False if it was paused already."""
    return bool(_call(connection, "clerk_pause_queue", locals()))


def resume_queue(connection: Connection, queue: str) -> bool:
    return bool(_call(connection, "clerk_resume_queue", locals()))


def start_next_due_site(connection: Connection, reason: str = "scheduled") -> str | None:
    """Start the due site that has waited longest and return its subdomain; None if none is due."""
    subdomain = _call(connection, "clerk_start_next_due_site", locals())
    return None if subdomain is None else str(subdomain)


def defer_reconciliation(connection: Connection) -> bool:
    """Defer a reconciliation now; False if one already waits for a worker."""
    return bool(_call(connection, "clerk_defer_reconciliation", locals()))


def report_progress(connection: Connection, job_id: int, attempt: int, done: int, total: int | None) -> bool:
    """Record steps done so far; False if the claim is lost and the job should stop."""
    return bool(_call(connection, "clerk_report_progress", locals()))


def rescue_job(connection: Connection, job_id: int) -> str:
    """Returns `rescued`, `failed` (no attempts left) or `left alone` (its lease is live)."""
    return str(_call(connection, "clerk_rescue_job", locals()))


def release_paused_jobs(connection: Connection, subdomain: str | None = None) -> int:
    """Release paused jobs of which neither queue nor site is paused; returns how many."""
    return int(_call(connection, "clerk_release_paused_jobs", locals()))


def redefer_unit(connection: Connection, content_item_id: int, stage: str) -> bool:
    return bool(_call(connection, "clerk_redefer_unit", locals()))


def redefer_coordinator(connection: Connection, subdomain: str) -> bool:
    return bool(_call(connection, "clerk_redefer_coordinator", locals()))


def repair_run(connection: Connection, run_id: int) -> bool:
    """Make site, units and jobs agree with the record of the run; False if they already do."""
    return bool(_call(connection, "clerk_repair_run", locals()))


def repair_units(connection: Connection, subdomain: str) -> None:
    """Restore missing units, count again, and defer the coordinator if the phase is complete."""
    _call(connection, "clerk_repair_units", locals())


def repair_claim(connection: Connection, job_id: int) -> bool:
    return bool(_call(connection, "clerk_repair_claim", locals()))


def cancel_stale_jobs(connection: Connection, subdomain: str | None, run_id: int) -> int:
    """Cancel the waiting jobs of a run that has ended; returns how many there were."""
    return int(_call(connection, "clerk_cancel_stale_jobs", locals()))


def abandon_run(connection: Connection, subdomain: str, run_id: int, reason: str) -> bool:
    """End an active run as failed; False while a worker with a live lease works for it."""
    return bool(_call(connection, "clerk_abandon_run", locals()))


def recount_site(connection: Connection, subdomain: str) -> None:
    _call(connection, "clerk_recount_site", locals())


def mark_processed(connection: Connection, content_item_id: int, page_count: int) -> bool:
    """Mark a document with complete page texts as processed. False if nothing changed, or a worker has its job."""
    return bool(_call(connection, "clerk_mark_processed", locals()))


def mark_files_lost(
    connection: Connection, content_item_id: int, stage: str, message: str, pdf_missing: bool = False
) -> bool:
    """Mark a processed unit as failed because its files are missing, so that the next run processes it again.
    False if nothing changed, and while a run is active."""
    return bool(_call(connection, "clerk_mark_files_lost", locals()))


def remove_finished_jobs(connection: Connection, before: datetime, batch: int = 1000) -> int:
    """Delete one batch of old jobs; call until it returns 0."""
    return int(_call(connection, "clerk_remove_finished_jobs", locals()))


def delete_old_matches(connection: Connection) -> int:
    """Delete the matches and deliveries of saved searches that are old enough; returns the number of matches."""
    return int(_call(connection, "clerk_delete_old_matches", locals()))


def import_site(
    connection: Connection,
    subdomain: str,
    documents: Jsonb,
    phase: int | None,
    reason: str,
    started_at: datetime | None = None,
    updated_at: datetime | None = None,
) -> int | None:
    """Import a site without a run: its documents and, with a phase, an open run. None if it has had a run."""
    return _optional_int(_call(connection, "clerk_import_site", locals()))


def import_legacy_site(
    connection: Connection,
    subdomain: str,
    documents: Jsonb,
    phase: int | None,
    started_at: datetime | None = None,
    updated_at: datetime | None = None,
) -> int | None:
    """Import a legacy site with its documents and, with a phase, an open run that reconciliation continues."""
    return _optional_int(_call(connection, "clerk_import_legacy_site", locals()))


def initialize_stage(connection: Connection, subdomain: str, stage: str, total_jobs: int) -> None:
    """Helper for scripts of legacy clerk, like the four below: changes counters only, not the ledger."""
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
        error_class = PIPELINE_ERRORS.get(error.sqlstate or "")
        if error_class is None:
            raise
        raise error_class(error.diag.message_primary or "") from error
    assert row is not None
    return tuple(row)


def _optional_int(value: Any) -> int | None:
    return None if value is None else int(value)
