from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import pytest

from clerk.errors import DatabaseUnreachable
from clerk.web.cache import CachedValue
from tests.helpers import TIMEOUT, until


class Source:
    """Counts how often it is loaded."""

    def __init__(self) -> None:
        self.loads = 0

    def load(self) -> int:
        self.loads += 1
        return self.loads


def test_a_value_is_loaded_once_per_ttl() -> None:
    source = Source()
    cached = CachedValue(source.load, min_ttl=3600, ttl_factor=0)
    assert [cached.get() for _ in range(5)] == [1] * 5
    expired = CachedValue(source.load, min_ttl=0, ttl_factor=0)
    assert [expired.get(), expired.get()] == [2, 3]


def test_simultaneous_callers_share_one_load() -> None:
    source, release = Source(), Event()

    def load() -> int:
        assert release.wait(TIMEOUT)
        return source.load()

    cached = CachedValue(load, min_ttl=3600, ttl_factor=0)
    with ThreadPoolExecutor(5) as threads:
        values = [threads.submit(cached.get) for _ in range(5)]
        release.set()
        assert [value.result() for value in values] == [1] * 5


def test_a_stale_value_is_returned_and_refreshed_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    now, source = [0.0], Source()
    monkeypatch.setattr("clerk.web.cache.time", SimpleNamespace(monotonic=lambda: now[0]))
    cached = CachedValue(source.load, min_ttl=10, ttl_factor=0, stale_while_revalidate=True)
    assert cached.get() == 1
    now[0] = 15
    assert cached.get() == 1
    until(lambda: cached.get() == 2)
    now[0] = 100
    assert cached.get() == 3, "a value older than three times its TTL is not returned"


def test_a_failed_refresh_keeps_the_stale_value(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now, values = [0.0], iter([1])

    def load() -> int:
        for value in values:
            return value
        raise DatabaseUnreachable("no connection", "try again")

    monkeypatch.setattr("clerk.web.cache.time", SimpleNamespace(monotonic=lambda: now[0]))
    cached = CachedValue(load, min_ttl=10, ttl_factor=0, stale_while_revalidate=True)
    assert cached.get() == 1
    now[0] = 15
    assert cached.get() == 1
    until(lambda: "could not be refreshed: no connection" in caplog.text)
    assert cached.get() == 1
