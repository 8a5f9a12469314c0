"""`clerk dashboard` as people start it: a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import pytest

from clerk.cli import cli
from clerk.errors import EXIT_FAILURE, EXIT_UNKNOWN, EXIT_USAGE, SettingError
from tests.conftest import Url

EVERYWHERE = "0.0.0.0"  # noqa: S104 (the test is about who may)
SESAME = "open sesame"
COMMAND = [sys.executable, "-m", "clerk", "dashboard"]


@contextmanager
def dashboard(database: Url, *options: str, token: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = os.environ | {"DATABASE_URL": database, "CLERK_DASHBOARD_TOKEN": token}
    with subprocess.Popen(
        [*COMMAND, "--port", "0", *options], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            found = re.search(r"http://\S+", said)
            assert found, said
            yield process, found[0]
        finally:
            process.kill()


def refused(*options: str, database: Url = "postgresql://x@127.0.0.1:1/x") -> tuple[int, str]:
    environment = os.environ | {"DATABASE_URL": database, "CLERK_DASHBOARD_TOKEN": ""}
    done = subprocess.run([*COMMAND, *options], env=environment, capture_output=True, text=True, timeout=60)
    sentence = done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr
    return done.returncode, sentence


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_it_is_stopped(database: Url, number: signal.Signals) -> None:
    with dashboard(database) as (process, address):
        assert address.startswith("http://127.0.0.1:")
        assert httpx2.get(address).status_code == 200
        assert "server" not in httpx2.get(address + "livez").headers
        process.send_signal(number)
        assert process.wait(20) == 0


@pytest.mark.parametrize(("options", "status"), [((), 404), (("--allow-actions",), 200)])
def test_acts_only_when_told_so(database: Url, options: tuple[str, ...], status: int) -> None:
    with dashboard(database, *options) as (_, address):
        assert httpx2.get(address + "actions/reconcile").status_code == status


def test_beyond_this_machine_with_a_token(database: Url) -> None:
    with dashboard(database, "--host", EVERYWHERE, token=SESAME) as (_, address):
        address = address.replace(EVERYWHERE, "127.0.0.1")
        assert httpx2.get(address).status_code == 401
        assert httpx2.get(address, auth=("anybody", SESAME)).status_code == 200


@pytest.mark.parametrize("host", [EVERYWHERE, "::", "", "10.1.2.3", "example.org"])
@pytest.mark.parametrize("options", [[], ["--token", ""], ["--token", " "], ["--allow-actions"]])
def test_beyond_this_machine_without_a_token_is_refused(host: str, options: list[str]) -> None:
    with pytest.raises(SettingError, match="set CLERK_DASHBOARD_TOKEN") as refusal:
        cli.main(["dashboard", "--host", host, *options], standalone_mode=False)
    assert refusal.value.exit_code == EXIT_USAGE


def test_the_refusal_is_one_sentence() -> None:
    assert refused("--host", EVERYWHERE) == (
        EXIT_USAGE,
        "clerk: on 0.0.0.0 others could read the dashboard: set CLERK_DASHBOARD_TOKEN, or leave --host at 127.0.0.1.",
    )


def test_taken_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, sentence = refused("--port", str(taken.getsockname()[1]))
    assert code == EXIT_USAGE
    assert "cannot listen on 127.0.0.1" in sentence


def test_no_database_and_no_schema(new_database: Callable[[], Url]) -> None:
    code, sentence = refused("--port", "0")
    assert (code, "cannot be reached" in sentence) == (EXIT_UNKNOWN, True)
    code, sentence = refused("--port", "0", database=new_database())
    assert (code, 'run "clerk db up"' in sentence) == (EXIT_FAILURE, True)
