"""Several workers on one database."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.engine.helpers import Worker, worker


@pytest.fixture
def new_worker(database: str) -> Iterator[Callable[[str], Worker]]:
    """Call it with a name for a worker of that name."""
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(worker(database, name))
