"""The dashboard in docs/grafana: every query runs, as the user that its README creates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline import engine
from tests.conftest import Url
from tests.engine.helpers import Connection, Worker, add_site, drain, finish_phase, start

FOLDER = Path(__file__).parents[2] / "docs" / "grafana"
DASHBOARD = json.loads((FOLDER / "clerk.json").read_text(encoding="utf-8"))
PANELS = {f"{panel['type']}: {panel['title']}": panel for panel in DASHBOARD["panels"]}


def query_of(panel: dict[str, Any]) -> str:
    (target,) = panel["targets"]
    return str(target["rawSql"])


@pytest.fixture
def grafana(database: Url, connection: Connection) -> Iterator[psycopg.Connection]:
    """A connection as described in the README."""
    (command,) = re.findall(r"create role grafana .*;", (FOLDER / "README.md").read_text(encoding="utf-8"))
    user = f"grafana_{urlsplit(database).path[1:]}"
    connection.execute(command.replace("role grafana", f"role {user}").encode())
    parts = urlsplit(database)
    url = urlunsplit(parts._replace(netloc=f"{user}:choose%20one@{parts.netloc.rpartition('@')[2]}"))
    try:
        with psycopg.connect(url, autocommit=True) as signed_in:
            yield signed_in
    finally:
        connection.execute(f"drop role {user}".encode())


@pytest.fixture
def pipeline(connection: Connection) -> None:
    """Rows in every table that a panel shows."""
    worker = Worker(connection)
    (broken, *_) = add_site(connection, "ended")
    start(connection, "ended", phase=2)
    finish_phase(worker, failing=(broken,))
    drain(worker)
    for name, phase in (("stuck", 2), ("active", 3)):
        add_site(connection, name)
        start(connection, name, phase=phase)
    connection.execute("update sites set updated_at = now() - interval '3 hours' where subdomain = 'stuck'")
    connection.execute("update sites set ocr_total = 7 where subdomain = 'active'")
    worker.take("compilation")
    engine.pause_queue(connection, "deploy", "me")


@pytest.mark.parametrize("name", PANELS)
def test_every_panel_shows_something(pipeline: None, grafana: psycopg.Connection, name: str) -> None:
    found = grafana.execute(query_of(PANELS[name]).encode())
    rows = found.fetchall()
    assert rows or name == "table: Repairs"
    assert found.description is not None
    columns = [column.name for column in found.description]
    if PANELS[name]["targets"][0]["format"] == "time_series":
        assert columns == ["time", "metric", "value"]
    if PANELS[name]["type"] == "stat":
        assert len(rows) == len(columns) == 1
    named = {o["matcher"]["options"] for o in PANELS[name]["fieldConfig"]["overrides"]}
    assert named <= set(columns), "an override for a missing column"


def test_the_user_sees_views_only(grafana: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        grafana.execute("select from sites")


def test_the_dashboard_is_complete(folder: SqlFolder) -> None:
    """It shows every public view named in the README, and its data source is chosen at import."""
    asked = " ".join(query_of(panel) for panel in PANELS.values())
    for view in (
        *("pipeline_overview", "pipeline_health", "stuck_sites", "queue_backlog", "worker_status", "stage_durations"),
        *("completions_per_hour", "recent_errors", "invariant_violations", "recent_repairs"),
    ):
        assert re.search(rf"\b{view}\b", asked), view
    assert [wanted["name"] for wanted in DASHBOARD["__inputs"]] == ["DS_CLERK"]
    assert {panel["datasource"]["uid"] for panel in PANELS.values()} == {"${DS_CLERK}"}
    assert len({panel["id"] for panel in PANELS.values()}) == len(DASHBOARD["panels"])
