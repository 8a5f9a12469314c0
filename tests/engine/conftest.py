"""Fixtures of the engine tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.engine.helpers import Worker, connect_worker


@pytest.fixture
def new_worker(database: str) -> Iterator[Callable[[str], Worker]]:
    """Connects workers by name."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(connect_worker(database, name))
