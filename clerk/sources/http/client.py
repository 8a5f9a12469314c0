"""Rate-limited HTTP client, the only access of fetchers to the network.

Each request waits for a slot of the host (rate and concurrency over all workers), connects to a public address only,
verifies TLS, and is limited in time and size. Redirects are followed one by one, so that each is checked and waits like
any request. What a robots.txt disallows is not requested, and a fetch has a budget.
Limitation: proxy settings of the environment are ignored, because behind a proxy the address cannot be checked.
"""

from __future__ import annotations

import asyncio
import codecs
import io
import json
import logging
import random
import re
import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import certifi
import httpcore
import httpx

from clerk.errors import (
    AccessDenied,
    AddressForbidden,
    CertificateRefused,
    DownloadFailed,
    DownloadRefused,
    HostNotFound,
    PdfTooLarge,
    SourceUnreadable,
)
from clerk.sources.http import robots
from clerk.sources.http.body import Decoder, Sink
from clerk.sources.http.budget import Budget
from clerk.sources.http.limits import HttpLimits
from clerk.sources.http.rate_limit import Connect, HostRateLimiter, LocalRateLimiter, Slot
from clerk.sources.http.retry_after import parse_retry_after
from clerk.sources.http.robots import HeadComplete, HeadSink, RobotsCache
from clerk.sources.http.ssrf import PublicOnlyBackend
from clerk.sources.parser_process import MAX_PAGE_BYTES

__all__ = [
    "FetchResult",
    "HttpLimits",
    "HttpResponse",
    "PublicOnlyTransport",
    "RateLimitedClient",
    "Sink",
    "Validators",
    "check_url",
]

logger = logging.getLogger(__name__)
# At level INFO httpx logs complete URLs, including tokens.
logging.getLogger("httpx").setLevel(logging.WARNING)

_REDIRECTS = (301, 302, 303, 307, 308)
_RETRYABLE_STATUSES = {408, 423, 425, 429}
_BACKOFF_STATUSES = {429, 503}
_DENIED_STATUSES = {401, 403, 451}
_SECRET = re.compile(r"(?i)([?&](?:[a-z_-]*token|[a-z_-]*key|sig|signature|secret|password))=[^&#]*")
_WEB_CHARSET = re.compile(
    r"ascii|utf-(?:8(?:-sig)?|16(?:-[bl]e)?)|iso8859-\d+|cp(?:125\d|866|874|932|936|949|950)|koi8-[ru]|mac-\w+"
    r"|gb(?:k|2312|18030)|big5(?:hkscs)?|euc_(?:jp|kr)|shift_jis|iso2022_jp"
)
_HOST = re.compile(rb"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_HEARTBEAT_INTERVAL = 0.5
_MAX_VALIDATOR_LENGTH = 500
_MAX_REDIRECTS = 5
_MAX_RESPONSE_BYTES = 50_000_000
"""Of a response that is kept in memory."""
_PAUSE_FACTOR = 10
"""Of `retry_delay`: the pause of a host that answers 429 without Retry-After."""
_JSON = "application/json, */*;q=0.1"
_HTML = "text/html, application/xhtml+xml, */*;q=0.1"
_DOCUMENT = "application/pdf, */*;q=0.5"


@dataclass(frozen=True)
class Validators:
    """ETag and Last-Modified of a stored copy. The server compares them and may respond with 304 Not Modified."""

    etag: str | None = None
    last_modified: str | None = None

    def headers(self) -> dict[str, str]:
        headers = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in headers.items() if value and value.isascii() and value.isprintable()}

    @classmethod
    def from_response(cls, response: httpx.Response) -> Validators:
        values = (response.headers.get(name) for name in ("etag", "last-modified"))
        return cls(*(value if value and len(value) <= _MAX_VALIDATOR_LENGTH else None for value in values))


@dataclass(frozen=True)
class FetchResult:
    """Result of a download whose content is in a sink."""

    url: str
    """The final URL, after redirects."""
    not_modified: bool = False
    content_type: str = ""
    validators: Validators = field(default_factory=Validators)


@dataclass(frozen=True)
class HttpResponse:
    """A response that is kept in memory: a page, or the result of an API."""

    url: str
    content: bytes
    content_type: str

    @property
    def text(self) -> str:
        _, _, parameter = self.content_type.lower().partition("charset=")
        charset = parameter.split(";")[0].strip(" \"'")
        return self.content.decode(charset if _is_web_charset(charset) else "utf-8", "replace")

    def json(self) -> Any:
        try:
            return json.loads(self.content)
        except (ValueError, RecursionError) as error:  # nested too deeply
            raise DownloadFailed(f"{redact_url(self.url)} did not return JSON but {self.text[:80]!r}") from error


