"""A town, a hand that works for it, and the question."""

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
    def ask(subdomain: str = "town") -> Explanation:
        with read_only_snapshot(connection):
            facts = read_site_state(connection, subdomain)
        assert facts is not None
        return explain(facts)

    return ask
