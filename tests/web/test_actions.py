"""Each operator action: its preview, its effect and its result message."""

from __future__ import annotations

import html
import re
from urllib.parse import quote, urlencode, urlsplit

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.pipeline import engine
from clerk.web.action_executor import ActionExecutor
from clerk.web.app import create_app
from clerk.web.db import ReadOnlyPool
from tests.web.conftest import HOSTILE

Form = dict[str, str]


def preview(client: TestClient, action: str, status: int = 200, **fields: object) -> str:
    response = confirmation_page(client, action, **fields)
    assert response.status_code == status, response.text
    return text_of(response)


def confirmation_page(client: TestClient, action: str, **fields: object) -> httpx2.Response:
    return client.get(f"/actions/{action}?{urlencode(fields)}")


def text_of(response: httpx2.Response) -> str:
    return html.unescape(response.text)


def form_of(page: httpx2.Response) -> Form:
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text)
    return {name: html.unescape(value) for name, value in fields}


def submit(client: TestClient, action: str, **fields: object) -> httpx2.Response:
    """Open the confirmation page and submit its form."""
    return client.post(f"/actions/{action}", data=form_of(confirmation_page(client, action, **fields)))


def execute(client: TestClient, action: str, **fields: object) -> tuple[str, str]:
    """Submit an action; return the path of the page that shows the result, and the message there."""
    response = submit(client, action, **fields)
    assert response.status_code == 303, response.text
    url = response.headers["Location"]
    assert urlsplit(url).netloc == ""
    (message,) = re.findall(r'<p class="notice" role="status">(.*?)</p>', client.get(url).text)
    return urlsplit(url).path, html.unescape(message)


@pytest.fixture
def site(connection: psycopg.Connection) -> str:
    connection.execute("insert into sites (subdomain, name) values ('springfield', 'Springfield')")
    return "springfield"


def fail(connection: psycopg.Connection, site: str, stage: str, *codes: str) -> list[int]:
    """Add permanently failed documents to a site, one per error code."""
    ids = []
    for number, code in enumerate(codes, start=1):
        row = connection.execute(
            """
            with item as (
                insert into content_items (subdomain, kind, meeting, date, sha256)
                values (%(site)s, 'minutes', 'Council', %(date)s, %(sha)s) returning id
            )
            insert into content_item_pipeline_state (content_item_id, pipeline, status, attempt_count, error_code,
                error_message, last_attempt_at)
            select id, %(stage)s, 'failed_terminal', 3, %(code)s, 'it broke', now() from item returning content_item_id
            """,
            {"site": site, "stage": stage, "code": code, "date": f"2026-01-{number:02}", "sha": f"{number:064}"},
        ).fetchone()
        assert row is not None
        ids.append(row[0])
    return ids


def failed_documents(connection: psycopg.Connection) -> list[int]:
    query = "select content_item_id from content_item_pipeline_state where status = 'failed_terminal' order by 1"
    return [item for (item,) in connection.execute(query).fetchall()]


def run_outcomes(connection: psycopg.Connection) -> list[str | None]:
    return [row[0] for row in connection.execute("select outcome from pipeline_runs order by run_id").fetchall()]


