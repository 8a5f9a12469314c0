"""Fixtures of the SQL tests. The tests of a session share one database, which is emptied before each: a clone per test
would take longer than the tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from tests.conftest import Databases, Url
from tests.engine.conftest import new_worker as new_worker

TABLES = [
    "sites",
    "content_items",
    "content_item_pipeline_state",
    "pipeline_runs",
    "pipeline_transitions",
    "job_claims",
    "job_errors",
    "reconcile_log",
    "paused_queues",
    "ignored_results",
    "publications",
    "publication_steps",
    "publication_matchings",
    "published_pages",
    "saved_search_deliveries",
    "saved_search_matches",
    "saved_search_destinations",
    "saved_searches",
    "storage_scans",
    "operator_actions",
    "reconcile_runs",
    "legacy_sites",
    "worker_processes",
    "procrastinate_jobs",
    "procrastinate_events",
    "worker_processes",
    "procrastinate_workers",
    "procrastinate_periodic_defers",
]


@pytest.fixture(scope="session")
def _shared_database(server: Url, template: str) -> Iterator[Url]:
    databases = Databases(server)
    yield databases.create(template)
    databases.drop_all()


@pytest.fixture
def database(_shared_database: Url) -> Url:
    with psycopg.connect(_shared_database, autocommit=True) as connection:
        # Without triggers. `delete`, because `truncate` creates new files for every table and index.
        connection.execute("set session_replication_role = replica")
        for table in TABLES:
            connection.execute(sql.SQL("delete from {}").format(sql.Identifier(table)))
    return _shared_database
