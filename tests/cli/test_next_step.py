"""`clerk` alone, and `clerk status` before there is a database: the next step, without side effects."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from clerk.cli.next_step import program_name
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker, run_with
from tests.monitoring.workers import register

HELP = "Help: --help lists all commands, COMMAND --help has examples, doctor checks this machine."


@pytest.fixture(autouse=True)
def _on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.fixture
def clerk(clerk_command: Clerk) -> Callable[[], str]:
    """Runs `clerk` alone, which always succeeds; returns its output."""

    def run() -> str:
        result = clerk_command()
        assert (result.code, result.err) == (0, "")
        assert result.out.rstrip().endswith(HELP)
        return result.out

    return run


def test_without_a_database(clerk: Callable[[], str], tmp_path: Path) -> None:
    shown = clerk()
    assert "There is no database here yet" in shown
    assert "    clerk up\n" in shown
    assert "    clerk site add springfield --url https://www.springfield.gov\n" in shown
    assert list(tmp_path.iterdir()) == [], "nothing was created"


def test_status_without_a_database_explains_how_to_begin(clerk_command: Clerk, tmp_path: Path) -> None:
    result = clerk_command("status")
    assert (result.code, result.err) == (3, "")
    assert "    clerk up\n" in result.out
    result = clerk_command("status", "--json")
    assert result.code == 3
    error = json.loads(result.out)["error"]
    assert (error["code"], error["remedy"]) == ("NoDatabase", "run: clerk up")
    assert list(tmp_path.iterdir()) == [], "nothing was created"


def test_a_stopped_embedded_database_is_not_started(clerk: Callable[[], str], tmp_path: Path) -> None:
    data = tmp_path / ".clerk" / "postgres"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("18\n")
    assert "has stopped" in clerk()
    assert "clerk search" not in clerk()
    version = tmp_path / ".clerk/storage/_published/springfield"
    version.mkdir(parents=True)
    (version / "current").symlink_to("versions/1")
    assert "1 archive published." in clerk()
    assert "clerk search" in clerk()
    assert sorted(path.name for path in (tmp_path / ".clerk").iterdir()) == ["postgres", "storage"]


def test_a_database_that_cannot_be_reached(clerk: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:1/clerk")
    shown = clerk()
    assert shown.startswith("The state is unknown: the database at postgresql://me:***@127.0.0.1:1/clerk cannot be")
    assert "    clerk doctor\n" in shown


def test_a_database_that_accepts_connections_and_does_not_answer(
    clerk: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setenv("DATABASE_URL", f"postgresql://me@127.0.0.1:{port}/clerk")
        assert clerk().startswith("The state is unknown: the database at ")


def test_a_slow_database(clerk: Callable[[], str], database: Url, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setattr("clerk.cli.next_step._STATEMENT_SECONDS", 0.001)
    with psycopg.connect(database) as locking:
        locking.execute("lock table clerk_migrations in access exclusive mode")
        assert clerk().startswith("The database has not answered within 0.001 seconds.")


def test_databases_that_are_not_migrated(
    clerk: Callable[[], str], new_database: Callable[[], Url], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_database()
    monkeypatch.setenv("DATABASE_URL", url)
    assert "is empty." in (shown := clerk())
    assert "    clerk db up\n" in shown
    with psycopg.connect(url) as connection:
        connection.execute("create table invoices ()")
    assert "belongs to another application. Correct DATABASE_URL." in clerk()


def test_each_state_of_the_pipeline(
    clerk: Callable[[], str], connection: psycopg.Connection, database: Url, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database)
    assert "has no site yet" in (shown := clerk())
    assert "    clerk site add springfield" in shown

    add_site(connection, documents=1)
    assert "There is 1 site, and no worker runs" in (shown := clerk())
    assert "    clerk up\n" in shown

    with connect_worker(database, "0123456789ab clerk 77 machine-a") as worker:
        register(worker, *QUEUES)
        assert "Nothing is published yet" in clerk()

        engine.start_run(connection, "town")
        assert "There is 1 site; 1 is being processed. There are no alerts." in (shown := clerk())
        assert "    clerk status --watch\n" in shown
        engine.cancel_run(connection, "town")

        assert run_with(worker).startswith("succeeded")
        _publish(connection)
        assert "all is processed, and there are no alerts" in (shown := clerk())
        assert """    clerk search '"bike lanes"'\n""" in shown
        assert "    clerk serve\n" in shown

        connection.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 day'")
        assert "no worker runs" in (shown := clerk())
        assert "    clerk serve\n" in shown, "what is published can be read without workers"
        connection.execute("update procrastinate_workers set last_heartbeat = now()")

        engine.pause_queue(connection, "ocr", "tests")
        assert "Something needs attention:\n! queue ocr is paused" in (shown := clerk())
        assert "  → clerk resume --queue ocr\n" in shown
    connection.execute("delete from clerk_migrations where version = (select max(version) from clerk_migrations)")
    assert "The database must be migrated" in clerk()


def _publish(connection: psycopg.Connection) -> None:
    connection.execute(
        "insert into publications (subdomain, run_id, content_hash, pages, deployed_at)"
        " select subdomain, max(run_id), repeat('a', 64), 1, now() from pipeline_runs group by subdomain"
    )


def test_commands_name_the_program_as_the_user_calls_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert program_name() == "clerk"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    script = tmp_path / "checkout" / ".venv" / "bin" / "clerk"
    monkeypatch.setattr(sys, "argv", [str(script)])
    assert program_name() == os.path.relpath(script)
    wrapper = tmp_path / "checkout" / "bin" / "clerk"
    wrapper.parent.mkdir(parents=True)
    wrapper.touch()
    assert program_name() == "checkout/bin/clerk"
    monkeypatch.setattr(sys, "argv", ["/somewhere/clerk/__main__.py"])
    assert program_name() == "python -m clerk"


def test_an_error_is_json_with_json(clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch, database: Url) -> None:
    monkeypatch.setenv("DATABASE_URL", database)

    def error(*arguments: str) -> dict[str, str]:
        result = clerk_command(*arguments, "--json")
        assert result.code != 0
        assert result.err
        assert result.out.count("\n") == 1
        report = json.loads(result.out)
        assert list(report) == ["error"]
        assert list(report["error"]) == ["code", "message", "remedy"]
        found: dict[str, str] = report["error"]
        return found

    assert error("why", "nowhere")["code"] == "SiteNotFound"
    usage = error("db", "up", "--to", "soon")
    assert (usage["code"], usage["remedy"]) == ("UsageError", "see clerk db up --help")
    monkeypatch.setattr("clerk.config.load", lambda: 1 / 0)
    unexpected = error("config")
    assert unexpected["code"] == "UnexpectedError"
    assert unexpected["message"] == "unexpected ZeroDivisionError (division by zero)"
