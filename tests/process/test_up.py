"""The whole system in one command: real processes, from nothing to an archive, through deaths, and to an end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import psutil
import psycopg
import pytest

from clerk.db.connection import connect_to
from clerk.db.embedded import postgres
from clerk.errors import EXIT_FAILURE, EXIT_USAGE
from clerk.reconcile import apply
from tests.conftest import Url
from tests.process.conftest import Start
from tests.process.helpers import Up, add, gone, outcome, papers, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")


def test_from_nothing_to_an_archive_and_back(start: Start, tmp_path: Path) -> None:
    """No database, no site; then one is added, as a journalist would, and nothing else is done."""
    folder = papers(tmp_path / "papers")
    up = start("--workers", "2", "--port", "0", CLERK_POSTGRES_IDLE_TIMEOUT="1")
    address = up.dashboard()
    assert httpx2.get(address).status_code == 200
    assert "--allow-actions" not in up.children("dashboard")[0].cmdline()
    home = tmp_path / "home"
    added = subprocess.run(
        [
            *(sys.executable, "-m", "clerk", "site", "add", "springfield", "--name", "Springfield", "--state", "IL"),
            *("--kind", "city", "--scraper", "directory", "--extra", f'{{"path": "{folder}"}}'),
        ],
        env={**os.environ, "CLERK_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert added.returncode == 0, added.stderr
    up.until_said("springfield: succeeded, 1 document read")
    with postgres.running(home, idle_timeout=1.0) as url, connect_to(url) as connection:
        assert outcome(connection, "springfield") == "succeeded"
    started = up.descendants()
    up.signal(signal.SIGINT)
    assert up.wait() == 0
    assert gone(started)
    assert up.said.rstrip().endswith("clerk has stopped.")
    until(lambda: postgres.EmbeddedPostgres(home).server.pid is None)


def test_who_is_killed_is_replaced_and_the_site_completes(
    start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    connection.execute("update stage_policy set lease = '2 seconds'")
    add(connection, "springfield", papers(tmp_path / "papers", pictures=4))
    up = start("--workers", "2", "--port", "0", DATABASE_URL=database)
    address = up.dashboard()
    reading = "select pid from running_jobs where queue = 'ocr' and progress is not null"
    (worker, *_) = until(lambda: connection.execute(reading).fetchall())
    killed = [psutil.Process(int(worker[0])), *up.children("dashboard")]
    for process in killed:
        process.kill()
    # The display's own connection too: it comes back, and shows how the site ended.
    connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'clerk' and datname = current_database() and pid <> pg_backend_pid()"
    )
    until(lambda: len(up.children("worker")) == 2 and len(up.children("dashboard")) == 1)
    assert not {process.pid for process in killed} & {process.pid for process in up.descendants()}

    def ended() -> str | None:
        apply.rescue_expired(connection)  # as workers do once a minute
        return outcome(connection, "springfield")

    assert until(ended) == "succeeded"
    up.until_said("springfield: succeeded, 5 documents read")
    until(lambda: answers(address))
    assert "was ended by SIGKILL: another starts in 1 s" in up.said
    up.signal(signal.SIGTERM)
    assert up.wait() == 0


def answers(address: str) -> bool:
    try:
        return httpx2.get(address).status_code == 200
    except httpx2.ConnectError:
        return False


def test_asked_to_stop_it_finishes_what_runs_and_leaves_nobody(
    start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    up, command = deploying(start, database, connection, tmp_path)
    started = up.descendants()
    up.signal(signal.SIGINT)
    up.until_said("clerk is stopping")
    assert command.is_running()
    Path(tmp_path, "go").touch()
    assert up.wait() == 0
    assert gone(started)
    assert connection.execute("select status::text from procrastinate_jobs where queue_name = 'deploy'").fetchall() == [
        ("succeeded",)
    ]
    assert connection.execute("select count(*) from procrastinate_workers").fetchone() == (0,)


def test_asked_twice_it_stops_at_once_with_all_that_was_started(
    start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """A deployer's command is in a session of its own, and knows nothing of us."""
    up, _ = deploying(start, database, connection, tmp_path)
    started = up.descendants()
    up.signal(signal.SIGINT)
    up.until_said("clerk is stopping")
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    assert gone(started)
    assert up.said.rstrip().endswith("clerk: stopped.")


def deploying(start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path) -> tuple[Up, psutil.Process]:
    """Up to where a deployer's command waits for a file named `go`."""
    add(connection, "springfield", papers(tmp_path / "papers"), deploy=["command"])
    waits = f"touch '{tmp_path}/waits'; while [ ! -e '{tmp_path}/go' ]; do sleep 0.1; done"
    up = start("--workers", "2", "--no-dashboard", DATABASE_URL=database, CLERK_DEPLOY_COMMAND=f'sh -c "{waits}"')
    until(lambda: Path(tmp_path, "waits").exists())
    (command,) = [process for process in up.descendants() if process.name() == "sh"]
    return up, command


def test_killed_outright_it_leaves_nobody_for_long(start: Start, database: Url) -> None:
    up = start("--workers", "2", "--port", "0", "--allow-actions", DATABASE_URL=database)
    up.dashboard()
    assert [child.cmdline()[-1] for child in up.children("dashboard")] == ["--allow-actions"]
    started = up.descendants()
    assert len(started) == 3
    up.signal(signal.SIGKILL)
    up.wait()
    until(lambda: gone(started))


def test_until_idle_and_quiet(start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path) -> None:
    add(connection, "springfield", papers(tmp_path / "papers"))
    up = start("--workers", "2", "--no-dashboard", "--quiet", "--until-idle", DATABASE_URL=database)
    assert up.wait() == 0
    assert up.said == ""
    assert outcome(connection, "springfield") == "succeeded"
    assert "phase 4 is over" in Path(tmp_path, "home", "up.log").read_text()
    add(connection, "shelbyville", tmp_path / "nowhere")
    up = start("--workers", "2", "--no-dashboard", "--quiet", "--until-idle", DATABASE_URL=database)
    assert up.wait() == EXIT_FAILURE
    assert "the run of shelbyville failed" in up.said


def test_a_taken_port_and_a_missing_token_are_one_sentence(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        up = start("--port", str(taken.getsockname()[1]))
        assert up.wait() == EXIT_USAGE
    assert len(up.said.splitlines()) == 1
    assert "cannot listen on 127.0.0.1" in up.said
    up = start("--host", "0.0.0.0")  # noqa: S104 (the test is about who may)
    assert up.wait() == EXIT_USAGE
    assert "set CLERK_DASHBOARD_TOKEN" in up.said
