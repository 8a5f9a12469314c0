"""Pages that would block a worker: they end as an error of the source, within limits, and can be interrupted."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import signal
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path

import pytest

from clerk.documents.repository import DocumentRef
from clerk.errors import DownloadFailed, ParserCrashed, SourceUnreadable
from clerk.sources import link_parser
from clerk.sources.fetcher import Fetcher, Site
from clerk.sources.html_tree import MAX_LINKS
from clerk.sources.http.client import HttpResponse
from clerk.sources.link_parser import LinkParser
from clerk.sources.parse import parse_links
from clerk.sources.parser_process import CPU_SECONDS
from tests.helpers import until
from tests.sources.conftest import HttpClient, Town
from tests.sources.web import Reply, Web

URL = "https://town.example/"
ANCHORS = "<a " * 350_000
"""A megabyte."""
ATTRIBUTES = f"<a {' '.join(f'a{number}' for number in range(140_000))}>"
"""A megabyte that takes the HTML parser half a minute: each attribute is compared with all before it."""


def children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("fetcher", ["links", "civicplus"])
def test_a_hostile_listing_fails_the_fetch_as_an_error_of_the_source(web: Web, town: Town, fetcher: str) -> None:
    extra = {"links": {"pages": f"{web.url}/m"}, "civicplus": {"site": web.url}}[fetcher]
    for path in ("/m", "/AgendaCenter/Search/"):
        web.serve_html(path, f"AgendaCenter {ANCHORS}")
    with pytest.raises(SourceUnreadable, match=r"127\.0\.0\.1.* has more than 20,000 nested elements"):
        town.fetch(fetcher, extra)


def test_parsing_uses_bounded_cpu_time_of_another_process() -> None:
    own, children = resource.getrusage(resource.RUSAGE_SELF).ru_utime, children_cpu_seconds()
    with (
        LinkParser(cpu_seconds=1) as parser,
        pytest.raises(SourceUnreadable, match=r"town\.example/: parsing it took more than 1 s of CPU time"),
    ):
        parser.parse(URL, ATTRIBUTES)
    assert children_cpu_seconds() - children < 4
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - own < 1


def test_a_page_after_a_hostile_one_is_parsed() -> None:
    with LinkParser(cpu_seconds=1) as parser:
        with pytest.raises(SourceUnreadable):
            parser.parse(URL, ATTRIBUTES)
        assert [link.url for link in parser.parse(URL, "<a href=a.pdf>A</a>").links] == [f"{URL}a.pdf"]


def test_the_cpu_limit_is_for_each_page() -> None:
    attributes = f"<a {' '.join(f'a{number}' for number in range(15_000))}>"
    with LinkParser(cpu_seconds=1) as parser:
        parser.parse(URL, attributes)
        assert parser._process is not None
        pid = parser._process.popen.pid
        while cpu_seconds(pid) < 1.5:
            parser.parse(URL, attributes)
        assert parser._process.popen.pid == pid


def test_one_process_serves_all_pages_of_a_fetch(web: Web, town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    real = link_parser._Process

    def start() -> link_parser._Process:
        process = real()
        started.append(process.popen)
        return process

    monkeypatch.setattr(link_parser, "_Process", start)
    web.serve_html("/m", "".join(f'<a href="/archive/{year}">' for year in range(2000, 2010)))
    for year in range(2000, 2010):
        web.serve_html(f"/archive/{year}", f'<a href="/{year}.pdf">Minutes of 1/2/{year}</a>')
        web.serve_pdf(f"/{year}.pdf", str(year))
    assert town.fetch("links", {"pages": f"{web.url}/m", "follow": r"/archive/\d+$"}).outcomes.total() == 10
    assert len(started) == 1
    assert started[0].returncode is not None, "it ended with the listing"


def test_cancelling_a_fetch_ends_the_parser_process() -> None:
    fetcher = Fetcher(Site("springfield", "Springfield", {}), None)  # type: ignore[arg-type]
    page = HttpResponse(URL, ATTRIBUTES.encode(), "text/html")

    async def run() -> int:
        task = asyncio.create_task(fetcher.parse_links(page))
        while fetcher._link_parser._process is None:
            await asyncio.sleep(0.01)
        pid = fetcher._link_parser._process.popen.pid
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return pid

    before = children_cpu_seconds()
    pid = asyncio.run(run())
    fetcher.close()
    assert not Path(f"/proc/{pid}").exists()
    assert children_cpu_seconds() - before < CPU_SECONDS / 2, "it was not left to its CPU limit"


def test_a_killed_process_is_not_an_error_of_the_source() -> None:
    with LinkParser() as parser:
        parser.parse(URL, "")
        assert parser._process is not None
        os.kill(parser._process.popen.pid, signal.SIGKILL)
        with pytest.raises(ParserCrashed, match="SIGKILL"):
            parser.parse(URL, "")
        parser.parse(URL, "")
    assert ParserCrashed.retryable
    assert not SourceUnreadable.retryable


def test_the_process_ends_with_its_parent() -> None:
    with LinkParser() as parser:
        parser.parse(URL, "")
        assert parser._process is not None
        popen = parser._process.popen
        parser._process.stdin.close()
        until(lambda: popen.poll() is not None)
        assert popen.returncode == 0


def test_the_process_gets_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://clerk:secret@db/clerk")
    with LinkParser() as parser:
        parser.parse(URL, "")
        assert parser._process is not None
        environment = Path(f"/proc/{parser._process.popen.pid}/environ").read_bytes()
    assert b"secret" not in environment


def test_a_page_that_needs_too_much_memory_is_an_error_of_the_source() -> None:
    """The limit is lowered for the process from outside."""
    with LinkParser() as parser:
        parser.parse(URL, "")
        assert parser._process is not None
        resource.prlimit(parser._process.popen.pid, resource.RLIMIT_AS, (200 << 20, 200 << 20))
        with pytest.raises(SourceUnreadable, match="of memory"):
            parser.parse(URL, "<p>" * 1_500_000)


def test_plugins_that_call_the_function_are_protected(monkeypatch: pytest.MonkeyPatch) -> None:
    own = resource.getrusage(resource.RUSAGE_SELF).ru_utime
    monkeypatch.setattr(LinkParser.__init__, "__defaults__", (1.0,))
    with pytest.raises(SourceUnreadable, match="CPU time"):
        parse_links(URL, ATTRIBUTES)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_utime - own < 1


def test_a_page_of_more_than_15_megabytes_is_rejected(web: Web, town: Town) -> None:
    with pytest.raises(SourceUnreadable, match="more than the limit of 15,000,000"):
        parse_links(URL, " " * 15_000_001)
    web.serve_html("/m", " " * 15_000_001)
    with pytest.raises(SourceUnreadable, match=r"/m.* more than the limit of 15,000,000") as caught:
        town.fetch("links", {"pages": f"{web.url}/m"})
    assert str(caught.value).count(f"{web.url}/m") == 1


def test_a_page_with_too_many_links_is_rejected() -> None:
    assert len(parse_links(URL, "<li><a href=a>a</a>" * MAX_LINKS)[1]) == MAX_LINKS
    with pytest.raises(SourceUnreadable, match="has more than 50,000 links"):
        parse_links(URL, "<li><a href=a>a</a>" * (MAX_LINKS + 1))


def test_a_long_base_address_does_not_multiply_the_page() -> None:
    with pytest.raises(SourceUnreadable, match="addresses of more than 8,000,000 bytes together"):
        parse_links(URL, f'<base href="/{"y" * 1900}/">' + "<li><a href=1>x</a>" * 10_000)


def test_too_long_addresses_are_skipped_before_any_pattern_sees_them(web: Web, town: Town) -> None:
    web.serve_pdf("/2024-01-02.pdf", "a")
    long = [f"/{'a' * 3000}.pdf", f"data:application/pdf;base64,{'A' * 3000}.pdf"]
    links = "".join(f'<a href="{address}">x</a>' for address in ["/2024-01-02.pdf", *long])
    web.serve_html("/m", f"{links}<base href='/'>")
    exponential = r"(a+)+\.pdf$"
    town.fetch("links", {"pages": f"{web.url}/m", "link": rf"2024|{exponential}", "follow": "aaaa"})
    assert town.rows("date") == [(date(2024, 1, 2),)]
    assert town.skipped == [f"{web.url}/m has 1 link with an address that is too long"]


def test_a_pattern_that_takes_too_long_is_interrupted() -> None:
    with LinkParser(cpu_seconds=1) as parser, pytest.raises(SourceUnreadable, match="patterns of the site's extra"):
        parser.parse(URL, f"<a href={'a' * 60}b>", [r"(a+)+$"])


class Skipping(Fetcher):
    async def documents(self) -> AsyncIterator[DocumentRef]:
        for number in range(10_050):
            self.skip(f"{number} {'x' * 10_000}")
        return
        yield


def test_skipped_entries_and_their_log_lines_are_bounded(town: Town, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with pytest.raises(SourceUnreadable, match=r"all 10,050 entries .* the first: 0 x"):
        town.fetch(Skipping, {})
    assert (town.skipped_count, len(town.skipped)) == (10_050, 10_000)
    assert max(map(len, town.skipped)) == 300
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 21
    assert lines[-1] == "springfield: further skipped entries are counted, not logged"


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "zlib", "nothing", "a\0b", ""])
def test_a_charset_that_pages_do_not_use_is_decoded_as_utf_8(charset: str) -> None:
    """Decoding a page as punycode takes quadratic time."""
    assert HttpResponse(URL, b"caf\xc3\xa9 \\x41", f"text/html; charset={charset}").text == "café \\x41"


@pytest.mark.parametrize(
    ("charset", "content"),
    [("ISO-8859-1", b"caf\xe9"), ("windows-1252", b"caf\xe9"), ("utf-16", "café".encode("utf-16"))],
)
def test_other_charsets_are_decoded(charset: str, content: bytes) -> None:
    assert HttpResponse(URL, content, f'text/html; charset="{charset}"').text == "café"


def test_deeply_nested_json_is_an_error_of_the_server(web: Web, http: HttpClient) -> None:
    web.routes["/j"] = Reply(b"[" * 1_000_000)
    with pytest.raises(DownloadFailed, match="did not return JSON"):
        http.run(lambda client: client.get_json(f"{web.url}/j"))


def test_a_worker_with_many_open_files() -> None:
    """select.select refuses descriptors from 1024 on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened: list[int] = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
        while not opened or opened[-1] < 1024:
            opened.append(os.open("/dev/null", os.O_RDONLY))
        with LinkParser() as parser:
            assert [link.url for link in parser.parse(URL, '<a href="a.pdf">Minutes</a>').links] == [f"{URL}a.pdf"]
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
