from __future__ import annotations

import html
import re

import psycopg
import pytest
from psycopg.types.json import Jsonb
from starlette.testclient import TestClient

from clerk.web.pages import log
from tests.web.conftest import fetch


@pytest.fixture
def repairs(connection: psycopg.Connection) -> None:
    """120 repairs, one per minute; a failed repair; a reconciliation; an operator action."""
    before = {"site": {"ocr": [3, 1, 0], "outcome": None}, "unit": {"status": "in_progress"}}
    after = {"site": {"ocr": [3, 2, 0], "outcome": "partial"}, "unit": {"status": "processed"}}
    connection.execute(
        """
        insert into reconcile_log (reconciliation, at, kind, subdomain, stage, found, done, why, before, after)
        select gen_random_uuid(), now() - n * interval '1 minute', (array['lease', 'counters'])[1 + mod(n, 2)],
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


def test_empty_log(client: TestClient) -> None:
    page = fetch(client, "/log")
    assert "There were no repairs in the last 7 days." in page
    assert "There were none in the last 30 days." in page


def test_repairs(client: TestClient, repairs: None) -> None:
    page = fetch(client, "/log")
    assert "121 repairs in the last 7 days; the latest first" in page
    assert "Failed: it was locked" in page
    assert "<dt>site.ocr</dt><dd>[3, 1, 0] → [3, 2, 0]</dd>" in page
    assert "<dt>site.outcome</dt><dd>null → partial</dd>" in page
    assert "found 9<" in page
    assert "found 10<" not in page, "few of each section: on a phone each row is a card"
    (all_url,) = re.findall(r'href="([^"]+)">All 121 repairs</a>', page)
    first = fetch(client, html.unescape(all_url))
    assert "121 repairs in the last 7 days, page 1 of 5" in first
    (next_url,) = re.findall(r'rel="next" href="([^"]+)"', first)
    second = fetch(client, html.unescape(next_url))
    assert "found 24<" not in second
    assert "found 25<" in second


def test_filters(client: TestClient, repairs: None) -> None:
    assert "60 repairs in the last 7 days" in fetch(client, "/log?kind=lease")
    assert "2 repairs in the last 7 days" in fetch(client, "/log?site=town-1")
    assert "No repair of the last 7 days matches" in fetch(client, "/log?site=nowhere&kind=%00")


def test_reconciliations_and_operators(client: TestClient, repairs: None) -> None:
    page = fetch(client, "/log")
    assert '<td class="number">121</td><td class="number">120</td><td class="number failed">1</td>' in page
    assert "1.5 s" in page
    assert "bert <small>(dashboard)</small>" in page
    assert "documents: 7" in page


def test_diff() -> None:
    assert log.diff(None, None) == log.diff({"a": 1}, None) == log.diff({"a": 1}, {"a": 1}) == []
    assert log.diff(None, {"a": {"b": 1}}) == [log.Change("a.b", "null", "1")]


def test_bulk_actions_are_one_line_that_opens(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute(
        """
        insert into operator_actions (at, actor, via, action, subdomain, detail)
        select now() - interval '2 hours' + n * interval '100 milliseconds', 'anna', 'cli', 'retry',
               'town-' || lpad(n::text, 3, '0'), '{"stage": "ocr", "units": 2}'::jsonb
        from generate_series(1, 300) n
        union all select now() - interval '1 hour', 'anna', 'cli', 'retry', 'shelbyville', '{}'
        union all select now() - interval '1 minute', 'anna', 'cli', 'pause', null, '{"queue": "fetch", "by": "anna"}'
        union all select now() - interval '30 seconds', 'anna', 'cli', 'pause', null, '{"queue": "ocr", "by": "anna"}'
        union all select now() - interval '119 minutes', 'bert', 'dashboard', 'pause', 'ogdenville', '{}'
        """
    )
    page = fetch(client, "/log?show=actions")
    assert page.count("<tr><td>") == 5
    assert "<bdi>queue: fetch</bdi>" in page, "each pause of a queue names it"
    assert "<bdi>queue: ocr</bdi>" in page
    assert '<span class="badge">300 times</span>' in page
    assert "600 units, 300 actions within 30 s" in page
    assert "and 275 more" in page
    (each,) = re.findall(r'<a href="([^"]+)">Each with its details</a>', page)
    single = fetch(client, html.unescape(each))
    assert single.count("<tr><td>") == 25
    assert "Page 1 of 12" in single
    assert "shelbyville" not in single
    last = fetch(client, html.unescape(each) + "&page=12")
    assert "town-001" in last
    assert "stage: OCR, units: 2" in last


def test_filters_by_person_kind_and_time(client: TestClient, connection: psycopg.Connection, repairs: None) -> None:
    connection.execute(
        "insert into operator_actions (at, actor, via, action, subdomain)"
        " values (now() - interval '3 days', 'anna', 'cli', 'pause', 'old'), (now(), 'anna', 'cli', 'pause', 'new')"
    )
    page = fetch(client, "/log?kind=pause")
    assert "Operator actions" in page
    assert "<h2>Repairs</h2>" not in page, "no repair has this kind"
    assert "<h2>Operator actions</h2>" not in fetch(client, "/log?kind=lease")
    assert "bert <small>" not in fetch(client, "/log?actor=anna")
    (day,) = connection.execute("select (now() - interval '1 day')::date::text").fetchone() or ("",)
    page = fetch(client, f"/log?kind=pause&after={day}T00:00")
    assert "/sites/new" in page
    assert "/sites/old" not in page
    assert "/sites/old" in fetch(client, f"/log?kind=pause&before={day}T00:00")
    assert "121 repairs" in fetch(client, "/log?after=yesterday&show=nothing&page=x"), "invalid values are ignored"
    assert "1 reconciliation in the last 7 days" in fetch(client, "/log?show=reconciliations&page=9")
