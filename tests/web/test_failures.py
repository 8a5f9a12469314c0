from __future__ import annotations

import html
import re
from urllib.parse import urlencode

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.errors import PdfBroken
from tests.conftest import Url
from tests.engine.helpers import connect_worker
from tests.monitoring.workers import fail_schedule
from tests.web.conftest import fetch
from tests.web.test_actions import execute, form_of, preview


@pytest.fixture
def failed(connection: psycopg.Connection) -> None:
    """124 failures in two sites, with three errors and four ages."""
    connection.execute("insert into sites (subdomain) values ('springfield'), ('shelby/ville')")
    connection.execute(
        """
        with failure (site, code, stage, age, status) as (
            select 'springfield', 'PdfBroken', 'ocr', n * interval '1 second', 'failed_terminal'
            from generate_series(1, 120) n
            union all
            values ('shelby/ville', 'PdfBroken', 'ocr', interval '2 hours', 'failed_terminal'),
                   ('shelby/ville', 'DownloadFailed', 'fetch', interval '2 days', 'failed_retryable'),
                   ('shelby/ville', null, 'ocr', interval '9 days', 'failed_terminal'),
                   ('shelby/ville', null, 'ocr', null, 'failed_terminal')
        ), item as (
            insert into content_items (subdomain, kind, meeting, date)
            select f.site, 'minutes', 'Council', date '2000-01-01' + row_number() over ()::integer from failure f
            returning id
        ), numbered as (
            select id, row_number() over (order by id) as n from item
        )
        insert into content_item_pipeline_state
            (content_item_id, pipeline, status, attempt_count, error_code, error_message, last_attempt_at)
        select i.id, f.stage, f.status, 3, f.code, 'it says so', clerk_now() - f.age
        from numbered i
        join (select *, row_number() over () as n from failure) f using (n)
        """
    )


def rows(page: str) -> list[list[str]]:
    """The text of each table cell."""
    return [
        [" ".join(re.sub(r"<span class=\"visually-hidden\">.*?</span>|<[^>]+>", "", cell).split()) for cell in cells]
        for cells in (
            re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
            for row in re.findall(r"<tr>(.*?)</tr>", page, re.DOTALL)
        )
    ]


def test_none(client: TestClient) -> None:
    page = fetch(client, "/failures")
    assert "Nothing has failed." in page
    assert "<select" not in page, "there is nothing to filter"
    assert "No failure matches these filters." in fetch(client, "/failures/documents")


def test_grid(client: TestClient, failed: None) -> None:
    page = fetch(client, "/failures")
    assert rows(page)[1:] == [
        ["PdfBroken", "OCR", "120", "1", "·", "·", "121", "121", "2"],
        ["unknown", "OCR", "·", "·", "·", "2", "2", "2", "1"],
        ["DownloadFailed", "Fetch", "·", "·", "1", "·", "1", "0", "1"],
    ]
    assert PdfBroken.remedy[1:] in page
    assert "clerk failures --stage fetch --error DownloadFailed --retry" in page
    assert "--error PdfBroken --retry" not in page, "a retry would not help"


def test_retry_is_offered_only_if_it_can_help(action_client: TestClient, failed: None) -> None:
    offered = re.findall(r'href="(/actions/retry[^"]*)"', fetch(action_client, "/failures"))
    assert [html.unescape(url).partition("error=")[2] for url in offered] == ["unknown"], (
        "not for errors that a retry cannot fix, and not for failures that are retried automatically"
    )


def test_failed_documents_are_named_by_file_or_address(
    client: TestClient, failed: None, connection: psycopg.Connection
) -> None:
    connection.execute(
        "update content_items set source_url = case subdomain when 'springfield' then 'file:///home/me/scans/Old%20one.pdf'"
        " else 'https://city.example/a.pdf' end"
    )
    connection.execute("update content_item_pipeline_state set error_message = 'it is gone; `clerk retry` fetches it'")
    for path in ("/failures", "/failures/documents?error=PdfBroken"):
        page = fetch(client, path)
        assert "it is gone; <code>clerk retry</code> fetches it" in page
        assert "<bdi>Old one.pdf</bdi>" in page
        assert "/home/me" not in page
    assert "<bdi>a.pdf</bdi>" in fetch(client, "/failures/documents?site=shelby/ville")


def test_each_number_links_to_its_documents(client: TestClient, failed: None) -> None:
    page = fetch(client, "/failures")
    links = re.findall(r'<td class="number"><a href="([^"]+)">([\d,]+)', page)
    assert len(links) == 7
    for url, number in links:
        documents = fetch(client, html.unescape(url))
        assert f"<p>{number} failure" in documents, url


