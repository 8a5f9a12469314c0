"""Adding, editing and removing a site in the browser: forms, validation beside the field, confirmation and effect."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.db.sites import EDITABLE
from clerk.plugins import manager
from clerk.web import site_lookup
from tests.sources.vendor_sites import PORTALS, Server
from tests.sources.web import pdf, run_server
from tests.web.conftest import fetch
from tests.web.test_actions import execute, form_of, preview

Values = dict[str, str]


@pytest.fixture(autouse=True)
def _settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    monkeypatch.setenv("CLERK_ALLOW_LOOPBACK", "yes")
    monkeypatch.setenv("CLERK_HOST_INTERVAL", "0")
    monkeypatch.delenv("CLERK_PLUGINS_DIR", raising=False)
    manager._load.cache_clear()
    yield
    manager._load.cache_clear()


@pytest.fixture
def minutes(tmp_path: Path) -> Path:
    folder = tmp_path / "minutes"
    (folder / "Council").mkdir(parents=True)
    for day in ("2024-01-09", "2024-02-13"):
        (folder / "Council" / f"{day}.pdf").write_bytes(pdf(day))
    return folder


def send(client: TestClient, path: str, **values: str) -> httpx2.Response:
    """Open a form, fill it in and submit it."""
    return client.post(path, data=form_of(client.get(path)) | values)


def confirm(client: TestClient, page: httpx2.Response) -> str:
    """Press the button of a confirmation; return the path of the result."""
    assert page.status_code == 200, page.text
    (path,) = re.findall(r'<form class="confirm" action="([^"]+)"', page.text)
    response = client.post(path, data=form_of(page))
    assert response.status_code == 303, response.text
    return str(response.headers["Location"]).partition("?")[0]


def problem(page: httpx2.Response, name: str) -> str:
    """What the form says beside a field."""
    assert page.status_code in (400, 503), page.text
    (text,) = re.findall(rf'<p id="{name}-problem" class="problem">(.*?)</p>', page.text)
    return html.unescape(text)


def sites(connection: psycopg.Connection[Any]) -> dict[str, tuple[Any, ...]]:
    rows = connection.execute("select subdomain, name, scraper, extra, run_id is not null from sites").fetchall()
    return {row[0]: row[1:] for row in rows}


def test_a_folder_is_listed_confirmed_and_added(
    action_client: TestClient, connection: psycopg.Connection[Any], minutes: Path
) -> None:
    page = send(action_client, "/sites/new", source=str(minutes), name="St. Paul", state="MN")
    text = html.unescape(page.text)
    assert "The site st-paul will be added" in text
    assert "Documents: 2" in text
    assert "Council 2" in text
    assert "2024-01-09 to 2024-02-13" in text
    assert sites(connection) == {}, "nothing is added before the confirmation"
    assert confirm(action_client, page) == "/sites/st-paul"
    assert sites(connection) == {"st-paul": ("St. Paul", "directory", json.dumps({"path": str(minutes)}), True)}
    recorded = connection.execute("select action, subdomain, via from recent_actions").fetchall()
    assert ("add site", "st-paul", "dashboard") in recorded
    again = send(action_client, "/sites/new", source=str(minutes), subdomain="st-paul")
    assert problem(again, "subdomain") == "There is already a site st-paul. Choose another short name."


def test_an_address_is_detected_as_by_the_command(
    action_client: TestClient, connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_server() as web:
        portal = PORTALS["iqm2"](Server(web, "iqm2", pdf))
        web.serve_html("/town", f"<h1>Springfield</h1><iframe src='{portal.listing}'></iframe>")
        page = send(action_client, "/sites/new", source=f"{web.url}/town", subdomain="springfield")
        text = html.unescape(page.text)
        assert "Vendor: iqm2 (certain" in text
        assert re.search(r"Documents: [1-9]", text)
        assert "Bodies: " in text
        assert confirm(action_client, page) == "/sites/springfield"
        assert sites(connection)["springfield"][1] == "iqm2"
        web.serve_html("/other", "<h1>Nothing</h1>")
        other = send(action_client, "/sites/new", source=f"{web.url}/other", subdomain="other", state="IL")
        assert "no vendor was recognised" in problem(other, "source")
        assert 'value="IL"' in other.text, "what was typed is kept"
        monkeypatch.setattr(site_lookup, "DETECTION_SECONDS", 0.0)
        slow = send(action_client, "/sites/new", source=f"{web.url}/other", subdomain="other")
        assert "was not recognised within 0 s" in problem(slow, "source")
    assert list(sites(connection)) == ["springfield"]


def test_each_invalid_value_is_named_beside_its_field(
    action_client: TestClient, connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    page = send(action_client, "/sites/new", subdomain="No Spaces", start_year="12", lat="x", extra="[]")
    assert problem(page, "source").startswith("Give a folder")
    assert problem(page, "subdomain").startswith("Use no-spaces, or other lower-case letters")
    assert problem(page, "start_year") == "Use a year from 1800 on, such as 2015."
    assert problem(page, "lat") == "Use degrees between -90 and 90."
    assert problem(page, "extra").startswith("Use a JSON object")
    assert 'value="No Spaces"' in page.text
    missing = send(action_client, "/sites/new", source=str(tmp_path / "nowhere"), subdomain="town")
    assert "nowhere" in problem(missing, "source")
    (tmp_path / "empty").mkdir()
    empty = send(action_client, "/sites/new", source=str(tmp_path / "empty"), subdomain="town")
    assert problem(empty, "source") == "The folder has no documents. Check the path."
    unknown = send(action_client, "/sites/new", subdomain="town", scraper="nothing")
    assert "nothing" in problem(unknown, "scraper")
    assert sites(connection) == {}


def test_a_form_of_another_site_or_browser_is_refused(
    action_client: TestClient, client: TestClient, connection: psycopg.Connection[Any], minutes: Path
) -> None:
    values = {"source": str(minutes), "subdomain": "town"}
    foreign = action_client.post("/sites/new", data=values, headers={"Origin": "https://evil.example"})
    assert foreign.status_code == 403
    page = action_client.post("/sites/new", data=values)
    assert page.status_code == 400
    assert "The form has expired" in page.text
    assert "--allow-actions" in fetch(client, "/sites/new", 403)
    assert client.post("/sites/new", data=values).status_code == 405
    assert sites(connection) == {}


def test_two_lookups_at_a_time(action_client: TestClient, minutes: Path) -> None:
    app: Any = action_client.app
    slots = app.app.state.lookup_slots
    slots._value = 0
    page = send(action_client, "/sites/new", source=str(minutes), subdomain="town")
    assert page.status_code == 503
    assert problem(page, "source").startswith("Other addresses are being looked at")


def test_editing_keeps_secrets_and_shows_the_changes(
    action_client: TestClient, connection: psycopg.Connection[Any]
) -> None:
    extra = json.dumps({"client": "springfield", "token": "s3cret-value"})
    connection.execute(
        "insert into sites (subdomain, name, scraper, extra) values ('town', 'Town', 'legistar', %s)", [extra]
    )
    form = fetch(action_client, "/sites/town/edit")
    assert "s3cret-value" not in form
    assert "REDACTED" in form
    shown = html.unescape(re.findall(r"<textarea[^>]*>(.*?)</textarea>", form, re.DOTALL)[0])
    same = send(
        action_client, "/sites/town/edit", name="Town", scraper="legistar", extra=shown, weight="1", cadence="daily"
    )
    assert "has these values already" in same.text
    changed = shown.replace("{", '{"since": "2020-01-01",', 1)
    page = send(action_client, "/sites/town/edit", name="Town of X", scraper="legistar", extra=changed, weight="1")
    text = html.unescape(page.text)
    assert "2 values of town will be changed" in text
    assert "name: Town → Town of X" in text
    assert "s3cret-value" not in text
    assert confirm(action_client, page) == "/sites/town"
    name, _, stored, _ = sites(connection)["town"]
    assert name == "Town of X"
    assert json.loads(stored) == {"since": "2020-01-01", "client": "springfield", "token": "s3cret-value"}
    wrong = send(action_client, "/sites/town/edit", name="Town", scraper="legistar", extra="{}", weight="300")
    assert problem(wrong, "weight") == "Use a whole number from 1 to 100."
    wrong = send(action_client, "/sites/town/edit", name="Town", scraper="legistar", extra="{}", weight="1")
    assert "does not accept this extra" in problem(wrong, "extra")
    assert action_client.get("/sites/nowhere/edit").status_code in (404, 503)


def test_the_form_has_every_value_of_a_site(action_client: TestClient, connection: psycopg.Connection[Any]) -> None:
    """A value without a field would be reset by every edit."""
    connection.execute(
        "insert into sites (subdomain, name, state, country, kind, scraper, extra, start_year, lat, lng, weight,"
        " run_interval) values ('town', 'Town', 'IL', 'US', 'city', 'legistar', '{\"client\": \"springfield\"}', 2010,"
        " '1.5', '2.5', 7, interval '167 hours')"
    )
    form = fetch(action_client, "/sites/town/edit")
    shown = dict(re.findall(r'<input id="([a-z_]+)" name="[a-z_]+" type="text" value="([^"]*)"', form))
    shown["extra"] = html.unescape(re.findall(r"<textarea[^>]*>(.*?)</textarea>", form, re.DOTALL)[0])
    assert set(shown) == set(EDITABLE)
    assert shown["cadence"] == "weekly"
    same = send(action_client, "/sites/town/edit", **shown)
    assert "has these values already" in same.text
    page = send(action_client, "/sites/town/edit", **shown | {"cadence": "hourly"})
    assert "cadence: weekly → hourly" in html.unescape(page.text)
    wrong = send(action_client, "/sites/town/edit", **shown | {"cadence": "sometimes"})
    assert "weekly" in problem(wrong, "cadence")


def test_removing_says_what_is_deleted_and_what_is_kept(
    action_client: TestClient, connection: psycopg.Connection[Any], tmp_path: Path
) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute(
        "insert into content_items (subdomain, kind, meeting, date) values ('town', 'minutes', 'C', now())"
    )
    connection.execute("select clerk_start_run('town')")
    (tmp_path / "storage" / "town").mkdir(parents=True)
    text = preview(action_client, "remove-site", site="town")
    assert "with the record of 1 document and 1 run." in text
    assert "is cancelled" in text
    assert f"The files in {tmp_path / 'storage' / 'town'} are kept" in text
    assert "town" in sites(connection), "the preview changes nothing"
    assert "<code>clerk site remove town --files</code>" in text
    assert '<button class="danger">Remove the site</button>' in text
    path, message = execute(action_client, "remove-site", site="town")
    assert (path, message) == ("/sites", "town was removed with 1 document.")
    assert sites(connection) == {}
    assert (tmp_path / "storage" / "town").is_dir()
    assert ("remove site", "town") in connection.execute("select action, subdomain from recent_actions").fetchall()


def test_links_to_the_forms_exist_only_if_actions_are_allowed(
    action_client: TestClient, client: TestClient, connection: psycopg.Connection[Any]
) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    for path, link in {"/sites": 'href="/sites/new"', "/sites/town": 'href="/sites/town/edit"'}.items():
        assert link in fetch(action_client, path)
        assert link not in fetch(client, path)
