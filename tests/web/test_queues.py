from __future__ import annotations

import psycopg
from starlette.testclient import TestClient

from clerk.pipeline.engine import QUEUES
from tests.conftest import Url
from tests.engine.helpers import add_site, worker
from tests.web.conftest import shown


def test_nothing(client: TestClient, acting: TestClient) -> None:
    """Every queue is there, so that it can be paused before there is anything in it."""
    page = shown(client, "/queues")
    for queue in QUEUES:
        assert f'<th scope="row">{queue}</th>\n<td class="number">0</td>' in page
        assert f'href="/actions/pause?queue={queue}"' in shown(acting, "/queues")
    assert "There is no worker." in page


def test_queues_workers_and_jobs(client: TestClient, connection: psycopg.Connection, database: Url) -> None:
    add_site(connection, "springfield", documents=3)
    connection.execute("select clerk_start_run('springfield', p_first_phase => 2)")
    page = shown(client, "/queues")
    assert "nobody reads it" in page
    with worker(database, "0123456789ab clerk 4711 desk") as hand:
        connection.execute(
            "insert into worker_processes (worker_id, holder, queues) values (%s, %s, array['ocr'])",
            [hand.number, "0123456789ab clerk 4711 desk"],
        )
        job = hand.take("ocr")
        connection.execute("update job_claims set progress = 3, progress_total = 12 where job_id = %s", [job.id])
        page = shown(client, "/queues")
        assert '<th scope="row">ocr</th>\n<td class="number">2</td>' in page
        assert '<span class="mark good">alive</span>' in page
        assert "<td>desk</td>\n<td>4711</td>" in page
        assert "ocr springfield 3/12" in page
        assert f'<th scope="row">{job.id}</th>' in page
        assert "3/12</td>" in page
        connection.execute("update job_claims set lease_until = clerk_now() - interval '1 second'")
        connection.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 hour'")
        page = shown(client, "/queues")
        assert "over, will be rescued" in page
        assert '<span class="mark bad">dead</span>' in page
        hand.finish(job)
        connection.execute("update procrastinate_workers set last_heartbeat = now()")
        assert ">in 2 h</time>" in shown(client, "/queues"), "one ended within the hour, and two wait"
    connection.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 hour'")
    assert ">in 2 h</time>" not in shown(client, "/queues"), "nobody reads it any more"


def test_paused_queue(client: TestClient, connection: psycopg.Connection) -> None:
    connection.execute("select clerk_pause_queue('ocr', 'anna')")
    assert "paused by anna" in shown(client, "/queues")
