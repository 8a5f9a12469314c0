from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.web.action_executor import ActionExecutor
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from clerk.web.pages import overview
from tests.conftest import Url

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _no_token_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLERK_DASHBOARD_TOKEN", raising=False)


@pytest.fixture(autouse=True)
def _every_look_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page shows what the test has just done, not what another visitor saw a second ago."""
    monkeypatch.setattr(overview, "QUICK", (0.0, 0.0))
    monkeypatch.setattr(overview, "SLOW", (0.0, 0.0))


@pytest.fixture
def reader(database: Url) -> Iterator[ReadOnlyPool]:
    with ReadOnlyPool(database).opened() as reader:
        reader.take_role()
        yield reader


@pytest.fixture
def client(reader: ReadOnlyPool) -> TestClient:
    return TestClient(create_app(reader), base_url="http://localhost")


def shown(client: TestClient, address: str, status: int = 200) -> str:
    response = client.get(address)
    assert response.status_code == status, response.text
    return str(response.text)


def listed(page: str) -> list[str]:
    """The sites of a list, in its order."""
    return re.findall(r'<th scope="row"><a href="/sites/([^"]*)"', page)


@pytest.fixture
def acting(reader: ReadOnlyPool, database: Url) -> TestClient:
    """A dashboard with --allow-actions, and a browser that has not been there yet."""
    return TestClient(
        create_app(reader, actor=ActionExecutor(database)), base_url="http://localhost", follow_redirects=False
    )


@pytest.fixture
def many_sites(connection: psycopg.Connection) -> None:
    """10,000 of them: town-00001, …; every tenth waits in OCR with as many failures as its number has tens."""
    connection.execute(
        """
        insert into sites (subdomain, name, current_stage, ocr_total, ocr_failed, updated_at)
        select format('town-%s', lpad(i::text, 5, '0')), format('Town number %s', i),
               case when i % 10 = 0 then 'ocr' end, 2000, case when i % 10 = 0 then i / 10 else 0 end,
               case when i % 10 = 0 then now() - i * interval '1 minute' end
        from generate_series(1, 10000) i
        """
    )


@pytest.fixture
def hostile_site(connection: psycopg.Connection) -> str:
    """Everything that comes from outside holds markup."""
    connection.execute(
        "insert into sites (subdomain, name, last_error_stage, last_error_message, last_error_at)"
        " values (%(bad)s::text, %(bad)s::text, %(bad)s::text, %(bad)s::text, now())",
        {"bad": HOSTILE},
    )
    connection.execute(
        """
        with item as (
            insert into content_items (subdomain, kind, meeting, date)
            values (%(bad)s::text, 'minutes', %(bad)s::text, '2026-01-31') returning id
        )
        insert into content_item_pipeline_state
            (content_item_id, pipeline, status, attempt_count, error_code, error_message, last_attempt_at)
        select id, 'ocr', 'failed_terminal', 3, %(bad)s::text, %(bad)s::text, now() from item
        """,
        {"bad": HOSTILE},
    )
    return HOSTILE
