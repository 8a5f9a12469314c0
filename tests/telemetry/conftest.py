from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.conftest import pipeline as pipeline
from tests.faults.conftest import pytest_runtest_makereport as pytest_runtest_makereport
from tests.telemetry.collector import Collector, running_collector


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as collector:
        yield collector
