from __future__ import annotations

import re

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.db.connection import connect_to
from clerk.monitoring import status
from clerk.pipeline import engine
from tests.conftest import Url
from tests.web.conftest import fetch


def figure(page: str, name: str) -> str:
    match = re.search(rf"<small>{name}</small><b[^>]*>([^<]*)</b>", page)
    assert match, name
    return match[1]


def test_empty_database(client: TestClient) -> None:
    page = fetch(client, "/")
    assert "There are no sites yet." in page
    assert figure(page, "Workers alive") == "0"
    assert "None in the last seven days." in page


def test_no_alerts(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into sites (subdomain, current_stage, outcome, updated_at)"
        " values ('quiet', 'completed', 'succeeded', now())"
    )
    page = fetch(client, "/")
    assert "All is well: nothing needs attention." in page
    assert "alert</p>" not in page
    assert figure(page, "Healthy sites") == "100 %"
    assert "of 1 site that ever ran is not stuck" in page
    assert "of 1 site; " in page


def test_ten_thousand_sites(client: TestClient, many_sites: None) -> None:
    page = fetch(client, "/")
    assert re.search(r'href="/sites\?stage=never\+run" aria-label="never run: 9,000"', page)
    stuck = figure(page, "Stuck sites")
    assert int(stuck.replace(",", "")) > 900
    assert f"{stuck} sites are stuck" in page
    assert figure(page, "Active runs") == "1,000"


def test_waiting_jobs_and_invariant_violations(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    engine.start_run(connection, "springfield")
    page = fetch(client, "/")
    assert figure(page, "Jobs waiting") == "1"
    assert "no worker processes queue fetch" in page
    assert "<td>run started</td>" in page
    connection.execute("update sites set fetch_total = 5")
    page = fetch(client, "/")
    assert "Invariant violations" in page
    assert "I2" in page


def test_a_slow_invariant_check_does_not_block_the_page(
    client: TestClient, database: Url, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    monkeypatch.setattr(status, "_INVARIANTS_TIMEOUT", "50ms")
    with connect_to(database) as other, other.transaction():
        # Only the invariant check reads this table.
        other.execute("lock table publications")
        page = fetch(client, "/")
    assert "the invariants could not be checked" in page
    assert "Sites by stage" in page


def test_hourly_charts_have_descriptions(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    connection.execute(
        """
        insert into pipeline_runs (subdomain, reason, started_at, ended_at, outcome, counters)
        select 'springfield', 'scheduled', now() - h * interval '1 hour', now() - h * interval '1 hour', 'partial',
               '{"fetch": {"completed": 1, "failed": 0}, "ocr": {"completed": 1200, "failed": 10},
                 "compilation": {"completed": 1, "failed": 0}, "extraction": {"completed": 1200, "failed": 0},
                 "deploy": {"completed": 1, "failed": 0}}'
        from unnest(array[0, 1, 30]) h
        """
    )
    page = fetch(client, "/")
    assert "2,400 done, 20 failed; maximum at" in page, "the run of 30 hours ago is not included"
    assert page.count(": 1,200 done, 10 failed</title>") == 2
    assert page.count("<summary>As a table</summary>") == 8
