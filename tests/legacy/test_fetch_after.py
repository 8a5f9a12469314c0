"""A fetch after the import: known PDFs are not processed again, lost documents are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clerk.config import load
from clerk.documents import integrity, repository
from clerk.documents.storage import SiteStorage
from clerk.legacy import migrate
from clerk.pipeline import engine
from clerk.reconcile.apply import reconcile
from clerk.reconcile.file_checks import StorageScan
from tests.engine.helpers import Connection, broken_invariants, rows
from tests.legacy.legacy_system import LegacyDisk, stuck_site
from tests.legacy.test_migrate import work

pytestmark = pytest.mark.usefixtures("legacy_settings")

_DOCUMENTS = (
    "select i.meeting, i.date::text, i.occurrence, l.status, i.sha256 is not null, i.source_key is not null"
    " from content_items i join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'"
    " where i.kind = 'minutes' order by 1, 2, 3"
)
_OCR_JOBS = (
    "select i.date::text from procrastinate_jobs j"
    " join content_items i on i.id = (j.args ->> 'content_item_id')::bigint where j.queue_name = 'ocr' order by 1"
)


def test_the_source_still_lists_the_imported_documents(
    connection: Connection, legacy_disk: LegacyDisk, tmp_path: Path
) -> None:
    stuck_site(connection, "town")
    source = LegacyDisk(tmp_path / "source")
    published = {
        day: source.pdf("town", "City Council", day).read_bytes()
        for day in ("2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04")
    }
    legacy_disk.text("town", "CityCouncil", "2020-01-01", "processed, PDF deleted")
    legacy_disk.text("town", "CityCouncil", "2020-01-02", "processed, PDF kept")
    legacy_disk.pdf("town", "CityCouncil", "2020-01-02").write_bytes(published["2020-01-02"])
    legacy_disk.marker("town", "CityCouncil", "2020-01-03")
    connection.execute(
        "update sites set scraper = 'directory', extra = %s",
        [json.dumps({"path": str(tmp_path / "source/town/pdfs")})],
    )
    list(migrate.migrate(connection, legacy_disk.root))
    reconcile(connection, StorageScan(load()))
    work(connection)
    assert rows(connection, _OCR_JOBS) == []
    assert rows(connection, "select current_stage, outcome from sites") == [("completed", "partial")]

    engine.start_run(connection, "town")
    work(connection)
    assert rows(connection, _OCR_JOBS) == [("2020-01-03",), ("2020-01-04",)], "the lost one and the new one"
    assert rows(connection, _DOCUMENTS) == [
        ("City Council", "2020-01-01", 1, "processed", True, True),
        ("City Council", "2020-01-02", 1, "processed", True, True),
        ("City Council", "2020-01-03", 1, "processed", True, True),
        ("City Council", "2020-01-04", 1, "processed", True, True),
    ]
    assert rows(connection, "select current_stage, outcome from sites") == [("completed", "succeeded")]
    storage = SiteStorage(legacy_disk.root, "town")
    documents = repository.list_documents(connection, "town")
    assert [integrity.texts_status(storage, document, full=True).problem for document in documents] == [None] * 4
    assert (legacy_disk.root / "town/txt/CityCouncil/2020-01-01/1.txt").read_text() == "processed, PDF deleted"
    assert broken_invariants(connection) == []
    engine.start_run(connection, "town")
    work(connection)
    assert rows(connection, "select outcome from sites") == [("unchanged",)]


def test_another_pdf_of_the_same_day_is_another_meeting(
    connection: Connection, legacy_disk: LegacyDisk, tmp_path: Path
) -> None:
    stuck_site(connection, "town", "fetch", "fetching")
    legacy_disk.text("town", "Council", "2020-01-01", "the first")
    legacy_disk.pdf("town", "Council", "2020-01-01").write_bytes(b"%PDF-1.4 another")
    legacy_disk.marker("town", "Council", "2020-01-01")
    LegacyDisk(tmp_path / "source").pdf("town", "Council", "2020-01-01")
    connection.execute(
        "update sites set scraper = 'directory', extra = %s",
        [json.dumps({"path": str(tmp_path / "source/town/pdfs")})],
    )
    list(migrate.migrate(connection, legacy_disk.root))
    reconcile(connection, StorageScan(load()))
    work(connection)
    assert rows(
        connection, "select occurrence, superseded_at from content_items where kind = 'minutes' order by 1"
    ) == [
        (1, None),
        (2, None),
    ]
