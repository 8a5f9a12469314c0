"""Runs fetchers against a local web server without a database, and makes the recordings of tests/sources/recordings.

`python -m tests.sources.offline` writes the recordings again, from the portals of `vendor_sites`.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from clerk.documents.media_types import PDF, PDF_OR_HTML
from clerk.documents.repository import DocumentRef
from clerk.sources.fetcher import Site
from clerk.sources.http.body import Sink
from clerk.sources.http.client import PublicOnlyTransport, Validators
from clerk.sources.recording import Answer, Recording, RecordingTransport, ReplayTransport
from clerk.sources.replay import ReplayClient
from clerk.sources.vendors import BUILT_IN
from tests.sources.conftest import QUICK
from tests.sources.vendor_sites import EARLIER, PORTALS, TODAY, Server
from tests.sources.web import pdf, run_server

RECORDINGS = Path(__file__).parent / "recordings"
_ORIGIN = "https://springfield.example"


class LocalClient(ReplayClient):
    """The client of a replay, without limits on requests, connected to servers of this machine."""

    def __init__(self, transport: Any = None) -> None:
        empty = Recording("", Site("", "", {}), TODAY)
        super().__init__(ReplayTransport(empty))
        self.limits = QUICK
        self._http._transport = transport or PublicOnlyTransport(QUICK)


@dataclass
class Listed:
    refs: list[DocumentRef]
    skipped: list[str] = field(default_factory=list)

    @property
    def documents(self) -> list[tuple[str, str, str]]:
        """Meeting, date and kind."""
        return [(ref.meeting, str(ref.date), ref.kind or "") for ref in self.refs]


def list_offline(label: str, extra: Mapping[str, Any], today: date = TODAY) -> Listed:
    async def run() -> Listed:
        async with LocalClient() as client:
            BUILT_IN[label].check(extra)
            with contextlib.closing(BUILT_IN[label](Site("springfield", "Springfield", extra), client)) as fetcher:
                fetcher.today = today
                refs = [ref async for ref in fetcher.documents()]
                return Listed(refs, fetcher.skipped)

    return asyncio.run(run())


def download_offline(label: str, extra: Mapping[str, Any], ref: DocumentRef) -> bytes:
    async def run() -> bytes:
        async with LocalClient() as client:
            buffer = io.BytesIO()
            with contextlib.closing(BUILT_IN[label](Site("springfield", "Springfield", extra), client)) as fetcher:
                await fetcher.download(ref, Validators(), Sink(buffer, 1_000_000))
            return buffer.getvalue()

    return asyncio.run(run())


async def _record(label: str, extra: Mapping[str, Any]) -> Recording:
    recording = Recording(label, Site("springfield", "Springfield", extra), TODAY)
    transport = RecordingTransport(PublicOnlyTransport(QUICK), recording, 1_000_000)
    async with LocalClient(transport) as client:
        with contextlib.closing(BUILT_IN[label](recording.site, client)) as fetcher:
            refs = [ref async for ref in fetcher.documents()]
            first = next((ref for ref in refs if ref.media_type in (PDF, PDF_OR_HTML)), refs[0])
            await fetcher.download(first, Validators(), Sink(io.BytesIO(), 1_000_000))
    return recording


def make_recordings(folder: Path = RECORDINGS) -> None:
    """Record each portal, with one document."""
    for label, serve in PORTALS.items():
        with run_server() as web:
            portal = serve(Server(web, label, pdf))
            recording = asyncio.run(_record(label, {**portal.extra, "since": f"{EARLIER.year}-01-01"}))

            def public(text: str, local: str = web.url) -> str:
                return text.replace(local, _ORIGIN)

            extra = {
                name: public(value) if isinstance(value, str) else value for name, value in recording.site.extra.items()
            }
            recording.site = dataclasses.replace(recording.site, extra=extra)
            recording.answers = [
                Answer(
                    answer.method,
                    public(answer.url),
                    answer.status,
                    {name: public(value) for name, value in answer.headers.items()},
                    answer.body.replace(web.url.encode(), _ORIGIN.encode()),
                    answer.sent,
                )
                for answer in recording.answers
            ]
            recording.write(folder / label, replace=True)


if __name__ == "__main__":
    make_recordings()
