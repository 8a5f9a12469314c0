"""The one way out to the network: identified, patient, and wary of what comes back.

Every request waits for leave from Postgres (rate and number at once per host, over all workers), goes to a checked
public address over verified TLS, and has limits on time and size. Redirects are followed here, hop by hop, so that
each is checked and waits like any request. The catch: proxies of the environment are not used, since behind a
proxy nobody could check the address.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import random
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from types import TracebackType
from typing import Any, Self

import certifi
import httpcore
import httpx

from clerk.config import Settings
from clerk.errors import AddressForbidden, CertificateRefused, DownloadFailed, DownloadRefused, PdfTooLarge
from clerk.sources.http.body import Decoder, Sink
from clerk.sources.http.rate_limit import Connect, HostRateLimiter, Slot
from clerk.sources.http.ssrf import PublicOnlyBackend

__all__ = ["FetchResult", "HttpResponse", "Limits", "RateLimitedClient", "Sink", "Validators"]

logger = logging.getLogger(__name__)
# It writes down every address with all that is in it, tokens too.
logging.getLogger("httpx").setLevel(logging.WARNING)

_REDIRECTS = (301, 302, 303, 307, 308)
_MAY_PASS = {408, 423, 425, 429}
_ASKS_FOR_A_PAUSE = {429, 503}
_SECRET = re.compile(r"(?i)([?&](?:[a-z_-]*token|[a-z_-]*key|sig|signature|secret|password))=[^&#]*")
_HOST = re.compile(rb"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_TICK = 0.5
_LONGEST_VALIDATOR = 500
_MOST_HOPS = 6
_PAGE_LIMIT = 50_000_000


@dataclass(frozen=True)
class Limits:
    user_agent: str
    interval: float = 0.5
    concurrency: int = 2
    timeout: float = 30.0
    time_limit: float = 900.0
    max_bytes: int = 500_000_000
    allow_loopback: bool = False
    attempts: int = 4
    first_pause: float = 1.0
    """Seconds before the second attempt; then four times as long each."""
    patience: float = 300.0
    """A host that asks for a longer pause is not waited for, but left alone."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Limits:
        return cls(
            user_agent=settings.user_agent,
            interval=settings.host_interval,
            concurrency=settings.host_concurrency,
            timeout=settings.request_timeout,
            time_limit=settings.download_time_limit,
            max_bytes=settings.max_download_bytes,
            allow_loopback=settings.allow_loopback,
        )


@dataclass(frozen=True)
class Validators:
    """What the server said about the copy that we have; given back, it may answer that nothing changed."""

    etag: str | None = None
    last_modified: str | None = None

    def headers(self) -> dict[str, str]:
        said = {"If-None-Match": self.etag, "If-Modified-Since": self.last_modified}
        return {name: value for name, value in said.items() if value and value.isascii() and value.isprintable()}

    @classmethod
    def of(cls, response: httpx.Response) -> Validators:
        said = (response.headers.get(name) for name in ("etag", "last-modified"))
        return cls(*(value if value and len(value) <= _LONGEST_VALIDATOR else None for value in said))


@dataclass(frozen=True)
class FetchResult:
    url: str
    """Where it came from in the end, after redirects."""
    not_modified: bool = False
    content_type: str = ""
    validators: Validators = field(default_factory=Validators)


@dataclass(frozen=True)
class HttpResponse:
    """A page or API answer that fits into memory."""

    url: str
    content: bytes
    content_type: str

    @property
    def text(self) -> str:
        _, _, parameter = self.content_type.lower().partition("charset=")
        charset = parameter.split(";")[0].strip(" \"'") or "utf-8"
        try:
            return self.content.decode(charset, "replace")
        except LookupError:
            return self.content.decode("utf-8", "replace")

    def json(self) -> Any:
        try:
            return json.loads(self.content)
        except ValueError as error:
            raise DownloadFailed(f"{redact_url(self.url)} did not answer with JSON ({self.text[:80]!r})") from error


class _Retryable(Exception):
    """This attempt failed in a way that may pass."""

    def __init__(self, why: str, after: float | None = None) -> None:
        super().__init__(why)
        self.after = after


@lru_cache(maxsize=1)
def _trust() -> ssl.SSLContext:
    """Whom we believe: the authorities that the system knows, and certifi's. Read once, it takes a while."""
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    return context


