"""The SQL is tested with the same hands as the engine. One database per session, emptied for each test: there are
hundreds of small ones, and a clone for each would take longer than all of them."""

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
    "reconcile_log",
    "paused_queues",
    "ignored_results",
    "publications",
    "publication_steps",
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
def _one_for_all(server: Url, template: str) -> Iterator[Url]:
    databases = Databases(server)
    yield databases.create(template)
    databases.drop_all()


@pytest.fixture
def database(_one_for_all: Url) -> Url:
    with psycopg.connect(_one_for_all, autocommit=True) as connection:
        # No triggers and no truncate, which makes files anew for every table and index.
        connection.execute("set session_replication_role = replica")
        for table in TABLES:
            connection.execute(sql.SQL("delete from {}").format(sql.Identifier(table)))
    return _one_for_all