def test_update_now(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    assert "A run of springfield will start" in preview(action_client, "update", site=site)
    assert run_outcomes(connection) == []
    path, message = execute(action_client, "update", site=site)
    row = connection.execute("select run_id, reason from pipeline_runs").fetchone()
    assert row is not None
    assert (path, message) == ("/sites/springfield", f"Run {row[0]} of springfield started.")
    assert row[1] == "requested by dashboard testclient"
    assert run_outcomes(connection) == [None]
    assert "is in progress (fetch)" in preview(action_client, "update", 409, site=site)


def test_update_of_a_paused_site_says_that_it_waits(
    action_client: TestClient, connection: psycopg.Connection, site: str
) -> None:
    engine.pause_site(connection, site, "anna")
    assert "springfield is paused: its jobs wait" in preview(action_client, "update", site=site)


def test_cancel(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    assert "springfield has no active run." in preview(action_client, "cancel", site=site)
    run = engine.start_run(connection, site)
    assert f"Run {run} of springfield, which is in Fetch, will be cancelled" in preview(
        action_client, "cancel", site=site
    )
    assert run_outcomes(connection) == [None]
    assert execute(action_client, "cancel", site=site) == ("/sites/springfield", f"Run {run} of springfield cancelled.")
    assert run_outcomes(connection) == ["cancelled"]


def test_retry_a_site(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    fail(connection, site, "ocr", "PdfTimeout", "PdfTimeout", "PdfBroken")
    page = preview(action_client, "retry", site=site)
    assert "3 documents of springfield will be retried in OCR." in page
    assert "2 documents failed in OCR with PdfTimeout" in page
    assert "A new run retries only these units" in page
    assert len(failed_documents(connection)) == 3
    path, message = execute(action_client, "retry", site=site)
    assert path == "/sites/springfield"
    assert message.startswith("3 documents of springfield retried in OCR, in run ")
    assert failed_documents(connection) == []
    assert "Nothing has failed in any stage of springfield." in preview(action_client, "retry", site=site)


def test_retry_joins_the_active_run(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    run = engine.start_run(connection, site)
    fail(connection, site, "ocr", "PdfTimeout")
    assert f"Run {run}, which is in Fetch, includes the retry." in preview(action_client, "retry", site=site)


def test_retry_that_supersedes_the_active_run_says_so(
    action_client: TestClient, connection: psycopg.Connection, site: str
) -> None:
    fail(connection, site, "ocr", "PdfTimeout")
    run = engine.start_run(connection, site, first_phase=3)
    assert f"It supersedes run {run}." in preview(action_client, "retry", site=site, stage="ocr")


def test_retry_one_stage(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    fail(connection, site, "extraction", "Crashed")
    assert "Nothing has failed in OCR of springfield." in preview(action_client, "retry", site=site, stage="ocr")
    assert (
        "1 document of springfield retried in Extract"
        in execute(action_client, "retry", site=site, stage="extraction")[1]
    )


def test_retry_one_document(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    first, second = fail(connection, site, "ocr", "PdfTimeout", "PdfBroken")
    page = preview(action_client, "retry", site=site, stage="ocr", document=second)
    assert "minutes Council 2026-01-02 of springfield will be retried in OCR." in page
    assert "It failed with PdfBroken: it broke" in page
    assert execute(action_client, "retry", site=site, stage="ocr", document=second)[0] == "/sites/springfield"
    assert failed_documents(connection) == [first]
    assert "has not permanently failed in OCR" in preview(
        action_client, "retry", site=site, stage="ocr", document=second
    )


def test_retry_all_with_one_error(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    connection.execute("insert into sites (subdomain) values ('shelbyville'), ('ogdenville')")
    fail(connection, site, "ocr", "PdfTimeout", "PdfTimeout")
    fail(connection, "shelbyville", "ocr", "PdfTimeout")
    (other,) = fail(connection, "ogdenville", "ocr", "PdfBroken")
    page = preview(action_client, "retry", error="PdfTimeout")
    assert "3 units of 2 sites that failed with PdfTimeout will be retried." in page
    assert "springfield: 2 in OCR" in page
    assert len(failed_documents(connection)) == 4
    assert (
        execute(action_client, "retry", error="PdfTimeout")[1]
        == "3 units of 2 sites that failed with PdfTimeout retried."
    )
    assert failed_documents(connection) == [other]
    assert "Nothing failed with PdfTimeout." in preview(action_client, "retry", error="PdfTimeout")


def test_pause_and_resume_a_site(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    paused = "select paused_at is not null, paused_by from sites"
    assert "springfield is not paused." in preview(action_client, "resume", site=site)
    assert "jobs of springfield will wait until somebody resumes it" in preview(action_client, "pause", site=site)
    assert connection.execute(paused).fetchone() == (False, None)
    assert execute(action_client, "pause", site=site) == ("/sites/springfield", "springfield paused.")
    assert connection.execute(paused).fetchone() == (True, "dashboard testclient")
    assert "springfield is already paused." in preview(action_client, "pause", site=site)
    assert execute(action_client, "resume", site=site)[1] == "springfield resumed."
    assert connection.execute(paused).fetchone() == (False, None)


def test_pause_and_resume_a_queue(action_client: TestClient, connection: psycopg.Connection, site: str) -> None:
    engine.start_run(connection, site)
    assert "(1 waiting) will wait until somebody resumes it" in preview(action_client, "pause", queue="fetch")
    assert execute(action_client, "pause", queue="fetch")[1] == "The queue fetch paused."
    assert connection.execute("select queue from queue_pauses").fetchall() == [("fetch",)]
    assert execute(action_client, "resume", queue="fetch")[1] == "The queue fetch resumed."
    assert connection.execute("select queue from queue_pauses").fetchall() == []
    assert "the scheduled runs and reconciliation" in preview(action_client, "pause", queue="coordinator")


def test_reconcile_is_deferred_to_a_worker(action_client: TestClient, connection: psycopg.Connection) -> None:
    jobs = "select task_name, queue_name, status::text from procrastinate_jobs"
    assert "A worker of the queue coordinator will detect and repair" in preview(action_client, "reconcile")
    assert connection.execute(jobs).fetchall() == []
    assert "is waiting for a worker" in execute(action_client, "reconcile")[1]
    assert connection.execute(jobs).fetchall() == [("clerk.reconcile", "coordinator", "todo")]
    assert "is already waiting for a worker" in preview(action_client, "reconcile")


@pytest.mark.parametrize(
    ("action", "fields", "message"),
    [
        ("explode", {}, "There is no action explode."),
        ("retry", {"site": "nowhere"}, "no site nowhere"),
        ("retry", {"site": "nowhere", "error": "PdfTimeout"}, "no site nowhere"),
        ("retry", {"site": "springfielt"}, "did you mean springfield?"),
        ("update", {"site": HOSTILE}, f"no site {HOSTILE}"),
        ("update", {"site": "../../etc"}, "no site ../../etc"),
        ("update", {"site": "'; drop table sites; --"}, "no site '; drop table"),
        ("update", {"site": "\0"}, "The field site is missing."),
        ("cancel", {}, "The field site is missing."),
        ("retry", {}, "A field is missing"),
        ("retry", {"site": "springfield", "stage": HOSTILE}, f"There is no stage {HOSTILE}."),
        ("retry", {"site": "springfield", "stage": "ocr", "document": "1 or 1=1"}, "There is no document 1 or 1=1."),
        ("retry", {"site": "springfield", "stage": "ocr", "document": "9" * 30}, "There is no document 999"),
        ("pause", {"queue": "builtin"}, "There is no queue builtin."),
        ("pause", {"queue": "ocr", "site": "springfield"}, "Give either a site or a queue."),
        ("pause", {}, "Give either a site or a queue."),
    ],
)
def test_invalid_actions_and_fields_are_not_found(
    action_client: TestClient, site: str, action: str, fields: Form, message: str
) -> None:
    response = action_client.get(f"/actions/{action}?{urlencode(fields)}")
    assert response.status_code == 404
    assert message in text_of(response)
    assert "<script>" not in response.text


def test_markup_in_names_is_escaped(
    action_client: TestClient, connection: psycopg.Connection, hostile_site: str
) -> None:
    page = action_client.get(f"/actions/retry?{urlencode({'site': hostile_site})}").text
    assert "<script>" not in page
    assert html.escape(hostile_site) in page
    response = submit(action_client, "pause", site=hostile_site)
    assert urlsplit(response.headers["Location"]).path == f"/sites/{quote(hostile_site)}"
    assert "<script>" not in action_client.get(response.headers["Location"]).text
    assert connection.execute("select paused_at is not null from sites").fetchone() == (True,)


def test_a_name_with_special_characters_works(action_client: TestClient, connection: psycopg.Connection) -> None:
    name = "a/b?c=d&e \"f' é#%2F"
    connection.execute("insert into sites (subdomain) values (%s)", [name])
    assert execute(action_client, "pause", site=name) == (f"/sites/{quote(name)}", f"{name} paused.")


@pytest.mark.parametrize(
    ("page", "actions"),
    [
        ("/sites/springfield", ["cancel?site=springfield", "retry?site=springfield", "pause?site=springfield"]),
        ("/failures", ["retry?site=&stage=ocr&error=PdfTimeout"]),
        ("/failures/documents", ["retry?site=springfield&stage=ocr&document="]),
        ("/queues", ["pause?queue=fetch"]),
        ("/log", ["reconcile"]),
    ],
)
def test_action_links_need_allow_actions(
    client: TestClient,
    action_client: TestClient,
    connection: psycopg.Connection,
    site: str,
    page: str,
    actions: list[str],
) -> None:
    fail(connection, site, "ocr", "PdfTimeout")
    engine.start_run(connection, site)
    assert "/actions/" not in client.get(page).text
    text = text_of(action_client.get(page))
    for action in actions:
        assert f'class="action" href="/actions/{action}' in text


def test_lock_timeout_is_reported(
    action_client: TestClient, connection: psycopg.Connection, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clerk.web.action_executor._LOCK_TIMEOUT", "50ms")
    with connection.transaction():
        connection.execute("select from sites for update")
        assert "another transaction is changing the same rows" in preview(action_client, "cancel", 503, site=site)


def test_an_unreachable_database_is_reported() -> None:
    url = "postgresql://x@127.0.0.1:1/x"
    app = create_app(ReadOnlyPool(url), executor=ActionExecutor(url))
    client = TestClient(app, base_url="http://localhost")
    assert "cannot be reached" in preview(client, "reconcile", 503)
