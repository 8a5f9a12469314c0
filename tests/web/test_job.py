"""The page of a job: attempts, errors, stack traces, claim, events; and a job that was deleted."""

from __future__ import annotations

import html

import psycopg
from starlette.testclient import TestClient

from clerk.web.pages.job import attempts_of
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker
from tests.web.conftest import HOSTILE, fetch


def test_a_job_from_its_creation_to_its_deletion(
    client: TestClient, action_client: TestClient, connection: psycopg.Connection, database: Url
) -> None:
    items = add_site(connection, "springfield", documents=1)
    connection.execute("select clerk_start_run('springfield', p_first_phase => 2)")
    (number,) = connection.execute("select min(id) from procrastinate_jobs where queue_name = 'ocr'").fetchone() or (0,)
    page = fetch(client, f"/jobs/{number}")
    assert "Waits for a worker of the queue OCR" in page
    assert "No worker has claimed it yet." in page
    with connect_worker(database, "0123456789ab clerk 4711 desk") as worker:
        job = worker.take("ocr")
        connection.execute("update job_claims set progress = 3, progress_total = 12, progress_at = now()")
        page = fetch(client, f"/jobs/{number}")
        assert "process 4711 on <bdi>desk</bdi>" in page
        assert "held until" in page
        assert "3 of 12" in page
        assert f'/sites/springfield/documents/{items[0]}"' in page
        worker.retry(job, code="PdfTimeout", message=HOSTILE)
        worker.finish(worker.take("ocr"), "failed", "PdfBroken", "it is broken")
    page = fetch(client, f"/jobs/{number}")
    assert HOSTILE not in page
    assert html.escape(HOSTILE) in page
    assert page.index('id="attempt-2"') < page.index("Traceback of PdfBroken") < page.index('id="attempt-1"')
    assert page.index('id="attempt-1"') < page.index("Traceback of PdfTimeout")
    assert page.count("<td>started</td>") == 2
    assert "<td>failed, to be retried</td>" in page
    assert "/actions/retry" not in page
    assert f"/actions/retry?site=springfield&amp;stage=ocr&amp;document={items[0]}" in fetch(
        action_client, f"/jobs/{number}"
    )
    for url in ("/failures/documents", "/sites/springfield", f"/sites/springfield/documents/{items[0]}"):
        assert f'href="/jobs/{number}"' in fetch(client, url), url

    connection.execute("delete from procrastinate_jobs where id = %s", [number])
    assert f"There is no job {number}." in fetch(client, f"/jobs/{number}", 404)
    assert "There is no job" in fetch(client, f"/jobs/{10**30}", 404)


def test_a_job_on_hold_and_a_job_of_a_plugin(client: TestClient, connection: psycopg.Connection) -> None:
    add_site(connection, "springfield", documents=1)
    connection.execute("select clerk_pause_site('springfield', 'anna')")
    connection.execute("select clerk_start_run('springfield', p_first_phase => 2)")
    connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name, args)"
        ' values (\'other\', \'plugin.push\', \'{"token": "abcdef", "run_id": "x", "content_item_id": [1]}\')'
    )
    numbers: dict[str, int] = dict(connection.execute("select queue_name, id from procrastinate_jobs").fetchall())
    assert "waits until somebody resumes it" in fetch(client, f"/jobs/{numbers['ocr']}")
    page = fetch(client, f"/jobs/{numbers['other']}")
    assert "plugin.push" in page
    assert "abcdef" not in page


def test_an_error_without_events_is_shown() -> None:
    """Events of an earlier version of clerk, or of more attempts than are read."""
    (attempt,) = attempts_of([], [{"attempt": 3, "at": None, "error_code": "PdfBroken"}], 3)
    assert (attempt.number, attempt.result, attempt.took) == (3, "failed", None)
    assert attempt.remedy
