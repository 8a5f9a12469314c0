"""robots.txt: rules, Crawl-delay, servers that fail, and hostile files."""

from __future__ import annotations

import asyncio
import contextlib
from http.server import BaseHTTPRequestHandler
from typing import Any

import httpx
import psycopg
import pytest

from clerk.errors import AddressForbidden, DownloadFailed, RobotsDisallowed
from clerk.sources.http.client import RateLimitedClient
from clerk.sources.http.robots import MAX_BYTES, RobotsRules
from tests.sources.conftest import HttpClient, Town, Work
from tests.sources.test_stage import start, unit
from tests.sources.web import Reply, Web, pdf


@pytest.fixture
def polite(http: HttpClient) -> HttpClient:
    return http.with_limits(honour_robots=True)


def robots(web: Web, text: str) -> None:
    web.routes["/robots.txt"] = Reply(text.encode(), headers={"Content-Type": "text/plain"})


def is_allowed(text: str, path: str) -> bool:
    try:
        RobotsRules(text).check(httpx.URL(f"https://town.example.gov{path}"))
    except RobotsDisallowed:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "path", "allowed"),
    [
        ("", "/a", True),
        ("User-agent: *\nDisallow: /a", "/a.pdf", False),
        ("User-agent: *\nDisallow: /a", "/b.pdf", True),
        ("User-agent: *\nDisallow:", "/a", True),
        ("User-agent: *\nDisallow: /docs\nAllow: /docs/minutes", "/docs/minutes/1.pdf", True),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf", False),
        ("User-agent: *\nDisallow: /*.pdf$", "/a/b.pdf?x=1", True),
        ("User-agent: *\nDisallow: /\n\nUser-agent: clerk\nAllow: /", "/a", True),
        ("User-agent: Clerk/1.0\nDisallow: /\n\nUser-agent: *\nAllow: /", "/a", False),
        ("User-agent: badbot\nDisallow: /\n", "/a", True),
        ("User-agent: badbot\nUser-agent: *\nDisallow: /a\n", "/a", False),
        ("User-agent: clerkbot\nDisallow: /\n", "/a", True),
        ("<html><body>Disallow: /</body></html>", "/a", True),
    ],
)
def test_rules(text: str, path: str, allowed: bool) -> None:
    assert is_allowed(text, path) is allowed


def test_the_error_names_the_rule_of_clerks_group() -> None:
    text = "User-agent: badbot\nDisallow: /Archive.aspx\n\nUser-agent: *\nDisallow: /arch\nDisallow: /Archive"
    with pytest.raises(RobotsDisallowed, match=r'does not allow /Archive\.aspx: the rule "Disallow: /Archive" of its'):
        RobotsRules(text).check(httpx.URL("https://town.example.gov/Archive.aspx?AMID=1"))


def test_thousands_of_agents_and_rules_are_not_multiplied() -> None:
    """Each rule of a group of 12,000 agents would be stored 12,000 times: gigabytes."""
    agents = "".join(f"User-agent: bot{number}\n" for number in range(12_000))
    rules = "".join(f"Disallow: /{number}\n" for number in range(12_000))
    assert not is_allowed(f"{agents}User-agent: *\n{rules}", "/77")


def test_robots_txt_is_read_once_and_before_documents(web: Web, polite: HttpClient) -> None:
    robots(web, "User-agent: *\nDisallow: /private")
    for path in ("/a.pdf", "/b.pdf"):
        web.serve_pdf(path, path)

    async def read(client: RateLimitedClient) -> None:
        await asyncio.gather(client.get(f"{web.url}/a.pdf"), client.get(f"{web.url}/b.pdf"))
        with pytest.raises(RobotsDisallowed, match='"Disallow: /private"'):
            await client.get(f"{web.url}/private/c.pdf")

    polite.run(read)
    assert web.paths()[0] == "/robots.txt"
    assert sorted(web.paths()) == ["/a.pdf", "/b.pdf", "/robots.txt"]


def test_a_redirect_to_a_disallowed_address_is_not_followed(web: Web, polite: HttpClient) -> None:
    robots(web, "User-agent: *\nDisallow: /private")
    web.routes["/a.pdf"] = Reply(status=302, headers={"Location": "/private/a.pdf"})
    with pytest.raises(RobotsDisallowed):
        polite.download(f"{web.url}/a.pdf")
    assert "/private/a.pdf" not in web.paths()


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_without_robots_txt_everything_is_allowed(web: Web, polite: HttpClient, status: int) -> None:
    web.routes["/robots.txt"] = Reply(b"User-agent: *\nDisallow: /", status)
    web.serve_pdf("/a.pdf", "a")
    assert polite.download(f"{web.url}/a.pdf")[0] == pdf("a")


def test_nothing_is_requested_while_robots_txt_fails(web: Web, polite: HttpClient) -> None:
    web.routes["/robots.txt"] = Reply(b"", 503)
    web.serve_pdf("/a.pdf", "a")

    async def read(client: RateLimitedClient) -> None:
        for _ in range(2):
            with pytest.raises(DownloadFailed, match=r"while robots\.txt cannot be read: .*503"):
                await client.get(f"{web.url}/a.pdf")

    polite.run(read)
    assert web.paths() == ["/robots.txt"] * polite.limits.attempts  # once, although two documents need it


