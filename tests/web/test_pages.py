from __future__ import annotations

import html
from urllib.parse import quote

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.db.connection import connect_to
from clerk.pipeline import engine
from clerk.web import db
from tests.conftest import Url
from tests.web.conftest import fetch


def test_untrusted_values_are_escaped(client: TestClient, hostile_site: str) -> None:
    url = f"/sites/{quote(hostile_site)}"
    assert html.escape(url) in fetch(client, "/sites")
    bad = quote(hostile_site)
    for page in (
        *("/", "/sites", url, f"/sites?text={bad}", "/failures", f"/failures?site={bad}", "/failures/documents"),
        *(f"/failures/documents?error={bad}", f"/log?site={bad}", f"/log?kind={bad}"),
    ):
        text = fetch(client, page)
        assert "&lt;script&gt;alert(1)" in text or page.startswith("/log?kind")
        assert "<script>" not in text
    assert "<script>" not in fetch(client, "/sites/%3Cscript%3E", 404)


def test_site(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain, name) values ('spring/field', 'Springfield')")
    assert "This site has never run." in fetch(client, "/sites/spring/field")
    run = engine.start_run(connection, "spring/field")
    page = fetch(client, "/sites/spring/field")
    assert "<h1>Springfield</h1>" in page
    assert f"Run {run}" in page
    assert "There is no site nowhere." in fetch(client, "/sites/nowhere", 404)


def test_a_query_timeout_is_reported(client: TestClient, database: Url, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "_STATEMENT_TIMEOUT", "50ms")
    with connect_to(database) as other, other.transaction():
        other.execute("lock table sites")
        assert "The database query timed out" in fetch(client, "/sites", 503)
