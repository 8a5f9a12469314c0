"""Errors and timeouts of plugins fail their own unit and name the plugin."""

from __future__ import annotations

import collections
import errno
import os
import subprocess
import sys
import threading
import time
import urllib.parse
from functools import partial
from pathlib import Path
from typing import Any, cast

import click
import pytest

from clerk.errors import (
    CommandFailed,
    JobError,
    PermanentError,
    PluginFailed,
    PluginProgrammingError,
    PluginRaised,
    PluginTimeout,
    SpacyUnavailable,
)
from clerk.plugins.folder import import_file
from clerk.plugins.isolation import Heartbeat, call_with_timeout


def test_returns_the_result_of_the_plugin() -> None:
    assert call_with_timeout("mine", "hook", lambda: 42) == 42


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("str() fails")


@pytest.mark.parametrize(
    "error", [ValueError("broken"), SystemExit(3), KeyboardInterrupt(), MemoryError(), Unprintable()]
)
def test_a_plugin_that_raises_is_named(error: BaseException) -> None:
    def call() -> None:
        raise error

    with pytest.raises(PluginRaised, match=rf"plugin mine raised in hook: {type(error).__name__}"):
        call_with_timeout("mine", "hook", call)


def test_full_disk_is_not_the_plugins_error() -> None:
    """Missing permissions may be: its own files."""

    def fill() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def read() -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    with pytest.raises(OSError, match="No space left on device"):
        call_with_timeout("mine", "hook", fill)
    with pytest.raises(PluginRaised, match="Permission denied"):
        call_with_timeout("mine", "hook", read)


def test_a_permanent_error_of_a_plugin_is_not_retried() -> None:
    class QuotaExceeded(PermanentError):
        pass

    def call() -> None:
        raise QuotaExceeded("no budget")

    with pytest.raises(PluginFailed, match=r"plugin mine failed in hook: QuotaExceeded: no budget") as raised:
        call_with_timeout("mine", "hook", call)
    assert not raised.value.retryable


@pytest.mark.parametrize("code", ["{}['date']", "None.text", "[][3]", "int([])", "undefined", "import no_such_module"])
def test_an_error_in_a_plugins_code_is_permanent_and_names_the_line(tmp_path: Path, code: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"def call():\n    # a comment\n    {code}\n")
    call = import_file(file).call
    with pytest.raises(PluginProgrammingError) as raised:
        call_with_timeout("mine", "hook", call)
    assert not raised.value.retryable
    assert str(raised.value).endswith(f"({file}, line 3, in call)")


def test_the_line_of_the_plugin_is_named_if_the_standard_library_raised() -> None:
    with pytest.raises(
        PluginProgrammingError, match=r"KeyError: 'date' \(.*test_isolation.py, line \d+, in <lambda>\)"
    ):
        call_with_timeout("mine", "hook", lambda: collections.ChainMap(dict[str, str]())["date"])


@pytest.mark.parametrize(
    ("code", "message"), [("int('soon')", "ValueError: invalid literal"), ("assert 1 == 2", "AssertionError (")]
)
def test_any_error_of_a_plugin_names_the_line(tmp_path: Path, code: str, message: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"def call():\n    {code}\n")
    with pytest.raises(PluginRaised) as raised:
        call_with_timeout("mine", "hook", import_file(file).call)
    assert f"plugin mine raised in hook: {message}" in str(raised.value)
    assert str(raised.value).endswith(f"({file}, line 2, in call)")


def test_the_line_of_the_plugin_is_named_if_an_installed_package_raised() -> None:
    with pytest.raises(PluginRaised, match=r"\(.*test_isolation.py, line \d+, in <lambda>\)"):
        call_with_timeout("mine", "hook", lambda: click.IntRange(0, 1).convert(7, None, None))


def test_an_error_outside_the_plugins_lines_says_where_it_was_called() -> None:
    with pytest.raises(PluginProgrammingError, match=r"TypeError: .* \(called at .*url.*\.py, line \d+"):
        call_with_timeout("mine", "hook", partial(cast("Any", urllib.parse.urljoin), 1, "x"))


@pytest.mark.parametrize("error", [CommandFailed("exit code 3"), SpacyUnavailable("not installed")])
def test_errors_of_built_in_plugins_keep_their_code(error: JobError) -> None:
    def call() -> None:
        raise error

    with pytest.raises(type(error)):
        call_with_timeout("clerk.builtin", "hook", call)


def test_a_hanging_plugin_times_out() -> None:
    release = threading.Event()
    try:
        with pytest.raises(PluginTimeout, match=r"plugin mine did not return from hook within 0.2 s"):
            call_with_timeout("mine", "hook", release.wait, timeout=0.2)
    finally:
        release.set()


def test_the_timeout_names_the_line_at_which_the_plugin_hangs(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("def call(release):\n    release.wait()\n")
    release, call = threading.Event(), import_file(file).call
    try:
        with pytest.raises(PluginTimeout) as raised:
            call_with_timeout("mine", "hook", lambda: call(release), timeout=0.2)
        assert str(raised.value).endswith(f"within 0.2 s; it is at {file}, line 2, in call")
    finally:
        release.set()


def test_heartbeats_extend_the_timeout() -> None:
    heartbeat = Heartbeat()
    end = time.monotonic() + 3.5

    def call() -> str:
        while time.monotonic() < end:
            threading.Event().wait(0.05)
            heartbeat.beat()
        return "done"

    assert call_with_timeout("mine", "hook", call, timeout=3.0, heartbeat=heartbeat) == "done"


def test_the_caller_may_abandon_the_call() -> None:
    release = threading.Event()

    def cancel() -> None:
        raise LookupError("cancelled")

    try:
        with pytest.raises(LookupError):
            call_with_timeout("mine", "hook", release.wait, while_waiting=cancel)
    finally:
        release.set()


def test_expected_errors_are_raised_unchanged() -> None:
    def call() -> Any:
        raise ConnectionError("the database is unreachable")

    with pytest.raises(ConnectionError):
        call_with_timeout("mine", "hook", call, expected=(ConnectionError,))


def test_an_abandoned_thread_does_not_keep_the_process_alive() -> None:
    code = (
        "import threading\n"
        "from clerk.errors import PluginTimeout\n"
        "from clerk.plugins.isolation import call_with_timeout\n"
        "try:\n    call_with_timeout('mine', 'hook', threading.Event().wait, timeout=0.05)\n"
        "except PluginTimeout:\n    print('timeout')\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert result.stdout == "timeout\n"
