"""The budget of a fetch, Retry-After, headers, and hostile listings."""

from __future__ import annotations

import json
import time
from collections import namedtuple
from collections.abc import AsyncIterator
from datetime import date
from email.utils import formatdate
from typing import Any

import psycopg
import pytest

from clerk import config
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.errors import BudgetExceeded, DownloadFailed, SourceUnreadable
from clerk.pipeline import engine
from clerk.plugins import manager
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.budget import Budget, BudgetLimits
from clerk.sources.http.client import RateLimitedClient, Validators
from clerk.sources.http.limits import HttpLimits
from clerk.sources.http.retry_after import parse_retry_after
from clerk.sources.site_validation import InvalidSite, validate_site
from clerk.sources.sync_plan import diff
from clerk.sources.vendors.municode import Municode
from tests.sources.conftest import HttpClient, Town, Work
from tests.sources.documents import text_pdf
from tests.sources.test_stage import start
from tests.sources.web import Reply, Web


def manifest(web: Web, count: int) -> dict[str, Any]:
    rows = "".join(f"{number}.pdf,Council,2024-01-{number:02}\n" for number in range(1, count + 1))
    web.routes["/m.csv"] = Reply(f"url,meeting,date\n{rows}".encode())
    for number in range(1, count + 1):
        web.serve_pdf(f"/{number}.pdf", str(number), validators=True)
    return {"url": f"{web.url}/m.csv"}


def budget(**limits: Any) -> dict[str, Any]:
    return {"budget": BudgetLimits(**limits)}


def test_a_fetch_stops_at_its_requests_and_the_next_begins_with_the_rest(town: Town, web: Web) -> None:
    extra = manifest(web, 9)
    town.http = town.http.with_limits(**budget(requests=4), concurrency=1)
    town.fetch("manifest", extra)
    assert len(web.requests) == 4
    assert len(town.rows()) == 3
    (entry,) = town.skipped_entries
    assert entry.code == "BudgetExceeded"
    assert entry.reason == (
        "the fetch stopped: at most 4 requests per run (CLERK_RUN_REQUESTS); "
        "6 documents were not requested, and the next run begins with them"
    )
    assert town.skipped_count == 0
    town.fetch("manifest", extra)
    town.fetch("manifest", extra)
    assert len(town.rows()) == 9
    assert sorted(path for path in web.paths() if path != "/m.csv") == [f"/{number}.pdf" for number in range(1, 10)]
    town.http = town.http.with_limits(**budget(requests=10))
    town.fetch("manifest", extra)
    assert town.skipped_entries == []


def test_a_fetch_stops_at_its_bytes(town: Town, web: Web) -> None:
    extra = manifest(web, 9)
    for number in range(1, 10):
        web.serve_pdf(f"/{number}.pdf", "x" * 100_000)
    town.http = town.http.with_limits(**budget(bytes=450_000), concurrency=1)
    town.fetch("manifest", extra)
    assert 0 < len(town.rows()) < 5
    assert "at most 0.45 MB per run (CLERK_RUN_MB)" in town.skipped[0]


def test_a_fetch_stops_at_its_hours() -> None:
    used_up = Budget(BudgetLimits(hours=1e-12))
    with pytest.raises(BudgetExceeded, match="CLERK_RUN_HOURS"):
        used_up.count_request()


