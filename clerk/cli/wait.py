"""Waits for runs and shows how far they are: for `clerk update --wait` and `clerk demo`."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import psycopg

from clerk.cli.output import bar
from clerk.cli.progress import Progress
from clerk.monitoring.overview import Progress as RunProgress
from clerk.monitoring.overview import read_progress

_ROWS = 12
"""Sites drawn one by one: of thousands nobody reads more."""
_PAUSE = 0.3
_ORDER = ("fetch", "ocr", "extraction", "deploy")


def wait_for(
    connection: psycopg.Connection[Any],
    subdomains: list[str],
    progress: Progress,
    when_ended: Callable[[RunProgress], object],
    patience: float = math.inf,
) -> list[RunProgress]:
    """Until the present run of each site has ended. `when_ended` is called once per site, as it happens.

    Whatever has not ended after `patience` seconds is returned as it is then."""
    deadline = time.monotonic() + patience
    ended: dict[str, RunProgress] = {}
    while True:
        found = read_progress(connection, subdomains)
        for one in found:
            # A run that another one took over from ends with that one.
            if one.subdomain not in ended and one.outcome is not None:
                ended[one.subdomain] = one
                when_ended(one)
        expected = [one.units_expected for one in found]
        progress.show(
            "jobs",
            sum(one.units_ended for one in found),
            None if None in expected else sum(filter(None, expected)),
            _rows([one for one in found if one.subdomain not in ended]),
        )
        if len(ended) >= len(found) or time.monotonic() > deadline:
            return found
        time.sleep(_PAUSE)


def _rows(going: list[RunProgress]) -> list[str]:
    drawn = [f"{one.subdomain:14}  {_bar(one)}  {_words(one)}" for one in going[:_ROWS]]
    more = len(going) - _ROWS
    return [*drawn, *([f"and {more:,} more sites"] if more > 0 else [])]


def _bar(one: RunProgress) -> str:
    """A quarter for each phase."""
    phase = _ORDER.index(one.stage) if one.stage in _ORDER else 0
    within = one.done / one.total if one.total else 0.0
    return bar(round(100 * (phase + within)), 100 * len(_ORDER))


def _words(one: RunProgress) -> str:
    failed = f", {one.failed} failed" if one.failed else ""
    return f"{one.stage or 'waiting'} {one.done}/{one.total}{failed}"