def _is_web_charset(charset: str) -> bool:
    """Whether pages may use it. Not every codec of Python: `punycode` needs quadratic time."""
    try:
        return _WEB_CHARSET.fullmatch(codecs.lookup(charset).name) is not None
    except (LookupError, ValueError):  # ValueError: a NUL in its name
        return False


@dataclass(frozen=True)
class _Message:
    """What is sent to a URL."""

    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    is_robots: bool = False
    """For a robots.txt, to which no rules apply."""

    def redirected(self) -> _Message:
        """What is sent after a redirect. What was posted, and headers for the first host, are not for another."""
        accept = {name: value for name, value in self.headers.items() if name == "Accept"}
        return _Message(headers=accept, is_robots=self.is_robots)


class _Retryable(Exception):
    """An attempt failed with an error that may be temporary."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    """Trusts the certificate authorities of the system and of certifi. Cached, because loading them is slow."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class PublicOnlyTransport(httpx.AsyncHTTPTransport):
    """Transport of httpx whose connection pool uses the SSRF guard."""

    def __init__(self, limits: HttpLimits) -> None:
        super().__init__(verify=_tls_context(), trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_tls_context(),
            max_connections=20,
            keepalive_expiry=5.0,
            network_backend=PublicOnlyBackend(limits.allow_loopback, limits.allow_networks),
        )