def test_documents_are_paginated(client: TestClient, failed: None) -> None:
    first = fetch(client, "/failures/documents?error=PdfBroken")
    assert "121 failures, page 1 of 2" in first
    assert f"What to do: {PdfBroken.remedy}." in first
    documents = re.findall(r'<th scope="row" class="document"><a href="([^"]+)"', first)
    assert len(documents) == 100
    assert re.fullmatch(r"/sites/springfield/documents/\d+", documents[0])
    (next_url,) = re.findall(r'rel="next" href="([^"]+)"', first)
    rest = re.findall(r'<th scope="row" class="document"><a href="([^"]+)"', fetch(client, html.unescape(next_url)))
    assert len(rest) == 21
    assert re.fullmatch(r"/sites/shelby/ville/documents/\d+", rest[-1])


@pytest.mark.parametrize("query", ["age=y&page=z", "site=%00&error=%00&stage=%00&page=-1", "page=9999999"])
def test_invalid_query_parameters_are_ignored(client: TestClient, failed: None, query: str) -> None:
    assert "124 failures" in fetch(client, f"/failures/documents?{query}")
    assert "PdfBroken" in fetch(client, f"/failures?{query}")


def test_a_selection_of_units_is_retried(
    action_client: TestClient, client: TestClient, connection: psycopg.Connection, failed: None
) -> None:
    page = fetch(action_client, "/failures/documents?error=PdfBroken")
    items = re.findall(r'name="item" id="[^"]+" value="([^"]+)"', page)
    assert len(items) == 100
    assert " checked>" not in page
    assert fetch(action_client, "/failures/documents?error=PdfBroken&selected=all").count(" checked>") == 100
    assert "Retry all 121 that match" in page
    assert 'name="item"' not in fetch(client, "/failures/documents"), "actions are not allowed"
    rows = connection.execute(
        "select content_item_id, status from failing_documents where stage = 'fetch' and subdomain = 'shelby/ville'"
    ).fetchall()
    (waiting,) = [f"fetch:{item}" for item, status in rows]
    page = html.unescape(fetch(action_client, "/actions/retry-selected?" + urlencode({"item": items[:30]}, doseq=True)))
    assert "30 units of 1 site will be retried." in page
    chosen = [*items[:30], waiting, "ocr:999999"]
    confirmation = action_client.get("/actions/retry-selected?" + urlencode({"item": chosen}, doseq=True))
    assert "Not retried: Council" in html.unescape(confirmation.text)
    done = action_client.post("/actions/retry-selected", data=form_of(confirmation))
    notice = html.unescape(fetch(action_client, done.headers["Location"]))
    assert "30 units of 1 site retried. 2 selected ones were not retried: " in notice
    assert "it is retried automatically" in notice
    assert "document 999999 in OCR: there is no such document" in notice
    left = connection.execute("select count(*) from failing_documents where status = 'failed_terminal'").fetchone()
    assert left == (123 - 30,)


def test_a_selection_of_groups_is_retried(
    action_client: TestClient, connection: psycopg.Connection, failed: None
) -> None:
    page = fetch(action_client, "/failures")
    assert 'form="selection" name="item" id="item-ocr-PdfBroken" value="ocr:PdfBroken"' in page
    assert 'value="fetch:DownloadFailed"' not in page, "it is retried automatically"
    connection.execute(
        "update content_item_pipeline_state set error_code = 'PdfTimeout' where content_item_id ="
        " (select min(content_item_id) from failing_documents"
        " where subdomain = 'springfield' and error_code = 'PdfBroken')"
    )
    groups = "ocr:PdfBroken ocr:PdfTimeout ocr:unknown"
    assert preview(action_client, "retry-selected", items=groups).count("<li>springfield: ") == 1, "a line per site"
    path, message = execute(action_client, "retry-selected", items=groups)
    assert path == "/failures"
    assert message.startswith("121 units of 2 sites retried.")


def test_an_empty_or_invalid_selection_changes_nothing(action_client: TestClient) -> None:
    assert "Nothing is selected" in preview(action_client, "retry-selected")
    assert "None of them can be retried" in preview(action_client, "retry-selected", items="ocr:5")
    for items in ("nothing:5", "ocr:", "ocr:" + "9" * 30, " ".join(["ocr:1"] * 501)):
        preview(action_client, "retry-selected", 404, items=items)


@pytest.mark.usefixtures("failed")
@pytest.mark.parametrize("path", ["/failures", "/failures/documents"])
def test_unknown_filters_match_nothing(client: TestClient, path: str) -> None:
    """An unknown stage showed the failures of all stages."""
    for query, sentence in (
        ("stage=nope", "There is no stage nope."),
        ("error=Nope&site=nowhere", "There is no site nowhere and no error Nope."),
        ("stage=deploy", "No failure matches these filters."),
        ("site=springfield&error=DownloadFailed", "No failure matches these filters."),
    ):
        page = fetch(client, f"{path}?{query}")
        assert sentence in page
        assert "PdfBroken" not in page


def test_failing_periodic_tasks(client: TestClient, connection: psycopg.Connection, database: Url) -> None:
    with connect_worker(database, "a worker") as worker:
        fail_schedule(connection, worker)
    page = fetch(client, "/failures")
    assert "The periodic task clerk.schedule failed the last time" in page
    assert "Nothing has failed" not in page
