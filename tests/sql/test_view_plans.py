"""Views are asked every minute, also of ten thousand sites: none reads a whole table that grows with the documents.

On a made-up database in the steady state: most sites at rest, some going, the jobs of a day still there.
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
ABOUT_A_SITE = {"expected_counters", "counter_mismatches", "open_coordinators", "open_units", "site_documents"}
"""Asked for one site at a time; of all at once they read what they must."""
ON_EVERYTHING = {
    "invariant_violations_full": "that is its purpose",
    "stage_durations": "the transitions of every run of a day, of which there are four each",
    "claim_mismatches": "for the full check, and for reconciliation",
}
OF_ONE_SITE = {"subdomain": "site7", "id": 400, "lineage_id": 400, "sites": ["site7"], "keys": ["pdfs/Council/3.pdf"]}


def as_text(connection: Connection, query: Query, values: dict[str, Any]) -> str:
    return ClientCursor(connection).mogrify(query, values)


def test_views_read_what_moves(server: Url, template: str, folder: SqlFolder) -> None:
    databases = Databases(server)
    try:
        with connect_to(databases.create(template)) as connection:
            fill(connection, sites=1000, documents=49, active=10)
            assert connection.execute("select * from invariant_violations_full").fetchall() == []
            views = {item.name for item in folder.objects if item.kind == "view"}
            for view in sorted(views - set(ON_EVERYTHING)):
                of_whom = "where subdomain = 'site7'" if view in ABOUT_A_SITE else ""
                plan = plan_of(connection, f"select * from {view} {of_whom}")
                assert not BIG & set(scans(plan)), f"{view}: {json.dumps(plan, indent=1)}"
            for query, values in (*site.QUERIES, *document.QUERIES, *search.QUERIES):
                plan = plan_of(connection, as_text(connection, query, values | OF_ONE_SITE))
                assert not BIG & set(scans(plan)), f"{query.as_string()}: {json.dumps(plan, indent=1)}"
            plan = plan_of(connection, "select * from stage_durations")
            assert {"pipeline_transitions"} >= BIG & set(scans(plan)), json.dumps(plan, indent=1)
    finally:
        databases.drop_all()
