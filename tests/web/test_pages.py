from __future__ import annotations

import html
import re
from urllib.parse import quote

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.pg import engine
from clerk.pg.connection import connect_to
from clerk.web.pages import overview
from tests.conftest import Url


def shown(client: TestClient, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, response.text
    return str(response.text)


def listed(page: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/sites/([^"]*)"', page)


def test_nothing_there(client: TestClient) -> None:
    overview = shown(client, "/")
    assert "no invariant is broken" in overview
    assert "There are no sites yet." in overview
    assert "No jobs are waiting or running." in overview
    assert "There are no sites yet." in shown(client, "/sites")


def test_ten_thousand_sites(client: TestClient, many_sites: None) -> None:
    overview = shown(client, "/")
    assert "10,000 sites" in overview
    assert "never run" in overview
    assert ">9,000<" in overview

    first = shown(client, "/sites")
    assert listed(first) == [f"town-{i:05}" for i in range(1, 101)]
    assert "page 1 of 100" in first
    (following,) = re.findall(r'rel="next" href="([^"]+)"', first)
    assert listed(shown(client, html.unescape(following)))[0] == "town-00101"
    assert listed(shown(client, "/sites?page=100"))[-1] == "town-10000"

    assert listed(shown(client, "/sites?text=NUMBER+123")) == [
        "town-00123",
        *(f"town-{i:05}" for i in range(1230, 1240)),
    ]
    assert listed(shown(client, "/sites?stage=ocr&order=-failed"))[:2] == ["town-10000", "town-09990"]
    assert listed(shown(client, "/sites?order=-updated"))[:2] == ["town-00010", "town-00020"]
    assert "No site fits." in shown(client, "/sites?text=nowhere")


def test_sorting_keeps_the_filter_and_turns_round(client: TestClient, many_sites: None) -> None:
    page = html.unescape(shown(client, "/sites?stage=ocr&text=town&order=-failed&page=2"))
    assert 'aria-sort="descending"' in page
    assert '"/sites?text=town&stage=ocr&order=failed"' in page
    assert '<input type="hidden" name="order" value="-failed">' in page


@pytest.mark.parametrize(
    "query",
    [
        "page=0",
        "page=-1",
        "page=x",
        "page=99999999999999999999",
        "page=²",
        "page=9999999",
        "order=subdomain;drop",
        "stage=nowhere",
        "text=%00",
        "text=%25",
        "text=%ED%A0%80",
        "text=" + "x" * 5000,
    ],
)
def test_odd_addresses_are_taken_calmly(client: TestClient, connection: psycopg.Connection, query: str) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    nothing_fits = query.startswith("text=") and query != "text=%00"
    assert listed(shown(client, f"/sites?{query}")) == ([] if nothing_fits else ["springfield"])


def test_what_comes_from_outside_stays_text(client: TestClient, hostile_site: str) -> None:
    address = f"/sites/{quote(hostile_site)}"
    assert html.escape(address) in shown(client, "/sites")
    for page in ("/", "/sites", address, f"/sites?text={quote(hostile_site)}"):
        text = shown(client, page)
        assert "&lt;script&gt;alert(1)" in text
        assert "<script" not in text
    assert "<script" not in shown(client, "/sites/%3Cscript%3E", 404)


def test_site(client: TestClient, connection: psycopg.Connection, hostile_site: str) -> None:
    connection.execute("insert into sites (subdomain, name) values ('spring/field', 'Springfield')")
    run = engine.start_run(connection, "spring/field")
    page = shown(client, "/sites/spring/field")
    assert "Springfield" in page
    assert f"Run {run}" in page
    assert "Stage: fetch" in page
    assert "None." in page
    failing = shown(client, f"/sites/{quote(hostile_site)}")
    assert "failed for good" in failing
    assert "2026-01-31" in failing
    assert "There is no site nowhere." in shown(client, "/sites/nowhere", 404)


def test_waiting_jobs_and_broken_books_are_shown(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    engine.start_run(connection, "springfield")
    assert '<th scope="row">fetch</th><td class="number">1</td>' in shown(client, "/")
    connection.execute("update sites set fetch_total = 5")
    overview = shown(client, "/")
    assert "The books do not add up" in overview
    assert "I2" in overview


def test_a_slow_check_leaves_the_rest_of_the_page(
    client: TestClient, database: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "_INVARIANTS_TIMEOUT", "50ms")
    with connect_to(database) as other, other.transaction():
        other.execute("lock table pipeline_runs")
        page = shown(client, "/")
    assert "could not be checked in time" in page
    assert "Sites by stage" in page
