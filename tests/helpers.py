"""Waiting on a state instead of sleeping for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], seconds: float = 30.0) -> T:
    """What `condition` returns once that is true; fails when it has not become so in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"still not so after {seconds:g} s: {condition}"
        time.sleep(0.01)
    return found
