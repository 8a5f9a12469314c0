"""Text of a site's status: the explanation, its stages, documents, skipped entries and runs."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType

from clerk.cli.output import bar, line, marked, table, text
from clerk.documents.kinds import ORIGINS
from clerk.humanize import format_duration, format_time, one_line_error, pluralize, source_file
from clerk.monitoring.explain import Explanation
from clerk.monitoring.site_state import SiteHistory, SiteState
from clerk.pipeline.engine import PHASES
from clerk.stage_names import stage_name

_STATUS = {
    "processed": "done",
    "failed_terminal": "failed",
    "failed_retryable": "to be retried",
    "in_progress": "running",
    "pending": "waiting",
    "new": "new",
}


def render(state: SiteState, why: Explanation, history: SiteHistory) -> RenderableType:
    name = f" ({state.run.name})" if state.run.name and state.run.name != why.site else ""
    return Group(
        text(f"{why.site}{name}: {why.sentence}."),
        *([marked("→ ", why.remedy)] if why.remedy else []),
        *_section(_run_title(state), _stages(state, history)),
        *_section(_documents_title(history), _documents(history)),
        *_section(
            f"{pluralize(state.run.skipped or 0, 'entry', 'entries')} of the source skipped", _skipped_entries(state)
        ),
        *_section(pluralize(history.run_count, "run"), _runs(state, history)),
    )


def _run_title(state: SiteState) -> str:
    if state.run.run_id is None:
        return "counters of the site, without a run"
    return f"run {state.run.run_id} ({state.run.reason})"


def _section(title: str, body: list[RenderableType]) -> list[RenderableType]:
    return ["", line(title), *body] if body else []


def _more(total: int, shown: int, hint: str = " (--all)") -> list[RenderableType]:
    return [f"  and {total - shown:,} more{hint}"] if total > shown else []


def _stages(state: SiteState, history: SiteHistory) -> list[RenderableType]:
    run = state.run
    rows = [
        (
            stage_name(stage),
            bar(run.done(stage), total),
            f"{run.done(stage):,}/{total:,}",
            f"{run.failed(stage):,} failed" if run.failed(stage) else "",
            _duration(state, history.phases.get(phase, {})),
        )
        for phase, stages in PHASES.items()
        for stage in stages
        if (total := run.total(stage))
    ]
    return [table(rows, right={2}, indent=2)] if rows else []


def _duration(state: SiteState, phase: dict[str, Any]) -> str:
    began, ended = phase.get("began_at"), phase.get("ended_at")
    if began is None:
        return ""
    if ended:
        return format_duration(ended - began)
    return f"{format_duration(state.now - began)} so far" if state.run.active else ""


def _documents_title(history: SiteHistory) -> str:
    counts = history.counts
    parts = ", ".join(f"{counts[state]:,} {state}" for state in ("processed", "failed", "open", "new") if counts[state])
    documents = pluralize(counts["documents"], "document")
    return f"{documents}{f': {parts}' if parts else ''}; {pluralize(counts['pages'], 'page')}"


def _documents(history: SiteHistory) -> list[RenderableType]:
    if not history.documents:
        return []
    rows = []
    for document in history.documents:
        failed = document["status"] in ("failed_terminal", "failed_retryable")
        rows.append(
            (
                str(document["id"]),
                _describe_document(document),
                str(document["pages"] or ""),
                stage_name(document["stage"]),
                _STATUS[document["status"]],
                str(document["attempts"] or ""),
                format_duration(document["took"]),
                _describe_error(document) if failed else "",
            )
        )
    header = ("id", "document", "pages", "stage", "state", "attempts", "took", "error")
    return [
        table(rows, header, right={0, 2, 5, 6}, indent=2),
        *_more(history.counts["documents"], len(history.documents)),
    ]


def _describe_error(document: dict[str, Any]) -> str:
    """With the file at the source, which has to be replaced or inspected."""
    error = one_line_error(document["error_code"], document["error_message"])
    return ": ".join(filter(None, (source_file(document["source_url"]), error)))


_UNMARKED_ORIGINS = (None, "source", "name")


def _describe_document(document: dict[str, Any]) -> str:
    kind = "" if document["kind"] == "minutes" else f" {document['kind']}"
    origin = document["date_origin"]
    return (
        f"{document['meeting'][:40]} {document['date']}{kind}"
        f"{'' if origin in _UNMARKED_ORIGINS else f' (date from {ORIGINS[origin]})'}"
    )


def _skipped_entries(state: SiteState) -> list[RenderableType]:
    examples = state.run.skipped_examples or []
    hint = f" (clerk site skipped {state.run.subdomain})"
    return [*(line(f"  {reason}") for reason in examples), *_more(state.run.skipped or 0, len(examples), hint)]


def _runs(state: SiteState, history: SiteHistory) -> list[RenderableType]:
    if not history.runs:
        return []
    rows = [
        (
            str(run["run_id"]),
            format_time(run["started_at"], state.now),
            format_duration(run["took"]),
            "" if run["ocr_completed"] is None else f"{run['ocr_completed']:,}",
            f"{run['ocr_failed']:,}" if run["ocr_failed"] else "",
            f"{run['skipped']:,}" if run["skipped"] else "",
            run["outcome"] or "running",
            ": ".join(filter(None, (run["reason"], run["outcome_reason"]))),
        )
        for run in history.runs
    ]
    header = ("run", "started", "took", "processed", "failed", "skipped", "outcome", "reason")
    return [table(rows, header, right={2, 3, 4, 5}, indent=2), *_more(history.run_count, len(history.runs))]
