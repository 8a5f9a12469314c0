from __future__ import annotations

from datetime import date

import pytest

from clerk.documents.storage import Document, SiteStorage
from clerk.object_storage.path import StoragePath


@pytest.fixture
def storage(storage_root: StoragePath) -> SiteStorage:
    return SiteStorage(storage_root, "springfield")


@pytest.fixture
def document() -> Document:
    return Document(7, "springfield", "minutes", "Town Council", date(2024, 3, 5))