class RateLimitedClient:
    """HTTP client for use with `async with`. It calls `heartbeat` repeatedly during a request, also while it waits."""

    def __init__(
        self,
        limits: HttpLimits,
        connect: Connect | None,
        heartbeat: Callable[[], None] = lambda: None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`connect`: for the rate limit of all workers; None limits the requests of this process only. `transport`: one
        that records or replays; default: one that connects to public addresses only."""
        self.limits = limits
        self.heartbeat = heartbeat
        per_host = limits.interval, limits.concurrency, limits.timeout
        self.rate_limiter = HostRateLimiter(connect, *per_host) if connect else LocalRateLimiter(*per_host)
        self.budget = Budget(limits.budget)
        self._robots = RobotsCache(self._read_robots)
        self._http = httpx.AsyncClient(
            transport=transport or PublicOnlyTransport(limits),
            headers={"User-Agent": limits.user_agent, "Accept-Encoding": "gzip"},
            timeout=limits.timeout,
            follow_redirects=False,
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._http.aclose()

    async def get(
        self,
        url: str,
        params: Mapping[str, str | int] | None = None,
        max_bytes: int = _MAX_RESPONSE_BYTES,
        headers: Mapping[str, str] | None = None,
    ) -> HttpResponse:
        """Get the result of an API, of at most 50 MB."""
        full_url = str(httpx.URL(url).copy_merge_params(dict(params))) if params else url
        return await self._read(full_url, _Message(headers=headers or {}), max_bytes)

    async def post(
        self,
        url: str,
        *,
        form: Mapping[str, str] | None = None,
        json: Any = None,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = _MAX_RESPONSE_BYTES,
    ) -> HttpResponse:
        """Post a form or JSON and get the result, of at most 50 MB. A failed request is repeated: for queries only."""
        return await self._read(url, _post_message(form, json, headers), max_bytes)

    async def _read(self, full_url: str, message: _Message, max_bytes: int) -> HttpResponse:
        buffer = io.BytesIO()
        sink = Sink(buffer, min(self.limits.max_bytes, max_bytes))
        try:
            result = await self._send(full_url, message, sink)
        except PdfTooLarge as error:
            address, problem = redact_url(full_url), str(error)
            raise SourceUnreadable(problem if problem.startswith(address) else f"{address}: {problem}") from error
        return HttpResponse(result.url, buffer.getvalue(), result.content_type)

    async def get_page(self, url: str, params: Mapping[str, str | int] | None = None) -> HttpResponse:
        """Get an HTML page, of at most 15 MB. `Fetcher.parse_links` extracts its links."""
        return await self.get(url, params, MAX_PAGE_BYTES, {"Accept": _HTML})

    async def get_json(
        self, url: str, params: Mapping[str, str | int] | None = None, headers: Mapping[str, str] | None = None
    ) -> Any:
        return (await self.get(url, params, headers={"Accept": _JSON, **(headers or {})})).json()

    async def download(
        self,
        url: str,
        validators: Validators,
        sink: Sink,
        *,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        redirect: Callable[[str], str] | None = None,
    ) -> FetchResult:
        """Stream a document into the sink, or learn that it has not changed (`not_modified`). A `form` is posted.
        `redirect` returns the URL to request instead of one to which the server redirects."""
        headers = {"Accept": _DOCUMENT, **(headers or {})}
        message = _Message(headers=headers) if form is None else _post_message(form, None, headers)
        return await self._send(url, message, sink, validators, redirect)

    async def _send(
        self,
        url: str,
        message: _Message,
        sink: Sink,
        validators: Validators | None = None,
        redirect: Callable[[str], str] | None = None,
    ) -> FetchResult:
        beating = asyncio.create_task(self._beat())
        try:
            return await self._fetch_with_retries(url, message, validators or Validators(), sink, redirect)
        finally:
            beating.cancel()

    async def _beat(self) -> None:
        """Shows that the plugin waits for a host and does not hang. A plugin that blocks the event loop stops this."""
        while True:
            self.heartbeat()
            await asyncio.sleep(_HEARTBEAT_INTERVAL)

    async def _fetch_with_retries(
        self, url: str, message: _Message, validators: Validators, sink: Sink, redirect: Callable[[str], str] | None
    ) -> FetchResult:
        attempt = 1
        while True:
            sink.restart()
            try:
                return await self._follow_redirects(url, message, validators, sink, redirect)
            except _Retryable as error:
                delay = self.limits.retry_delay * 4 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311 (jitter)
                delay = max(delay, error.retry_after or 0.0)
                if attempt >= self.limits.attempts or delay > self.limits.max_wait:
                    failure = HostNotFound if _is_unresolved(error) else DownloadFailed
                    raise failure(f"{redact_url(url)}: {error}") from error
                logger.info("%s: %s; retrying in %.1f s", redact_url(url), error, delay)
            # The slot is free during the delay. A pause that the host asked for applies to all workers.
            await asyncio.sleep(delay)
            attempt += 1

    async def _follow_redirects(
        self, url: str, message: _Message, validators: Validators, sink: Sink, redirect: Callable[[str], str] | None
    ) -> FetchResult:
        for _ in range(1 + _MAX_REDIRECTS):
            checked = check_url(url)
            crawl_delay = await self._check_robots(checked, message)
            self.budget.count_request()
            async with self.rate_limiter.slot(checked.host, self.limits.max_wait, crawl_delay) as slot:
                result = await self._request(checked, message, validators, sink, slot)
            if isinstance(result, FetchResult):
                return result
            url = redirect(result) if redirect else result
            message = message.redirected()
        raise DownloadRefused(f"{redact_url(url)}: more than {_MAX_REDIRECTS} redirects")

    async def _check_robots(self, url: httpx.URL, message: _Message) -> float:
        """Raise RobotsDisallowed if the server does not allow the URL. Returns its Crawl-delay in seconds."""
        if message.is_robots or not self.limits.honour_robots:
            return 0.0
        rules = await self._robots.rules(url)
        rules.check(url)
        return rules.crawl_delay

    async def _read_robots(self, url: httpx.URL) -> str:
        sink = HeadSink(robots.MAX_BYTES)
        try:
            await self._fetch_with_retries(str(url), _Message(is_robots=True), Validators(), sink, None)
        except DownloadRefused:  # RFC 9309, 2.3.1.3: there are no rules
            return ""
        except HostNotFound:
            raise
        except DownloadFailed as error:
            raise DownloadFailed(f"nothing is requested while robots.txt cannot be read: {error}") from error
        return sink.buffer.getvalue().decode("utf-8-sig", "replace")

    async def _request(
        self, url: httpx.URL, message: _Message, validators: Validators, sink: Sink, slot: Slot
    ) -> FetchResult | str:
        """Send one request. Returns its result, or the URL of a redirect."""
        time_limit = min(self.limits.time_limit, robots.MAX_SECONDS) if message.is_robots else self.limits.time_limit
        try:
            async with (
                asyncio.timeout(time_limit),
                self._http.stream(
                    message.method, url, headers={**message.headers, **validators.headers()}, content=message.content
                ) as response,
            ):
                if response.status_code in _REDIRECTS and (location := response.headers.get("location")):
                    return _resolve_redirect(url, location)
                if response.status_code == httpx.codes.NOT_MODIFIED and validators.headers():
                    return FetchResult(str(url), not_modified=True, validators=validators)
                await self._check_status(response)
                await self._receive(response, sink, slot)
                return FetchResult(
                    str(url),
                    content_type=response.headers.get("content-type", "")[:200],
                    validators=Validators.from_response(response),
                )
        except TimeoutError as error:
            raise _Retryable(f"the download took longer than {time_limit:g} s") from error
        except httpx.InvalidURL as error:
            raise AddressForbidden(f"{url} is not a valid URL ({error})") from error
        except httpx.TimeoutException as error:
            raise _Retryable(f"no response within {self.limits.timeout:g} s") from error
        except httpx.HTTPError as error:
            if _is_certificate_error(error):
                raise CertificateRefused(f"{url.host}: {error}") from error
            raise _Retryable(str(error) or type(error).__name__) from error

    async def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == httpx.codes.OK:
            return
        message = f"the server returned status {status} {response.reason_phrase}"[:200].strip()
        if status in _RETRYABLE_STATUSES or status >= 500:
            retry_after = parse_retry_after(response.headers.get("retry-after", ""))
            if retry_after is None and status == httpx.codes.TOO_MANY_REQUESTS:
                retry_after = _PAUSE_FACTOR * self.limits.retry_delay
            if retry_after is not None and status in _BACKOFF_STATUSES:
                await self.rate_limiter.back_off(response.url.host, retry_after, message)
            raise _Retryable(message, retry_after)
        error = AccessDenied if status in _DENIED_STATUSES else DownloadRefused
        raise error(f"{redact_url(str(response.url))}: {message}")

    async def _receive(self, response: httpx.Response, sink: Sink, slot: Slot) -> None:
        length = response.headers.get("content-length", "")
        if length.isdecimal() and int(length) > sink.limit:
            raise PdfTooLarge(
                f"{redact_url(str(response.url))} has {int(length):,} bytes, more than the limit of {sink.limit:,}"
            )
        decoder = Decoder(response.headers.get("content-encoding", ""), sink)
        try:
            async for chunk in response.aiter_raw():
                self.budget.count_bytes(len(chunk))
                decoder.write(chunk)
                await slot.renew()
            decoder.finish()
        except HeadComplete:
            return
        except PdfTooLarge as error:
            raise PdfTooLarge(f"{redact_url(str(response.url))}: {error}") from error
        except DownloadFailed as error:
            raise _Retryable(str(error)) from error


def _post_message(form: Mapping[str, str] | None, value: Any, headers: Mapping[str, str] | None) -> _Message:
    if form is not None:
        content, content_type = urlencode(form).encode(), "application/x-www-form-urlencoded; charset=utf-8"
    else:
        content, content_type = json.dumps(value).encode(), "application/json; charset=utf-8"
    return _Message("POST", {"Content-Type": content_type, **(headers or {})}, content)


def redact_url(url: str) -> str:
    """Return a URL for logs and messages, without the values of tokens, keys and signatures."""
    return _SECRET.sub(r"\1=***", url)[:500]


def check_url(url: str) -> httpx.URL:
    """Raise AddressForbidden unless it is an http or https URL with a host and without a password."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise AddressForbidden(f"{url[:200]!r} is not a valid URL ({error})") from error
    if not parsed.scheme:
        raise AddressForbidden(f"{url[:200]!r} is not a complete URL: it has neither http(s):// nor a host")
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise AddressForbidden(f"{url[:200]!r} is not an http or https URL")
    if not _HOST.fullmatch(parsed.raw_host):
        raise AddressForbidden(f"{url[:200]!r} has no valid host name or IP address")
    if parsed.userinfo:
        raise AddressForbidden(f"the URL for {parsed.host} contains a user name or password")
    return parsed.copy_with(fragment=None)


def _resolve_redirect(url: httpx.URL, location: str) -> str:
    try:
        return str(url.join(location))
    except (httpx.InvalidURL, ValueError) as error:
        raise AddressForbidden(f"{url} redirects to {location[:200]!r}, which is not a valid URL") from error


def _is_unresolved(error: BaseException | None) -> bool:
    """Whether there is no host of that name; not if the name server did not answer."""
    while error is not None:
        if isinstance(error, socket.gaierror):
            return error.errno != socket.EAI_AGAIN
        error = error.__cause__ or error.__context__
    return False


def _is_certificate_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
