"""Sync of a source: new, revised, unchanged, removed and failed documents."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime
from typing import Any

import pytest

from clerk.documents import repository
from clerk.documents.repository import DocumentRef, FetchOutcome
from clerk.documents.storage import work_folder
from clerk.errors import ClaimLost, DownloadFailed, InvalidPluginResult, NotFetched
from clerk.pipeline import engine
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.client import FetchResult, Sink, Validators
from tests.sources.conftest import Town
from tests.sources.web import Reply, Web, pdf

DAY = date(2024, 3, 5)


def listing(*entries: DocumentRef | Exception) -> type[Fetcher]:
    """A fetcher that lists these documents, and raises the exceptions among them."""

    class Listing(Fetcher):
        async def documents(self) -> AsyncIterator[DocumentRef]:
            for entry in entries:
                if isinstance(entry, Exception):
                    raise entry
                yield entry

    return Listing


def test_new_documents_are_stored_by_meeting_and_date(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "minutes")
    web.serve_pdf("/2", "agenda")
    refs = [
        DocumentRef(f"{web.url}/1", "City Council", DAY),
        DocumentRef(f"{web.url}/2", "City Council", DAY, "agenda"),
    ]
    result = town.fetch(listing(*refs), {})
    assert result.outcomes == {FetchOutcome.NEW: 2}
    assert town.files() == ["_agendas/pdfs/CityCouncil/2024-03-05.pdf", "pdfs/CityCouncil/2024-03-05.pdf"]
    assert (town.storage.folder / "pdfs/CityCouncil/2024-03-05.pdf").read_bytes() == pdf("minutes")
    rows = town.rows("sha256, size_bytes, storage_key")
    assert (hashlib.sha256(pdf("minutes")).hexdigest(), len(pdf("minutes")), "pdfs/CityCouncil/2024-03-05.pdf") in rows


@pytest.mark.parametrize("validators", [True, False])
def test_unchanged_documents_are_recognised(web: Web, town: Town, validators: bool) -> None:
    web.serve_pdf("/1", "minutes", validators)
    source = listing(DocumentRef(f"{web.url}/1", "City Council", DAY))
    town.fetch(source, {})
    assert town.fetch(source, {}).outcomes == {FetchOutcome.UNCHANGED: 1}
    assert ("if-none-match" in web.requests[1].headers) == validators
    assert len(town.rows()) == 1


def test_an_unchanged_version_needs_no_request(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "minutes")
    source = listing(DocumentRef(f"{web.url}/1", "City Council", DAY, version="7"))
    town.fetch(source, {})
    assert town.fetch(source, {}).outcomes == {FetchOutcome.UNCHANGED: 1}
    assert len(web.requests) == 1
    newer = listing(DocumentRef(f"{web.url}/1", "City Council", DAY, version="8"))
    assert town.fetch(newer, {}).outcomes == {FetchOutcome.UNCHANGED: 1}
    assert len(web.requests) == 2


def test_a_revised_document_is_a_new_row_that_supersedes_the_old_one(web: Web, town: Town) -> None:
    source = listing(DocumentRef(f"{web.url}/1", "City Council", DAY))
    for text in ("first", "second", "third"):
        web.serve_pdf("/1", text, validators=True)
        town.fetch(source, {})
    assert town.rows("revision, superseded_at is null") == [(1, False), (2, False), (3, True)]
    assert town.files() == [f"pdfs/CityCouncil/2024-03-05{end}.pdf" for end in ("", "_r2", "_r3")]
    first, *later = (row[0] for row in town.rows("id"))
    assert town.rows("lineage_id") == [(None,), (first,), (first,)]
    assert later


def test_a_superseded_document_is_no_unit_of_ocr(web: Web, town: Town) -> None:
    source = listing(DocumentRef(f"{web.url}/1", "City Council", DAY))
    for text in ("first", "second"):
        web.serve_pdf("/1", text)
        town.fetch(source, {})
    assert units(town) == [row[0] for row in town.rows("id")][1:]


def units(town: Town) -> list[int]:
    rows = town.connection.execute(
        "select content_item_id from clerk_units_of_phase('springfield', 2, null) order by 1"
    ).fetchall()
    return [row[0] for row in rows]


def test_two_meetings_of_one_body_on_one_day_are_both_kept(web: Web, town: Town) -> None:
    for path in ("/1", "/2"):
        web.serve_pdf(path, path)
    source = listing(*(DocumentRef(f"{web.url}/{number}", "City Council", DAY) for number in (1, 2)))
    town.fetch(source, {})
    assert sorted(row[3:] for row in town.rows()) == [(1, 1), (2, 1)]
    assert {(town.storage.folder / name).read_bytes() for name in town.files()} == {pdf("/1"), pdf("/2")}
    assert town.fetch(source, {}).outcomes == {FetchOutcome.UNCHANGED: 2}


def test_meetings_that_share_a_folder_do_not_overwrite_each_other(web: Web, town: Town) -> None:
    for number, meeting in enumerate(("City Council", "CityCouncil", "citycouncil", "City/Council")):
        web.serve_pdf(f"/{number}", meeting)
        town.fetch(listing(DocumentRef(f"{web.url}/{number}", meeting, DAY)), {})
    assert len(town.files()) == 4
    assert len({name.casefold() for name in town.files()}) == 4


def test_a_document_at_another_address_is_the_same_document(web: Web, town: Town) -> None:
    web.serve_pdf("/old", "minutes")
    web.serve_pdf("/new", "minutes")
    town.fetch(listing(DocumentRef(f"{web.url}/old", "City Council", DAY)), {})
    result = town.fetch(listing(DocumentRef(f"{web.url}/new", "City Council", DAY)), {})
    assert (result.outcomes, result.removed) == ({FetchOutcome.UNCHANGED: 1}, 0)
    assert town.rows("source_url") == [(f"{web.url}/new",)]


def test_a_revised_document_at_another_address_is_a_revision(web: Web, town: Town) -> None:
    web.serve_pdf("/old", "first")
    web.serve_pdf("/new", "second")
    town.fetch(listing(DocumentRef(f"{web.url}/old", "City Council", DAY)), {})
    assert town.fetch(listing(DocumentRef(f"{web.url}/new", "City Council", DAY)), {}).outcomes == {
        FetchOutcome.REVISED: 1
    }
    assert [row[3:] for row in town.rows()] == [(1, 1), (1, 2)]


def test_a_corrected_date_supersedes_the_wrong_one(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "minutes")
    town.fetch(listing(DocumentRef(f"{web.url}/1", "City Council", DAY, key="event 1")), {})
    other = date(2024, 3, 6)
    assert town.fetch(listing(DocumentRef(f"{web.url}/1", "City Council", other, key="event 1")), {}).outcomes == {
        FetchOutcome.REVISED: 1
    }
    assert town.rows("date, superseded_at is null") == [(DAY, False), (other, True)]


def test_removed_documents_are_marked_until_they_are_listed_again(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "minutes")
    source = listing(DocumentRef(f"{web.url}/1", "City Council", DAY))
    town.fetch(source, {})
    assert town.fetch(listing(), {}).removed == 1
    assert town.fetch(listing(), {}).removed == 0
    assert town.rows("removed_at_source is null") == [(False,)]
    town.fetch(source, {})
    assert town.rows("removed_at_source is null") == [(True,)]


def test_an_interrupted_listing_downloads_what_it_listed_and_removes_nothing(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "one")
    web.serve_pdf("/2", "two")
    first, second = DocumentRef(f"{web.url}/1", "A", DAY), DocumentRef(f"{web.url}/2", "B", DAY)
    town.fetch(listing(first), {})
    with pytest.raises(DownloadFailed, match="down"):
        town.fetch(listing(second, DownloadFailed("the source is down")), {})
    assert town.rows("meeting, removed_at_source is null") == [("A", True), ("B", True)]


@pytest.mark.parametrize(
    ("reply", "code", "message"),
    [
        (Reply(b"<!DOCTYPE html><title>Log in</title>"), "NotAPdf", "returned a web page instead of a PDF"),
        (
            Reply(b"\n\n <html><body>Not found</body></html>", headers={"Content-Type": "application/pdf"}),
            "NotAPdf",
            "a web page",
        ),
        (Reply(b"PK\x03\x04word", headers={"Content-Type": "application/zip"}), "NotAPdf", "application/zip"),
        (Reply(b""), "PdfEmpty", "empty"),
        (Reply(b"no", 404), "DownloadRefused", "404"),
        (Reply(b"no", 500), "DownloadFailed", "500"),
        (Reply(status=302, headers={"Location": "http://169.254.169.254/"}), "AddressForbidden", "public"),
        (Reply(bytes(3_000_000)), "PdfTooLarge", "2,000,000"),
    ],
)
def test_a_failed_download_is_a_failed_document_with_its_reason(
    web: Web, town: Town, reply: Reply, code: str, message: str
) -> None:
    web.routes["/1"] = reply
    web.serve_pdf("/2", "fine")
    town.http = town.http.with_limits(max_bytes=2_000_000)
    result = town.fetch(listing(DocumentRef(f"{web.url}/1", "A", DAY), DocumentRef(f"{web.url}/2", "B", DAY)), {})
    assert result.outcomes == {FetchOutcome.FAILED: 1, FetchOutcome.NEW: 1}
    failed = next(row for row in repository.list_documents(town.connection, "springfield") if row.meeting == "A")
    with pytest.raises(NotFetched, match=message) as raised:
        repository.require_fetched(failed)
    assert raised.value.code == code
    assert [name for name in town.files() if "/A/" in name] == []
    assert town.files() == ["pdfs/B/2024-03-05.pdf"]
    assert failed.id in units(town)


def process_all(town: Town) -> None:
    """Record the results of OCR: downloaded documents are processed, others fail with the code of their download."""
    for content_item_id in units(town):
        document = repository.document_by_id(town.connection, content_item_id)
        code = document.fetch_error_code if document.sha256 is None else None
        town.connection.execute(
            """
            insert into content_item_pipeline_state (content_item_id, pipeline, status, error_code, updated_at)
            values (%s, 'ocr', %s, %s, clerk_now())
            on conflict (content_item_id, pipeline) do update
            set status = excluded.status, error_code = excluded.error_code, updated_at = excluded.updated_at
            """,
            [content_item_id, "failed_terminal" if code else "processed", code],
        )


def test_a_pdf_damaged_before_ocr_is_downloaded_and_processed_again(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "minutes", validators=True)
    source = listing(DocumentRef(f"{web.url}/1", "A", DAY))
    town.fetch(source, {})
    path = town.storage.folder / "pdfs/A/2024-03-05.pdf"
    path.write_bytes(path.read_bytes()[:10])
    (document,) = units(town)
    town.connection.execute(
        """
        insert into content_item_pipeline_state (content_item_id, pipeline, status, error_code, updated_at)
        values (%s, 'ocr', 'failed_terminal', 'PdfAltered', clerk_now())
        """,
        [document],
    )
    assert units(town) == []
    assert town.fetch(source, {}).outcomes == {FetchOutcome.UNCHANGED: 1}
    assert path.read_bytes() == pdf("minutes")
    assert units(town) == [document]


@pytest.mark.parametrize(("status", "counted_again"), [(500, True), (404, False)])
def test_a_retryable_failure_counts_in_every_run_and_a_permanent_one_once(
    web: Web, town: Town, status: int, counted_again: bool
) -> None:
    web.routes["/1"] = Reply(b"no", status)
    source = listing(DocumentRef(f"{web.url}/1", "A", DAY))
    town.fetch(source, {})
    process_all(town)
    town.fetch(source, {})
    assert bool(units(town)) == counted_again
    process_all(town)
    web.serve_pdf("/1", "here at last")
    assert town.fetch(source, {}).outcomes == {FetchOutcome.NEW: 1}
    assert len(units(town)) == 1
    process_all(town)
    assert town.rows("revision, fetch_error_code") == [(1, None)]
    assert units(town) == []
    assert town.fetch(source, {}).outcomes == {FetchOutcome.UNCHANGED: 1}
    assert units(town) == []


def test_a_failed_check_keeps_the_stored_copy(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "minutes")
    source = listing(DocumentRef(f"{web.url}/1", "A", DAY))
    town.fetch(source, {})
    process_all(town)
    web.serve_html("/1", "<html>maintenance</html>")
    town.fetch(source, {})
    (document,) = repository.list_documents(town.connection, "springfield")
    assert document.fetch_error_code == "NotAPdf"
    repository.require_fetched(document)
    assert units(town) == []
    assert town.files() == ["pdfs/A/2024-03-05.pdf"]


def test_a_pdf_lost_before_ocr_is_downloaded_again(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "minutes", validators=True)
    source = listing(DocumentRef(f"{web.url}/1", "A", DAY, version="1"))
    town.fetch(source, {})
    path = town.storage.folder / "pdfs/A/2024-03-05.pdf"
    path.unlink()
    assert town.fetch(source, {}).outcomes == {FetchOutcome.UNCHANGED: 1}
    assert path.read_bytes() == pdf("minutes")
    process_all(town)
    path.unlink()
    town.fetch(source, {})
    assert not path.exists()


@pytest.mark.parametrize("meeting", ["../../etc", "/", "..", "a/../../b", "\0evil", ".", "x" * 5000, "…", "\ud800"])
def test_meeting_names_never_lead_out_of_the_sites_folder(web: Web, town: Town, meeting: str) -> None:
    web.serve_pdf("/1", "minutes")
    assert town.fetch(listing(DocumentRef(f"{web.url}/1", meeting, DAY)), {}).outcomes == {FetchOutcome.NEW: 1}
    (file,) = town.files()
    assert file.startswith("pdfs/")
    assert file.endswith("/2024-03-05.pdf")
    assert file.count("/") == 2
    assert [path.name for path in town.storage.root.iterdir()] == ["springfield"]


INVALID_REFS: list[tuple[Any, str]] = [
    ("a document", "listed 'a document', which is not a DocumentRef"),
    (DocumentRef("http://x.example", "A", DAY, "video"), "kind is 'video', not one of minutes, agenda,"),
    (DocumentRef("http://x.example", "A", "2024-03-05"), "date is '2024-03-05', not a datetime.date or None"),  # type: ignore[arg-type]
    (DocumentRef(None, "A", DAY), "url is None, not text: A"),  # type: ignore[arg-type]
    (DocumentRef("http://x.example", None, DAY), "meeting is None, not text: http://x.example"),  # type: ignore[arg-type]
    (DocumentRef("http://x.example", "A", DAY, key=7), "key is 7, not text: http://x.example"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("ref", "message"), INVALID_REFS)
def test_an_invalid_document_ref_is_rejected_with_the_plugins_name(town: Town, ref: Any, message: str) -> None:
    with pytest.raises(InvalidPluginResult, match="plugin a plugin") as raised:
        town.fetch(listing(ref), {})
    assert message in str(raised.value)


def test_a_listing_that_is_no_async_generator_is_rejected(town: Town) -> None:
    class ReturnsList(Fetcher):
        def documents(self) -> Any:
            return [DocumentRef("http://x.example", "A", DAY)]

    with pytest.raises(InvalidPluginResult, match="returned list, not an async generator"):
        town.fetch(ReturnsList, {})


def test_an_error_in_a_plugins_download_fails_only_that_document(town: Town) -> None:
    class OwnDownload(Fetcher):
        async def documents(self) -> AsyncIterator[DocumentRef]:
            yield DocumentRef("own:1", "A", DAY)
            yield DocumentRef("own:2", "B", DAY)
            yield DocumentRef("own:3", "C", DAY)

        async def download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
            if ref.url == "own:1":
                raise KeyError("session")
            if ref.url == "own:3":
                raise RuntimeError("no session")
            sink.write(pdf("own"))
            return FetchResult(ref.url)

    assert town.fetch(OwnDownload, {}).outcomes == {FetchOutcome.FAILED: 2, FetchOutcome.NEW: 1}
    failed = {meeting: (code, message) for meeting, code, message in town.rows(
        "meeting, fetch_error_code, fetch_error_message"
    )}  # fmt: skip
    code, message = failed["A"]
    assert code == "PluginProgrammingError", "the source is not to blame"
    assert message.startswith("plugin a plugin raised in download: KeyError: 'session' (")
    assert message.endswith(", in download)")
    code, message = failed["C"]
    assert code == "DownloadFailed"
    assert message.startswith("plugin a plugin raised in download: RuntimeError: no session (")


def test_stale_temporary_files_are_deleted_and_recent_ones_are_kept(town: Town) -> None:
    import os

    folder = work_folder(town.storage.folder)
    folder.mkdir(parents=True)
    for name, age in (("old.part", 100_000), ("young.part", 10)):
        (folder / name).write_bytes(b"x")
        moment = (folder / name).stat().st_mtime - age
        os.utime(folder / name, (moment, moment))
    town.fetch(listing(), {})
    assert town.files() == [".incoming/young.part"]


def test_a_second_attempt_of_a_run_does_not_request_checked_documents_again(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "one")
    source = listing(DocumentRef(f"{web.url}/1", "A", DAY))
    started_at = datetime.now(UTC)
    town.fetch(source, {}, started_at)
    assert town.fetch(source, {}, started_at).outcomes == {FetchOutcome.UNCHANGED: 1}
    assert len(web.requests) == 1
    town.fetch(source, {}, datetime.now(UTC))
    assert len(web.requests) == 2


def test_progress_is_reported_and_a_lost_claim_ends_the_fetch(web: Web, town: Town) -> None:
    for number in range(20):
        web.serve_pdf(f"/{number}", str(number))
    source = listing(*(DocumentRef(f"{web.url}/{number}", "A", DAY) for number in range(20)))
    town.fetch(source, {})
    assert (town.progress[0], town.progress[-1]) == ((0, 20), (20, 20))
    town.claim_lost = True
    before = len(web.requests)
    with pytest.raises(ClaimLost):
        town.fetch(source, {})
    assert len(web.requests) == before


def test_long_keys_and_urls_do_not_fail_other_documents(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "one")
    town.fetch(
        listing(
            DocumentRef(f"{web.url}/1", "A", DAY, key="k" * 5000 + "1"),
            DocumentRef(f"{web.url}/1", "B", DAY, key="k" * 5000 + "2", version="v" * 5000),
            DocumentRef(f"{web.url}/1?{'é' * 3000}", "C", DAY),
            DocumentRef(f"{web.url}/1?\ud800\0", "D", DAY),
        ),
        {},
    )
    assert sorted(row[0] for row in town.rows("meeting")) == ["A", "B", "D"]


def test_of_two_documents_with_one_key_the_second_is_skipped(web: Web, town: Town) -> None:
    web.serve_pdf("/1", "one")
    first = DocumentRef(f"{web.url}/1", "A", DAY, key="k")
    second = DocumentRef(f"{web.url}/2", "B", DAY, key="k")
    third = DocumentRef(f"{web.url}/3", "C", DAY, key="k")
    result = town.fetch(listing(first, second, third, first), {})
    assert (result.outcomes, town.rows("meeting")) == ({FetchOutcome.NEW: 1}, [("A",)])
    assert town.skipped[0] == (
        f"{web.url}/2 (B, 2024-03-05, minutes) has the same key as {web.url}/1 (A, 2024-03-05, minutes)"
        " earlier in the listing: k"
    )
    names = town.connection.execute("select name, reason_code from skipped_documents order by name").fetchall()
    assert names == [
        (f"{web.url}/2 (B, 2024-03-05, minutes)", "DuplicateKey"),
        (f"{web.url}/3 (C, 2024-03-05, minutes)", "DuplicateKey"),
    ]


def test_a_failed_document_is_a_unit_of_the_ocr_phase(web: Web, town: Town) -> None:
    web.routes["/1"] = Reply(b"no", 404)
    run_id = engine.start_run(town.connection, "springfield")
    town.fetch(listing(DocumentRef(f"{web.url}/1", "A", DAY)), {})
    engine.start_phase(town.connection, "springfield", run_id, 2)
    assert town.connection.execute("select ocr_total from sites").fetchone() == (1,)
