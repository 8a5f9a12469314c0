"""The error rate counts characters as docs/performance.md says."""

from __future__ import annotations

import pytest

from tests.bench.characters import error_rate, errors_in


@pytest.mark.parametrize(
    ("found", "errors"),
    [
        ("Motion carried by Jones", 0),
        ("by Jones   Motion\ncarried", 0),
        ("Motion carr1ed by Jones", 1),
        ("Motion carried Jones", 2),
        ("Motion carried by Jones x", 1),
        ("", 20),
    ],
    ids=["same", "another order", "misread", "missing", "invented", "nothing"],
)
def test_errors_are_counted_per_word_in_any_order(found: str, errors: int) -> None:
    assert errors_in("Motion carried by Jones", found) == errors


def test_leaders_are_ignored() -> None:
    assert errors_in("Jones..........15601", "Jones . . . ... 15601") == 0
    assert errors_in("Signed ______ by", "Signed by") == 0
    assert errors_in("at 7.30 p.m.", "at 730 pm") == 3


def test_the_rate_is_over_all_characters() -> None:
    assert error_rate(["abcd efgh", "ij"], ["abcd efgx", "ij"]) == pytest.approx(10)
