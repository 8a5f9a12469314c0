"""Restart backoff and heartbeat timeout of the supervisor."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clerk.process import sd_notify, supervisor
from clerk.process.supervisor import ProcessSpec


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[sd_notify.NotifyReceiver]:
    with closing(sd_notify.NotifyReceiver(tmp_path / "notify")) as receiver:
        yield receiver


def test_the_restart_delay_doubles_and_is_reset_after_a_stable_minute(receiver: sd_notify.NotifyReceiver) -> None:
    child = supervisor._Child(ProcessSpec("worker", ()), receiver, None)
    assert [child.schedule_restart() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert child.start_at > time.monotonic() + 50
    child.started_at -= 61
    assert child.schedule_restart() == 1


def test_a_process_that_sends_no_heartbeats_does_not_time_out(
    receiver: sd_notify.NotifyReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dashboard sends READY once; workers send heartbeats."""
    monkeypatch.setenv(sd_notify.ADDRESS, str(receiver.address))
    sd_notify.notify(sd_notify.READY)
    receiver.drain()
    assert receiver.is_ready
    assert not receiver.timed_out(-1)
    sd_notify.notify(sd_notify.ALIVE)
    receiver.drain()
    assert receiver.timed_out(-1)
