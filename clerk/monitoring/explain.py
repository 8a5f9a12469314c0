"""Explains a site's state in one sentence, for `clerk why`. Works on a SiteState; queries nothing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from clerk.db.cadence import DEFAULT, WORDS, describe_interval
from clerk.errors import NoDocuments, job_error_class, remedy_for
from clerk.humanize import format_timestamp, pluralize, source_file
from clerk.monitoring import reasons
from clerk.monitoring.evidence import describe_item, list_evidence
from clerk.monitoring.reasons import Reason
from clerk.monitoring.site_state import SiteState
from clerk.monitoring.status import ABSENT_TRIGGER
from clerk.pipeline.engine import PHASES

_PHASE_FINISHED = {
    1: "the fetch has finished",
    2: "OCR has finished",
    3: "compilation and extraction have finished",
    4: "the publication has finished",
}
_MAX_FAILURES = 3


@dataclass(frozen=True)
class Explanation:
    site: str
    because: str
    """Code for programs."""
    sentence: str
    """The same for people."""
    remedy: str | None
    """What an operator can do; None if nothing has to be done."""
    evidence: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(state: SiteState) -> Explanation:
    reason = _missing_triggers(state) or (_active_run(state) if state.run.active else _no_active_run(state))
    return Explanation(state.run.subdomain, reason.because, reason.text, reason.remedy, list_evidence(state))


def _missing_triggers(state: SiteState) -> Reason | None:
    """A trigger that is enabled although it should not be stops no run: only an alert reports it."""
    absent = [problem for problem in state.trigger_problems if problem.endswith(ABSENT_TRIGGER)]
    if not absent:
        return None
    return Reason(
        "triggers",
        f"{' and '.join(absent)}, so finished jobs are not recorded and no run advances",
        remedy="restore it: clerk db up; then clerk reconcile-pipeline --threshold-hours 0",
    )


def _active_run(state: SiteState) -> Reason:
    if any(not group.late for group in state.groups):
        return _open_units(state)
    return _between_phases(state)


def _open_units(state: SiteState) -> Reason:
    """A cause comes first if it alone explains the wait; otherwise the open work, with the state of each part."""
    work, waits_for = reasons.for_units(state, [group for group in state.groups if not group.late])
    waits = f"the run waits for {work}"
    causes = list({reason.text: reason for reason in waits_for if reason.is_cause}.values())
    parts = [reason for reason in waits_for if not reason.is_cause]
    running = any(reason.because == "running" for reason in parts)
    if causes and (not running or state.run.paused_at):
        lead = causes
        sentences = [", ".join(reason.text for reason in causes), waits, ", ".join(reason.text for reason in parts)]
    else:
        lead = parts + causes
        sentences = [waits, ", ".join(reason.text for reason in lead)]
    remedy = next((reason.remedy for reason in (*causes, *parts) if reason.remedy), None)
    text = "; ".join(filter(None, [*sentences, *reasons.throttled_hosts(state)]))
    return Reason(lead[0].because, text, remedy=remedy)


def _between_phases(state: SiteState) -> Reason:
    run = state.run
    finished = _PHASE_FINISHED.get(run.phase or 0, "its stage has finished")
    if state.coordinator is not None:
        reason = reasons.for_coordinator(state, state.coordinator)
        because = f"coordinator_{reason.because.removeprefix('coordinator_')}"
        return Reason(because, f"{finished}; {reason.text}", remedy=reason.remedy)
    unfinished = [stage for stage in PHASES.get(run.phase or 0, ()) if run.done(stage) < run.total(stage)]
    if unfinished:
        counts = " and ".join(f"{run.done(stage)} of {run.total(stage)} in {stage}" for stage in unfinished)
        because, text = "counter_mismatch", f"the counters show {counts}, but no unit is open: reconciliation recounts"
    else:
        because = "coordinator_no_job"
        text = f"{finished}; its coordinator was never deferred: reconciliation defers it"
    return Reason(because, reasons.will_be_repaired(state, text), remedy=reasons.repair_now(state))


def _no_active_run(state: SiteState) -> Reason:
    run = state.run
    late = [group for group in state.groups if group.late]
    if late:
        work, waits_for = reasons.for_units(state, late)
        parts = ", ".join(dict.fromkeys(reason.text for reason in waits_for))
        text = f"{_ended(state).text}; {work} is repeated after the run: {parts}"
        return Reason("late", text, remedy=waits_for[0].remedy)
    if run.dirty:
        return _dirty(state)
    if run.run_id is None and run.current_stage in (None, "completed"):
        return Reason("never_run", f"it has never run; {_next_run(state)}", remedy=_start_run(state))
    if run.run_id is None:
        text = (
            f"it is in stage {run.current_stage} and has no run, because its counters were set by a script, by hand or"
            " by legacy clerk: reconciliation opens one and counts the texts on disk"
        )
        return Reason("no_run", reasons.will_be_repaired(state, text), remedy=reasons.repair_now(state))
    ended = _ended(state)
    return Reason(ended.because, f"{ended.text}; {_next_run(state)}", remedy=ended.remedy)


def _dirty(state: SiteState) -> Reason:
    lead = "documents recovered after their stage had finished, so the archive has to be rebuilt"
    if state.refresh is None:
        text = f"{lead}; the job that starts this run is missing: reconciliation starts the run"
        return Reason("dirty", reasons.will_be_repaired(state, text), remedy=reasons.repair_now(state))
    reason = reasons.for_refresh(state, state.refresh)
    return Reason("dirty", f"{lead}; {reason.text}", remedy=reason.remedy)


def _ended(state: SiteState) -> Reason:
    run = state.run
    why = run.outcome_reason or run.outcome or "no outcome is recorded"
    at = f" at {format_timestamp(run.ended_at, state.now)}" if run.ended_at else ""
    match run.outcome:
        case "failed":
            if run.deployed_at and not run.announced_at:
                why = "the archive is published, but a step after publication failed"
            return Reason("failed", f"the run failed{at}: {why}{_worst_error(state)}", remedy=_retry(state))
        case "cancelled":
            return Reason("cancelled", f"the run ended{at}: {why}", remedy=_start_run(state))
        case "partial" if state.failed:
            noun = "failure" if any(unit.kind == "archive" for unit in state.failed) else "failed document"
            count = pluralize(state.failed_count, noun)
            return Reason("partial", f"the run finished with {count}{at}: {_failures(state)}", remedy=_retry(state))
        case "no_documents" if not run.skipped:
            remedy = remedy_for(NoDocuments.code, run.subdomain)
            return Reason("no_documents", f"the run finished{at}: {why}", remedy=remedy)
        case _ if state.failed:
            return Reason(run.outcome or "ended", f"the run finished{at}: {why}", remedy=_retry(state))
        case _:
            skipped = _resolve_skipped(state) if run.skipped else None
            return Reason(run.outcome or "ended", f"the run finished{at}: {why}", remedy=skipped)


def _resolve_skipped(state: SiteState) -> str:
    site = state.run.subdomain
    return f"see what was skipped, and what to do: clerk site skipped {site}"


def _worst_error(state: SiteState) -> str:
    if not state.failed:
        return ""
    worst = next((unit for unit in state.failed if unit.kind == "archive"), state.failed[0])
    return f" ({': '.join(filter(None, (worst.error_code, worst.error_message)))})"


def _failures(state: SiteState) -> str:
    names = [
        f"{describe_item(unit)} ({': '.join(filter(None, (source_file(unit.source_url), unit.error_code)))})"
        for unit in state.failed[:_MAX_FAILURES]
    ]
    more = state.failed_count - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _next_run(state: SiteState) -> str:
    run = state.run
    next_run = "the first run" if run.run_id is None else "the next run"
    if run.paused_at is not None:
        return f"{reasons.site_paused(state)}, and {next_run} starts when it is resumed"
    if run.run_interval is None:
        return f"{next_run} is not started automatically (cadence never)"
    if run.due_at is not None and run.due_at > state.now:
        cadence = describe_interval(run.run_interval)
        how_often = "" if cadence == DEFAULT else f" ({cadence if cadence in WORDS else f'every {cadence} hours'})"
        return f"{next_run} is due at {format_timestamp(run.due_at, state.now)}{how_often}"
    blocked = reasons.coordinator_blocked(state) or reasons.scheduler_failed(state)
    return f"{next_run} is due, {blocked or 'and starts within a minute'}"


def _start_run(state: SiteState) -> str:
    run = state.run
    if run.paused_at:
        return f"clerk resume {run.subdomain}"
    if run.run_interval is None:
        return f"start a run: clerk update {run.subdomain}"
    return reasons.unblock_coordinator(state) or f"start a run now: clerk update {run.subdomain}"


def _retry(state: SiteState) -> str:
    """The remedy itself if there is one error; several are listed by another command. A retry only if it can help."""
    site = state.run.subdomain
    codes = {unit.error_code for unit in state.failed}
    if len(codes) != 1 or state.failed_count > len(state.failed):
        see = f"see the remedy of each error: clerk failures --site {site}"
        helps = not codes or any(job_error_class(code).retry_helps for code in codes)
        return f"{see}; then retry: clerk retry {site}" if helps else see
    (code,) = codes
    remedy, command = remedy_for(code, site), f"clerk retry {site}"
    if "then retry" in remedy:
        return remedy.replace("then retry", f"then retry: {command}")
    return f"{remedy}; retry: {command}" if job_error_class(code).retry_helps else remedy
