"""Commands while the pooler of DATABASE_URL does not answer and CLERK_DIRECT_DATABASE_URL does, and the reverse."""

from __future__ import annotations

import json
import socket

import psycopg
import pytest

from clerk.errors import EXIT_UNKNOWN
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.helpers import add_site

_SAID = "clerk: the pooler of DATABASE_URL does not answer: the database at "


@pytest.fixture
def closed_url() -> Url:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    return Url(f"postgresql://me:s3cret@127.0.0.1:{port}/clerk")


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("status", "town"),
        ("status", "--json"),
        ("why", "town"),
        ("failures",),
        ("metrics",),
        ("verify", "--no-files"),
        ("db", "verify"),
    ],
    ids=" ".join,
)
def test_a_report_needs_no_pooler(
    command: tuple[str, ...],
    closed_url: Url,
    database: Url,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    clerk_command: Clerk,
) -> None:
    add_site(connection)
    monkeypatch.setenv("DATABASE_URL", database)
    before = clerk_command(*command)
    monkeypatch.setenv("DATABASE_URL", closed_url)
    monkeypatch.setenv("CLERK_DIRECT_DATABASE_URL", database)
    result = clerk_command(*command)
    assert result.code == before.code == 0
    assert len(result.out.splitlines()) == len(before.out.splitlines())
    assert result.err.startswith(_SAID)
    assert result.err.endswith("\nThis report comes through CLERK_DIRECT_DATABASE_URL.\n")
    assert "s3cret" not in result.err


@pytest.mark.parametrize(
    "command",
    [("pause", "town"), ("failures", "--site", "town", "--retry"), ("verify", "--no-files", "--apply-migration")],
    ids=" ".join,
)
def test_a_change_needs_the_pooler(
    command: tuple[str, ...],
    closed_url: Url,
    database: Url,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    clerk_command: Clerk,
) -> None:
    """The two URLs may lead to different databases."""
    add_site(connection)
    monkeypatch.setenv("DATABASE_URL", closed_url)
    monkeypatch.setenv("CLERK_DIRECT_DATABASE_URL", database)
    result = clerk_command(*command)
    assert (result.code, result.out) == (EXIT_UNKNOWN, "")
    assert result.err.startswith(_SAID)
    assert "This report" not in result.err


def test_doctor_makes_all_checks(
    closed_url: Url, database: Url, monkeypatch: pytest.MonkeyPatch, clerk_command: Clerk
) -> None:
    monkeypatch.setenv("DATABASE_URL", closed_url)
    monkeypatch.setenv("CLERK_DIRECT_DATABASE_URL", database)
    report = json.loads(clerk_command("doctor", "--json").out)
    checks = {check["name"]: check for check in report["checks"]}
    assert checks["pooler"]["what"].startswith(_SAID.removeprefix("clerk: "))
    assert checks["roles"]["status"] == checks["schema"]["status"] == checks["database"]["status"] == "ok"
    assert report["pipeline_problems"] == 0


def test_an_error_names_the_setting_of_the_server(
    closed_url: Url, database: Url, monkeypatch: pytest.MonkeyPatch, clerk_command: Clerk
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setenv("CLERK_DIRECT_DATABASE_URL", closed_url)
    result = clerk_command("status")
    assert result.code == EXIT_UNKNOWN
    assert "start it or correct CLERK_DIRECT_DATABASE_URL" in result.err
    monkeypatch.setenv(
        "CLERK_DIRECT_DATABASE_URL",
        f"{database}&user=nobody_here" if "?" in database else f"{database}?user=nobody_here",
    )
    result = clerk_command("status")
    assert "check user and password in CLERK_DIRECT_DATABASE_URL" in result.err
    monkeypatch.delenv("CLERK_DIRECT_DATABASE_URL")
    monkeypatch.setenv("DATABASE_URL", closed_url)
    assert "start it or correct DATABASE_URL" in clerk_command("status").err