def test_robots_txt_that_is_busy_is_tried_again(web: Web, polite: HttpClient) -> None:
    replies = iter([Reply(b"", 500), Reply(b"User-agent: *\nDisallow: /a")])
    web.routes["/robots.txt"] = lambda request: next(replies)
    with pytest.raises(RobotsDisallowed):
        polite.download(f"{web.url}/a.pdf")


def test_a_redirect_loop_counts_as_no_robots_txt(web: Web, polite: HttpClient) -> None:
    web.routes["/robots.txt"] = Reply(status=301, headers={"Location": "/robots.txt"})
    web.serve_pdf("/a.pdf", "a")
    assert polite.download(f"{web.url}/a.pdf")[0] == pdf("a")
    assert web.paths().count("/robots.txt") == 6


def test_a_redirect_to_a_private_address_is_refused(web: Web, polite: HttpClient) -> None:
    web.routes["/robots.txt"] = Reply(status=301, headers={"Location": "http://169.254.169.254/latest"})
    web.serve_pdf("/a.pdf", "a")
    with pytest.raises(AddressForbidden, match=r"169\.254"):
        polite.download(f"{web.url}/a.pdf")
    assert web.paths() == ["/robots.txt"]


def test_of_100_megabytes_only_the_beginning_is_read(web: Web, polite: HttpClient) -> None:
    sent = 0

    def respond(handler: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        handler.send_response(200)
        handler.send_header("Content-Length", "100000000")
        handler.end_headers()
        chunk = b"User-agent: *\nDisallow: /private\n" + b"# comment\n" * 6000
        with contextlib.suppress(OSError):
            while sent < 100_000_000:
                handler.wfile.write(chunk)
                sent += len(chunk)

    web.raw["/robots.txt"] = respond
    web.serve_pdf("/a.pdf", "a")
    assert polite.download(f"{web.url}/a.pdf")[0] == pdf("a")
    with pytest.raises(RobotsDisallowed):
        polite.download(f"{web.url}/private")
    assert sent < 100_000_000
    assert polite.run(_received_bytes(web)) < 2 * MAX_BYTES


def _received_bytes(web: Web) -> Any:
    async def read(client: RateLimitedClient) -> int:
        await client.get(f"{web.url}/a.pdf")
        return client.budget.bytes

    return read


def test_crawl_delay_is_the_interval_of_the_host(web: Web, polite: HttpClient) -> None:
    robots(web, "User-agent: *\nCrawl-delay: 7\n")
    web.serve_pdf("/a.pdf", "a")
    polite.download(f"{web.url}/a.pdf")
    with polite.connect() as connection:
        row = connection.execute(
            "select next_at > clerk_now() + '3 s', next_at < clerk_now() + '8 s' from fetch_hosts"
        ).fetchone()
    assert row == (True, True)


@pytest.mark.parametrize(
    ("text", "delay"),
    [("15", 15.0), ("0.5", 0.5), ("1e9", 120.0), ("nan", 0.0), ("inf", 0.0), ("-1", 0.0), ("soon", 0.0)],
)
def test_crawl_delay_is_bounded(text: str, delay: float) -> None:
    assert RobotsRules(f"User-agent: *\nCrawl-delay: {text}").crawl_delay == delay


def test_a_disallowed_document_is_skipped_with_the_rule(town: Town, web: Web) -> None:
    town.http = town.http.with_limits(honour_robots=True)
    robots(web, "User-agent: *\nDisallow: /private/")
    web.routes["/m.csv"] = Reply(b"url,meeting,date\na.pdf,Council,2024-01-01\nprivate/b.pdf,Council,2024-01-02\n")
    web.serve_pdf("/a.pdf", "a")
    web.serve_pdf("/private/b.pdf", "b")
    town.fetch("manifest", {"url": f"{web.url}/m.csv"})
    assert "/private/b.pdf" not in web.paths()
    assert len(town.rows()) == 1
    assert [entry.code for entry in town.skipped_entries] == ["RobotsDisallowed"]
    assert 'the rule "Disallow: /private/"' in town.skipped[0]


def test_a_disallowed_listing_fails_the_fetch_and_ignore_allows_it(
    connection: psycopg.Connection[Any], web: Web, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    robots(web, "User-agent: *\nDisallow: /m.csv")
    web.routes["/m.csv"] = Reply(b"url,meeting,date\na.pdf,Council,2024-01-01\n")
    web.serve_pdf("/a.pdf", "a")
    start(connection, "manifest", {"url": f"{web.url}/m.csv"})
    start(connection, "manifest", {"url": f"{web.url}/m.csv"}, "town2")
    connection.execute("update procrastinate_jobs set queue_name = 'later' where args->>'subdomain' = 'town2'")
    work("fetch")
    assert unit(connection)[1] == "RobotsDisallowed"
    monkeypatch.setenv("CLERK_ROBOTS", "ignore")
    work("later")
    assert unit(connection, "town2")[0] == "processed"
