from __future__ import annotations

import re

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.db.connection import connect_to
from clerk.monitoring import status
from clerk.pipeline import engine
from clerk.web.cache import CachedValue
from clerk.web.db import ReadOnlyPool
from tests.conftest import Url
from tests.web.conftest import shown


def figure(page: str, name: str) -> str:
    found = re.search(rf"<small>{name}</small><b[^>]*>([^<]*)</b>", page)
    assert found, name
    return found[1]


def test_nothing_there(client: TestClient) -> None:
    page = shown(client, "/")
    assert "There are no sites yet." in page
    assert figure(page, "Workers alive") == "0"
    assert "None in the last seven days." in page


def test_all_is_well(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into sites (subdomain, current_stage, outcome, updated_at)"
        " values ('calm', 'completed', 'succeeded', now())"
    )
    page = shown(client, "/")
    assert "All is well" in page
    assert "needs attention" not in page
    assert figure(page, "Health score") == "100.0 %"
    assert "of 1 site that ever ran is not stuck" in page
    assert "of 1 site; " in page


def test_ten_thousand_sites(client: TestClient, many_sites: None) -> None:
    page = shown(client, "/")
    assert re.search(r'href="/sites\?stage=never\+run" aria-label="never run: 9,000"', page)
    stuck = figure(page, "Stuck sites")
    assert int(stuck.replace(",", "")) > 900
    assert f"{stuck} sites are stuck" in page
    assert figure(page, "Active runs") == "1,000"


def test_waiting_jobs_and_broken_books(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    engine.start_run(connection, "springfield")
    page = shown(client, "/")
    assert figure(page, "Jobs waiting") == "1"
    assert "nothing reads queue fetch" in page
    assert "<td>run started</td>" in page
    connection.execute("update sites set fetch_total = 5")
    page = shown(client, "/")
    assert "The books do not add up" in page
    assert "I2" in page


def test_a_slow_check_leaves_the_rest_of_the_page(
    client: TestClient, database: Url, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    monkeypatch.setattr(status, "_INVARIANTS_TIMEOUT", "50ms")
    with connect_to(database) as other, other.transaction():
        # What only the check reads.
        other.execute("lock table publications")
        page = shown(client, "/")
    assert "the books could not be checked" in page
    assert "Sites by stage" in page


def test_hours_are_drawn_and_told(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    connection.execute(
        """
        insert into pipeline_runs (subdomain, reason, started_at, ended_at, outcome, ocr_completed, ocr_failed,
                                   fetch_completed, fetch_failed, compilation_completed, compilation_failed,
                                   extraction_completed, extraction_failed, deploy_completed, deploy_failed)
        select 'springfield', 'scheduled', now() - h * interval '1 hour', now() - h * interval '1 hour', 'partial',
               1200, 10, 1, 0, 1, 0, 1200, 0, 1, 0
        from unnest(array[0, 1, 30]) h
        """
    )
    page = shown(client, "/")
    assert "2,400 done, 20 failed; most at" in page, "the run of thirty hours ago is not of this day"
    assert page.count(": 1,200 done, 10 failed</title>") == 2
    assert page.count("<summary>As a table</summary>") == 8


def test_many_visitors_cost_one_look(reader: ReadOnlyPool) -> None:
    looks = []

    def read() -> int:
        looks.append(1)
        return len(looks)

    shared = CachedValue(read, 3600, 0)
    assert [shared.get() for _ in range(5)] == [1] * 5
    assert [CachedValue(read, 0, 0).get(), CachedValue(read, 0, 0).get()] == [2, 3]
