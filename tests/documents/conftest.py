from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from clerk.documents.storage import Document, SiteStorage


@pytest.fixture
def storage(tmp_path: Path) -> SiteStorage:
    return SiteStorage(tmp_path / "storage", "springfield")


@pytest.fixture
def document() -> Document:
    return Document(7, "springfield", "minutes", "Town Council", date(2024, 3, 5))
