from __future__ import annotations

from tests.engine.conftest import new_worker as new_worker
from tests.faults.conftest import pipeline as pipeline
