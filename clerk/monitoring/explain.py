"""One causal sentence about a site, made of facts; nothing here asks the database."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from clerk.humanize import format_timestamp, pluralize
from clerk.monitoring import reasons
from clerk.monitoring.evidence import about, evidence, skipped
from clerk.monitoring.reasons import Reason
from clerk.monitoring.site_state import SiteState

_OVER = {
    1: "the fetch is over",
    2: "reading is over",
    3: "compilation and extraction are over",
    4: "publishing is over",
}
_STAGES_OF_PHASE = {1: ("fetch",), 2: ("ocr",), 3: ("compilation", "extraction"), 4: ("deploy",)}
_FAILURES_NAMED = 3


@dataclass(frozen=True)
class Explanation:
    site: str
    because: str
    """One word for programs; `sentence` is for people."""
    sentence: str
    remedy: str | None
    """What a person can do about it; None if nothing need be done."""
    evidence: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def explain(facts: SiteState) -> Explanation:
    said = _broken(facts) or (_going(facts) if facts.run.going else _still(facts))
    return Explanation(facts.run.subdomain, said.because, said.words, said.remedy, evidence(facts))


def _broken(facts: SiteState) -> Reason | None:
    if not facts.triggers:
        return None
    return Reason(
        "triggers",
        f"nothing moves: {' and '.join(facts.triggers)}, so the ends of jobs are not booked",
        remedy="put it back: clerk db up; then clerk reconcile-pipeline",
    )


def _going(facts: SiteState) -> Reason:
    open_now = [group for group in facts.groups if not group.late]
    if open_now:
        return _waiting_for_units(facts)
    return _waiting_for_the_next_phase(facts)


def _waiting_for_units(facts: SiteState) -> Reason:
    """The cause first if one alone explains it; else what is waited for, and how far each part of that is."""
    waits_for, clauses = reasons.for_units(facts, [group for group in facts.groups if not group.late])
    causes = list({clause.words: clause for clause in clauses if clause.is_cause}.values())
    parts = [clause for clause in clauses if not clause.is_cause]
    running = any(clause.because == "running" for clause in parts)
    if causes and (not running or facts.run.paused_at):
        lead = causes
        said = "; ".join([f"waiting for {waits_for}", *filter(None, [", ".join(clause.words for clause in parts)])])
        words = f"{', '.join(clause.words for clause in causes)}; {said}"
    else:
        lead = parts + causes
        words = f"waiting for {waits_for}; {', '.join(clause.words for clause in lead)}"
    remedy = next((clause.remedy for clause in (*causes, *parts) if clause.remedy), None)
    return Reason(lead[0].because, "; ".join([words, *reasons.throttled_hosts(facts)]), remedy=remedy)


def _waiting_for_the_next_phase(facts: SiteState) -> Reason:
    run = facts.run
    over = _OVER.get(run.phase or 0, "its stage is over")
    if facts.coordinator is not None:
        clause = reasons.for_coordinator(facts, facts.coordinator)
        return Reason(
            f"coordinator_{clause.because.removeprefix('coordinator_')}",
            f"{over}; {clause.words}",
            remedy=clause.remedy,
        )
    unfinished = [stage for stage in _STAGES_OF_PHASE.get(run.phase or 0, ()) if run.done(stage) < run.total(stage)]
    if unfinished:
        counts = " and ".join(f"{run.done(stage)} of {run.total(stage)} in {stage}" for stage in unfinished)
        words = f"its counters say {counts}, but nothing of it is open: reconciliation counts again"
        return Reason("miscounted", reasons.healed(facts, words), remedy=reasons.reconcile_now(facts))
    words = f"{over}; its coordinator was never deferred: reconciliation does that"
    return Reason("coordinator_no_job", reasons.healed(facts, words), remedy=reasons.reconcile_now(facts))


def _still(facts: SiteState) -> Reason:
    run = facts.run
    late = [group for group in facts.groups if group.late]
    if late:
        waits_for, clauses = reasons.for_units(facts, late)
        said = ", ".join(dict.fromkeys(clause.words for clause in clauses))
        return Reason("late", f"{_ended(facts).words}; {waits_for} tried again since: {said}", remedy=clauses[0].remedy)
    if run.dirty:
        return _dirty(facts)
    if run.run_id is None and run.current_stage in (None, "completed"):
        return Reason("never_run", f"it has never run; {_next_run(facts)}", remedy=_start(facts))
    ended = _ended(facts)
    return Reason(ended.because, f"{ended.words}; {_next_run(facts)}", remedy=ended.remedy)


def _dirty(facts: SiteState) -> Reason:
    lead = "documents were healed after their stage, and the archive is to be made anew with them"
    if facts.refresh is None:
        words = f"{lead}; the job for that is lost: reconciliation starts the run"
        return Reason("dirty", reasons.healed(facts, words), remedy=reasons.reconcile_now(facts))
    clause = reasons.for_refresh(facts, facts.refresh)
    return Reason("dirty", f"{lead}; {clause.words}", remedy=clause.remedy)


def _ended(facts: SiteState) -> Reason:
    run = facts.run
    reason = run.outcome_reason or run.outcome or "nobody knows how"
    at = f" at {format_timestamp(run.ended_at, facts.now)}" if run.ended_at else ""
    match run.outcome:
        case "failed":
            if run.deployed_at and not run.announced_at:
                reason = "the archive is published, but what is done after it failed"
            return Reason("failed", f"failed{at}: {reason}{_because_of(facts)}", remedy=_retry(facts))
        case "cancelled":
            return Reason("cancelled", f"ended{at}: {reason}", remedy=_start(facts))
        case "partial" if facts.failed:
            what = pluralize(facts.failed_count, "failed document")
            if any(failure.kind == "archive" for failure in facts.failed):
                what = pluralize(facts.failed_count, "failure")
            return Reason("partial", f"finished with {what}{at}: {_named(facts)}", remedy=_retry(facts))
        case "no_documents" if run.skipped:
            return Reason("no_documents", f"finished{at}: {reason} that can be used ({skipped(facts)})")
        case _:
            return Reason(run.outcome or "ended", f"finished{at}: {reason}")


def _because_of(facts: SiteState) -> str:
    if not facts.failed:
        return ""
    worst = next((failure for failure in facts.failed if failure.kind == "archive"), facts.failed[0])
    said = f": {worst.error_message}" if worst.error_message else ""
    return f" ({worst.error_code}{said})"


def _named(facts: SiteState) -> str:
    named = [f"{about(failure)} ({failure.error_code})" for failure in facts.failed[:_FAILURES_NAMED]]
    more = facts.failed_count - len(named)
    return ", ".join(named) + (f" and {more:,} more" if more else "")


def _next_run(facts: SiteState) -> str:
    run = facts.run
    first = "the first run" if run.run_id is None else "the next run"
    if run.paused_at is not None:
        return f"{reasons.paused(facts)}, and {first} starts when it is resumed"
    if run.due_at is not None and run.due_at > facts.now:
        return f"{first} is due at {format_timestamp(run.due_at, facts.now)}"
    return f"{first} is due, {reasons.unless_nobody(facts) or 'and starts within a minute'}"


def _start(facts: SiteState) -> str:
    run = facts.run
    if run.paused_at:
        return f"clerk resume {run.subdomain}"
    return reasons.remedy_if_nobody(facts) or f"start one now: clerk update {run.subdomain}"


def _retry(facts: SiteState) -> str:
    site = facts.run.subdomain
    return f"clerk failures --site {site} says what helps; where that is another try: clerk retry {site}"
