"""One site on one screen: why it is where it is, its stages, documents and runs."""

from __future__ import annotations

from typing import Any

from clerk.cli.output import bar, format_table, truncate, wrap
from clerk.humanize import format_duration, format_time, one_line_error, pluralize
from clerk.monitoring.explain import Explanation
from clerk.monitoring.site_state import SiteState
from clerk.monitoring.site_status import SiteStatus
from clerk.pipeline.engine import STAGES

_PHASE_OF = {"fetch": 1, "ocr": 2, "compilation": 3, "extraction": 3, "deploy": 4}
_STATUS = {
    "processed": "done",
    "failed_terminal": "failed",
    "failed_retryable": "to be retried",
    "in_progress": "running",
    "pending": "waiting",
    "new": "new",
}


def lines(facts: SiteState, answer: Explanation, detail: SiteStatus) -> list[str]:
    name = f" ({facts.run.name})" if facts.run.name and facts.run.name != answer.site else ""
    return [
        *wrap(f"{answer.site}{name}: {answer.sentence}."),
        *([truncate(f"→ {answer.remedy}")] if answer.remedy else []),
        *_section(_run_title(facts), _stages(facts, detail)),
        *_section(_documents_title(detail), _documents(facts, detail)),
        *_section(_skipped_title(facts), _skipped(facts)),
        *_section(_runs_title(detail), _runs(facts, detail)),
    ]


def _section(title: str, body: list[str]) -> list[str]:
    return ["", truncate(title), *body] if body else []


def _run_title(facts: SiteState) -> str:
    run = facts.run
    return f"run {run.run_id} ({run.reason})" if run.run_id else ""


def _stages(facts: SiteState, detail: SiteStatus) -> list[str]:
    run = facts.run
    rows = []
    for stage in STAGES:
        if total := run.total(stage):
            failed = getattr(run, f"{stage}_failed")
            phase: dict[str, Any] = detail.phases.get(_PHASE_OF[stage], {})
            rows.append(
                (
                    f"  {stage}",
                    bar(run.done(stage), total),
                    f"{run.done(stage):,}/{total:,}",
                    f"{failed:,} failed" if failed else "",
                    _took(facts, phase),
                )
            )
    return format_table(rows, right={2}) if rows else []


def _took(facts: SiteState, phase: dict[str, Any]) -> str:
    began, ended = phase.get("began_at"), phase.get("ended_at")
    if began is None:
        return ""
    return (
        format_duration(ended - began)
        if ended
        else f"{format_duration(facts.now - began)} so far"
        if facts.run.going
        else ""
    )


def _documents_title(detail: SiteStatus) -> str:
    counts = detail.counts
    parts = [f"{counts[state]:,} {state}" for state in ("read", "failed", "open", "new") if counts[state]]
    said = f": {', '.join(parts)}" if parts else ""
    return f"{pluralize(counts['documents'], 'document')}{said}; {pluralize(counts['pages'], 'page')}"


def _documents(facts: SiteState, detail: SiteStatus) -> list[str]:
    if not detail.documents:
        return []
    rows = [("  document", "pages", "stage", "state", "tries", "took", "error")]
    for document in detail.documents:
        failed = document["status"] in ("failed_terminal", "failed_retryable")
        rows.append(
            (
                f"  {document['meeting'][:40]} {document['date']}{' agenda' if document['kind'] == 'agenda' else ''}",
                str(document["pages"] or ""),
                document["stage"],
                _STATUS[document["status"]],
                str(document["attempts"] or ""),
                format_duration(document["took"]),
                one_line_error(document["error_code"], document["error_message"]) if failed else "",
            )
        )
    more = detail.counts["documents"] - len(detail.documents)
    return [*format_table(rows, right={1, 4, 5}), *([f"  and {more:,} more (--all)"] if more > 0 else [])]


def _skipped_title(facts: SiteState) -> str:
    return f"{pluralize(facts.run.skipped or 0, 'entry', 'entries')} of the source passed over"


def _skipped(facts: SiteState) -> list[str]:
    named = facts.run.skipped_examples or []
    more = (facts.run.skipped or 0) - len(named)
    return [*(truncate(f"  {reason}") for reason in named), *([f"  and {more:,} more"] if more > 0 else [])]


def _runs_title(detail: SiteStatus) -> str:
    return pluralize(detail.run_count, "run")


def _runs(facts: SiteState, detail: SiteStatus) -> list[str]:
    if not detail.runs:
        return []
    rows = [("  run", "began", "took", "read", "failed", "passed over", "outcome", "why")]
    for run in detail.runs:
        rows.append(
            (
                f"  {run['run_id']}",
                format_time(run["started_at"], facts.now),
                format_duration(run["took"]),
                "" if run["ocr_completed"] is None else f"{run['ocr_completed']:,}",
                "" if not run["ocr_failed"] else f"{run['ocr_failed']:,}",
                "" if not run["skipped"] else f"{run['skipped']:,}",
                run["outcome"] or "going",
                ": ".join(filter(None, (run["reason"], run["outcome_reason"]))),
            )
        )
    more = detail.run_count - len(detail.runs)
    return [*format_table(rows, right={2, 3, 4, 5}), *([f"  and {more:,} more (--all)"] if more > 0 else [])]