class _Transport(httpx.AsyncHTTPTransport):
    """httpx's own, on a pool that connects to checked addresses only."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(verify=_trust(), trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=_trust(),
            max_connections=20,
            keepalive_expiry=5.0,
            network_backend=PublicOnlyBackend(limits.allow_loopback),
        )


class RateLimitedClient:
    """Use it as `async with`. `alive` is called again and again while it works or waits."""

    def __init__(self, limits: Limits, connect: Connect, alive: Callable[[], None] = lambda: None) -> None:
        self.limits = limits
        self.alive = alive
        self.hosts = HostRateLimiter(connect, limits.interval, limits.concurrency, limits.timeout)
        self._http = httpx.AsyncClient(
            transport=_Transport(limits),
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

    async def get(self, url: str, params: Mapping[str, str | int] | None = None) -> HttpResponse:
        """A page of a listing, or an API's answer."""
        memory = io.BytesIO()
        full = str(httpx.URL(url).copy_merge_params(dict(params))) if params else url
        answer = await self._fetch(full, Validators(), Sink(memory, min(self.limits.max_bytes, _PAGE_LIMIT)))
        return HttpResponse(answer.url, memory.getvalue(), answer.content_type)

    async def get_json(self, url: str, params: Mapping[str, str | int] | None = None) -> Any:
        return (await self.get(url, params)).json()

    async def download(self, url: str, validators: Validators, sink: Sink) -> FetchResult:
        """A document, streamed into the sink; or the word that it has not changed."""
        return await self._fetch(url, validators, sink)

    async def _fetch(self, url: str, validators: Validators, sink: Sink) -> FetchResult:
        ticking = asyncio.create_task(self._show_life())
        try:
            return await self._try(url, validators, sink)
        finally:
            ticking.cancel()

    async def _show_life(self) -> None:
        """Waiting for a host is no sign of a plugin that hangs. A plugin that blocks the event loop stops this too."""
        while True:
            self.alive()
            await asyncio.sleep(_TICK)

    async def _try(self, url: str, validators: Validators, sink: Sink) -> FetchResult:
        attempt = 1
        while True:
            sink.restart()
            try:
                return await self._follow(url, validators, sink)
            except _Retryable as again:
                pause = self.limits.first_pause * 4 ** (attempt - 1) * random.uniform(0.75, 1.25)  # noqa: S311 (jitter)
                pause = max(pause, again.after or 0.0)
                if attempt >= self.limits.attempts or pause > self.limits.patience:
                    raise DownloadFailed(f"{redact_url(url)}: {again}") from again
                logger.info("%s: %s; again in %.1f s", redact_url(url), again, pause)
            # Without a slot: others may be served meanwhile. A pause that the host asked for holds for them too.
            await asyncio.sleep(pause)
            attempt += 1

    async def _follow(self, url: str, validators: Validators, sink: Sink) -> FetchResult:
        for _hop in range(_MOST_HOPS):
            here = _checked(url)
            async with self.hosts.slot(here.host, self.limits.patience) as slot:
                answer = await self._once(here, validators, sink, slot)
            if isinstance(answer, FetchResult):
                return answer
            url = answer
        raise DownloadRefused(f"{redact_url(url)}: more than {_MOST_HOPS - 1} redirects")

    async def _once(self, url: httpx.URL, validators: Validators, sink: Sink, slot: Slot) -> FetchResult | str:
        """One request: an answer, or where it sends us."""
        try:
            async with (
                asyncio.timeout(self.limits.time_limit),
                self._http.stream("GET", url, headers=validators.headers()) as response,
            ):
                if response.status_code in _REDIRECTS and (place := response.headers.get("location")):
                    return _joined(url, place)
                if response.status_code == httpx.codes.NOT_MODIFIED and validators.headers():
                    return FetchResult(str(url), not_modified=True, validators=validators)
                await self._check_status(response)
                await self._receive(response, sink, slot)
                return FetchResult(
                    str(url),
                    content_type=response.headers.get("content-type", "")[:200],
                    validators=Validators.of(response),
                )
        except TimeoutError as error:
            raise _Retryable(f"not done within {self.limits.time_limit:g} s") from error
        except httpx.InvalidURL as error:
            raise AddressForbidden(f"{url} is not an address ({error})") from error
        except httpx.TimeoutException as error:
            raise _Retryable(f"no answer within {self.limits.timeout:g} s") from error
        except httpx.HTTPError as error:
            if _certificate_problem(error):
                raise CertificateRefused(f"{url.host}: {error}") from error
            raise _Retryable(str(error) or type(error).__name__) from error

    async def _check_status(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == httpx.codes.OK:
            return
        said = f"the server answered {status} {response.reason_phrase}"[:200].strip()
        if status in _MAY_PASS or status >= 500:
            after = _retry_after(response.headers.get("retry-after", ""))
            if after is not None and status in _ASKS_FOR_A_PAUSE:
                await self.hosts.back_off(response.url.host, after, said)
            raise _Retryable(said, after)
        raise DownloadRefused(f"{redact_url(str(response.url))}: {said}")

    async def _receive(self, response: httpx.Response, sink: Sink, slot: Slot) -> None:
        promised = response.headers.get("content-length", "")
        if promised.isdecimal() and int(promised) > sink.limit:
            said = f"{redact_url(str(response.url))} has {int(promised):,} bytes"
            raise PdfTooLarge(f"{said}, more than the {sink.limit:,} allowed")
        decoder = Decoder(response.headers.get("content-encoding", ""), sink)
        try:
            async for piece in response.aiter_raw():
                decoder.write(piece)
                await slot.keep()
            decoder.finish()
        except PdfTooLarge as error:
            raise PdfTooLarge(f"{redact_url(str(response.url))}: {error}") from error
        except DownloadFailed as error:
            raise _Retryable(str(error)) from error


def redact_url(url: str) -> str:
    """An address as it may be written down: without what an API token or a signature says."""
    return _SECRET.sub(r"\1=***", url)[:500]


def _checked(url: str) -> httpx.URL:
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError, TypeError) as error:
        raise AddressForbidden(f"{url[:200]!r} is not an address ({error})") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise AddressForbidden(f"{url[:200]!r} is not an http or https address")
    if not _HOST.fullmatch(parsed.raw_host):
        raise AddressForbidden(f"{url[:200]!r} has no name or number of a host in it")
    if parsed.userinfo:
        raise AddressForbidden(f"the address at {parsed.host} has a user name or password in it")
    return parsed.copy_with(fragment=None)


def _joined(url: httpx.URL, place: str) -> str:
    try:
        return str(url.join(place))
    except (httpx.InvalidURL, ValueError) as error:
        raise AddressForbidden(f"{url} sends us to {place[:200]!r}, which is not an address") from error


def _retry_after(said: str) -> float | None:
    """Seconds, from a number or a date; None if it says nothing we understand."""
    said = said.strip()
    if said.isascii() and said.isdecimal():
        return float(min(int(said), 7 * 86_400))
    try:
        when = parsedate_to_datetime(said)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(max((when - datetime.now(UTC)).total_seconds(), 0.0), 7 * 86_400.0)


def _certificate_problem(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
