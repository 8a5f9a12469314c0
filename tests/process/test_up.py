"""`clerk up` with real processes: from an empty folder to an archive, with killed processes, and shutdown."""

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

from clerk.config import redact_url
from clerk.db.connection import connect_to
from clerk.db.embedded import postgres
from clerk.errors import EXIT_FAILURE, EXIT_USAGE
from clerk.reconcile import apply
from tests import pgbouncer
from tests.conftest import Url
from tests.process.conftest import Start
from tests.process.helpers import Up, add, have_exited, outcome, until, write_documents

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_from_an_empty_folder_to_an_archive_and_shutdown(start: Start, tmp_path: Path) -> None:
    """No database and no site. A site is added, and nothing else is done."""
    folder = write_documents(tmp_path / "documents")
    up = start("--processes", "2", "--port", "0", CLERK_POSTGRES_IDLE_TIMEOUT="1")
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
    up.wait_for_output("(1 document processed)")
    with postgres.running(home, idle_timeout=1.0) as url, connect_to(url) as connection:
        assert outcome(connection, "springfield") == "succeeded"
    started = up.descendants()
    up.signal(signal.SIGINT)
    assert up.wait() == 0
    assert have_exited(started)
    assert up.output.rstrip().endswith("clerk has stopped.")
    until(lambda: postgres.EmbeddedPostgres(home).server.pid is None)


def test_killed_processes_are_restarted_and_the_site_completes(
    start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    add(connection, "springfield", write_documents(tmp_path / "documents", scans=4))
    up = start("--processes", "2", "--port", "0", DATABASE_URL=database)
    address = up.dashboard()
    running_ocr = "select pid from running_jobs where queue = 'ocr' and progress is not null"
    (worker, *_) = until(lambda: connection.execute(running_ocr).fetchall())
    killed = [psutil.Process(int(worker[0])), *up.children("dashboard")]
    for process in killed:
        process.kill()
        process.wait()
    expire = "update job_claims set lease_until = now() where settled_as is null and holder like %s"
    connection.execute(expire, [f"% clerk {worker[0]} %"])
    apply.rescue_expired(connection)
    # The display's connection is terminated too: it reconnects and shows how the run ended.
    connection.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where application_name = 'clerk' and datname = current_database() and pid <> pg_backend_pid()"
    )
    until(lambda: len(up.children("worker")) == 2 and len(up.children("dashboard")) == 1)
    assert not {process.pid for process in killed} & {process.pid for process in up.descendants()}
    assert until(lambda: outcome(connection, "springfield")) == "succeeded"
    up.wait_for_output("(5 documents processed)")
    until(lambda: responds(address))
    assert "was killed by SIGKILL: restarting it in 1 s" in up.output
    up.signal(signal.SIGTERM)
    assert up.wait() == 0


@pgbouncer.needs_pgbouncer
def test_a_site_through_transaction_pooling(
    start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Workers and dashboard have fewer sessions than connections; the rest uses the direct URL."""
    add(connection, "springfield", write_documents(tmp_path / "documents"))
    with pgbouncer.running(database, tmp_path, default_pool_size=2) as bouncer:
        url = bouncer.url.replace("clerk@", "clerk:s3cret@")
        up = start("--processes", "1", "--port", "0", DATABASE_URL=url, CLERK_DIRECT_DATABASE_URL=database)
        address = up.dashboard()
        assert httpx2.get(address).status_code == 200
        assert until(lambda: outcome(connection, "springfield")) == "succeeded"
        up.wait_for_output("(1 document processed)")
        assert httpx2.get(f"{address}sites/springfield").status_code == 200
        up.signal(signal.SIGTERM)
        assert up.wait() == 0
    assert f"clerk:***@127.0.0.1:{bouncer.port}/clerk, sessions at {redact_url(database)}" in up.output
    assert "s3cret" not in up.output
    rows = connection.execute("select invariant, problem from invariant_violations").fetchall()
    assert rows == []


def responds(address: str) -> bool:
    try:
        return httpx2.get(address).status_code == 200
    except httpx2.ConnectError:
        return False


def test_shutdown_waits_for_running_jobs_and_leaves_no_process(
    start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    up, command = deploying(start, database, connection, tmp_path)
    started = up.descendants()
    up.signal(signal.SIGINT)
    up.wait_for_output("clerk is stopping")
    assert command.is_running()
    Path(tmp_path, "go").touch()
    assert up.wait() == 0
    assert have_exited(started)
    assert connection.execute("select status::text from procrastinate_jobs where queue_name = 'deploy'").fetchall() == [
        ("succeeded",)
    ]
    assert connection.execute("select count(*) from procrastinate_workers").fetchone() == (0,)


def test_a_second_ctrl_c_kills_all_descendants(
    start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path
) -> None:
    """Also a deploy command, which has its own session."""
    up, _ = deploying(start, database, connection, tmp_path)
    started = up.descendants()
    up.signal(signal.SIGINT)
    up.wait_for_output("clerk is stopping")
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    assert have_exited(started)
    assert up.output.rstrip().endswith("clerk: stopped.")


def deploying(start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path) -> tuple[Up, psutil.Process]:
    """`clerk up` with a running deploy command, which waits for a file named `go`."""
    add(connection, "springfield", write_documents(tmp_path / "documents"), deploy=["command"])
    script = f"touch '{tmp_path}/started'; while [ ! -e '{tmp_path}/go' ]; do sleep 0.1; done"
    up = start("--processes", "2", "--no-dashboard", DATABASE_URL=database, CLERK_DEPLOY_COMMAND=f'sh -c "{script}"')
    until(lambda: Path(tmp_path, "started").exists())
    (command,) = [process for process in up.descendants() if process.name() == "sh"]
    return up, command


def test_children_exit_after_the_supervisor_is_killed(start: Start, database: Url) -> None:
    up = start(
        "--processes", "2", "--port", "0", "--allow-actions", DATABASE_URL=database, CLERK_DASHBOARD_TOKEN="x" * 16
    )
    up.dashboard()
    assert [child.cmdline()[-1] for child in up.children("dashboard")] == ["--allow-actions"]
    started = up.descendants()
    assert len(started) == 3
    up.signal(signal.SIGKILL)
    up.wait()
    until(lambda: have_exited(started))


def test_until_idle_and_quiet(start: Start, database: Url, connection: psycopg.Connection, tmp_path: Path) -> None:
    add(connection, "springfield", write_documents(tmp_path / "documents"))
    up = start("--processes", "2", "--no-dashboard", "--quiet", "--until-idle", DATABASE_URL=database)
    assert up.wait() == 0
    assert up.output == ""
    assert outcome(connection, "springfield") == "succeeded"
    assert "phase 4 has ended" in Path(tmp_path, "home", "up.log").read_text()
    add(connection, "shelbyville", tmp_path / "nowhere")
    up = start("--processes", "2", "--no-dashboard", "--quiet", "--until-idle", DATABASE_URL=database)
    assert up.wait() == EXIT_FAILURE
    assert "the run of shelbyville failed" in up.output


def test_a_used_port_and_a_missing_token_are_reported_in_one_sentence(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        up = start("--port", str(used.getsockname()[1]))
        assert up.wait() == EXIT_USAGE
    assert len(up.output.splitlines()) == 1
    assert "cannot listen on 127.0.0.1" in up.output
    up = start("--host", "0.0.0.0")  # noqa: S104 (the test is about this address)
    assert up.wait() == EXIT_USAGE
    assert "set CLERK_DASHBOARD_TOKEN" in up.output
