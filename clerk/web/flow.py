"""The state of each pipeline stage of a site, for the diagram on the site's page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clerk.humanize import pluralize
from clerk.stage_names import stage_name

PHASES = {"fetch": 1, "ocr": 2, "compilation": 3, "extraction": 3, "deploy": 4}
_OUTCOMES_WITHOUT_WORK = ("succeeded", "partial", "unchanged", "no_documents")


@dataclass(frozen=True)
class Node:
    title: str
    stage: str
    state: str
    """One of done, partial, running, waiting, failed, none."""
    label: str
    """The state as shown to people."""
    detail: str = ""
    progress: float = 0
    """Share of units that have ended, 0 to 1."""


def flow(site: Mapping[str, Any], publication: Mapping[str, Any] | None) -> dict[str, Node]:
    """One node per stage in pipeline order, then `published`.

    `site` is a row of pipeline_overview, `publication` the published version.
    """
    nodes = {stage: _stage_node(site, stage) for stage in PHASES}
    return nodes | {"published": _published_node(publication)}


def _stage_node(site: Mapping[str, Any], stage: str) -> Node:
    total, completed, failed = (site[f"{stage}_{count}"] for count in ("total", "completed", "failed"))
    ended = completed + failed
    state, label = _state(site, PHASES[stage], total, completed, failed)
    if failed and completed:
        label = f"{label}, {failed:,} failed"
    detail = f"{ended:,} of {total:,}" if total else ""
    return Node(stage_name(stage), stage, state, label, detail, min(1.0, ended / total) if total else 0)


def _state(site: Mapping[str, Any], phase: int, total: int, completed: int, failed: int) -> tuple[str, str]:
    current = site["phase"]
    if site["current_stage"] is None:
        return "none", "never run"
    if current is not None and phase > current:
        return "waiting", "waiting"
    if total == 0:
        not_needed = current is not None or site["outcome"] in _OUTCOMES_WITHOUT_WORK
        return "none", "not needed" if not_needed else "not reached"
    if completed + failed < total:
        if current is None:
            return "none", "stopped"
        return ("waiting", "paused") if site["paused"] else ("running", "running")
    if completed == 0:
        return "failed", "failed"
    return ("partial", "done") if failed else ("done", "done")


def _published_node(publication: Mapping[str, Any] | None) -> Node:
    if publication is None:
        return Node("Published", "", "none", "not yet")
    return Node("Published", "", "done", "online", pluralize(publication["pages"], "page"), 1)
