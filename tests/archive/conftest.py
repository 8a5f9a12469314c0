from __future__ import annotations

from pathlib import Path

import pytest

from tests.archive.helpers import SiteDocuments


@pytest.fixture
def site(tmp_path: Path) -> SiteDocuments:
    return SiteDocuments(tmp_path / "storage")
