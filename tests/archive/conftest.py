from __future__ import annotations

import pytest

from clerk.object_storage.path import StoragePath
from tests.archive.helpers import SiteDocuments


@pytest.fixture
def site(storage_root: StoragePath) -> SiteDocuments:
    return SiteDocuments(storage_root)