def test_a_fetch_leaves_disk_space_free(town: Town, web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = manifest(web, 2)
    space = namedtuple("space", "f_blocks f_bavail f_frsize")
    monkeypatch.setattr("os.statvfs", lambda folder: space(100_000_000, 200_000, 4096))
    town.fetch("manifest", extra)
    assert town.rows() == []
    assert "is almost full: 819 MB of 410 GB are free (CLERK_MIN_FREE_MB)" in town.skipped[0]


def test_an_interrupted_fetch_marks_nothing_as_removed(town: Town, web: Web) -> None:
    extra = manifest(web, 3)
    town.fetch("manifest", extra)
    town.http = town.http.with_limits(**budget(requests=2))
    manifest(web, 2)
    town.fetch("manifest", extra)
    assert town.rows("removed_at_source") == [(None,)] * 3


def test_the_reason_is_stored_beside_very_many_skipped_entries(town: Town, web: Web) -> None:
    rows = "".join(f"{number}.pdf,Council,someday\n" for number in range(10_001))
    web.routes["/m.csv"] = Reply(f"url,meeting,date\n{rows}1.pdf,Council,2024-01-01\n".encode())
    web.routes["/1.pdf"] = Reply(status=302, headers={"Location": "/2.pdf"})
    town.http = town.http.with_limits(**budget(requests=2))
    town.fetch("manifest", {"url": f"{web.url}/m.csv"})
    stored = "select count(*) from skipped_entries where reason_code = 'BudgetExceeded'"
    assert town.connection.execute(stored).fetchone() == (1,)
    assert town.skipped_count == 10_001


class EndlessPages(Fetcher):
    """A listing of which every page has a document and a link to a further page."""

    async def documents(self) -> AsyncIterator[DocumentRef]:
        number = 0
        while True:
            number += 1
            await self.client.get_page(f"{self.site.extra['url']}/list", {"page": number})
            yield DocumentRef(
                f"{self.site.extra['url']}/1.pdf", f"Council {number}", date(2024, 1, 1), "minutes", f"key {number}"
            )


def test_endless_paging_ends_at_half_of_the_budget_and_its_documents_are_fetched(town: Town, web: Web) -> None:
    web.serve_html("/list", "<html></html>")
    web.serve_pdf("/1.pdf", "1")
    town.http = town.http.with_limits(**budget(requests=20))
    town.fetch(EndlessPages, {"url": web.url})
    assert web.paths().count("/list") == 10
    assert len(town.rows()) == 10
    assert "the listing used half of the budget of the fetch, so it stopped: at most 20 requests" in town.skipped[0]


def test_a_page_of_200000_links_is_refused(town: Town, web: Web) -> None:
    links = "".join(f"<a href=/{number}.pdf>1/2/24</a>" for number in range(200_000))
    web.serve_html("/", f"<html>{links}</html>")
    with pytest.raises(SourceUnreadable):
        town.fetch("links", {"pages": f"{web.url}/"})
    assert len(web.requests) == 1


def test_a_very_long_listing_ends_at_the_budget(town: Town, web: Web, request: pytest.FixtureRequest) -> None:
    documents = 200_000 if request.config.getoption("--long") else 20_000
    rows = "".join(f"{number}.pdf,Council {number},2024-01-01\n" for number in range(documents))
    web.routes["/m.csv"] = Reply(f"url,meeting,date\n{rows}".encode())
    web.serve_pdf("/0.pdf", "0")
    town.http = town.http.with_limits(**budget(requests=5), concurrency=1)
    town.fetch("manifest", {"url": f"{web.url}/m.csv"})
    assert len(web.requests) == 5
    assert f"{documents - 4:,} documents were not requested" in town.skipped[0]


def test_a_listing_of_redirects_to_private_addresses_is_refused(town: Town, web: Web) -> None:
    extra = manifest(web, 1)
    web.routes["/1.pdf"] = Reply(status=302, headers={"Location": "http://10.0.0.1/secret.pdf"})
    town.fetch("manifest", extra)
    assert town.rows("fetch_error_code") == [("AddressForbidden",)]


def test_the_run_is_partial_and_publishes_what_it_fetched(
    connection: psycopg.Connection[Any], web: Web, work: Work
) -> None:
    extra = {**manifest(web, 5), "budget": {"requests": 4}, "user_agent": "Mozilla/5.0 (X11)"}
    for number in range(1, 6):
        web.routes[f"/{number}.pdf"] = Reply(text_pdf("Town Council", f"Minutes of meeting {number}"))
    run_id = start(connection, "manifest", extra)
    for phase in ("fetch", "ocr", "compilation", "extraction", "deploy"):
        work(phase)
        work("coordinator")
        work("coordinator")  # of phases without units
    row = connection.execute(
        "select outcome, outcome_reason, skipped from run_history where run_id = %s", [run_id]
    ).fetchone()
    reason = (
        "the fetch stopped: at most 4 requests per run (CLERK_RUN_REQUESTS); "
        "3 documents were not requested, and the next run begins with them"
    )
    assert row == ("partial", reason, 0)
    assert {request.headers["user-agent"] for request in web.requests} == {"Mozilla/5.0 (X11)"}
    count = "select count(*) from content_items where kind <> 'archive'"
    assert connection.execute(count).fetchone() == (2,)
    engine.start_run(connection, "town")
    work("fetch")
    assert connection.execute(count).fetchone() == (4,)


@pytest.mark.parametrize("is_this_run", [True, False])
def test_only_a_run_that_reached_its_budget_is_partial(connection: psycopg.Connection[Any], is_this_run: bool) -> None:
    connection.execute("insert into sites (subdomain, name) values ('town', 'Town')")
    run_id = engine.start_run(connection, "town")
    connection.execute("update sites set deploy_completed = 1")
    outcome = "select * from clerk_phase_outcome('town', 4)"
    assert connection.execute(outcome).fetchone() == ("succeeded", "all done")
    connection.execute(
        """
        insert into skipped_entries (subdomain, source_key, name, reason_code, reason, run_id)
        values ('town', 'budget of the run', 'budget of the run', 'BudgetExceeded', 'the fetch stopped', %s)
        """,
        [run_id if is_this_run else run_id - 1],
    )
    expected = ("partial", "the fetch stopped") if is_this_run else ("succeeded", "all done")
    assert connection.execute(outcome).fetchone() == expected


@pytest.mark.parametrize(
    "value",
    [7, {"requests": 0}, {"requests": "many"}, {"pages": 3}, {"hours": True}, {"megabytes": -1}, {"hours": 1e400}],
)
def test_an_invalid_budget_of_a_site_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="requests, megabytes, hours"):
        HttpLimits.from_settings(config.load({}), {"budget": value})


