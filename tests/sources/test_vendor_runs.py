"""Each vendor's portal, played by a local server, in runs of a real worker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from clerk.pipeline import engine
from tests.sources.conftest import Work
from tests.sources.documents import text_pdf
from tests.sources.vendor_sites import EARLIER, PORTALS, Server
from tests.sources.web import Web

PHASES = ("fetch", "ocr", "compilation", "extraction", "deploy")


def test_the_sites_of_all_vendors_are_fetched_read_and_published(
    connection: psycopg.Connection[Any], web: Web, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one test, because the worker starts once for all sites."""
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(tmp_path / "published"))
    monkeypatch.setenv("CLERK_PLUGIN_TIME_LIMIT", "60")
    portals = {label: serve(Server(web, label, text_pdf)) for label, serve in PORTALS.items()}
    for label, portal in portals.items():
        extra = {**portal.extra, "since": f"{EARLIER.year}-01-01"}
        connection.execute(
            "insert into sites (subdomain, name, scraper, extra) values (%s, %s, %s, %s)",
            [label, label, label, json.dumps(extra)],
        )
        engine.start_run(connection, label)
    for phase in PHASES:
        work(phase)
        work("coordinator")
        work("coordinator")  # of phases without units
    documents: dict[str, set[Any]] = {label: set() for label in portals}
    rows = connection.execute("select subdomain, meeting, date, kind, ocr_status from site_documents")
    for subdomain, *document in rows:
        assert tuple(document) not in documents[subdomain], "no document is fetched as a PDF and as a web page"
        documents[subdomain].add(tuple(document))
    assert documents == {
        label: {(*document, "processed") for document in portal.documents | portal.pages}
        for label, portal in portals.items()
    }
    assert connection.execute("select * from skipped_documents").fetchall() == []
    web_pages = "select subdomain, meeting, date, kind from site_documents where storage_key like '%.html'"
    assert {tuple(row) for row in connection.execute(web_pages)} == {
        (label, *document) for label, portal in portals.items() for document in portal.pages
    }
    published = {path.parent.parent.name for path in (tmp_path / "published").glob("*/current/meetings.db")}
    assert published == set(portals)
    assert connection.execute("select * from invariant_violations").fetchall() == []
