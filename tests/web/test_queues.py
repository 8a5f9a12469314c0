from __future__ import annotations

import re

import psycopg
from starlette.testclient import TestClient

from clerk.pipeline.engine import QUEUES
from clerk.stage_names import stage_name
from tests.conftest import Url
from tests.engine.helpers import add_site, connect_worker
from tests.web.conftest import fetch


def test_empty_queues(client: TestClient, action_client: TestClient) -> None:
    """Every queue is listed, so that it can be paused before it has jobs."""
    page = fetch(client, "/queues")
    for queue in QUEUES:
        assert re.search(
            rf'<th scope="row">{stage_name(queue)}(<br>.*)?</th>\n<td class="number"><span class="muted">0</span></td>',
            page,
        )
        assert f'href="/actions/pause?queue={queue}"' in fetch(action_client, "/queues")
    assert "Compile<br><small><code>compilation</code></small>" in page, "the name that commands take"
    assert "There are no workers." in page
    assert "No run has ended in the last 24 hours, and no job in the last hour." in page, "instead of an empty table"


def test_queues_workers_and_jobs(client: TestClient, connection: psycopg.Connection, database: Url) -> None:
    add_site(connection, "springfield", documents=9)
    connection.execute("select clerk_start_run('springfield', p_first_phase => 2)")
    page = fetch(client, "/queues")
    assert "waits for a worker</span>" in page
    with connect_worker(database, "0123456789ab clerk 4711 desk") as ocr_worker:
        connection.execute(
            "insert into worker_processes (worker_id, holder, queues) values (%s, %s, array['ocr'])",
            [ocr_worker.number, "0123456789ab clerk 4711 desk"],
        )
        job = ocr_worker.take("ocr")
        connection.execute("update job_claims set progress = 3, progress_total = 12 where job_id = %s", [job.id])
        page = fetch(client, "/queues")
        assert '<th scope="row">OCR</th>\n<td class="number"><span>8</span></td>' in page
        assert '<span class="badge good">alive</span>' in page
        assert "<td>desk</td>\n<td>4711</td>" in page
        assert f'<td class="wrap"><a href="/jobs/{job.id}">job {job.id}</a></td>' in page, "what the worker runs"
        assert re.search(r'<a href="/sites/springfield/documents/\d+"><bdi>\w+</bdi>, <span class="date">', page)
        assert f'<th scope="row" class="short"><a href="/jobs/{job.id}">{job.id}</a></th>' in page
        assert "3 of 12</td>" in page
        connection.execute("update job_claims set lease_until = clerk_now() - interval '1 second'")
        connection.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 hour'")
        page = fetch(client, "/queues")
        assert "expired, will be rescued" in page
        assert '<span class="badge bad">dead</span>' in page
        ocr_worker.finish(job)
        connection.execute("update procrastinate_workers set last_heartbeat = now()")
        assert ">in " not in fetch(client, "/queues"), "no rate is known"
        for _ in range(5):
            ocr_worker.finish(ocr_worker.take("ocr"))
        ocr_worker.take("ocr")
        assert re.search(r">in \d+ (s|min)</time>", fetch(client, "/queues")), "six ended, one runs, two are waiting"
        connection.execute(
            "insert into host_problems (worker_id, queue, error_code, message) values (%s, 'ocr', 'DiskFull', 'full')",
            [ocr_worker.number],
        )
        page = fetch(client, "/queues")
        assert ">in " not in page, "no worker takes the other jobs"
        assert '<td class="number failed">0 of 1</td>' in page
        assert "waits for the machine (DiskFull)</span>" in page
        connection.execute("delete from host_problems")
    connection.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 hour'")
    page = fetch(client, "/queues")
    assert ">in " not in page, "no worker is left"
    assert "waits for the rescue of 1 job of dead workers and a worker</span>" in page
    assert '<td class="number"><span class="muted">0</span></td>' in page.partition("OCR</th>")[2].partition("</tr>")[0]


def test_paused_queue(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("select clerk_pause_queue('ocr', 'anna')")
    assert "paused by anna" in fetch(client, "/queues")
