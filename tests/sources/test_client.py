"""The polite client, against a server that behaves badly in every way we could think of."""

from __future__ import annotations

import gzip
import shutil
import ssl
import subprocess
import threading
import time
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from clerk.errors import AddressForbidden, CertificateRefused, DownloadFailed, DownloadRefused, FetchError, PdfTooLarge
from clerk.sources.http.client import Validators, redact_url
from tests.sources.conftest import Browser
from tests.sources.web import Reply, Request, Web, pdf


def test_names_itself_and_gets_the_bytes(web: Web, browser: Browser) -> None:
    web.serve_pdf("/a.pdf", "minutes")
    content, answer = browser.download(f"{web.url}/a.pdf")
    assert content == pdf("minutes")
    assert answer.url == f"{web.url}/a.pdf"
    assert web.requests[0].headers["user-agent"] == "clerk tests"


def test_gives_back_the_validators_word_for_word_and_takes_304_for_an_answer(web: Web, browser: Browser) -> None:
    web.routes["/a.pdf"] = lambda request: Reply(
        b"x", 304 if "if-none-match" in request.headers else 200, {"ETag": 'W/"odd"', "Last-Modified": "yesterday"}
    )
    _, first = browser.download(f"{web.url}/a.pdf")
    assert first.validators == Validators('W/"odd"', "yesterday")
    web.routes["/a.pdf"] = Reply(status=304)
    _, second = browser.download(f"{web.url}/a.pdf", first.validators)
    assert second.not_modified
    assert web.requests[1].headers["if-none-match"] == 'W/"odd"'
    assert web.requests[1].headers["if-modified-since"] == "yesterday"


def test_304_to_an_unconditional_request_is_not_an_answer(web: Web, browser: Browser) -> None:
    web.routes["/a.pdf"] = Reply(status=304)
    with pytest.raises(DownloadRefused, match="304"):
        browser.download(f"{web.url}/a.pdf")


