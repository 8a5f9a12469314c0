"""A town, a hand that works for it, and the question."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from clerk.pg.connection import reading
from clerk.why.answer import Answer, explain
from clerk.why.facts import read_facts
from tests.engine.conftest import new_worker as new_worker

Why = Callable[..., Answer]


@pytest.fixture
def why(connection: psycopg.Connection) -> Why:
    def ask(subdomain: str = "town") -> Answer:
        with reading(connection):
            facts = read_facts(connection, subdomain)
        assert facts is not None
        return explain(facts)

    return ask
