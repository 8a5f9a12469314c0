"""Fixtures of the monitoring tests."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from clerk.db.connection import read_only_snapshot
from clerk.monitoring.explain import Explanation, explain
from clerk.monitoring.site_state import read_site_state
from tests.engine.conftest import new_worker as new_worker

Why = Callable[..., Explanation]


@pytest.fixture
def why(connection: psycopg.Connection) -> Why:
    def read(subdomain: str = "town") -> Explanation:
        with read_only_snapshot(connection):
            state = read_site_state(connection, subdomain)
        assert state is not None
        return explain(state)

    return read
