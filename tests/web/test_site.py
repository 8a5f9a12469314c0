"""The page of a site, with rows that the engine has written."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from starlette.testclient import TestClient

from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_state
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from clerk.web.db import ReadOnlyPool
from clerk.web.flow import flow
from clerk.web.pages.documents import PAGE_SIZE, DocumentParams, read_documents
from clerk.web.sanitize import split_commands
from tests.web.conftest import HOSTILE, without_labels

Connection = psycopg.Connection[Any]


def fetch(client: TestClient, url: str, status: int = 200) -> str:
    response = client.get(url)
    assert response.status_code == status, response.text
    return html.unescape(without_labels(response.text))


def add_documents(connection: Connection, count: int, subdomain: str = "town") -> None:
    """Of every ten, one failed, one is open and eight are done. The first is the newest."""
    connection.execute("insert into sites (subdomain, name) values (%s, 'The Town')", [subdomain])
    connection.execute(
        """
        with item as (
            insert into content_items (subdomain, kind, meeting, date, page_count, sha256, fetched_at)
            select %s, 'minutes', case when n %% 2 = 0 then 'City Council' else 'Library Board' end,
                   date '2026-01-01' - n, 3, repeat('0', 64), now()
            from generate_series(0, %s - 1) n
            returning id, date '2026-01-01' - date as n
        )
        insert into content_item_pipeline_state
            (content_item_id, pipeline, status, attempt_count, error_code, error_message)
        select id, 'ocr', case n %% 10 when 3 then 'failed_terminal' when 4 then 'pending' else 'processed' end, 2,
               case when n %% 10 = 3 then 'PdfEncrypted' end, case when n %% 10 = 3 then 'it is locked' end
        from item
        """,
        [subdomain, count],
    )


def listed_dates(page: str) -> list[str]:
    return re.findall(r'<td class="date">([\d-]+)', page)


def test_documents_are_filtered_and_paginated(client: TestClient, connection: Connection) -> None:
    add_documents(connection, 120)
    first = fetch(client, "/sites/town")
    assert listed_dates(first)[:2] == ["2026-01-01", "2025-12-31"]
    assert len(listed_dates(first)) == PAGE_SIZE
    assert "Page 1 of 3" in first
    assert 'href="/sites/town/votes"' not in first, "nothing is published"
    (next_url,) = re.findall(r'rel="next" href="([^"]+)"', first)
    assert listed_dates(fetch(client, next_url))[0] == "2025-11-12"
    assert len(listed_dates(fetch(client, "/sites/town?page=3"))) == 20
    assert listed_dates(fetch(client, "/sites/town?page=99")) == listed_dates(fetch(client, "/sites/town?page=3"))

    for state, count in (("failed", 12), ("open", 12), ("done", 96)):
        assert re.search(rf'state={state}#documents">{state.capitalize()} <span class="number[^"]*">{count}<', first)
    failed = fetch(client, "/sites/town?state=failed")
    assert len(listed_dates(failed)) == 12
    assert "PdfEncrypted" in failed
    connection.execute("update content_items set source_url = 'file:///home/me/Old%20scans/a%20b.pdf'")
    assert "<bdi>a b.pdf</bdi>" in fetch(client, "/sites/town?state=failed")
    connection.execute("update content_items set storage_key = 'pdfs/Library/' || id || '.html'")
    assert "<small>without OCR</small>" in fetch(client, "/sites/town?state=done")
    assert "it is locked" in failed
    assert len(listed_dates(fetch(client, "/sites/town?text=LIBRARY&state=failed"))) == 12
    assert listed_dates(fetch(client, "/sites/town?text=2025-12-2"))[0] == "2025-12-29"
    assert "No document matches these filters." in fetch(client, "/sites/town?text=nowhere")


def test_a_large_site_does_not_scan_the_whole_ledger(pool: ReadOnlyPool, connection: Connection) -> None:
    """Even if the site has half of all documents."""
    for subdomain in ("town", "other"):
        add_documents(connection, 3000, subdomain)
    connection.execute("analyze")
    for params in (DocumentParams(), DocumentParams(state="failed")):
        with pool.transaction() as read_only:
            assert read_documents(read_only, "town", params).counts == {"failed": 300, "open": 300, "done": 2400}
            assert read_only.execute(
                "select seq_tup_read from pg_stat_xact_user_tables where relname = 'content_item_pipeline_state'"
            ).fetchone() == (0,)


@pytest.mark.parametrize(
    "query", ["page=0", "page=x", "page=²", "state=drop", "text=%00", "page=99999999999", "text=%25"]
)
def test_invalid_query_parameters_are_ignored(client: TestClient, connection: Connection, query: str) -> None:
    add_documents(connection, 1)
    assert listed_dates(fetch(client, f"/sites/town?{query}")) == ([] if query == "text=%25" else ["2026-01-01"])


def test_explanation_with_remedy(client: TestClient, connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    page = fetch(client, "/sites/town")
    state = read_site_state(connection, "town")
    assert state is not None
    sentence = explain(state).sentence
    assert f'<span class="explanation">{sentence[0].upper()}{sentence[1:]}.</span>' in page
    assert "What to do: start workers: <code>clerk worker</code>, or everything: <code>clerk up</code></p>" in page
    assert "Evidence" in page


def test_the_remedy_links_to_the_failures(client: TestClient, connection: Connection) -> None:
    add_documents(connection, 14)
    engine.start_run(connection, "town")
    engine.cancel_run(connection, "town")
    connection.execute("update sites set outcome = 'partial'")
    # Of several errors, the remedy names the command that lists them.
    connection.execute(
        "update content_item_pipeline_state set error_code = 'OcrFailed'"
        " where id = (select max(id) from content_item_pipeline_state where error_code = 'PdfEncrypted')"
    )
    page = fetch(client, "/sites/town")
    assert ": <code>clerk failures --site town</code>; " in page
    assert ": <code>clerk retry town</code>" in page
    assert '<a href="/failures?site=town">' in page


@pytest.mark.parametrize(
    ("remedy", "commands"),
    [
        ("put it back: clerk db up; then clerk reconcile-pipeline", ["clerk db up", "clerk reconcile-pipeline"]),
        ("do it now: clerk reconcile-pipeline --site a --threshold-hours 0 again",
         ["clerk reconcile-pipeline --site a --threshold-hours 0"]),
        ("correct `path` in the extra (clerk site show town, clerk site edit town), then retry",
         ["path", "clerk site show town", "clerk site edit town"]),
        ("clerk retry town --stage ocr, or clerk alert remove and add; clerk site date town FILE DATE",
         ["clerk retry town --stage ocr", "clerk alert remove", "clerk site date town FILE DATE"]),
        ("wait; clerk does not read images", []),
    ],
)  # fmt: skip
def test_commands_in_a_remedy(remedy: str, commands: list[str]) -> None:
    parts = split_commands(remedy)
    assert [part for part, is_command in parts if is_command] == commands
    assert "".join(part for part, _ in parts) == remedy.replace("`", "")


def test_attempts_are_the_maximum_of_the_stages(client: TestClient, connection: Connection) -> None:
    add_documents(connection, 1)
    cell = '<td class="number">{}</td>\n<td class="wrap">'
    connection.execute(
        "insert into content_item_pipeline_state (content_item_id, pipeline, status, attempt_count)"
        " select content_item_id, 'extraction', 'processed', 1 from content_item_pipeline_state"
    )
    assert cell.format(2) in fetch(client, "/sites/town"), "two in OCR, one in extraction"
    connection.execute("update content_item_pipeline_state set attempt_count = 1")
    assert cell.format(1) in fetch(client, "/sites/town"), "one in each"


def test_the_diagram_has_a_description(client: TestClient, connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    page = fetch(client, "/sites/town")
    assert "Fetch: running (0 of 1); OCR: waiting;" in page
    assert "Published: not yet." in page
    assert page.count('class="node running"') == 2, "horizontal and vertical"


COUNTERS = {f"{stage}_{count}": 0 for stage in STAGES for count in ("total", "completed", "failed")}


@pytest.mark.parametrize(
    ("site", "stage", "state"),
    [
        ({"current_stage": None, "phase": None}, "ocr", "none"),
        ({"phase": 1, "fetch_total": 1}, "ocr", "waiting"),
        ({"phase": 2, "ocr_total": 2, "ocr_completed": 1}, "ocr", "running"),
        ({"phase": 2, "ocr_total": 2, "ocr_completed": 1, "paused": True}, "ocr", "waiting"),
        ({"phase": 3, "ocr_total": 2, "ocr_completed": 2}, "ocr", "done"),
        ({"phase": 3, "ocr_total": 2, "ocr_completed": 1, "ocr_failed": 1}, "ocr", "partial"),
        ({"phase": 3, "ocr_total": 2, "ocr_failed": 2}, "ocr", "failed"),
        ({"phase": None, "outcome": "cancelled", "ocr_total": 2, "ocr_completed": 1}, "ocr", "none"),
        ({"phase": None, "outcome": "unchanged"}, "ocr", "none"),
    ],
)  # fmt: skip
def test_states_of_a_stage(site: dict[str, Any], stage: str, state: str) -> None:
    row = {"current_stage": "any", "outcome": None, "paused": False, **COUNTERS} | site
    node = flow(row, None)[stage]
    assert node.state == state
    assert ("1 failed" in node.label) == (state == "partial")


def test_labels_of_stages_without_work() -> None:
    labels = {
        outcome: flow(
            {"current_stage": "completed", "phase": None, "paused": False, **COUNTERS, "outcome": outcome}, None
        )["ocr"].label
        for outcome in ("unchanged", "failed")
    }
    assert labels == {"unchanged": "not needed", "failed": "not reached"}


def test_runs_are_compared_with_the_one_before(client: TestClient, connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    connection.execute(
        """
        insert into pipeline_runs (subdomain, reason, started_at, ended_at, outcome, counters)
        select 'town', 'scheduled', day, day + interval '1 min' * took, 'partial',
               jsonb_build_object('fetch', '{"failed": 0}'::jsonb, 'compilation', '{"failed": 0}'::jsonb,
                                  'extraction', '{"failed": 0}'::jsonb, 'deploy', '{"failed": 0}'::jsonb,
                                  'ocr', jsonb_build_object('completed', read, 'failed', failed))
        from (values (2, 10, 100, 7), (1, 25, 130, 4)) run (n, took, read, failed),
             lateral (select now() - interval '1 day' * n as day) d
        """
    )
    page = fetch(client, "/sites/town")
    newer, older = page[page.index(">Runs<") :].split('<th scope="row" class="short">')[1:]
    assert re.search(r"25 min\s*<small>\+15 min</small>", newer)
    assert re.search(r"130\s*<small>\+30</small>", newer)
    assert re.search(r"4\s*<small>\u22123</small>", newer)
    assert "10 min</td>" in older


def test_skipped_entries_are_shown_with_what_to_do(client: TestClient, connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    assert "clerk site date" not in fetch(client, "/sites/town")
    connection.execute(
        "insert into skipped_entries (subdomain, source_key, name, reason_code, reason)"
        " values ('town', 'a', 'a.pdf', 'NoDate', 'a.pdf has no date'), ('town', 'b', %s, 'NoDate', 'b')",
        [HOSTILE],
    )
    connection.execute(
        "insert into document_details (subdomain, source_key, name, date) values ('town', 'b', 'b', now())"
    )
    page = fetch(client, "/sites/town")
    assert "1 entry of the source did not become a document" in page
    assert "<code>clerk site date town FILE DATE</code>" in page
    for shown in (page, fetch(client, "/skipped")):
        assert "<bdi>a.pdf</bdi></th>" in shown
        assert "<bdi>Has no date</bdi></td>" in shown, "without the name again"
    everything = str(client.get("/skipped?site=town&state=").text)
    assert "read by the next run" in everything
    assert "<script>alert" not in everything
    assert "No skipped entry" in fetch(client, "/skipped?site=other")
    assert "1 entry of 1 source was skipped: town (a.pdf)" in fetch(client, "/")


def test_runs_list_skipped_source_entries(client: TestClient, connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    engine.start_run(connection, "town")
    assert "skipped</summary>" not in fetch(client, "/sites/town")
    connection.execute(
        "update pipeline_runs set skipped = 23, skipped_examples = array['a.pdf has no date', %s || E'\\u202e']",
        [HOSTILE],
    )
    page = str(client.get("/sites/town").text)
    runs = page[page.index(">Runs<") :]
    assert "23 source entries skipped" in runs
    assert "<li><bdi>a.pdf has no date</bdi></li>" in runs
    assert "<li><bdi>&lt;script&gt;alert(1)" in runs
    assert "\u202e" not in page
    assert "<li>and 21 more</li>" in runs


def test_publications_repairs_and_operator_actions(client: TestClient, connection: Connection) -> None:
    connection.execute("insert into sites (subdomain) values ('town')")
    run = engine.start_run(connection, "town")
    for at, withdrawn in ((2, None), (1, "now()")):
        connection.execute(
            "insert into publications (subdomain, run_id, content_hash, pages, deployed_at, withdrawn_at, withdrawn_by)"
            " values ('town', %s, repeat(%s::text, 64), %s, now(), %s, 'anna')",
            [run, at, 100 * at, withdrawn],
        )
    connection.execute(
        "insert into reconcile_log (reconciliation, subdomain, found, done, why)"
        " values (gen_random_uuid(), 'town', 'a lost job', 'deferred again', 'no live job')"
    )
    connection.execute("select set_config('clerk.operator', 'bertha', false)")
    engine.cancel_run(connection, "town")
    connection.execute(
        "insert into operator_actions (actor, via, action, subdomain, detail)"
        """ values ('anna', 'cli', 'pause', 'town', '{"by": "anna", "stage": "ocr", "columns": ["name", "state"]}')"""
    )
    page = fetch(client, "/sites/town")
    assert 'href="/sites/town/votes"' in page
    assert "<bdi>stage: OCR, columns: name, state</bdi>" in page, "in words, and not twice who did it"
    assert "rolled back" in page
    assert "by <bdi>anna</bdi>" in page
    assert page.count('<span class="good">online</span>') == 1
    assert "Published: online (200 pages)." in page
    assert "a lost job; deferred again" in page
    assert "bertha" in page


@pytest.mark.parametrize(
    ("extra", "shows", "hides"),
    [
        (
            '{"url": "https://user:secret@city.example/list?token=secret#x"}',
            'href="https://city.example/list"',
            "secret",
        ),
        ('{"pages": ["http://city.example/a"], "token": "secret"}', 'href="http://city.example/a"', "secret"),
        ('{"url": "javascript:alert(1)"}', "Search its pages", "javascript:"),
        ('{"path": "/data/town"}', "the folder <bdi>/data/town", 'href="/data'),
        ("{not json", "Search its pages", "not json"),
    ],
)
def test_source_of_a_site(client: TestClient, connection: Connection, extra: str, shows: str, hides: str) -> None:
    connection.execute("insert into sites (subdomain, extra) values ('town', %s)", [extra])
    page = fetch(client, "/sites/town")
    assert shows in page
    assert hides not in page


def test_untrusted_values_are_escaped(client: TestClient, connection: Connection, hostile_site: str) -> None:
    connection.execute("update sites set extra = %s, kind = %s", [f'{{"path": "{HOSTILE}"}}', HOSTILE])
    text = str(client.get(f"/sites/{quote(hostile_site)}").text)
    assert "&lt;script&gt;alert(1)" in text
    assert "<script" not in text.replace('<script type="module" src="/static/', "")
