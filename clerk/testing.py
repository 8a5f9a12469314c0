"""Pytest plugin: the fixture `replay` runs a fetcher on answers that `clerk plugins record` stored.

Limitation: the fixture cannot be used in a test that runs in an event loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from clerk.sources.fetcher import Fetcher
    from clerk.sources.replay import ReplayedSource

__all__ = ["Replay", "replay"]


class Replay(Protocol):
    """Type of the fixture `replay`. The folder is relative to that of the test."""

    def __call__(
        self, folder: str, fetcher_class: type[Fetcher], extra: Mapping[str, Any] | None = None
    ) -> ReplayedSource: ...


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Replay:
    """`replay("recordings/springfield", MyFetcher).documents()` lists the recorded source without the network.

    `extra` replaces values of the recorded site's `extra`.
    """
    # Imported here, because pytest loads this module in every project where clerk is installed.
    from clerk.sources.replay import ReplayedSource

    def open_recording(
        folder: str, fetcher_class: type[Fetcher], extra: Mapping[str, Any] | None = None
    ) -> ReplayedSource:
        return ReplayedSource(request.path.parent / folder, fetcher_class, extra)

    return open_recording
