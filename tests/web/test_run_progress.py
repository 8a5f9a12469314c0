"""Live progress of a run on the page of its site."""

from __future__ import annotations

from datetime import timedelta

import psycopg
from starlette.testclient import TestClient

from clerk.web.run_progress import pages_per_minute
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker
from tests.web.conftest import fetch


def test_current_documents_and_speed(client: TestClient, connection: psycopg.Connection, database: Url) -> None:
    items = add_site(connection, "springfield", documents=6)
    connection.execute("update content_items set page_count = 20")
    page = fetch(client, "/sites/springfield")
    assert "Progress of the run" not in page, "there is no run"
    connection.execute("select clerk_start_run('springfield', p_first_phase => 2)")
    assert "No job of this run is running now." in fetch(client, "/sites/springfield")
    with connect_worker(database, "0123456789ab clerk 4711 desk") as worker:
        for _ in range(3):
            worker.finish(worker.take("ocr"))
        connection.execute("update sites set started_at = now() - interval '4 minutes'")
        job = worker.take("ocr")
        connection.execute(
            "update job_claims set progress = 4, progress_total = 20, claimed_at = now() - interval '20 seconds'"
            " where job_id = %s",
            [job.id],
        )
        page = fetch(client, "/sites/springfield")
        assert "3 of 6" in page
        assert "16 pages per minute" in page, "64 pages in four minutes"
        assert "this stage is done in about" in page
        assert f'<li id="current-job-{job.id}">OCR' in page
        assert f'href="/sites/springfield/documents/{job.args["content_item_id"]}"' in page
        assert job.args["content_item_id"] in items
        assert "4 of 20 pages" in page
        assert f'href="/jobs/{job.id}"' in page
        worker.finish(job)


def test_pages_per_minute() -> None:
    minute = timedelta(minutes=1)
    assert pages_per_minute(0, [], minute) is None
    assert pages_per_minute(30, [], 3 * minute) == 10
    assert pages_per_minute(50, [], timedelta(days=1)) == 10, "the window is five minutes"
    long_job = {"stage": "ocr", "progress": 100, "running_for": 50 * minute}
    assert pages_per_minute(0, [long_job], timedelta(days=1)) == 2
    assert pages_per_minute(0, [long_job | {"stage": "fetch"}], minute) is None