def test_tries_again_after_server_errors(web: Web, browser: Browser) -> None:
    replies = iter([Reply(b"oops", 500), Reply(b"busy", 502), Reply(pdf("at last"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert browser.download(f"{web.url}/a.pdf")[0] == pdf("at last")


def test_gives_up_after_so_many_attempts_with_the_reason(web: Web, browser: Browser) -> None:
    web.routes["/a.pdf"] = Reply(b"oops", 500)
    with pytest.raises(DownloadFailed, match="500"):
        browser.download(f"{web.url}/a.pdf")
    assert len(web.requests) == browser.limits.attempts


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_does_not_insist_when_refused(web: Web, browser: Browser, status: int) -> None:
    web.routes["/a.pdf"] = Reply(b"no", status)
    with pytest.raises(DownloadRefused, match=str(status)):
        browser.download(f"{web.url}/a.pdf")
    assert len(web.requests) == 1


def test_waits_as_long_as_retry_after_says(web: Web, browser: Browser) -> None:
    replies = iter([Reply(b"", 429, {"Retry-After": "1"}), Reply(pdf("now"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert browser.download(f"{web.url}/a.pdf")[0] == pdf("now")
    assert web.requests[1].at - web.requests[0].at >= 1.0


@pytest.mark.parametrize("said", ["86400", formatdate(time.time() + 86_400, usegmt=True)], ids=["seconds", "date"])
def test_a_host_that_wants_a_long_pause_is_left_alone_by_all(web: Web, browser: Browser, said: str) -> None:
    web.routes["/a.pdf"] = Reply(b"", 503, {"Retry-After": said})
    web.serve_pdf("/b.pdf", "there")
    with pytest.raises(DownloadFailed, match="503"):
        browser.download(f"{web.url}/a.pdf")
    with pytest.raises(DownloadFailed, match="requested a pause, 8"):
        browser.download(f"{web.url}/b.pdf")
    assert web.paths() == ["/a.pdf"]


def test_retry_after_that_means_nothing_is_passed_over(web: Web, browser: Browser) -> None:
    replies = iter([Reply(b"", 503, {"Retry-After": "soon, I think"}), Reply(pdf("now"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert browser.download(f"{web.url}/a.pdf")[0] == pdf("now")


def test_requests_of_all_clients_together_keep_to_the_number_at_once(web: Web, browser: Browser) -> None:
    two = threading.Barrier(2)

    def slow(request: Request) -> Reply:
        two.wait(timeout=20)  # two at a time is allowed, so two do meet; a third would be seen below
        return Reply(pdf("x"))

    web.routes["/a.pdf"] = slow
    polite = browser.with_limits(concurrency=2)
    threads = [threading.Thread(target=polite.download, args=[f"{web.url}/a.pdf"]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(web.requests) == 6
    assert max(request.at_once for request in web.requests) == 2


def test_requests_of_all_clients_together_are_apart(web: Web, browser: Browser) -> None:
    web.serve_pdf("/a.pdf", "x")
    polite = browser.with_limits(interval=0.2)
    threads = [threading.Thread(target=polite.download, args=[f"{web.url}/a.pdf"]) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    times = sorted(request.at for request in web.requests)
    assert times[-1] - times[0] >= 4 * 0.2 - 0.1


def test_a_slot_of_a_worker_that_died_comes_back_with_its_lease(browser: Browser) -> None:
    with browser.connect() as connection:
        ask = "select slot_id from clerk_reserve_host_slot('town.example', '0', 1, '1 minute')"
        assert connection.execute(ask).fetchone() != (None,)
        assert connection.execute(ask).fetchone() == (None,)
        connection.execute("update fetch_slots set lease_until = clerk_now() - interval '1 second'")
        assert connection.execute(ask).fetchone() != (None,)


def test_every_slot_is_given_back(web: Web, browser: Browser) -> None:
    web.routes["/a.pdf"] = Reply(b"no", 404)
    web.routes["/b.pdf"] = Reply(b"oops", 500)
    for path in ("/a.pdf", "/b.pdf"):
        with pytest.raises(FetchError):
            browser.download(web.url + path)
    with browser.connect() as connection:
        assert connection.execute("select count(*) from fetch_slots").fetchone() == (0,)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/a.pdf",
        "http://127.1/a.pdf",
        "http://2130706433/a.pdf",
        "http://0x7f000001/a.pdf",
        "http://localhost/a.pdf",
        "http://10.0.0.1/a.pdf",
        "http://192.168.1.1/a.pdf",
        "http://172.16.0.1/a.pdf",
        "http://169.254.169.254/latest/meta-data",
        "http://100.64.0.1/a.pdf",
        "http://0.0.0.0/a.pdf",
        "http://224.0.0.1/a.pdf",
        "http://255.255.255.255/a.pdf",
        "http://[::1]/a.pdf",
        "http://[::ffff:10.0.0.1]/a.pdf",
        "http://[::ffff:169.254.169.254]/a.pdf",
        "http://[64:ff9b::10.0.0.1]/a.pdf",
        "http://[2002:7f00:1::]/a.pdf",
        "http://[fe80::1]/a.pdf",
        "http://[fd00::1]/a.pdf",
        "ftp://example.org/a.pdf",
        "file:///etc/passwd",
        "gopher://example.org/",
        "data:application/pdf;base64,JVBERi0=",
        "http:///a.pdf",
        "//example.org/a.pdf",
        "a.pdf",
        "http://user:secret@93.184.216.34/a.pdf",
        "http://[broken/a.pdf",
        "http://exa mple.org\x00/a.pdf",
        "",
    ],
)
def test_only_public_addresses(browser: Browser, url: str) -> None:
    with pytest.raises(AddressForbidden):
        browser.with_limits(allow_loopback=False).download(url)


def test_loopback_by_explicit_setting_means_loopback_only(browser: Browser) -> None:
    with pytest.raises(AddressForbidden):
        browser.download("http://10.0.0.1/a.pdf")


@pytest.mark.parametrize(
    "place", ["http://169.254.169.254/", "http://10.1.2.3/a.pdf", "file:///etc/passwd", "http://["]
)
def test_every_redirect_is_checked_again(web: Web, browser: Browser, place: str) -> None:
    web.routes["/a.pdf"] = Reply(status=302, headers={"Location": place})
    with pytest.raises(AddressForbidden):
        browser.download(f"{web.url}/a.pdf")


def test_follows_redirects_and_says_where_it_ended(web: Web, browser: Browser) -> None:
    web.routes["/a"] = Reply(status=301, headers={"Location": "/b"})
    web.routes["/b"] = Reply(status=307, headers={"Location": f"{web.url}/c.pdf"})
    web.serve_pdf("/c.pdf", "found")
    content, answer = browser.download(f"{web.url}/a")
    assert (content, answer.url) == (pdf("found"), f"{web.url}/c.pdf")


def test_redirects_that_never_end_are_refused(web: Web, browser: Browser) -> None:
    web.routes["/a.pdf"] = Reply(status=302, headers={"Location": "/a.pdf"})
    with pytest.raises(DownloadRefused, match="redirects"):
        browser.download(f"{web.url}/a.pdf")
    assert len(web.requests) == 6


def test_takes_gzip_apart(web: Web, browser: Browser) -> None:
    web.routes["/a.pdf"] = Reply(gzip.compress(pdf("zipped")), headers={"Content-Encoding": "gzip"})
    assert browser.download(f"{web.url}/a.pdf")[0] == pdf("zipped")


def test_a_gzip_bomb_is_stopped_at_the_limit(web: Web, browser: Browser) -> None:
    web.routes["/a.pdf"] = Reply(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})
    with pytest.raises(PdfTooLarge, match="content is larger"):
        browser.with_limits(max_bytes=1_000_000).download(f"{web.url}/a.pdf")


@pytest.mark.parametrize(
    ("body", "encoding", "problem"),
    [
        (b"\x1f\x8bnonsense", "gzip", DownloadFailed),
        (gzip.compress(pdf("whole"))[:-12], "gzip", DownloadFailed),
        (pdf("brotli, it says"), "br", DownloadRefused),
        (gzip.compress(gzip.compress(b"twice")), "gzip, gzip", DownloadRefused),
    ],
    ids=["rubbish", "cut", "brotli", "twice"],
)
def test_bad_encodings(web: Web, browser: Browser, body: bytes, encoding: str, problem: type[FetchError]) -> None:
    web.routes["/a.pdf"] = Reply(body, headers={"Content-Encoding": encoding})
    with pytest.raises(problem):
        browser.download(f"{web.url}/a.pdf")


def _start(handler: BaseHTTPRequestHandler, *headers: str) -> None:
    handler.wfile.write("\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode())
    handler.wfile.flush()


def test_an_endless_answer_is_stopped_at_the_limit(web: Web, browser: Browser) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        _start(handler, "Connection: close")
        while True:
            handler.wfile.write(bytes(65_536))

    web.raw["/a.pdf"] = endless
    with pytest.raises(PdfTooLarge, match="response is larger"):
        browser.with_limits(max_bytes=1_000_000).download(f"{web.url}/a.pdf")


def test_a_length_beyond_the_limit_is_believed_at_once(web: Web, browser: Browser) -> None:
    def announce(handler: BaseHTTPRequestHandler) -> None:
        _start(handler, "Content-Length: 99999999999")
        web.released.wait()

    web.raw["/a.pdf"] = announce
    with pytest.raises(PdfTooLarge, match="99,999,999,999"):
        browser.download(f"{web.url}/a.pdf")


def test_an_answer_shorter_than_it_says_is_not_taken(web: Web, browser: Browser) -> None:
    replies = iter([Reply(pdf("cut"), headers={"Content-Length": "5000", "Connection": "close"}), Reply(pdf("whole"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert browser.download(f"{web.url}/a.pdf")[0] == pdf("whole")


def test_a_server_that_says_nothing_is_given_up(web: Web, browser: Browser) -> None:
    def say_nothing(handler: BaseHTTPRequestHandler) -> None:
        web.released.wait()

    web.raw["/a.pdf"] = say_nothing
    with pytest.raises(DownloadFailed, match=r"no response within 0.2 s"):
        browser.with_limits(timeout=0.2, attempts=2).download(f"{web.url}/a.pdf")


def test_a_trickle_is_given_up_when_its_time_is_over(web: Web, browser: Browser) -> None:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        _start(handler, "Content-Length: 1000000")
        while not web.released.wait(0.05):
            handler.wfile.write(b".")

    web.raw["/a.pdf"] = trickle
    with pytest.raises(DownloadFailed, match=r"longer than 0.5 s"):
        browser.with_limits(timeout=5.0, time_limit=0.5, attempts=1).download(f"{web.url}/a.pdf")


@pytest.mark.parametrize(
    "answer",
    [b"", b"rubbish\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * 200_000],
    ids=["nothing", "rubbish", "no number", "endless header"],
)
def test_what_is_not_http_is_a_failure(web: Web, browser: Browser, answer: bytes) -> None:
    def say(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(answer)

    web.raw["/a.pdf"] = say
    with pytest.raises(DownloadFailed):
        browser.with_limits(attempts=2).download(f"{web.url}/a.pdf")


def test_a_closed_port_and_an_unknown_name_are_failures(browser: Browser) -> None:
    for url in ("http://127.0.0.1:1/a.pdf", "http://no-such-host.invalid/a.pdf"):
        with pytest.raises(DownloadFailed):
            browser.with_limits(attempts=1).download(url)


def test_a_certificate_that_proves_nothing_is_refused(web: Web, browser: Browser, tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=127.0.0.1 "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {key} -out {certificate}".split(),
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    web.server.socket = context.wrap_socket(web.server.socket, server_side=True, do_handshake_on_connect=False)
    with pytest.raises(CertificateRefused):
        browser.download(f"{web.url.replace('http:', 'https:')}/a.pdf")


def test_tokens_are_not_written_down() -> None:
    assert redact_url("https://x.example/v1?$top=5&token=geheim&x=1") == "https://x.example/v1?$top=5&token=***&x=1"
