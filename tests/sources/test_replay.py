"""Fetchers on the recordings of tests/sources/recordings: without network and database, on the day of the recording."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from clerk.documents.media_types import HTML, PDF, PDF_OR_HTML
from clerk.documents.repository import DocumentRef
from clerk.errors import DownloadRefused, InvalidPluginResult, SourceUnreadable
from clerk.sources.fetcher import Fetcher
from clerk.sources.recording import NotRecorded, Recording, RecordingError
from clerk.sources.replay import ReplayedSource
from clerk.sources.vendors import BUILT_IN
from clerk.sources.vendors.municode import Municode
from clerk.testing import Replay
from tests.sources.offline import RECORDINGS
from tests.sources.vendor_answers import EMPTY, NOT_UNDERSTOOD
from tests.sources.vendor_sites import PORTALS, TODAY, Portal, Server
from tests.sources.web import Web, pdf


def described(refs: list[DocumentRef], *media_types: str) -> set[tuple[str, date | None, str | None]]:
    return {(ref.meeting, ref.date, ref.kind) for ref in refs if ref.media_type in media_types}


def served_portal(web: Web, label: str) -> Portal:
    """The portal from which a recording was made."""
    return PORTALS[label](Server(web, label, pdf))


@pytest.mark.parametrize("label", PORTALS)
def test_a_recorded_vendor_is_listed_and_downloaded(replay: Replay, web: Web, label: str) -> None:
    source = replay(f"recordings/{label}", BUILT_IN[label])
    portal, age = served_portal(web, label), source.recording.recorded_on - TODAY
    refs = source.documents()
    assert described(refs, PDF, PDF_OR_HTML) == {(name, day + age, kind) for name, day, kind in portal.documents}
    assert described(refs, HTML) == {(name, day + age, kind) for name, day, kind in portal.pages}
    assert len(refs) == len(portal.documents | portal.pages) == len({ref.identity for ref in refs})
    assert source.skipped == []
    assert source.download(next((ref for ref in refs if ref.media_type != HTML), refs[0]))
    with pytest.raises(NotRecorded, match="the recording has no answer to "):
        source.download(DocumentRef("https://other.example/", "", None))


def test_what_was_skipped_stays_known_after_a_download(replay: Replay) -> None:
    class Skipping(Municode):
        async def documents(self) -> AsyncIterator[DocumentRef]:
            async for ref in super().documents():
                yield ref
            self.skip("a reason")

    source = replay("recordings/municode", Skipping)
    refs = source.documents()
    assert source.download(refs[0])
    assert source.skipped == ["a reason"]


def altered(folder: Path, label: str, listing: str, body: str) -> ReplayedSource:
    """A recording with another answer to the requests for the listing."""
    recording = Recording.read(RECORDINGS / label)
    recording.answers = [
        replace(answer, body=body.encode()) if urlsplit(answer.url).path == listing else answer
        for answer in recording.answers
    ]
    recording.write(folder, replace=True)
    return ReplayedSource(folder, BUILT_IN[label])


@pytest.mark.parametrize("label", PORTALS)
def test_an_answer_that_is_not_understood_is_an_error_and_an_empty_listing_is_not(
    web: Web, tmp_path: Path, label: str
) -> None:
    listing = served_portal(web, label).listing
    with pytest.raises(SourceUnreadable) as raised:
        altered(tmp_path / label, label, listing, '{"error": "<html>log in</html>"}').documents()
    assert NOT_UNDERSTOOD[label] in str(raised.value)
    assert listing in str(raised.value)
    assert altered(tmp_path / label, label, listing, EMPTY[label]).documents() == []


def test_the_recordings_are_made_from_the_portals_of_the_tests() -> None:
    """`python -m tests.sources.offline` writes them again."""
    assert {path.name for path in RECORDINGS.iterdir()} == set(PORTALS)


class Pages(Fetcher):
    async def documents(self):  # type: ignore[no-untyped-def]
        for name in self.site.extra["pages"]:
            page = await self.client.get(f"https://town.example/{name}")
            yield DocumentRef(page.url, page.text, self.today)


class Lenient(Pages):
    async def documents(self):  # type: ignore[no-untyped-def]
        try:
            await self.client.get("https://town.example/missing")
        except Exception:  # noqa: BLE001 (the fetcher under test ignores every error)
            yield DocumentRef("https://town.example/a", "Council", None)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """/a has two answers in turn, /gone an error, /busy an error and then an answer."""
    entries = [
        ("/a", 200, "one"),
        ("/a", 200, "two"),
        ("/gone", 404, "no"),
        ("/busy", 503, "later"),
        ("/busy", 200, "now"),
    ]
    answers = []
    for number, (path, status, text) in enumerate(entries):
        (tmp_path / f"{number}.txt").write_text(text)
        url = f"https://town.example{path}"
        answers.append({"method": "GET", "url": url, "status": status, "headers": {}, "file": f"{number}.txt"})
    content = {
        "format": 1,
        "recorded_on": "2024-02-29",
        "scraper": "pages",
        "site": {"subdomain": "town", "name": "Town", "extra": {"pages": ["a", "a", "a", "busy"]}},
        "redacted": [],
        "answers": answers,
    }
    (tmp_path / "recording.json").write_text(json.dumps(content))
    return tmp_path


def test_equal_requests_get_their_answers_in_order_and_today_is_the_day_of_the_recording(recorded: Path) -> None:
    refs = ReplayedSource(recorded, Pages).documents()
    assert [(ref.meeting, ref.date) for ref in refs] == [
        (text, date(2024, 2, 29)) for text in ("one", "two", "two", "now")
    ]


def test_an_unrecorded_request_fails_with_its_address_also_if_the_fetcher_ignores_it(recorded: Path) -> None:
    for fetcher in (Pages, Lenient):
        with pytest.raises(NotRecorded, match=r"GET https://town.example/missing"):
            ReplayedSource(recorded, fetcher, {"pages": ["missing"]}).documents()


def test_a_replay_refuses_what_a_run_refuses(recorded: Path) -> None:
    class WrongDate(Fetcher):
        async def documents(self) -> AsyncIterator[DocumentRef]:
            yield DocumentRef("https://town.example/1.pdf", "Council", "2024-03-05")  # type: ignore[arg-type]

    class Awaited(Fetcher):
        async def documents(self) -> list[DocumentRef]:  # type: ignore[override]
            return []

    for fetcher, message in [
        (WrongDate, "the fetcher WrongDate listed a document whose date is '2024-03-05', not a datetime.date or None"),
        (Awaited, r"documents\(\) returned coroutine, not an async generator; `async def .*` must contain `yield`"),
    ]:
        with pytest.raises(InvalidPluginResult, match=message):
            ReplayedSource(recorded, fetcher).documents()


def test_recorded_errors_are_errors(recorded: Path) -> None:
    with pytest.raises(DownloadRefused, match="404"):
        ReplayedSource(recorded, Pages, {"pages": ["gone"]}).documents()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not a recording"),
        ('{"format": 2}', "its format is 2, not 1"),
        ("[]", "is not a recording"),
        (None, "there is no "),
    ],
)
def test_a_folder_without_a_recording_is_an_error(tmp_path: Path, content: str | None, problem: str) -> None:
    if content is not None:
        (tmp_path / "recording.json").write_text(content)
    with pytest.raises(RecordingError, match=problem):
        ReplayedSource(tmp_path, Pages)


def test_a_recording_reads_no_file_outside_its_folder(recorded: Path) -> None:
    text = (recorded / "recording.json").read_text().replace("0.txt", "../0.txt")
    (recorded / "recording.json").write_text(text)
    with pytest.raises(RecordingError, match="is not the name of a file"):
        ReplayedSource(recorded, Pages)
