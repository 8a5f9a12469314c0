from __future__ import annotations

import html
import re

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.web.conftest import fetch, listed_sites


def test_none(client: TestClient) -> None:
    page = fetch(client, "/sites")
    assert "There are no sites yet." in page
    assert "clerk site add springfield --url" in page
    assert "<select" not in page, "there is nothing to filter"


def test_ten_thousand(client: TestClient, many_sites: None) -> None:
    first = fetch(client, "/sites?order=site")
    assert listed_sites(first) == [f"town-{i:05}" for i in range(1, 101)]
    assert "page 1 of 100" in first
    (next_url,) = re.findall(r'rel="next" href="([^"]+)"', first)
    assert listed_sites(fetch(client, html.unescape(next_url)))[0] == "town-00101"
    assert listed_sites(fetch(client, "/sites?order=site&page=100"))[-1] == "town-10000"

    assert listed_sites(fetch(client, "/sites?order=site&text=NUMBER+123")) == [
        "town-00123",
        *(f"town-{i:05}" for i in range(1230, 1240)),
    ]
    assert listed_sites(fetch(client, "/sites?stage=ocr&order=-failed"))[:2] == ["town-10000", "town-09990"]
    assert listed_sites(fetch(client, "/sites?order=-updated"))[:2] == ["town-00010", "town-00020"]
    assert "No site matches these filters." in fetch(client, "/sites?text=nowhere")


@pytest.fixture
def mixed_sites(connection: psycopg.Connection) -> None:
    connection.execute(
        """
        insert into sites (subdomain, current_stage, outcome, updated_at, ocr_total, ocr_completed, ocr_failed,
                           paused_at, paused_by)
        values ('quiet', 'completed', 'succeeded', now(), 3, 3, 0, null, null),
               ('failed', 'completed', 'failed', now(), 2, 0, 2, null, null),
               ('running', 'ocr', null, now(), 3, 1, 0, null, null),
               ('paused', 'ocr', null, now() - interval '1 day', 3, 1, 0, now(), 'anna'),
               ('new', null, null, null, 0, 0, 0, null, null),
               ('partial', 'completed', 'partial', now(), 4, 3, 1, null, null),
               ('stuck', 'ocr', null, now() - interval '1 day', 3, 1, 0, null, null)
        """
    )


def test_sites_that_need_attention_come_first(client: TestClient, mixed_sites: None) -> None:
    page = fetch(client, "/sites")
    assert listed_sites(page) == ["stuck", "failed", "partial", "paused", "running", "new", "quiet"]
    assert "stuck for 24 h" in page
    assert "paused by anna" in page
    assert "OCR 3/4, 1 failed" in page


@pytest.mark.parametrize(
    ("query", "sites"),
    [
        ("only=stuck", ["stuck"]),
        ("only=failed", ["failed"]),
        ("only=failing", ["failed", "partial"]),
        ("only=paused", ["paused"]),
        ("only=running", ["stuck", "paused", "running"]),
        ("outcome=partial", ["partial"]),
        ("outcome=partial&only=failed", []),
        ("stage=never+run", ["new"]),
    ],
)
def test_filters(client: TestClient, mixed_sites: None, query: str, sites: list[str]) -> None:
    assert listed_sites(fetch(client, f"/sites?{query}")) == sites


def test_sorting_keeps_the_filters_and_reverses(client: TestClient, many_sites: None) -> None:
    page = html.unescape(fetch(client, "/sites?stage=ocr&text=town&only=running&order=-failed&page=2"))
    assert 'aria-sort="descending"' in page
    assert '"/sites?text=town&stage=ocr&only=running&order=failed"' in page
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
        "outcome=nothing",
        "only=nobody",
        "text=%00",
        "text=%25",
        "text=%ED%A0%80",
        "text=" + "x" * 5000,
    ],
)
def test_invalid_query_parameters_are_ignored(client: TestClient, connection: psycopg.Connection, query: str) -> None:
    connection.execute("insert into sites (subdomain) values ('springfield')")
    no_match = query.startswith("text=") and query != "text=%00"
    assert listed_sites(fetch(client, f"/sites?{query}")) == ([] if no_match else ["springfield"])
