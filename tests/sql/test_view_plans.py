"""No view that is queried every minute scans a whole table that grows with the number of documents.

Tested on a generated database: most sites idle, some active, the jobs of one day.
"""

from __future__ import annotations

import json
from typing import Any

from psycopg import ClientCursor

from clerk.db.connection import connect_to
from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.web.db import Query
from clerk.web.pages import document, search, site
from tests.bench.operate import fill
from tests.conftest import Databases, Url
from tests.engine.helpers import Connection
from tests.sql.test_plans import plan_of, scans

BIG = {
    "content_item_pipeline_state",
    "content_items",
    "job_claims",
    "pipeline_transitions",
    "procrastinate_jobs",
    "procrastinate_events",
}
PER_SITE = {"expected_counters", "counter_mismatches", "open_coordinators", "open_units", "site_documents"}
"""Queried for one site at a time."""
PER_JOB = {"job_overview", "job_history", "job_failures"}
"""Queried for one job at a time."""
FULL_SCANS = {
    "invariant_violations_full": "checks everything",
    "stage_durations": "reads the transitions of all runs of a day",
    "claim_mismatches": "reads every claim, for the full check and for reconciliation",
}
SITE_PARAMETERS = {
    "subdomain": "site7",
    "id": 400,
    "lineage_id": 400,
    "sites": ["site7"],
    "keys": ["pdfs/Council/3.pdf"],
}


def as_text(connection: Connection, query: Query, values: dict[str, Any]) -> str:
    return ClientCursor(connection).mogrify(query, values)


def test_views_do_not_scan_large_tables(server: Url, template: str, folder: SqlFolder) -> None:
    databases = Databases(server)
    try:
        with connect_to(databases.create(template)) as connection:
            fill(connection, sites=1000, documents=49, active=10)
            assert connection.execute("select * from invariant_violations_full").fetchall() == []
            views = {item.name for item in folder.objects if item.kind == "view"}
            for view in sorted(views - set(FULL_SCANS)):
                condition = "where subdomain = 'site7'" if view in PER_SITE else ""
                condition = "where job_id = 7" if view in PER_JOB else condition
                plan = plan_of(connection, f"select * from {view} {condition}")
                assert not BIG & set(scans(plan)), f"{view}: {json.dumps(plan, indent=1)}"
            for query, values in (*site.QUERIES, *document.QUERIES, *search.QUERIES):
                plan = plan_of(connection, as_text(connection, query, values | SITE_PARAMETERS))
                assert not BIG & set(scans(plan)), f"{query.as_string()}: {json.dumps(plan, indent=1)}"
            plan = plan_of(connection, "select * from stage_durations")
            assert {"pipeline_transitions"} >= BIG & set(scans(plan)), json.dumps(plan, indent=1)
    finally:
        databases.drop_all()
