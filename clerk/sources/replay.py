"""Runs a fetcher on a recording: without network, database and rate limit."""

from __future__ import annotations

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from clerk.documents.repository import DocumentRef
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.body import Sink
from clerk.sources.http.client import HttpLimits, RateLimitedClient, Validators
from clerk.sources.http.rate_limit import HostRateLimiter, Slot
from clerk.sources.listed_documents import listed_documents
from clerk.sources.recording import NotRecorded, Recording, ReplayTransport

Result = TypeVar("Result")
_LIMITS = HttpLimits("clerk (replay)", interval=0.0, retry_delay=0.0)


class _Unlimited(HostRateLimiter):
    """Waits for nothing: no host is contacted."""

    @contextlib.asynccontextmanager
    async def slot(self, host: str, max_wait: float, min_interval: float = 0.0) -> AsyncIterator[Slot]:
        yield Slot(self, 0)

    async def back_off(self, host: str, seconds: float, reason: str) -> None:
        pass


def _no_database() -> NoReturn:
    raise RuntimeError("a replay has no database")


class ReplayClient(RateLimitedClient):
    """The client of fetchers, with recorded answers. A pause that a host asked for is not waited for."""

    def __init__(self, transport: ReplayTransport) -> None:
        super().__init__(_LIMITS, _no_database, transport=transport)
        self.rate_limiter = _Unlimited(_no_database, 0.0, 1, _LIMITS.timeout)


class ReplayedSource:
    """A recorded source, read by one fetcher. See the fixture `replay` of clerk.testing."""

    def __init__(self, folder: Path, fetcher_class: type[Fetcher], extra: Mapping[str, Any] | None = None) -> None:
        self.recording = Recording.read(folder)
        self.fetcher_class = fetcher_class
        self.site = replace(self.recording.site, extra={**self.recording.site.extra, **(extra or {})})
        self.skipped: list[str] = []
        """Why entries of the last listing were skipped."""
        self._transport = ReplayTransport(self.recording)

    @property
    def requests(self) -> list[str]:
        """The requests so far, as `GET https://…`."""
        return self._transport.requests

    def documents(self) -> list[DocumentRef]:
        """The listing. Raises NotRecorded for a request that was not recorded, also if the fetcher catches it."""

        async def list_documents(fetcher: Fetcher) -> list[DocumentRef]:
            self.skipped = fetcher.skipped
            return [ref async for ref in listed_documents(fetcher, f"the fetcher {self.fetcher_class.__name__}")]

        return self._run(list_documents)

    def download(self, ref: DocumentRef) -> bytes:
        """The file of a document, if it was recorded with `--documents`."""

        async def download(fetcher: Fetcher) -> bytes:
            buffer = io.BytesIO()
            await fetcher.download(ref, Validators(), Sink(buffer, _LIMITS.max_bytes))
            return buffer.getvalue()

        return self._run(download)

    def _run(self, function: Callable[[Fetcher], Awaitable[Result]]) -> Result:
        self.fetcher_class.check(self.site.extra)

        async def run() -> Result:
            async with ReplayClient(self._transport) as client:
                with contextlib.closing(self.fetcher_class(self.site, client)) as fetcher:
                    fetcher.today = self.recording.recorded_on
                    return await function(fetcher)

        result = asyncio.run(run())
        if missing := self._transport.not_recorded:
            raise NotRecorded(f"the recording has no answer to {missing[0]}, and the fetcher ignored the error")
        return result
