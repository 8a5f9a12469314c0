"""The operator action on a selection of failures: single units, or whole groups of one error in one stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg

from clerk.humanize import join_words, pluralize
from clerk.monitoring.failures import FAILURE_STAGES, FailureFilter, RetryResult, retry_failures, retry_selected
from clerk.stage_names import stage_name
from clerk.web.action_request import ActionRequest, ActionResult, InvalidAction

Connection = psycopg.Connection[Any]

MAX_ITEMS = 500
_MAX_LISTED = 20
_MAX_IN_MESSAGE = 5


def retry(connection: Connection, request: ActionRequest, user: str, dry_run: bool) -> ActionResult:
    units, groups = parse_items(request.items)
    if not units and not groups:
        return ActionResult("Nothing is selected. Go back and tick what to retry.", changes=False)
    results, not_retried = retry_selected(connection, units, dry_run)
    for stage, error in groups:
        results += retry_failures(connection, FailureFilter(request.site or None, stage, error), dry_run)
    not_retried += [f"{result.site}: {result.problem}" for result in results if result.problem]
    done = [result for result in results if not result.problem]
    number = sum(sum(result.units.values()) for result in done)
    if not number:
        return ActionResult(f"None of them can be retried: {_list(not_retried, _MAX_LISTED)}.", changes=False)
    sites = len({result.site for result in done if result.site})
    what = pluralize(number, "unit") + (f" of {pluralize(sites, 'site')}" if sites else "")
    skipped = f"{pluralize(len(not_retried), 'selected one was', 'selected ones were')} not retried"
    return ActionResult(
        f"{what} will be retried.",
        f"{what} retried." + (f" {skipped}: {_list(not_retried, _MAX_IN_MESSAGE)}." if not_retried else ""),
        [
            *_describe(done),
            *(f"Not retried: {reason}" for reason in not_retried[:_MAX_LISTED]),
            *([f"Not retried: {len(not_retried) - _MAX_LISTED:,} more"] if len(not_retried) > _MAX_LISTED else []),
            "An active run that is not past the stage includes the retry. Elsewhere, a new run retries these units.",
        ],
    )


def parse_items(text: str) -> tuple[list[tuple[str, int]], list[tuple[str, str]]]:
    """Units as stage and document, and groups as stage and error, from words such as `ocr:12` and `ocr:PdfBroken`."""
    units, groups = [], []
    lines = text.split()
    if len(lines) > MAX_ITEMS:
        raise InvalidAction(f"{len(lines):,} are selected; at most {MAX_ITEMS} can be retried at once.")
    for line in lines:
        stage, _, item = line.partition(":")
        if stage not in FAILURE_STAGES or not item or len(item) > 100:
            raise InvalidAction(f"{line[:80]} is not a failure.")
        if item.isascii() and item.isdigit():
            if len(item) > 18:
                raise InvalidAction(f"There is no document {item[:80]}.")
            units.append((stage, int(item)))
        else:
            groups.append((stage, item))
    return units, groups


def _describe(results: Iterable[RetryResult]) -> list[str]:
    """One line per site: several of the selected groups may have failures of it."""
    sites: dict[str, Counter[str]] = {}
    for result in results:
        sites.setdefault(result.site, Counter()).update(result.units)
    lines = [
        f"{site or 'alerts'}: " + join_words([f"{number:,} in {stage_name(stage)}" for stage, number in units.items()])
        for site, units in sites.items()
        if units.total()
    ]
    more = len(lines) - _MAX_LISTED
    return lines[:_MAX_LISTED] + ([f"and {pluralize(more, 'more site')}"] if more > 0 else [])


def _list(reasons: list[str], number: int) -> str:
    more = len(reasons) - number
    return "; ".join(reasons[:number]) + (f"; and {more:,} more" if more > 0 else "") if reasons else "nothing failed"
