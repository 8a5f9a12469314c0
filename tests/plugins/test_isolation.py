"""Whatever a plugin does, it fails its own unit, with its name in the error."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from clerk.errors import PermanentError, PluginFailed, PluginRaised, PluginTimeout
from clerk.plugins.isolation import Heartbeat, call_with_timeout


def test_returns_what_the_plugin_returns() -> None:
    assert call_with_timeout("mine", "hook", lambda: 42) == 42


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even this works")


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3), KeyboardInterrupt(), MemoryError(), Mute()])
def test_a_plugin_that_raises_is_named(error: BaseException) -> None:
    def call() -> None:
        raise error

    with pytest.raises(PluginRaised, match=rf"plugin mine raised in hook: {type(error).__name__}"):
        call_with_timeout("mine", "hook", call)


def test_a_plugin_can_say_that_another_attempt_is_useless() -> None:
    class SoldOut(PermanentError):
        pass

    def call() -> None:
        raise SoldOut("for good")

    with pytest.raises(PluginFailed, match=r"plugin mine failed in hook: SoldOut: for good") as raised:
        call_with_timeout("mine", "hook", call)
    assert not raised.value.retryable


def test_a_plugin_that_hangs_is_given_up() -> None:
    release = threading.Event()
    try:
        with pytest.raises(PluginTimeout, match=r"plugin mine did not return from hook within 0.2 s"):
            call_with_timeout("mine", "hook", release.wait, timeout=0.2)
    finally:
        release.set()


def test_slow_is_not_hanging_as_long_as_there_are_signs_of_life() -> None:
    heartbeat = Heartbeat()
    ticks = iter(range(8))

    def call() -> str:
        wait = threading.Event()
        for _ in ticks:
            wait.wait(0.1)
            heartbeat.beat()
        return "done"

    assert call_with_timeout("mine", "hook", call, timeout=0.5, heartbeat=heartbeat) == "done"


def test_the_one_who_waits_may_leave() -> None:
    release = threading.Event()

    def leave() -> None:
        raise LookupError("asked to stop")

    try:
        with pytest.raises(LookupError):
            call_with_timeout("mine", "hook", release.wait, while_waiting=leave)
    finally:
        release.set()


def test_errors_that_are_not_the_plugins_pass_as_they_are() -> None:
    def call() -> Any:
        raise ConnectionError("the database is away")

    with pytest.raises(ConnectionError):
        call_with_timeout("mine", "hook", call, expected=(ConnectionError,))


def test_a_thread_that_stays_behind_keeps_nobody_from_ending() -> None:
    code = (
        "import threading\n"
        "from clerk.errors import PluginTimeout\n"
        "from clerk.plugins.isolation import call_with_timeout\n"
        "try:\n    call_with_timeout('mine', 'hook', threading.Event().wait, timeout=0.05)\n"
        "except PluginTimeout:\n    print('left')\n"
    )
    began = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=environment
    )
    assert result.stdout == "left\n"
    assert time.monotonic() - began < 60
