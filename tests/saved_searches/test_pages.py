"""Alerts in the dashboard: the list, and the actions from the search page."""

from __future__ import annotations

import html

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.web.action_executor import ActionExecutor
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from tests.conftest import Url
from tests.publish.helpers import Town
from tests.saved_searches.helpers import BIKES, deliver, save_search
from tests.saved_searches.receivers import MailServer
from tests.web.conftest import HOSTILE, fetch
from tests.web.conftest import action_client as action_client
from tests.web.conftest import client as client
from tests.web.conftest import pool as pool
from tests.web.test_actions import confirmation_page, execute, preview, submit

FIELDS = {"name": "bikes", "query": "bike lanes", "mail": "desk@example.org", "frequency": "daily", "feed": "yes"}


def test_an_alert_is_added_paused_resumed_and_removed(
    action_client: TestClient, connection: psycopg.Connection
) -> None:
    page = preview(action_client, "add-alert", 200, **FIELDS)
    assert "The alert bikes will be added." in page
    assert "Mails to desk@example.org, once a day." in page
    assert connection.execute("select count(*) from saved_searches").fetchall() == [(0,)]
    assert execute(action_client, "add-alert", **FIELDS) == ("/alerts", "The alert bikes was added.")
    rows = connection.execute("select name, query, created_by, destinations from saved_search_overview").fetchall()
    assert [row[:2] for row in rows] == [("bikes", "bike lanes")]
    assert rows[0][3] == ["mail to d***@example.org, daily", "feed"]
    assert execute(action_client, "pause-alert", name="bikes")[1] == "The alert bikes is paused."
    assert "is already paused" in preview(action_client, "pause-alert", name="bikes")
    assert execute(action_client, "resume-alert", name="bikes")[1] == "The alert bikes was resumed."
    assert execute(action_client, "remove-alert", name="bikes")[1] == "The alert bikes was removed."
    assert preview(action_client, "remove-alert", status=404, name="bikes")


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({"name": "Bike Lanes"}, 400),
        ({"mail": "a@b.example\nBcc: c@d.example"}, 400),
        ({"mail": "", "feed": ""}, 400),
        ({"query": "title:x"}, 400),
        ({"frequency": "hourly"}, 400),
        ({"site": "nowhere"}, 404),
    ],
)
def test_what_is_refused(action_client: TestClient, changed: dict[str, str], status: int) -> None:
    preview(action_client, "add-alert", status, **(FIELDS | changed))


def test_the_list_is_escaped_and_abbreviates_addresses(town: Town, mail_server: MailServer, client: TestClient) -> None:
    save_search(town, query=f'bike "{HOSTILE}"', mails=("desk@example.org",), feed=True)
    save_search(town, "other", mails=("desk@example.org",))
    mail_server.answers = ["550 no"]
    town.add_document(BIKES)
    town.run()
    deliver(town)
    page = fetch(client, "/alerts")
    assert HOSTILE not in page
    assert HOSTILE in html.unescape(page)
    assert "mail to d***@example.org, immediate" in page
    assert "desk@example.org" not in page
    assert 'href="/feeds/alerts/bikes.atom"' in page
    assert 'href="/failures?stage=delivery"' in page
    failures = fetch(client, "/failures?stage=delivery")
    assert "MailRefused" in failures
    assert "alert other, mail to d***@example.org" in failures


def test_the_form_is_on_the_search_page_only_if_actions_are_allowed(
    town: Town, pool: ReadOnlyPool, database: Url
) -> None:
    town.add_document(BIKES)
    town.run()
    url = "/search?q=bike&site=springfield"
    without = TestClient(create_app(pool, publish_dir=town.published.root), base_url="http://localhost")
    assert "/actions/add-alert" not in fetch(without, url)
    app = create_app(pool, publish_dir=town.published.root, executor=ActionExecutor(database))
    page = fetch(TestClient(app, base_url="http://localhost"), url)
    assert '<form action="/actions/add-alert"' in page
    assert '<input type="hidden" name="query" value="bike">' in page
    assert '<input type="hidden" name="site" value="springfield">' in page


def test_an_alert_is_not_added_without_confirmation(action_client: TestClient, connection: psycopg.Connection) -> None:
    assert action_client.post("/actions/add-alert", data=FIELDS).status_code == 403
    page = confirmation_page(action_client, "add-alert", **FIELDS)
    assert page.status_code == 200
    submit(action_client, "add-alert", **FIELDS)
    assert connection.execute("select count(*) from saved_searches").fetchall() == [(1,)]
