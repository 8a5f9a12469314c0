"""The rate-limited HTTP client against servers that fail, stall or attack."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import shutil
import socket
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
from clerk.sources.http.rate_limit import LocalRateLimiter
from clerk.sources.http.ssrf import PublicOnlyBackend
from tests.sources.conftest import HttpClient
from tests.sources.web import Reply, Request, Web, pdf


def test_sends_user_agent_and_returns_content(web: Web, http: HttpClient) -> None:
    web.serve_pdf("/a.pdf", "minutes")
    content, result = http.download(f"{web.url}/a.pdf")
    assert content == pdf("minutes")
    assert result.url == f"{web.url}/a.pdf"
    assert web.requests[0].headers["user-agent"] == "clerk tests"


def test_sends_validators_unchanged_and_accepts_304(web: Web, http: HttpClient) -> None:
    web.routes["/a.pdf"] = lambda request: Reply(
        b"x", 304 if "if-none-match" in request.headers else 200, {"ETag": 'W/"odd"', "Last-Modified": "yesterday"}
    )
    _, first = http.download(f"{web.url}/a.pdf")
    assert first.validators == Validators('W/"odd"', "yesterday")
    web.routes["/a.pdf"] = Reply(status=304)
    _, second = http.download(f"{web.url}/a.pdf", first.validators)
    assert second.not_modified
    assert web.requests[1].headers["if-none-match"] == 'W/"odd"'
    assert web.requests[1].headers["if-modified-since"] == "yesterday"


def test_304_to_an_unconditional_request_is_refused(web: Web, http: HttpClient) -> None:
    web.routes["/a.pdf"] = Reply(status=304)
    with pytest.raises(DownloadRefused, match="304"):
        http.download(f"{web.url}/a.pdf")


def test_retries_after_server_errors(web: Web, http: HttpClient) -> None:
    replies = iter([Reply(b"oops", 500), Reply(b"busy", 502), Reply(pdf("at last"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert http.download(f"{web.url}/a.pdf")[0] == pdf("at last")


def test_fails_with_the_reason_after_the_last_attempt(web: Web, http: HttpClient) -> None:
    web.routes["/a.pdf"] = Reply(b"oops", 500)
    with pytest.raises(DownloadFailed, match="500"):
        http.download(f"{web.url}/a.pdf")
    assert len(web.requests) == http.limits.attempts


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410, 451])
def test_client_errors_are_not_retried(web: Web, http: HttpClient, status: int) -> None:
    web.routes["/a.pdf"] = Reply(b"no", status)
    with pytest.raises(DownloadRefused, match=str(status)) as raised:
        http.download(f"{web.url}/a.pdf")
    assert len(web.requests) == 1
    assert raised.value.code == ("AccessDenied" if status in (401, 403, 451) else "DownloadRefused")


@pytest.mark.parametrize(
    ("number", "code"), [(socket.EAI_NONAME, "HostNotFound"), (socket.EAI_AGAIN, "DownloadFailed")]
)
def test_an_unknown_host_is_not_a_busy_server(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    """Replaces the name server: what the one of this machine answers is not known."""

    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(number, "no such host")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(DownloadFailed, match=r"town\.example could not be resolved") as raised:
        http.download("https://town.example/a.pdf")
    assert raised.value.code == code


def test_waits_for_retry_after(web: Web, http: HttpClient) -> None:
    replies = iter([Reply(b"", 429, {"Retry-After": "1"}), Reply(pdf("now"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert http.download(f"{web.url}/a.pdf")[0] == pdf("now")
    assert web.requests[1].at - web.requests[0].at >= 1.0


@pytest.mark.parametrize(
    "retry_after", ["86400", formatdate(time.time() + 86_400, usegmt=True)], ids=["seconds", "date"]
)
def test_a_long_retry_after_stops_all_requests_to_the_host(web: Web, http: HttpClient, retry_after: str) -> None:
    web.routes["/a.pdf"] = Reply(b"", 503, {"Retry-After": retry_after})
    web.serve_pdf("/b.pdf", "there")
    with pytest.raises(DownloadFailed, match="503"):
        http.download(f"{web.url}/a.pdf")
    with pytest.raises(DownloadFailed, match="requested a pause, 8"):
        http.download(f"{web.url}/b.pdf")
    assert web.paths() == ["/a.pdf"]


def test_an_invalid_retry_after_is_ignored(web: Web, http: HttpClient) -> None:
    replies = iter([Reply(b"", 503, {"Retry-After": "soon, I think"}), Reply(pdf("now"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert http.download(f"{web.url}/a.pdf")[0] == pdf("now")


def test_concurrency_limit_applies_to_all_clients_together(web: Web, http: HttpClient) -> None:
    two = threading.Barrier(2)

    def slow(request: Request) -> Reply:
        two.wait(timeout=20)  # two concurrent requests are allowed; the assertion below would show a third
        return Reply(pdf("x"))

    web.routes["/a.pdf"] = slow
    limited = http.with_limits(concurrency=2)
    threads = [threading.Thread(target=limited.download, args=[f"{web.url}/a.pdf"]) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(web.requests) == 6
    assert max(request.concurrent for request in web.requests) == 2


def test_interval_applies_to_all_clients_together(web: Web, http: HttpClient) -> None:
    web.serve_pdf("/a.pdf", "x")
    limited = http.with_limits(interval=0.2)
    threads = [threading.Thread(target=limited.download, args=[f"{web.url}/a.pdf"]) for _ in range(5)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A busy machine can only delay a request, so each is compared with the beginning, not with the one before it.
    for position, request in enumerate(sorted(web.requests, key=lambda request: request.at)):
        assert request.at - began >= position * 0.2 - 0.02  # sleep() may return a clock tick early


def test_a_slot_of_a_dead_worker_is_free_after_its_lease(http: HttpClient) -> None:
    with http.connect() as connection:
        reserve = "select slot_id from clerk_reserve_host_slot('town.example', '0', 1, '1 minute')"
        assert connection.execute(reserve).fetchone() != (None,)
        assert connection.execute(reserve).fetchone() == (None,)
        connection.execute("update fetch_slots set lease_until = clerk_now() - interval '1 second'")
        assert connection.execute(reserve).fetchone() != (None,)


def test_every_slot_is_released(web: Web, http: HttpClient) -> None:
    web.routes["/a.pdf"] = Reply(b"no", 404)
    web.routes["/b.pdf"] = Reply(b"oops", 500)
    for path in ("/a.pdf", "/b.pdf"):
        with pytest.raises(FetchError):
            http.download(web.url + path)
    with http.connect() as connection:
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
        "http://168.63.129.16/metadata",
        "http://[::ffff:168.63.129.16]/metadata",
        "http://192.0.0.192/opc/v1/instance",
        "http://[fec0::1]/a.pdf",
        "http://[64:ff9b:1::a00:1]/a.pdf",
        "http://93.184.216.34:22/a.pdf",
        "http://93.184.216.34:5432/a.pdf",
        "https://93.184.216.34:6379/a.pdf",
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
def test_addresses_that_are_not_public_are_forbidden(http: HttpClient, url: str) -> None:
    with pytest.raises(AddressForbidden):
        http.with_limits(allow_loopback=False).download(url)


@pytest.mark.parametrize(
    ("url", "setting"),
    [
        ("http://127.0.0.1/", r"CLERK_ALLOW_LOOPBACK=yes"),
        ("http://localhost/", r"localhost resolves to (127\.0\.0\.1|::1), .*CLERK_ALLOW_LOOPBACK=yes"),
        ("http://10.0.0.1/", r"CLERK_ALLOW_NETWORKS=10\.0\.0\.1"),
        ("http://93.184.216.34:22/", r"port 22 .*80, 443, 8000 to 8999.*CLERK_ALLOW_NETWORKS=93\.184\.216\.34"),
    ],
)
def test_the_refusal_names_the_setting(http: HttpClient, url: str, setting: str) -> None:
    with pytest.raises(AddressForbidden, match=setting):
        http.with_limits(allow_loopback=False).download(url)
    for name in ("CLERK_ALLOW_LOOPBACK", "CLERK_ALLOW_NETWORKS"):
        assert name in AddressForbidden.remedy


def test_a_network_can_be_allowed(web: Web, http: HttpClient) -> None:
    web.serve_pdf("/a.pdf", "found")
    allowing = http.with_limits(allow_loopback=False, allow_networks=(ipaddress.ip_network("127.0.0.0/30"),))
    assert allowing.download(f"{web.url}/a.pdf")[0] == pdf("found")
    with pytest.raises(AddressForbidden):
        allowing.download("http://127.0.0.9/a.pdf")


@pytest.mark.parametrize("port", [80, 443, 8000, 8080, 8443, 8999])
def test_ports_of_web_servers_are_allowed(port: int) -> None:
    PublicOnlyBackend(allow_loopback=False).check("town.example", ipaddress.ip_address("93.184.216.34"), port)


def test_allowing_loopback_allows_no_other_private_address(http: HttpClient) -> None:
    with pytest.raises(AddressForbidden):
        http.download("http://10.0.0.1/a.pdf")


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/", "http://10.1.2.3/a.pdf", "file:///etc/passwd", "http://["]
)
def test_every_redirect_is_checked(web: Web, http: HttpClient, location: str) -> None:
    web.routes["/a.pdf"] = Reply(status=302, headers={"Location": location})
    with pytest.raises(AddressForbidden):
        http.download(f"{web.url}/a.pdf")


def test_follows_redirects_and_returns_the_final_url(web: Web, http: HttpClient) -> None:
    web.routes["/a"] = Reply(status=301, headers={"Location": "/b"})
    web.routes["/b"] = Reply(status=307, headers={"Location": f"{web.url}/c.pdf"})
    web.serve_pdf("/c.pdf", "found")
    content, result = http.download(f"{web.url}/a")
    assert (content, result.url) == (pdf("found"), f"{web.url}/c.pdf")


def test_endless_redirects_are_refused(web: Web, http: HttpClient) -> None:
    web.routes["/a.pdf"] = Reply(status=302, headers={"Location": "/a.pdf"})
    with pytest.raises(DownloadRefused, match="redirects"):
        http.download(f"{web.url}/a.pdf")
    assert len(web.requests) == 6


def test_decompresses_gzip(web: Web, http: HttpClient) -> None:
    web.routes["/a.pdf"] = Reply(gzip.compress(pdf("zipped")), headers={"Content-Encoding": "gzip"})
    assert http.download(f"{web.url}/a.pdf")[0] == pdf("zipped")


def test_a_gzip_bomb_is_stopped_at_the_limit(web: Web, http: HttpClient) -> None:
    web.routes["/a.pdf"] = Reply(gzip.compress(bytes(50_000_000)), headers={"Content-Encoding": "gzip"})
    with pytest.raises(PdfTooLarge, match="content is larger"):
        http.with_limits(max_bytes=1_000_000).download(f"{web.url}/a.pdf")


@pytest.mark.parametrize(
    ("body", "encoding", "error"),
    [
        (b"\x1f\x8binvalid", "gzip", DownloadFailed),
        (gzip.compress(pdf("whole"))[:-12], "gzip", DownloadFailed),
        (pdf("brotli, it says"), "br", DownloadRefused),
        (gzip.compress(gzip.compress(b"twice")), "gzip, gzip", DownloadRefused),
    ],
    ids=["invalid", "truncated", "brotli", "nested"],
)
def test_invalid_encodings(web: Web, http: HttpClient, body: bytes, encoding: str, error: type[FetchError]) -> None:
    web.routes["/a.pdf"] = Reply(body, headers={"Content-Encoding": encoding})
    with pytest.raises(error):
        http.download(f"{web.url}/a.pdf")


def _start(handler: BaseHTTPRequestHandler, *headers: str) -> None:
    handler.wfile.write("\r\n".join(["HTTP/1.1 200 OK", *headers, "", ""]).encode())
    handler.wfile.flush()


def test_an_endless_response_is_stopped_at_the_limit(web: Web, http: HttpClient) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        _start(handler, "Connection: close")
        while True:
            handler.wfile.write(bytes(65_536))

    web.raw["/a.pdf"] = endless
    with pytest.raises(PdfTooLarge, match="response is larger"):
        http.with_limits(max_bytes=1_000_000).download(f"{web.url}/a.pdf")


def test_a_content_length_above_the_limit_fails_before_the_body(web: Web, http: HttpClient) -> None:
    def announce(handler: BaseHTTPRequestHandler) -> None:
        _start(handler, "Content-Length: 99999999999")
        web.released.wait()

    web.raw["/a.pdf"] = announce
    with pytest.raises(PdfTooLarge, match="99,999,999,999"):
        http.download(f"{web.url}/a.pdf")


def test_a_truncated_response_is_retried(web: Web, http: HttpClient) -> None:
    replies = iter([Reply(pdf("cut"), headers={"Content-Length": "5000", "Connection": "close"}), Reply(pdf("whole"))])
    web.routes["/a.pdf"] = lambda request: next(replies)
    assert http.download(f"{web.url}/a.pdf")[0] == pdf("whole")


def test_a_silent_server_times_out(web: Web, http: HttpClient) -> None:
    def stall(handler: BaseHTTPRequestHandler) -> None:
        web.released.wait()

    web.raw["/a.pdf"] = stall
    with pytest.raises(DownloadFailed, match=r"no response within 0.2 s"):
        http.with_limits(timeout=0.2, attempts=2).download(f"{web.url}/a.pdf")


def test_a_slow_download_ends_at_the_time_limit(web: Web, http: HttpClient) -> None:
    def trickle(handler: BaseHTTPRequestHandler) -> None:
        _start(handler, "Content-Length: 1000000")
        while not web.released.wait(0.05):
            handler.wfile.write(b".")

    web.raw["/a.pdf"] = trickle
    with pytest.raises(DownloadFailed, match=r"longer than 0.5 s"):
        http.with_limits(timeout=5.0, time_limit=0.5, attempts=1).download(f"{web.url}/a.pdf")


@pytest.mark.parametrize(
    "response",
    [b"", b"rubbish\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"a" * 200_000],
    ids=["nothing", "rubbish", "no number", "endless header"],
)
def test_a_response_that_is_not_http_is_a_failure(web: Web, http: HttpClient, response: bytes) -> None:
    def respond(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(response)

    web.raw["/a.pdf"] = respond
    with pytest.raises(DownloadFailed):
        http.with_limits(attempts=2).download(f"{web.url}/a.pdf")


def test_a_closed_port_and_an_unknown_name_are_failures(http: HttpClient) -> None:
    for url in ("http://127.0.0.1:1/a.pdf", "http://no-such-host.invalid/a.pdf"):
        with pytest.raises(DownloadFailed):
            http.with_limits(attempts=1).download(url)


def test_an_untrusted_certificate_is_refused(web: Web, http: HttpClient, tmp_path: Path) -> None:
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
        http.download(f"{web.url.replace('http:', 'https:')}/a.pdf")


def test_tokens_are_redacted() -> None:
    assert redact_url("https://x.example/v1?$top=5&token=secret&x=1") == "https://x.example/v1?$top=5&token=***&x=1"


def test_without_a_database_the_limits_of_a_host_hold_within_the_process() -> None:
    async def reserve() -> None:
        limiter = LocalRateLimiter(interval=60.0, concurrency=2, request_timeout=1.0)
        assert await limiter.reserve("a.gov", 60.0) == (1, 0.0)
        second, wait = await limiter.reserve("a.gov", 60.0)
        assert second == 2
        assert 50 < wait <= 60
        assert (await limiter.reserve("a.gov", 60.0))[0] is None, "two requests at a time"
        assert (await limiter.reserve("b.gov", 60.0))[0] is not None, "another host"
        await limiter.release(1)
        assert (await limiter.reserve("a.gov", 60.0))[0] is not None
        await limiter.back_off("c.gov", 100.0, "Retry-After")
        with pytest.raises(DownloadFailed, match="requested a pause"):
            async with limiter.slot("c.gov", max_wait=10.0):
                pass

    asyncio.run(reserve())
