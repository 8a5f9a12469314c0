from __future__ import annotations

import html
import re

import psycopg
import pytest
from psycopg.types.json import Jsonb
from starlette.testclient import TestClient

from clerk.web.pages import log
from tests.web.conftest import shown


@pytest.fixture
def mended(connection: psycopg.Connection) -> None:
    """120 repairs, a minute after another, and one that failed; a reconciliation; and what an operator did."""
    before = {"site": {"ocr": [3, 1, 0], "outcome": None}, "unit": {"status": "in_progress"}}
    after = {"site": {"ocr": [3, 2, 0], "outcome": "partial"}, "unit": {"status": "processed"}}
    connection.execute(
        """
        insert into reconcile_log (reconciliation, at, kind, subdomain, stage, found, done, why, before, after)
        select gen_random_uuid(), now() - n * interval '1 minute', (array['lease', 'miscounted'])[1 + mod(n, 2)],
               'town-' || n, 'ocr', 'found ' || n, 'done ' || n, 'why ' || n, %(before)s, %(after)s
        from generate_series(1, 120) n
        """,
        {"before": Jsonb(before), "after": Jsonb(after)},
    )
    connection.execute(
        "insert into reconcile_log (reconciliation, kind, subdomain, found, done, why, error, before)"
        " values (gen_random_uuid(), 'lost', 'town-1', 'a', 'b', 'c', 'it was locked', %s)",
        [Jsonb(before)],
    )
    connection.execute(
        "insert into reconcile_runs (reconciliation, started_at, ended_at, actor, via, found, repaired, failed)"
        " values (gen_random_uuid(), now(), now() + interval '1.5 seconds', 'anna', 'cli', 121, 120, 1)"
    )
    connection.execute(
        "insert into operator_actions (actor, via, action, subdomain, detail)"
        " values ('bert', 'dashboard', 'retry', 'town-1', '{\"documents\": 7}')"
    )


def test_nothing(client: TestClient) -> None:
    page = shown(client, "/log")
    assert "Nothing had to be mended" in page
    assert "Nothing in the last thirty days." in page


def test_repairs(client: TestClient, mended: None) -> None:
    page = shown(client, "/log")
    assert "121 repairs in the last seven days, page 1 of 3" in page
    assert "Failed: it was locked" in page
    assert "<dt>site.ocr</dt><dd>[3, 1, 0] → [3, 2, 0]</dd>" in page
    assert "<dt>site.outcome</dt><dd>nothing → partial</dd>" in page
    (following,) = re.findall(r'rel="next" href="([^"]+)"', page)
    second = shown(client, html.unescape(following))
    assert "found 1<" not in second
    assert "found 51<" in second


def test_filters(client: TestClient, mended: None) -> None:
    assert "60 repairs in the last seven days" in shown(client, "/log?kind=lease")
    assert "2 repairs in the last seven days" in shown(client, "/log?site=town-1")
    assert "No such repair" in shown(client, "/log?site=nowhere&kind=%00")


def test_reconciliations_and_operators(client: TestClient, mended: None) -> None:
    page = shown(client, "/log")
    assert '<td class="number">121</td><td class="number">120</td><td class="number failed">1</td>' in page
    assert "1.5 s" in page
    assert "bert <small>(dashboard)</small>" in page
    assert "documents: 7" in page


def test_changes() -> None:
    assert log.changes(None, None) == log.changes({"a": 1}, None) == log.changes({"a": 1}, {"a": 1}) == []
    assert log.changes(None, {"a": {"b": 1}}) == [log.Change("a.b", "nothing", "1")]
