"""The OCR task in a real worker process (`procrastinate worker`), with the ledger."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from clerk.documents import manifest
from clerk.documents.storage import Document, SiteStorage
from clerk.pipeline import engine
from tests.conftest import Url
from tests.helpers import TIMEOUT, until
from tests.ocr import pdfs

Connection = psycopg.Connection[Any]
ROOT = Path(__file__).parents[2]


class Site:
    """A site whose run is in the OCR phase, with documents and workers."""

    def __init__(self, connection: Connection, url: Url, storage: SiteStorage[Path]) -> None:
        self.connection = connection
        self.storage = storage
        self.environment = {
            "PATH": os.environ["PATH"],
            "DATABASE_URL": url,
            "STORAGE_DIR": str(storage.root),
            "PYTHONPATH": str(ROOT),
        }
        connection.execute("insert into sites (subdomain, name) values ('springfield', 'Springfield')")
        connection.execute("insert into content_items (subdomain, kind) values ('springfield', 'archive')")
        self.documents: list[Document] = []

    def add(self, content: bytes | None) -> Document:
        day = date(2024, 1, 1 + len(self.documents))
        row = self.connection.execute(
            """
            insert into content_items (subdomain, kind, meeting, date, storage_key)
            values ('springfield', 'minutes', 'Town Council', %s, %s) returning id
            """,
            [day, f"pdfs/TownCouncil/{day}.pdf"],
        ).fetchone()
        assert row is not None
        document = Document(row[0], "springfield", "minutes", "Town Council", day)
        if content is not None:
            self.storage.pdf(document).parent.mkdir(parents=True, exist_ok=True)
            self.storage.pdf(document).write_bytes(content)
        self.documents.append(document)
        return document

    def start(self) -> int:
        ids = [document.id for document in self.documents]
        return engine.start_run(self.connection, "springfield", first_phase=2, units=ids)

    def worker(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "procrastinate", "--app=clerk.app.app", "worker", "--queues=ocr", *options]
        return subprocess.Popen(command, env=self.environment, stderr=subprocess.PIPE)

    def work(self) -> None:
        worker = self.worker("--one-shot")
        _, stderr = worker.communicate(timeout=600)
        assert worker.returncode == 0, stderr.decode()

    def state(self, document: Document) -> tuple[str, str | None, str | None]:
        row = self.connection.execute(
            """
            select status, error_code, error_message from content_item_pipeline_state
            where content_item_id = %s and pipeline = 'ocr'
            """,
            [document.id],
        ).fetchone()
        assert row is not None
        return row[0], row[1], row[2]

    def progress(self) -> int:
        row = self.connection.execute("select max(progress) from job_claims where settled_as is null").fetchone()
        return (row and row[0]) or 0


@pytest.fixture
def site(connection: Connection, database: Url, storage: SiteStorage[Path]) -> Site:
    return Site(connection, database, storage)


def test_good_and_bad_documents(site: Site) -> None:
    digital = site.add(pdfs.digital(3))
    html = site.add(b"<html><body>404</body></html>")
    scanned = site.add(pdfs.scanned([pdfs.page_image()]))
    missing = site.add(None)
    truncated = site.add(pdfs.digital(3)[:600])
    site.start()
    site.work()
    assert site.state(digital) == ("processed", None, None)
    assert site.state(scanned)[0] == "processed"
    assert site.state(html)[:2] == ("failed_terminal", "NotAPdf")
    assert "web page" in str(site.state(html)[2])
    assert site.state(missing)[:2] == ("failed_terminal", "PdfMissing")
    assert site.state(truncated)[:2] == ("failed_terminal", "PdfTruncated")
    counters = site.connection.execute("select ocr_total, ocr_completed, ocr_failed from sites").fetchone()
    assert counters == (5, 2, 3)
    pages = site.connection.execute("select page_count from content_items where id = %s", [digital.id]).fetchone()
    assert pages == (3,)


def test_a_forced_run_processes_complete_documents_again_by_ocr(site: Site) -> None:
    document = site.add(pdfs.digital(2))
    site.start()
    site.work()
    path = site.storage.manifest(document)
    loaded = manifest.load(path)
    assert loaded is not None
    assert [page.method for page in loaded.pages] == [manifest.TEXT_LAYER] * 2
    engine.rewind(site.connection, "springfield", "ocr")
    site.work()
    assert manifest.load(path) == loaded, "complete documents are not processed again"
    run = engine.rewind(site.connection, "springfield", "ocr", force_ocr=True)
    site.work()
    assert site.state(document)[0] == "processed"
    forced = manifest.load(path)
    assert forced is not None
    assert [page.method for page in forced.pages] == [manifest.OCR] * 2
    assert forced.forced_by_run == run


def test_languages_come_from_the_site(site: Site) -> None:
    document = site.add(pdfs.numbered(1))
    site.connection.execute("""update sites set extra = '{"languages": "osd+eng"}'""")
    site.start()
    site.work()
    loaded = manifest.load(site.storage.manifest(document))
    assert loaded is not None
    assert loaded.languages == "osd+eng"


@pytest.mark.parametrize("languages", ["xyz", "eng; rm -rf /", ""])
def test_unknown_languages_fail_the_document(site: Site, languages: str) -> None:
    document = site.add(pdfs.digital(1))
    site.connection.execute("update sites set extra = jsonb_build_object('languages', %s::text)", [languages])
    site.start()
    site.work()
    assert site.state(document)[:2] == ("failed_terminal", "LanguageMissing")


def test_after_a_worker_is_killed_its_reader_exits_and_another_worker_continues(site: Site) -> None:
    document = site.add(pdfs.numbered(60))  # longer than two intervals of progress reports
    site.start()
    worker = site.worker()
    until(lambda: site.progress() >= 2)
    children = [child.pid for child in _children(worker.pid)]
    assert children
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    until(lambda: all(map(_has_exited, children)))
    texts = site.storage.texts(document)
    before = {path.name: path.stat().st_mtime_ns for path in texts.glob("*.txt")}
    assert len(before) >= 2
    assert not site.storage.manifest(document).exists()
    site.connection.execute("update job_claims set lease_until = now() - interval '1 minute'")
    job = site.connection.execute("select id from procrastinate_jobs where status = 'doing'").fetchone()
    assert job is not None
    assert engine.rescue_job(site.connection, job[0]) == "rescued"
    site.work()
    assert site.state(document)[0] == "processed"
    kept = [name for name, modified in before.items() if (texts / name).stat().st_mtime_ns == modified]
    assert len(kept) >= len(before) - 1, "finished pages are not processed again"
    loaded = manifest.load(site.storage.manifest(document))
    assert loaded is not None
    assert loaded.is_complete


def test_a_lost_claim_stops_the_processing(site: Site) -> None:
    document = site.add(pdfs.numbered(60))  # longer than two intervals of progress reports
    site.start()
    worker = site.worker()
    until(lambda: site.progress() >= 1)
    site.connection.execute("update job_claims set holder = 'another worker'")
    until(lambda: not _readers(worker.pid))
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=TIMEOUT)
    assert not site.storage.manifest(document).exists()
    assert site.state(document)[0] == "in_progress"


def _children(pid: int) -> list[psutil.Process]:
    try:
        return [child for child in psutil.Process(pid).children(recursive=True) if child.status() != "zombie"]
    except psutil.NoSuchProcess:
        return []


def _readers(pid: int) -> list[psutil.Process]:
    """The descendants of a worker except its fork server, which outlives the documents."""
    return [child for child in _children(pid) if child.name() != "clerk-fork"]


def _has_exited(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == "zombie")
    except psutil.NoSuchProcess:
        return True
