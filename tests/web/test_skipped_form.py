"""The date of a skipped entry, given in the browser."""

from __future__ import annotations

import html
import re
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
from starlette.testclient import TestClient

from tests.web.conftest import fetch
from tests.web.test_actions import execute, form_of

FILE = "Reports/scan <1>.pdf"
FORM = {"site": "town", "file": FILE}


@pytest.fixture(autouse=True)
def _skipped(connection: psycopg.Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute(
        "insert into skipped_entries (subdomain, source_key, name, reason_code, reason)"
        " values ('town', 'file x', %s, 'NoDate', 'no date was found')",
        [FILE],
    )


def test_a_date_is_checked_confirmed_and_stored(action_client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into skipped_entries (subdomain, source_key, name, reason_code, reason)"
        " values ('town', 'file y', 'photo.jpg', 'UnreadableType',"
        " 'photo.jpg (document of photo, without a date) is an image, which clerk does not read')"
    )
    page = html.unescape(fetch(action_client, "/skipped"))
    assert f"/skipped/date?{urlencode(FORM)}" in page
    assert "<bdi>Is an image, which clerk does not read</bdi>" in page
    assert page.count("Set the date…") == 1, "a date does not help an image"
    assert page.count("Ignore…") == 2
    form = html.unescape(fetch(action_client, f"/skipped/date?{urlencode(FORM)}"))
    assert "no date was found" in form
    wrong = fetch(action_client, f"/skipped/date?{urlencode({**FORM, 'date': '5 March', 'meeting': 'Board'})}", 400)
    assert "is not a date" in html.unescape(re.findall(r'id="date-problem"[^>]*>(.*?)</p>', wrong)[0])
    assert 'value="5 March"' in wrong
    assert 'value="Board"' in wrong
    assert "Give a date" in fetch(action_client, f"/skipped/date?{urlencode({**FORM, 'date': ''})}", 400)

    given = {**FORM, "date": "2021-08-04", "meeting": "Board", "kind": "report"}
    redirect = action_client.get(f"/skipped/date?{urlencode(given)}")
    assert redirect.status_code == 303
    confirmation = action_client.get(redirect.headers["Location"])
    assert "gets the date 2021-08-04, meeting Board, kind report" in html.unescape(confirmation.text)
    done = action_client.post("/actions/set-date", data=form_of(confirmation))
    assert done.status_code == 303
    assert urlsplit(done.headers["Location"]).path == "/skipped"
    after = fetch(action_client, done.headers["Location"])
    assert "The next run of town reads it" in after
    assert '<a class="action" href="/actions/update?site=town">Update town now…</a>' in after
    stored = connection.execute("select name, date::text, meeting, kind from document_details").fetchall()
    assert stored == [(FILE, "2021-08-04", "Board", "report")]
    assert connection.execute("select action from recent_actions").fetchall() == [("date",)]


def test_an_entry_is_ignored_and_reported_again(action_client: TestClient, connection: psycopg.Connection) -> None:
    assert execute(action_client, "ignore-entry", **FORM)[1] == f"{FILE} of town is ignored."
    ignored = fetch(action_client, "/skipped?state=ignored")
    assert "Report again" in ignored
    assert ">town (1)</option>" in ignored
    assert ">town (0)</option>" in fetch(action_client, "/skipped"), "as many as the page lists"
    assert execute(action_client, "report-entry", **FORM)[1] == f"{FILE} of town is reported again."
    assert connection.execute("select state from skipped_documents").fetchall() == [("open",)]


def test_without_actions_there_is_no_form(client: TestClient) -> None:
    assert "/skipped/date" not in fetch(client, "/skipped")
    fetch(client, f"/skipped/date?{urlencode(FORM)}", 404)
