from __future__ import annotations

import re

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.monitoring import status
from clerk.pipeline import engine
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker
from tests.monitoring.workers import register
from tests.web.conftest import fetch


def figure(page: str, name: str) -> str:
    match = re.search(rf"<small>{name}</small><b[^>]*>([^<]*)</b>", page)
    assert match, name
    return match[1]


def test_empty_database(client: TestClient, action_client: TestClient) -> None:
    page = fetch(client, "/")
    assert "clerk downloads the documents of public meetings" in page
    assert "clerk site add springfield --url https://www.springfield.gov</code><button" in page
    assert "No worker is running" in page
    assert "/sites/new" not in page, "nothing can be changed without --allow-actions"
    assert "CLERK_DASHBOARD_TOKEN=… clerk up --allow-actions" in page
    assert 'href="/sites/new"' in fetch(action_client, "/")
    assert "Stuck sites" not in page, "figures and charts without data"
    assert "Finished per hour" not in page


def test_no_alerts(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into sites (subdomain, current_stage, outcome, updated_at)"
        " values ('quiet', 'completed', 'succeeded', now())"
    )
    page = fetch(client, "/")
    assert "Nothing needs attention." in page
    assert "needs attention</h2>" not in page
    assert "none in the 24 h before" in page
    assert "Running now" not in page
    assert "No run has ended in the last 24 hours." in page, "instead of empty charts"
    assert figure(page, "Healthy sites") == "100 %"
    assert "1 of 1: the last run succeeded" in page
    assert "of 1 site; " in page


def test_ten_thousand_sites(client: TestClient, many_sites: None) -> None:
    page = fetch(client, "/")
    assert re.search(r'href="/sites\?stage=never\+run">Never run</a></th>.*?<td class="number">9,000</td>', page)
    assert "All 1,000 sites with an active run" in page
    stuck = figure(page, "Stuck sites")
    assert int(stuck.replace(",", "")) > 900
    assert f"{stuck} sites are stuck" in page
    assert figure(page, "Active runs") == "1,000"


def test_waiting_jobs_and_invariant_violations(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    engine.start_run(connection, "springfield")
    page = fetch(client, "/")
    assert figure(page, "Jobs waiting") == "1"
    assert "No worker processes queue fetch" in page
    assert re.search("[0-9]+ problems? needs? attention</h2>", page), "as in `clerk status`"
    assert "What to do: start workers: <code>clerk worker</code>, or everything: <code>clerk up</code>" in page
    assert 'run started<br><small><a href="/sites/springfield">springfield</a></small></td>' in page
    connection.execute("update sites set fetch_total = 5")
    page = fetch(client, "/")
    assert "Invariant violations" in page
    assert "I2" in page


def test_a_slow_invariant_check_does_not_block_the_page(
    client: TestClient, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    monkeypatch.setattr(status, "_INVARIANTS_TIMEOUT", "50ms")
    # No lock makes only this query slow: other queries of the page read the same tables.
    monkeypatch.setattr(status, "_VIOLATIONS", "select 'I1' as invariant, 1 as violations from pg_sleep(60)")
    page = fetch(client, "/")
    assert "The invariants could not be checked" in page
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
    assert page.count("<summary>As a table</summary>") == 6
    assert '<title id="Compile-title">' in page


def test_progress_of_active_runs(client: TestClient, connection: psycopg.Connection, database: Url) -> None:
    items = add_site(connection, "springfield", documents=6)
    connection.execute("update content_items set page_count = 30")
    connection.execute("select clerk_start_run('springfield', p_first_phase => 2)")
    page = fetch(client, "/")
    assert "0 of 6</td>" in page
    assert "waits for a worker</span></td>" in page
    with connect_worker(database, "0123456789ab clerk 4711 desk") as worker:
        register(worker, "ocr")
        assert "not known yet" in fetch(client, "/")
        for _ in range(3):
            worker.finish(worker.take("ocr"))
        worker.take("ocr")
        page = fetch(client, "/")
        connection.execute(
            "insert into host_problems (worker_id, queue, error_code, message) values (%s, 'ocr', 'DiskFull', 'full')",
            [worker.number],
        )
        closed = fetch(client, "/")
    assert len(items) == 6
    assert "1 job running, 90 pages per minute. Ended in the last minute: OCR 3." in page
    assert "3 of 6</td>" in page
    assert ">in about " in page
    assert "waits for the machine (DiskFull)</span></td>" in closed
    assert ">in about " not in closed


def test_alerts_offer_their_action(action_client: TestClient, connection: psycopg.Connection) -> None:
    add_site(connection, "springfield", documents=0)
    connection.execute("select clerk_pause_queue('ocr', 'anna'), clerk_pause_site('springfield', 'anna')")
    page = fetch(action_client, "/")
    assert 'href="/actions/resume?queue=ocr">Resume the queue ocr…</a>' in page
    assert 'href="/actions/resume?site=springfield">Resume springfield…</a>' in page
    assert '<a href="/sites?only=paused">Show paused sites</a>' in page
    add_site(connection, "shelbyville", documents=0)
    connection.execute("select clerk_pause_site('shelbyville', 'anna')")
    assert "Resume springfield…" not in fetch(action_client, "/"), "it is one of several"
