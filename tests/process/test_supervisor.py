"""How long a family waits before it replaces a member."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clerk.process import sd_notify, supervisor
from clerk.process.supervisor import ProcessSpec


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[sd_notify.NotifyReceiver]:
    with closing(sd_notify.NotifyReceiver(tmp_path / "ear")) as ear:
        yield ear


def test_who_dies_again_and_again_is_waited_for_longer_and_longer(ear: sd_notify.NotifyReceiver) -> None:
    place = supervisor._Child(ProcessSpec("worker", ()), ear, None)
    assert [place.schedule_restart() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert place.start_at > time.monotonic() + 50
    place.started_at -= 61
    assert place.schedule_restart() == 1, "it had lived for a while"


def test_who_says_only_once_that_it_is_ready_is_not_silent(
    ear: sd_notify.NotifyReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dashboard; a worker goes on speaking."""
    monkeypatch.setenv(sd_notify.ADDRESS, str(ear.address))
    sd_notify.notify(sd_notify.READY)
    ear.listen()
    assert ear.is_ready
    assert not ear.timed_out(-1)
    sd_notify.notify(sd_notify.ALIVE)
    ear.listen()
    assert ear.timed_out(-1)
