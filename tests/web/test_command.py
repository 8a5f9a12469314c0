"""`clerk dashboard` as a separate process."""

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
from tests.helpers import TIMEOUT

ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 (the test is about the access check)
TOKEN = "open sesame"  # noqa: S105 (of the tests only)
LONG_TOKEN = "open sesame, open"  # noqa: S105 (of the tests only)
COMMAND = [sys.executable, "-m", "clerk", "dashboard"]


@contextmanager
def dashboard(database: Url, *options: str, token: str = "") -> Iterator[tuple[subprocess.Popen[str], str]]:
    environment = os.environ | {"DATABASE_URL": database, "CLERK_DASHBOARD_TOKEN": token}
    with subprocess.Popen(
        [*COMMAND, "--port", "0", *options], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            match = re.search(r"http://\S+", line)
            assert match, line
            yield process, match[0]
        finally:
            process.kill()


def run_expecting_failure(*options: str, database: Url = "postgresql://x@127.0.0.1:1/x") -> tuple[int, str]:
    environment = os.environ | {"DATABASE_URL": database, "CLERK_DASHBOARD_TOKEN": ""}
    result = subprocess.run([*COMMAND, *options], env=environment, capture_output=True, text=True, timeout=TIMEOUT)
    message = result.stderr.strip().splitlines()[-1]
    assert "Traceback" not in result.stderr
    return result.returncode, message


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serves_until_a_signal(database: Url, number: signal.Signals) -> None:
    with dashboard(database) as (process, url):
        assert url.startswith("http://127.0.0.1:")
        assert httpx2.get(url).status_code == 200
        assert "server" not in httpx2.get(url + "livez").headers
        process.send_signal(number)
        assert process.wait(TIMEOUT) == 0


@pytest.mark.parametrize(("options", "status"), [((), 404), (("--allow-actions",), 200)])
def test_actions_need_allow_actions(database: Url, options: tuple[str, ...], status: int) -> None:
    with dashboard(database, *options, token=LONG_TOKEN) as (_, url):
        assert httpx2.get(url + "actions/reconcile").status_code == 401
        assert httpx2.get(url + "actions/reconcile", auth=("anna", LONG_TOKEN)).status_code == status


@pytest.mark.parametrize(
    ("command", "token"), [("dashboard", ""), ("dashboard", "x" * 15), ("up", ""), ("up", "x" * 15)]
)
def test_actions_need_a_token_of_16_characters(monkeypatch: pytest.MonkeyPatch, command: str, token: str) -> None:
    monkeypatch.setenv("CLERK_DASHBOARD_TOKEN", token)
    with pytest.raises(SettingError, match=r"needs a token of at least 16 .*: set CLERK_DASHBOARD_TOKEN") as raised:
        cli.main([command, "--allow-actions"], standalone_mode=False)
    assert raised.value.exit_code == EXIT_USAGE
    assert token not in str(raised.value) or not token


def test_listens_on_all_addresses_with_a_token(database: Url) -> None:
    with dashboard(database, "--host", ALL_ADDRESSES, token=TOKEN) as (_, url):
        url = url.replace(ALL_ADDRESSES, "127.0.0.1")
        assert httpx2.get(url).status_code == 401
        assert httpx2.get(url, auth=("any user", TOKEN)).status_code == 200


@pytest.mark.parametrize("host", [ALL_ADDRESSES, "::", "", "10.1.2.3", "example.org"])
@pytest.mark.parametrize("options", [[], ["--token", ""], ["--token", " "], ["--allow-actions"]])
def test_other_addresses_without_a_token_are_rejected(host: str, options: list[str]) -> None:
    with pytest.raises(SettingError, match="set CLERK_DASHBOARD_TOKEN") as raised:
        cli.main(["dashboard", "--host", host, *options], standalone_mode=False)
    assert raised.value.exit_code == EXIT_USAGE


def test_the_rejection_is_one_line() -> None:
    assert run_expecting_failure("--host", ALL_ADDRESSES) == (
        EXIT_USAGE,
        "clerk: a dashboard on 0.0.0.0 can be read by others: set CLERK_DASHBOARD_TOKEN, or leave --host at 127.0.0.1.",
    )


def test_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code, message = run_expecting_failure("--port", str(listener.getsockname()[1]))
    assert code == EXIT_USAGE
    assert "cannot listen on 127.0.0.1" in message


def test_no_database_and_no_schema(new_database: Callable[[], Url]) -> None:
    code, message = run_expecting_failure("--port", "0")
    assert (code, "cannot be reached" in message) == (EXIT_UNKNOWN, True)
    code, message = run_expecting_failure("--port", "0", database=new_database())
    assert (code, 'run "clerk db up"' in message) == (EXIT_FAILURE, True)
