"""How long a family waits before it replaces a member."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clerk import family, sd_notify
from clerk.family import Member


@pytest.fixture
def ear(tmp_path: Path) -> Iterator[sd_notify.Ear]:
    with closing(sd_notify.Ear(tmp_path / "ear")) as ear:
        yield ear


def test_who_dies_again_and_again_is_waited_for_longer_and_longer(ear: sd_notify.Ear) -> None:
    place = family._Place(Member("worker", ()), ear, None)
    assert [place.put_off() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert place.start_at > time.monotonic() + 50
    place.started_at -= 61
    assert place.put_off() == 1, "it had lived for a while"


def test_who_says_only_once_that_it_is_ready_is_not_silent(ear: sd_notify.Ear, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dashboard; a worker goes on speaking."""
    monkeypatch.setenv(sd_notify.ADDRESS, str(ear.address))
    sd_notify.notify(sd_notify.READY)
    ear.listen()
    assert ear.is_ready
    assert not ear.is_silent_for(-1)
    sd_notify.notify(sd_notify.ALIVE)
    ear.listen()
    assert ear.is_silent_for(-1)
