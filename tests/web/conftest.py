from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.web import auth
from clerk.web.action_executor import ActionExecutor
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from clerk.web.pages import overview, probes
from tests.conftest import Url

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _no_token_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLERK_DASHBOARD_TOKEN", raising=False)


@pytest.fixture(autouse=True)
def _disable_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages show what the test has just changed, not a cached overview."""
    monkeypatch.setattr(overview, "OVERVIEW_TTL", (0.0, 0.0))
    monkeypatch.setattr(overview, "HOURLY_STATS_TTL", (0.0, 0.0))
    monkeypatch.setattr(probes, "READINESS_TTL", 0.0)


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong token is answered at once."""
    monkeypatch.setattr(auth, "FAILURE_DELAY", 0.0)


@pytest.fixture
def pool(database: Url) -> Iterator[ReadOnlyPool]:
    with ReadOnlyPool(database) as pool:
        pool.assume_role()
        yield pool


@pytest.fixture
def client(pool: ReadOnlyPool) -> TestClient:
    return TestClient(create_app(pool), base_url="http://localhost")


def fetch(client: TestClient, url: str, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status, response.text
    return without_labels(response.text)


def without_labels(page: str) -> str:
    """Without the titles of columns that clerk.web.table_labels adds to each cell."""
    return re.sub(r' data-label="[^"]*"', "", page)


def listed_sites(page: str) -> list[str]:
    """The sites of a list, in order."""
    return re.findall(r'<th scope="row"><a href="/sites/([^"]*)"', page)


@pytest.fixture
def action_client(pool: ReadOnlyPool, database: Url) -> TestClient:
    """A browser without cookies, for a dashboard with --allow-actions."""
    return TestClient(
        create_app(pool, executor=ActionExecutor(database)), base_url="http://localhost", follow_redirects=False
    )


@pytest.fixture
def many_sites(connection: psycopg.Connection) -> None:
    """10,000 sites: town-00001, …; every tenth is in OCR, and has a tenth of its number as failures."""
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
    """A site whose every untrusted value contains markup."""
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
