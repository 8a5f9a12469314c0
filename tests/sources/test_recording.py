"""`clerk plugins record` and the redaction of secrets in what it stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clerk.sources.redaction import Redaction
from clerk.sources.replay import ReplayedSource
from clerk.sources.vendors import BUILT_IN
from tests.cli.conftest import Clerk, clerk_command  # noqa: F401 (fixture)
from tests.sources.conftest import Work
from tests.sources.web import Reply, Request, Web, pdf

TOKEN = "s3cr3t-t0k3n-0123456789"  # noqa: S105 (of this test)


def serve_legistar(web: Web) -> None:
    event = {
        "EventId": 7,
        "EventBodyName": "City Council",
        "EventDate": "2024-03-05T00:00:00",
        "EventMinutesFile": f"{web.url}/7.pdf?token={TOKEN}",
        "EventMinutesStatusName": "Final",
        "EventComment": f"session {TOKEN}",
    }

    def respond(request: Request) -> Reply:
        events = [] if request.query.get("$skip", "0") != "0" else [event]
        headers = {"Content-Type": "application/json", "Set-Cookie": "visitor=cookie-value-987; Path=/"}
        return Reply(json.dumps([*events]).encode(), headers=headers)

    web.routes["/v1/town/events"] = respond
    web.routes["/7.pdf"] = Reply(pdf("minutes"), headers={"Content-Type": "application/pdf"})


@pytest.fixture
def site(web: Web, work: Work, clerk_command: Clerk) -> Clerk:  # noqa: F811 (fixture)
    serve_legistar(web)
    extra = json.dumps({"client": "town", "token": TOKEN, "api": f"{web.url}/v1", "since": "2024-01-01"})
    added = clerk_command("site", "add", "springfield", "--scraper", "legistar", "--extra", extra)
    assert added.code == 0, added.err
    return clerk_command


def test_a_recorded_site_has_no_secrets_and_is_replayed_without_its_server(
    site: Clerk, web: Web, tmp_path: Path
) -> None:
    folder = tmp_path / "recording"
    done = site("plugins", "record", "springfield", "--to", str(folder), "--documents", "1", "--json")
    assert done.code == 0, done.err
    assert site("plugins", "record", "springfield", "--to", str(tmp_path / "tried"), "--dry-run").code == 0
    assert not (tmp_path / "tried").exists()
    report = json.loads(done.out)
    assert (report["documents"], report["downloaded"]) == (1, 1)
    assert any(request.query.get("token") == TOKEN for request in web.requests)

    files = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert [name for name, content in files.items() if TOKEN.encode() in content or b"cookie-value" in content] == []
    assert b"token=REDACTED" in files["recording.json"]
    assert b"set-cookie" not in files["recording.json"].lower()

    web.routes.clear()
    source = ReplayedSource(folder, BUILT_IN["legistar"])
    (ref,) = source.documents()
    assert (ref.meeting, str(ref.date), ref.kind) == ("City Council", "2024-03-05", "minutes")
    assert source.download(ref) == pdf("minutes")


def test_a_recording_is_bounded_and_replaces_nothing_by_itself(site: Clerk, web: Web, tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    folder.mkdir()
    (folder / "mine.txt").write_text("kept")
    arguments = ("plugins", "record", "springfield", "--to", str(folder))
    assert "exists" in site(*arguments).err
    assert "has no recording.json" in site(*arguments, "--replace").err
    assert (folder / "mine.txt").read_text() == "kept"

    web.routes["/v1/town/events"] = Reply(b"[" + b" " * 1_000_000 + b"]")
    arguments = ("plugins", "record", "springfield", "--to", str(tmp_path / "other"))
    assert "larger than 1,000,000 bytes at http" in site(*arguments, "--max-size", "1").err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://a.example/x?id=1&token=abcdefgh#top", "https://a.example/x?id=1&token=REDACTED"),
        ("https://user:pass@a.example/x", "https://a.example/x"),
        (
            "https://a.example/x?api_key=1&Subscription-Key=2",
            "https://a.example/x?api_key=REDACTED&Subscription-Key=REDACTED",
        ),
        ("https://a.example/x?_=1700000000", "https://a.example/x?_=REDACTED"),
        ("https://a.example/x?monkey=1&keyword=2&design=3", "https://a.example/x?monkey=1&keyword=2&design=3"),
    ],
)
def test_secret_parameters_of_addresses(url: str, expected: str) -> None:
    redaction = Redaction(["_"])
    assert redaction.url(url) == expected
    assert redaction.url(expected) == expected


def test_secrets_in_forms_json_settings_and_bodies() -> None:
    redaction = Redaction()
    form = redaction.sent(b"__RequestVerificationToken=form-token-1&page=2", "application/x-www-form-urlencoded")
    assert form == "__RequestVerificationToken=REDACTED&page=2"
    assert redaction.sent(b'{"password": "hunter22", "page": 2}', "application/json") == (
        '{"page": 2, "password": "REDACTED"}'
    )
    assert redaction.settings({"client": "town", "login": {"api_key": 12345678}, "is": True}) == {
        "client": "town",
        "login": {"api_key": "REDACTED"},
        "is": True,
    }
    redaction.add_headers(
        {"Authorization": "Bearer bearer-value", "Cookie": "a=1; id=cookie-value", "Accept": "text/html"}
    )
    body = (
        b'<a href="/f?id=1&amp;sig=abc">x</a> {"access_token": "zzz"} form-token-1 bearer-value cookie-value'
        b" hunter22 12345678 https://me:pw@town.example/ text/html"
    )
    assert redaction.body(body) == (
        b'<a href="/f?id=1&amp;sig=REDACTED">x</a> {"access_token": "REDACTED"}'
        + b" REDACTED" * 5
        + b" https://town.example/ text/html"
    )
    assert redaction.body(b"%PDF-1.4\xff\0token=hunter22") == b"%PDF-1.4\xff\0token=hunter22"