@pytest.mark.parametrize("scraper", ["manifest", "municode"])
def test_a_site_with_an_invalid_budget_is_not_added(scraper: str) -> None:
    plugins = manager.load(config.load({}))
    extra = {"url": "https://example.org/m.csv"} if scraper == "manifest" else {"client": "springfield"}
    valid = json.dumps({**extra, "budget": {"hours": 1}, "user_agent": "Mozilla/5.0"})
    validate_site(plugins, "springfield", {"scraper": scraper, "extra": valid}, {})
    invalid = json.dumps({**extra, "budget": 3})
    with pytest.raises(InvalidSite, match="requests, megabytes, hours"):
        validate_site(plugins, "springfield", {"scraper": scraper, "extra": invalid}, {})


def test_a_site_can_have_its_own_budget_and_user_agent() -> None:
    settings = config.load({"CLERK_CONTACT": "https://example.org/about"})
    limits = HttpLimits.from_settings(settings, {"budget": {"megabytes": 1.5}, "user_agent": "Mozilla/5.0 (X11)"})
    assert limits.budget == BudgetLimits(20_000, 1_500_000, 1.5, 1_000_000_000)
    assert limits.user_agent == "Mozilla/5.0 (X11)"
    for agent in ("", "a\nb", "é", 5):
        with pytest.raises(ValueError, match="user_agent"):
            HttpLimits.from_settings(settings, {"user_agent": agent})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "clerk (archives of public meetings)"),
        ({"CLERK_CONTACT": "a@example.org"}, "clerk (archives of public meetings; a@example.org)"),
        ({"CLERK_CONTACT": "https://example.org"}, "clerk (archives of public meetings; +https://example.org)"),
        ({"CLERK_CONTACT": "a@example.org", "CLERK_USER_AGENT": "archiver/2"}, "archiver/2 (a@example.org)"),
    ],
)
def test_the_user_agent_has_the_contact(environ: dict[str, str], expected: str) -> None:
    assert HttpLimits.from_settings(config.load(environ)).user_agent == expected


@pytest.mark.parametrize(("setting", "expected"), [("0.5", 15.0), ("20", 20.0), ("0", 0.0)])
def test_the_interval_is_the_vendors_if_that_is_longer(setting: str, expected: float) -> None:
    settings = config.load({"CLERK_HOST_INTERVAL": setting})
    assert HttpLimits.from_settings(settings, {}, Municode.host_interval).interval == expected


def test_each_kind_of_request_says_what_it_accepts(web: Web, http: HttpClient) -> None:
    web.serve_json("/api", {})
    web.serve_html("/page", "<html></html>")
    web.routes["/a.pdf"] = Reply(status=302, headers={"Location": "/b.pdf"})
    web.serve_pdf("/b.pdf", "b")

    async def read(client: RateLimitedClient) -> None:
        await client.get_json(f"{web.url}/api")
        await client.get_page(f"{web.url}/page")

    http.run(read)
    http.download(f"{web.url}/a.pdf", Validators())
    accepted = [request.headers["accept"].split(",")[0] for request in web.requests]
    assert accepted == ["application/json", "text/html", "application/pdf", "application/pdf"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", None),
        ("soon", None),
        ("-5", None),
        ("nan", None),
        ("0", 0.0),
        (" 120 ", 120.0),
        ("1.5", 1.5),
        ("9" * 5000, 86_400.0),
        ("1e300", 86_400.0),
        ("inf", 86_400.0),
        (formatdate(0, usegmt=True), 0.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("Fri, 99 Foo 9999 99:99:99 GMT", None),
    ],
)
def test_retry_after_in_any_form(header: str, seconds: float | None) -> None:
    assert parse_retry_after(header) == seconds


def test_retry_after_as_a_date() -> None:
    seconds = parse_retry_after(formatdate(time.time() + 3600, usegmt=True))
    assert seconds is not None
    assert 0 < seconds <= 3600


def test_429_without_retry_after_pauses_the_host_for_all_workers(web: Web, http: HttpClient) -> None:
    http = http.with_limits(attempts=1, retry_delay=100.0, max_wait=1.0)
    web.routes["/a.pdf"] = Reply(b"", 429)
    with pytest.raises(DownloadFailed, match="429"):
        http.download(f"{web.url}/a.pdf")
    with pytest.raises(DownloadFailed, match="requested a pause"):
        http.download(f"{web.url}/a.pdf")
    assert len(web.requests) == 1


def test_a_listing_whose_keys_all_changed_is_matched_by_meeting() -> None:
    """By a dictionary: 20,000 old times 20,000 new documents would be compared for minutes."""
    tracked = [
        TrackedDocument(
            number, f"old {number}", "minutes", f"Council {number}", date(2024, 1, 1), "00", None, None, None, None
        )
        for number in range(20_000)
    ]
    listed = [DocumentRef(f"new {ref.id}", ref.meeting, ref.date, "minutes") for ref in reversed(tracked[1:])]
    plan = diff(listed, tracked, complete=True)
    assert plan.removed == tracked[:1]
    assert [item.tracked for item in plan.items] == tracked[:0:-1]
