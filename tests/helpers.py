"""Waiting for a state instead of sleeping for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


TIMEOUT = 120.0
"""Seconds. Long enough for a machine on which other processes use every core; a passing test never waits that long."""


def until(condition: Callable[[], T], seconds: float = TIMEOUT, every: float = 0.01) -> T:
    """Poll `condition` until it returns something true, and return that. Fail after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not true within {seconds:g} s: {condition}"
        time.sleep(every)
    return result
