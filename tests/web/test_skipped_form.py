"""The date of a skipped entry, given in the browser."""

from __future__ import annotations

import html
import io
import json
import re
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import psycopg
import pytest
from PIL import Image
from starlette.testclient import TestClient

from clerk.web.action_executor import ActionExecutor
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from tests.ocr import pdfs
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


def image_url(file: str, site: str = "town") -> str:
    return f"/skipped/page.png?{urlencode({'site': site, 'file': file})}"


@pytest.fixture
def scans(connection: psycopg.Connection, tmp_path: Path) -> Path:
    """The folder of the site, with the skipped file."""
    folder = tmp_path / "scans"
    (folder / "Reports").mkdir(parents=True)
    (folder / FILE).write_bytes(pdfs.digital(2))
    extra = json.dumps({"path": str(folder)})
    connection.execute("update sites set scraper = 'directory', extra = %s where subdomain = 'town'", [extra])
    return folder


def add_entry(connection: psycopg.Connection, name: str) -> None:
    connection.execute(
        "insert into skipped_entries (subdomain, source_key, name, reason_code, reason)"
        " values ('town', %s, %s, 'NoDate', 'no date was found')",
        [name, name],
    )


def test_the_first_page_of_a_file_in_the_folder_is_shown(
    action_client: TestClient, connection: psycopg.Connection, scans: Path
) -> None:
    form = html.unescape(fetch(action_client, f"/skipped/date?{urlencode(FORM)}"))
    assert f'<img src="{image_url(FILE)}"' in form
    response = action_client.get(image_url(FILE))
    assert (response.status_code, response.headers["Content-Type"]) == (200, "image/png")
    with Image.open(io.BytesIO(response.content)) as image:
        assert image.size == (850, 1100)

    (scans / FILE).write_bytes(b"<html>")
    broken = action_client.get(image_url(FILE))
    assert broken.status_code == 503
    assert str(scans) not in broken.text

    (scans / FILE).unlink()
    assert "page.png" not in fetch(action_client, f"/skipped/date?{urlencode(FORM)}")
    assert action_client.get(image_url(FILE)).status_code == 404


def test_only_listed_files_of_the_sites_own_folder_are_shown(
    action_client: TestClient, connection: psycopg.Connection, scans: Path, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.pdf"
    secret.write_bytes(pdfs.digital(1))
    (scans / "link.pdf").symlink_to(secret)
    (scans / "elsewhere").symlink_to(tmp_path)
    (scans / "folder.pdf").mkdir()
    outside = [
        "../secret.pdf",
        "Reports/../../secret.pdf",
        str(secret),
        "link.pdf",
        "elsewhere/secret.pdf",
        "folder.pdf",
    ]
    for name in outside:
        add_entry(connection, name)
        assert action_client.get(image_url(name)).status_code == 404, name
        assert "page.png" not in fetch(action_client, f"/skipped/date?{urlencode({**FORM, 'file': name})}"), name

    (scans / "unlisted.pdf").write_bytes(pdfs.digital(1))
    assert action_client.get(image_url("unlisted.pdf")).status_code == 404
    connection.execute("insert into sites (subdomain, scraper, extra) values ('other', 'directory', '{}')")
    assert action_client.get(image_url(FILE, "other")).status_code == 404
    extra = json.dumps({"path": str(scans)})
    for source in (("links", extra), ("directory", "not JSON"), ("directory", '{"path": "."}'), ("directory", extra)):
        connection.execute("update sites set (scraper, extra) = (%s, %s) where subdomain = 'town'", source)
        status = 200 if source == ("directory", extra) else 404
        assert action_client.get(image_url(FILE)).status_code == status, source


def test_the_image_needs_the_token(pool: ReadOnlyPool, database: str, scans: Path) -> None:
    client = TestClient(create_app(pool, "token", executor=ActionExecutor(database)), base_url="http://localhost")
    assert client.get(image_url(FILE)).status_code == 401
    assert client.get(image_url(FILE), auth=("anyone", "token")).status_code == 200


def test_an_entry_with_a_web_address_is_linked(action_client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("update skipped_entries set source_url = 'https://town.gov/scan.pdf'")
    form = fetch(action_client, f"/skipped/date?{urlencode(FORM)}")
    assert '<a class="external" href="https://town.gov/scan.pdf" rel="noreferrer noopener">' in form
    assert "page.png" not in form
