"""What each action says before, does, and says after."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from urllib.parse import quote, urlencode, urlsplit

import httpx2
import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.pipeline import engine
from tests.conftest import Url
from tests.web.conftest import HOSTILE

Form = dict[str, str]


def asked(client: TestClient, action: str, status: int = 200, **fields: object) -> str:
    response = confirmation(client, action, **fields)
    assert response.status_code == status, response.text
    return text_of(response)


def confirmation(client: TestClient, action: str, **fields: object) -> httpx2.Response:
    return client.get(f"/actions/{action}?{urlencode(fields)}")


def text_of(response: httpx2.Response) -> str:
    return html.unescape(response.text)


def form_on(page: httpx2.Response) -> Form:
    fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', page.text)
    return {name: html.unescape(value) for name, value in fields}


def confirmed(client: TestClient, action: str, **fields: object) -> httpx2.Response:
    """Looks at the confirmation, and presses its button."""
    return client.post(f"/actions/{action}", data=form_on(confirmation(client, action, **fields)))


def done(client: TestClient, action: str, **fields: object) -> tuple[str, str]:
    """Where that led, and what it said there."""
    answer = confirmed(client, action, **fields)
    assert answer.status_code == 303, answer.text
    address = answer.headers["Location"]
    assert urlsplit(address).netloc == ""
    (said,) = re.findall(r'<p class="notice" role="status">(.*?)</p>', client.get(address).text)
    return urlsplit(address).path, html.unescape(said)


@pytest.fixture
def site(connection: psycopg.Connection) -> str:
    connection.execute("insert into sites (subdomain, name) values ('springfield', 'Springfield')")
    return "springfield"


def fail(connection: psycopg.Connection, site: str, stage: str, *codes: str) -> list[int]:
    """Documents of a site that failed for good, one per class of error."""
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


def failed(connection: psycopg.Connection) -> list[int]:
    query = "select content_item_id from content_item_pipeline_state where status = 'failed_terminal' order by 1"
    return [item for (item,) in connection.execute(query).fetchall()]


def runs(connection: psycopg.Connection) -> list[str | None]:
    return [row[0] for row in connection.execute("select outcome from pipeline_runs order by run_id").fetchall()]


def test_update_now(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    assert "A run of springfield will start" in asked(acting, "update", site=site)
    assert runs(connection) == []
    where, said = done(acting, "update", site=site)
    row = connection.execute("select run_id, reason from pipeline_runs").fetchone()
    assert row is not None
    assert (where, said) == ("/sites/springfield", f"Run {row[0]} of springfield started.")
    assert row[1] == "requested by dashboard testclient"
    assert runs(connection) == [None]
    assert "is still going (fetch)" in asked(acting, "update", 409, site=site)


def test_update_of_a_paused_site_says_that_it_waits(
    acting: TestClient, connection: psycopg.Connection, site: str
) -> None:
    engine.pause_site(connection, site, "anna")
    assert "springfield is paused: its jobs wait" in asked(acting, "update", site=site)


def test_cancel(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    assert "No run of springfield is going." in asked(acting, "cancel", site=site)
    run = engine.start_run(connection, site)
    assert f"Run {run} of springfield, which is in fetch, will be ended" in asked(acting, "cancel", site=site)
    assert runs(connection) == [None]
    assert done(acting, "cancel", site=site) == ("/sites/springfield", f"Run {run} of springfield cancelled.")
    assert runs(connection) == ["cancelled"]


def test_retry_a_site(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    fail(connection, site, "ocr", "PdfTimeout", "PdfTimeout", "PdfBroken")
    page = asked(acting, "retry", site=site)
    assert "3 documents of ocr of springfield will be tried again." in page
    assert "2 documents of ocr failed with PdfTimeout" in page
    assert "A new run does just that" in page
    assert len(failed(connection)) == 3
    where, said = done(acting, "retry", site=site)
    assert (where, said.startswith("3 documents of ocr of springfield tried again in run ")) == (
        "/sites/springfield",
        True,
    )
    assert failed(connection) == []
    assert "Nothing has failed in any stage of springfield." in asked(acting, "retry", site=site)


def test_retry_within_the_run_that_is_going(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    run = engine.start_run(connection, site)
    fail(connection, site, "ocr", "PdfTimeout")
    assert f"It is done within run {run}, which is in fetch." in asked(acting, "retry", site=site)


def test_retry_that_ends_the_run_that_is_going_says_so(
    acting: TestClient, connection: psycopg.Connection, site: str
) -> None:
    fail(connection, site, "ocr", "PdfTimeout")
    run = engine.start_run(connection, site, first_phase=3)
    assert f"Run {run} ends in its favour." in asked(acting, "retry", site=site, stage="ocr")


def test_retry_one_stage(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    fail(connection, site, "extraction", "Crashed")
    assert "Nothing has failed in ocr of springfield." in asked(acting, "retry", site=site, stage="ocr")
    assert "1 document of extraction" in done(acting, "retry", site=site, stage="extraction")[1]


def test_retry_one_document(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    first, second = fail(connection, site, "ocr", "PdfTimeout", "PdfBroken")
    page = asked(acting, "retry", site=site, stage="ocr", document=second)
    assert "minutes Council 2026-01-02 of springfield will be tried again in ocr." in page
    assert "It failed with PdfBroken: it broke" in page
    assert done(acting, "retry", site=site, stage="ocr", document=second)[0] == "/sites/springfield"
    assert failed(connection) == [first]
    assert "has not failed for good in ocr" in asked(acting, "retry", site=site, stage="ocr", document=second)


def test_retry_a_class_of_errors(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    connection.execute("insert into sites (subdomain) values ('shelbyville'), ('ogdenville')")
    fail(connection, site, "ocr", "PdfTimeout", "PdfTimeout")
    fail(connection, "shelbyville", "ocr", "PdfTimeout")
    (other,) = fail(connection, "ogdenville", "ocr", "PdfBroken")
    page = asked(acting, "retry", error="PdfTimeout")
    assert "3 units of 2 sites that failed with PdfTimeout will be tried again." in page
    assert "springfield: 2 in ocr" in page
    assert len(failed(connection)) == 4
    assert done(acting, "retry", error="PdfTimeout")[1] == "3 units of 2 sites that failed with PdfTimeout tried again."
    assert failed(connection) == [other]
    assert "There is nothing that failed with PdfTimeout." in asked(acting, "retry", error="PdfTimeout")


def test_pause_and_resume_a_site(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    paused = "select paused_at is not null, paused_by from sites"
    assert "springfield is not paused." in asked(acting, "resume", site=site)
    assert "jobs of springfield will be held back" in asked(acting, "pause", site=site)
    assert connection.execute(paused).fetchone() == (False, None)
    assert done(acting, "pause", site=site) == ("/sites/springfield", "springfield paused.")
    assert connection.execute(paused).fetchone() == (True, "dashboard testclient")
    assert "springfield is paused already." in asked(acting, "pause", site=site)
    assert done(acting, "resume", site=site)[1] == "springfield resumed."
    assert connection.execute(paused).fetchone() == (False, None)


def test_pause_and_resume_a_queue(acting: TestClient, connection: psycopg.Connection, site: str) -> None:
    engine.start_run(connection, site)
    assert "(1 wait there now) will be held back" in asked(acting, "pause", queue="fetch")
    assert done(acting, "pause", queue="fetch")[1] == "The queue fetch paused."
    assert connection.execute("select queue from queue_pauses").fetchall() == [("fetch",)]
    assert done(acting, "resume", queue="fetch")[1] == "The queue fetch resumed."
    assert connection.execute("select queue from queue_pauses").fetchall() == []
    assert "carries the schedule and reconciliation" in asked(acting, "pause", queue="coordinator")


def test_reconcile_is_left_to_a_worker(acting: TestClient, connection: psycopg.Connection) -> None:
    jobs = "select task_name, queue_name, status::text from procrastinate_jobs"
    assert "A worker that reads the queue coordinator will look" in asked(acting, "reconcile")
    assert connection.execute(jobs).fetchall() == []
    assert "waits for a worker" in done(acting, "reconcile")[1]
    assert connection.execute(jobs).fetchall() == [("clerk.reconcile", "coordinator", "todo")]
    assert "waits for a worker already" in asked(acting, "reconcile")


@pytest.mark.parametrize(
    ("action", "fields", "said"),
    [
        ("explode", {}, "There is no action explode."),
        ("retry", {"site": "nowhere"}, "there is no site nowhere"),
        ("retry", {"site": "nowhere", "error": "PdfTimeout"}, "there is no site nowhere"),
        ("retry", {"site": "springfielt"}, "did you mean springfield?"),
        ("update", {"site": HOSTILE}, f"there is no site {HOSTILE}"),
        ("update", {"site": "../../etc"}, "there is no site ../../etc"),
        ("update", {"site": "'; drop table sites; --"}, "there is no site '; drop table"),
        ("update", {"site": "\0"}, "Say which site."),
        ("cancel", {}, "Say which site."),
        ("retry", {}, "Say which failures"),
        ("retry", {"site": "springfield", "stage": HOSTILE}, f"There is no stage {HOSTILE}."),
        ("retry", {"site": "springfield", "stage": "ocr", "document": "1 or 1=1"}, "There is no document 1 or 1=1."),
        ("retry", {"site": "springfield", "stage": "ocr", "document": "9" * 30}, "There is no document 999"),
        ("pause", {"queue": "builtin"}, "There is no queue builtin."),
        ("pause", {"queue": "ocr", "site": "springfield"}, "Say which site or which queue."),
        ("pause", {}, "Say which site or which queue."),
    ],
)
def test_what_is_not_there(acting: TestClient, site: str, action: str, fields: Form, said: str) -> None:
    response = acting.get(f"/actions/{action}?{urlencode(fields)}")
    assert response.status_code == 404
    assert said in text_of(response)
    assert "<script>" not in response.text


def test_hostile_names_stay_text(acting: TestClient, connection: psycopg.Connection, hostile_site: str) -> None:
    page = acting.get(f"/actions/retry?{urlencode({'site': hostile_site})}").text
    assert "<script>" not in page
    assert html.escape(hostile_site) in page
    answer = confirmed(acting, "pause", site=hostile_site)
    assert urlsplit(answer.headers["Location"]).path == f"/sites/{quote(hostile_site)}"
    assert "<script>" not in acting.get(answer.headers["Location"]).text
    assert connection.execute("select paused_at is not null from sites").fetchone() == (True,)


def test_a_name_with_everything_in_it_comes_through(acting: TestClient, connection: psycopg.Connection) -> None:
    name = "a/b?c=d&e \"f' é#%2F"
    connection.execute("insert into sites (subdomain) values (%s)", [name])
    assert done(acting, "pause", site=name) == (f"/sites/{quote(name)}", f"{name} paused.")


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
def test_buttons_only_where_actions_are(
    client: TestClient, acting: TestClient, connection: psycopg.Connection, site: str, page: str, actions: list[str]
) -> None:
    fail(connection, site, "ocr", "PdfTimeout")
    engine.start_run(connection, site)
    assert "/actions/" not in client.get(page).text
    shown = text_of(acting.get(page))
    for action in actions:
        assert f'class="action" href="/actions/{action}' in shown


def test_somebody_else_holds_the_site(
    acting: TestClient, connection: psycopg.Connection, site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clerk.web.action_executor._WAIT_FOR_LOCKS", "50ms")
    with connection.transaction():
        connection.execute("select from sites for update")
        assert "somebody else is changing" in asked(acting, "cancel", 503, site=site)


def test_an_unreachable_database_is_told(reader_of_nothing: Callable[[], TestClient]) -> None:
    client = reader_of_nothing()
    assert "cannot be reached" in asked(client, "reconcile", 503)


@pytest.fixture
def reader_of_nothing() -> Callable[[], TestClient]:
    from clerk.web.action_executor import ActionExecutor
    from clerk.web.app import create_app
    from clerk.web.db import ReadOnlyPool

    url: Url = "postgresql://x@127.0.0.1:1/x"
    return lambda: TestClient(create_app(ReadOnlyPool(url), actor=ActionExecutor(url)), base_url="http://localhost")
