"""A site's way through the pipeline as it is drawn: each stage with its counters, and its state in a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clerk.humanize import pluralize

PHASES = {"fetch": 1, "ocr": 2, "compilation": 3, "extraction": 3, "deploy": 4}
_TITLES = {
    "fetch": "Fetch",
    "ocr": "Read pages",
    "compilation": "Compile",
    "extraction": "People and votes",
    "deploy": "Publish",
}
_NOT_NEEDED = ("succeeded", "partial", "unchanged", "no_documents")


@dataclass(frozen=True)
class Node:
    title: str
    stage: str
    state: str
    """done, partial, going, waiting, failed, or none: nothing happened here."""
    word: str
    """The state for people."""
    detail: str = ""
    share: float = 0
    """How much of it has ended, 0 to 1."""


def flow(site: Mapping[str, Any], published: Mapping[str, Any] | None) -> dict[str, Node]:
    """By stage, in their order, then `published`: a row of pipeline_overview, and the version that readers get now."""
    nodes = {stage: _stage(site, stage) for stage in PHASES}
    return nodes | {"published": _published(published)}


def _stage(site: Mapping[str, Any], stage: str) -> Node:
    total, completed, failed = (site[f"{stage}_{count}"] for count in ("total", "completed", "failed"))
    ended = completed + failed
    state, word = _state(site, PHASES[stage], total, completed, failed)
    if failed and completed:
        word = f"{word}, {failed:,} failed"
    detail = f"{ended:,} of {total:,}" if total else ""
    return Node(_TITLES[stage], stage, state, word, detail, min(1.0, ended / total) if total else 0)


def _state(site: Mapping[str, Any], phase: int, total: int, completed: int, failed: int) -> tuple[str, str]:
    now = site["phase"]
    if site["current_stage"] is None:
        return "none", "never run"
    if now is not None and phase > now:
        return "waiting", "waiting"
    if total == 0:
        return "none", "not needed" if now is not None or site["outcome"] in _NOT_NEEDED else "not reached"
    if completed + failed < total:
        if now is None:
            return "none", "stopped"
        return ("waiting", "paused") if site["paused"] else ("going", "going")
    if completed == 0:
        return "failed", "failed"
    return ("partial", "done") if failed else ("done", "done")


def _published(version: Mapping[str, Any] | None) -> Node:
    if version is None:
        return Node("Published", "", "none", "not yet")
    return Node("Published", "", "done", "in the open", pluralize(version["pages"], "page"), 1)
