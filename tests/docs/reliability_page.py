"""Generates the table of guards in docs/reliability.md: python -m tests.docs.reliability_page"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from pathlib import Path

from tests.guards import test_claims, test_files, test_locks

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
_BEGIN, _END = "<!-- guards -->\n", "<!-- end of guards -->\n"
_HEADER = "| guard | of | in | tested by |\n| --- | --- | --- | --- |\n"

Row = tuple[str, str, str, str]


def with_table(page: str) -> str:
    """The page with a new table."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return before + _BEGIN + _HEADER + "".join(f"| {' | '.join(row)} |\n" for row in _rows()) + _END + after


def _rows() -> list[Row]:
    """Guards with the same name, function and file are one row."""
    guards = [*test_files.FILE_GUARDS, *test_claims.CLAIM_GUARDS, *test_locks.LOCK_GUARDS]
    rows: list[Row] = [
        (*_split(guard.name), f"`{guard.function.__module__}.{guard.function.__qualname__}`", _file(guard.test))
        for guard in guards
    ]
    start_run = test_locks.test_two_runs_are_started_at_once
    rows.append(("lock of the site", "start of a run", "`clerk_start_run`", _file(start_run)))
    merged = []
    for _, group in itertools.groupby(rows, lambda row: (row[0], row[2])):
        same = list(group)
        merged.append((same[0][0], ", ".join(row[1] for row in same), *same[0][2:]))
    return merged


def _split(name: str) -> tuple[str, str]:
    what, _, of = name.partition(": ")
    return what, of


def _file(test: Callable[..., None]) -> str:
    name = Path(inspect.getfile(inspect.unwrap(test))).relative_to(PAGE.parents[1]).as_posix()
    return f"[{Path(name).name}](../{name})"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
