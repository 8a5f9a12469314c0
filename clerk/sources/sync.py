"""Fetch of one site: list the documents of the source, compare with the database, download, record.

A document that cannot be downloaded is recorded with its error and fails in the OCR phase; it does not fail the fetch.
A document without a date in the listing gets one from an operator or from its PDF (`pdf_details`), or it is skipped.
A listing that raises fails the fetch after the documents that it listed were downloaded. In that case no document is
recorded as removed at the source. The same holds for a fetch that reaches its budget: it ends without the remaining
documents, the run is partial, and the next one begins with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path

from clerk.documents import repository, skipped, storage_scan
from clerk.documents.html_content import has_same_text
from clerk.documents.media_types import HTML, NAMES, PDF, PDF_OR_HTML, READABLE, STORED_EXTENSIONS, type_of_content
from clerk.documents.repository import DocumentRef, Download, FetchOutcome, TrackedDocument
from clerk.documents.sanitize import clean_text
from clerk.documents.skipped import OperatorDetails, SkippedEntry
from clerk.documents.storage import (
    Document,
    PendingDownload,
    SiteStorage,
    delete_stale,
    pending_download,
    sha256_file,
    work_folder,
)
from clerk.error_causes import is_host_error
from clerk.errors import (
    BudgetExceeded,
    DownloadFailed,
    EntriesSkipped,
    FetchError,
    InvalidPluginResult,
    JobError,
    NotAPdf,
    PdfEmpty,
    PdfError,
    PluginProgrammingError,
    RobotsDisallowed,
)
from clerk.humanize import pluralize
from clerk.ocr.first_page_ocr import recognize_first_page
from clerk.ocr.ocr_engine import TESSEROCR, EngineReference
from clerk.ocr.tesseract import DEFAULT_LANGUAGES, LANGUAGES
from clerk.plugins.isolation import as_job_error
from clerk.sources.fetcher import Fetcher
from clerk.sources.http.client import FetchResult, Sink, Validators, redact_url
from clerk.sources.http.rate_limit import Connect
from clerk.sources.listed_documents import listed_documents
from clerk.sources.pdf_details import DETECTION, Undated, fill_from_pdf, fill_from_tracked, with_kind
from clerk.sources.sync_plan import SyncItem, apply_details, diff, find_duplicates, unfetched_first

logger = logging.getLogger(__name__)

_CONCURRENT_DOWNLOADS = 6
"""Per site. The limit per host is lower."""
_MAX_DOCUMENTS = 500_000
_MAX_URL_BYTES = 2000
_MAX_KEY_LENGTH = 500
"""URLs and keys are indexed, and a Postgres index entry holds at most 2,700 bytes."""
_STALE_AFTER = 86_400.0


@dataclass
class SyncResult:
    """Number of documents by outcome of a fetch."""

    outcomes: Counter[FetchOutcome] = field(default_factory=Counter)
    removed: int = 0
    """Documents that the source no longer lists."""
    skipped: int = 0
    """Entries that did not become documents, by the listing or after it, without those that an operator ignores."""

    def __str__(self) -> str:
        numbers = {**self.outcomes, FetchOutcome.SKIPPED: self.skipped}
        counts = [f"{numbers.get(outcome, 0):,} {outcome}" for outcome in FetchOutcome]
        return ", ".join([*counts, f"{self.removed} removed at the source"])


class SourceSync:
    """Synchronises the documents of one site with its source."""

    def __init__(
        self,
        plugin: str,
        fetcher: Fetcher,
        storage: SiteStorage,
        connect: Connect,
        max_bytes: int,
        report: Callable[[int, int], None],
        record_skipped: Callable[[int, list[SkippedEntry], bool], int],
        run_started_at: datetime | None = None,
        engine: EngineReference | None = TESSEROCR,
    ) -> None:
        self.plugin = plugin
        self.fetcher = fetcher
        self.storage = storage
        self.connect = connect
        self.max_bytes = max_bytes
        self.report = report
        self.record_skipped = record_skipped
        """Called with the number of skipped entries, the entries, and whether they are all of a complete listing.
        Returns the number of those that are reported."""
        self.run_started_at = run_started_at
        """Documents that an earlier attempt of this run has checked since then are not requested again."""
        self.engine = engine
        """For the first page of a scan without a date. None: there is none on this machine."""
        self.result = SyncResult()
        self._undated = str(fetcher.site.extra.get("undated", "skip"))
        self._day_first = bool(fetcher.site.extra.get("day_first"))
        self._details: dict[str, OperatorDetails] = {}
        self._unread: dict[str, SkippedEntry] = {}
        self._budget = fetcher.client.budget
        self._stopped: BudgetExceeded | None = None
        self._reporting = asyncio.Lock()
        self._removed: list[TrackedDocument] = []
        """Documents that the source no longer lists under their key."""

    async def run(self) -> SyncResult:
        await asyncio.to_thread(delete_stale, self.storage.folder, _STALE_AFTER)
        listed: list[DocumentRef] = []
        before = await asyncio.to_thread(self._read_known)
        self.fetcher.known = frozenset(one.source_key for one in before if one.is_stored and not one.pdf_missing)
        self.fetcher.client.heartbeat()
        error = await self._list_documents(listed)
        await self._record_skipped(is_complete=False)
        tracked = await asyncio.to_thread(self._read_known)
        refs, duplicates = find_duplicates(listed)
        for entry in duplicates:
            self.fetcher.skip_entry(entry)
        plan = diff([apply_details(ref, self._details) for ref in refs], tracked, complete=error is None)
        self._removed = plan.removed
        await self._process_all(unfetched_first(plan.items))
        if self._stopped is not None:
            self._report_budget(self._stopped, len(plan.items) - self.result.outcomes.total())
        await self._record_skipped(is_complete=error is None and self._stopped is None)
        if error is not None and error is not self._stopped:
            raise error
        if self._stopped is not None:
            return self.result
        await asyncio.to_thread(self._record_removed, plan.removed)
        if self._has_only_skipped():
            raise EntriesSkipped(
                f"all {self.fetcher.skipped_count:,} entries of the listing were skipped; "
                f"the first: {self.fetcher.skipped[0]}"
            )
        return self.result

    def _report_budget(self, error: BudgetExceeded, remaining: int) -> None:
        """The run has the reason in its outcome: see clerk_phase_outcome."""
        documents = pluralize(remaining, "document was", "documents were")
        them = "it" if remaining == 1 else "them"
        rest = f"; {documents} not requested, and the next run begins with {them}" if remaining else ""
        entry = SkippedEntry(f"{error}{rest}", error.code, skipped.BUDGET_KEY, skipped.BUDGET_KEY)
        logger.warning("%s: %s", self.storage.subdomain, entry.reason)
        # First, because only MAX_ENTRIES are stored. Not counted: it is no entry of the source.
        self.fetcher.skipped_entries.insert(0, entry)

    def _has_only_skipped(self) -> bool:
        """Nothing of the listing can be used, and an operator does not ignore all of it."""
        ignored = {key for key, details in self._details.items() if details.ignored}
        is_open = any(skipped.entry_key(entry) not in ignored for entry in self.fetcher.skipped_entries)
        return is_open and self.result.outcomes.total() == self.result.outcomes[FetchOutcome.SKIPPED]

    async def _record_skipped(self, *, is_complete: bool) -> None:
        entries = list(self.fetcher.skipped_entries)
        self.result.skipped = await asyncio.to_thread(
            self.record_skipped, self.fetcher.skipped_count, entries, is_complete
        )

    def _read_known(self) -> list[TrackedDocument]:
        """Read what operators said, in which PDFs no date was found, and the tracked documents."""
        with self.connect() as connection:
            self._details = skipped.read_details(connection, self.storage.subdomain)
            self._unread = skipped.read_unread(connection, self.storage.subdomain, DETECTION)
            return repository.list_tracked(connection, self.storage.subdomain)

    async def _list_documents(self, listed: list[DocumentRef]) -> Exception | None:
        """Append the documents of the source to `listed`. Returns the error that interrupted the listing, if any."""
        self._budget.begin_listing()
        try:
            async for listed_ref in listed_documents(self.fetcher, f"plugin {self.plugin}"):
                ref = _clean(listed_ref)
                if len(ref.url.encode()) > _MAX_URL_BYTES:
                    self.fetcher.skip(f"{ref.url[:80]}… is too long for a URL ({len(ref.url)} characters)", url=ref.url)
                elif ref.media_type not in (*READABLE, PDF_OR_HTML):
                    self.fetcher.skip_entry(_describe_unreadable(ref))
                else:
                    listed.append(ref)
                self.fetcher.client.heartbeat()
                if len(listed) > _MAX_DOCUMENTS:
                    raise InvalidPluginResult(f"plugin {self.plugin} listed more than {_MAX_DOCUMENTS:,} documents")
        except BudgetExceeded as error:
            self._stopped = error
            return error
        except Exception as error:  # noqa: BLE001 (raised after the listed documents are downloaded)
            return error
        finally:
            self.fetcher.close()
            self._budget.end_listing()
        return None

    async def _process_all(self, items: list[SyncItem]) -> None:
        queue = iter(items)

        async def work() -> None:
            for item in queue:
                try:
                    outcome = await self._process(item)
                except BudgetExceeded as error:
                    self._stopped = error
                    return
                self.result.outcomes[outcome] += 1
                await self._report(len(items))

        await self._report(len(items))
        with _raise_first_of_group():
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_CONCURRENT_DOWNLOADS, len(items))):
                    group.create_task(work())

    async def _report(self, total: int) -> None:
        async with self._reporting:  # one after the other: a later number must not be overwritten by an earlier one
            await asyncio.to_thread(self.report, self.result.outcomes.total(), total)

    async def _process(self, item: SyncItem) -> FetchOutcome:
        listed, tracked = item.ref, item.tracked
        ref = listed
        if tracked is not None:
            ref = fill_from_tracked(ref, tracked, self._undated)
        current = (
            tracked is not None and tracked.is_same_meeting(ref) and tracked.is_stored and self._pdf_is_intact(tracked)
        )
        if tracked and current and self._is_known_unchanged(tracked, ref):
            await asyncio.to_thread(self._record_unchanged, tracked, ref)
            return FetchOutcome.UNCHANGED
        validators = Validators(tracked.etag, tracked.last_modified) if tracked and current else Validators()
        unread = self._unread.get(ref.identity) if ref.date is None and self._undated == "skip" else None
        if unread is not None:
            if ref.version and ref.version == unread.version:
                return self._skip(unread)
            validators = Validators(unread.etag, unread.last_modified)
        self._budget.check_disk(work_folder(self.storage.folder))
        try:
            with pending_download(self.storage.folder) as pending:
                sink = Sink(pending.file, self.max_bytes)
                result = await self._download(ref, validators, sink)
                self.fetcher.client.heartbeat()
                if result.not_modified and tracked is not None and current:
                    await asyncio.to_thread(self._record_unchanged, tracked, ref)
                    return FetchOutcome.UNCHANGED
                if result.not_modified and unread is not None:
                    return self._skip(unread)
                ref = replace(ref, media_type=check_content(sink, ref.media_type, result.content_type))
                download = Download(sink.sha256, sink.size, result.validators.etag, result.validators.last_modified)
                if tracked and current and await asyncio.to_thread(self._has_same_text, tracked, ref, pending):
                    await asyncio.to_thread(self._record_unchanged, tracked, ref)
                    return FetchOutcome.UNCHANGED
                is_complete = listed.date is not None and listed.kind
                if not is_complete and not (tracked and current and tracked.sha256 == download.sha256):
                    listed = replace(listed, media_type=ref.media_type)
                    ref = await self._fill_from_pdf(ref, listed, pending, download)
                    item = self._match_removed(SyncItem(ref, tracked))
                else:
                    item = replace(item, ref=ref)
                return await asyncio.to_thread(self._record_download, item, download, pending)
        except Undated as error:
            return self._skip_undated(ref, error, download)
        except BudgetExceeded:
            raise
        except RobotsDisallowed as error:
            reason = f"{ref.display_name} is not fetched: {error}"
            return self._skip(SkippedEntry(reason, error.code, ref.identity, ref.display_name, ref.url))
        except (FetchError, PdfError, PluginProgrammingError) as error:
            logger.info("%s was not downloaded: %s", redact_url(ref.url), error)
            if ref.date is None:
                reason = f"{ref.display_name} has no date in its listing, and it cannot be downloaded: {error}"
                return self._skip(SkippedEntry(reason, error.code, ref.identity, ref.display_name, ref.url))
            await asyncio.to_thread(self._record_failure, replace(item, ref=with_kind(ref)), error)
            return FetchOutcome.FAILED

    async def _fill_from_pdf(
        self, ref: DocumentRef, listed: DocumentRef, pending: PendingDownload, download: Download
    ) -> DocumentRef:
        """Find the missing details in the PDF. A revision in which there is no date keeps the one that is known."""
        pending.file.flush()
        modified = listed.modified or _parse_http_date(download.last_modified)
        recognize = self._recognize if self.engine is not None else None
        try:
            found = await asyncio.to_thread(
                fill_from_pdf, listed, pending.path, self._undated, self._day_first, modified, recognize
            )
        except Undated:
            if ref.date is None:
                raise
            return ref
        finally:
            self.fetcher.client.heartbeat()
        return with_kind(found)

    def _recognize(self, pdf: Path) -> str:
        assert self.engine is not None
        languages = str(self.fetcher.site.extra.get("languages", DEFAULT_LANGUAGES))
        if not LANGUAGES.fullmatch(languages):  # the OCR stage reports it
            languages = DEFAULT_LANGUAGES
        return recognize_first_page(pdf, self.engine, languages, self.fetcher.client.heartbeat)

    def _match_removed(self, item: SyncItem) -> SyncItem:
        """Continue the document of the same meeting whose key the source no longer lists, as `diff` does."""
        if item.tracked is None:
            match = next((old for old in self._removed if old.is_same_meeting(item.ref)), None)
            if match is not None:
                self._removed.remove(match)
                return replace(item, tracked=match)
        return item

    def _skip(self, entry: SkippedEntry) -> FetchOutcome:
        self.fetcher.skip_entry(entry)
        return FetchOutcome.SKIPPED

    def _skip_undated(self, ref: DocumentRef, error: Undated, download: Download) -> FetchOutcome:
        where = "name" if ref.name else "listing"
        reason = f"{ref.display_name} has no date in its {where}, {error}"
        entry = SkippedEntry(reason, error.code, ref.identity, ref.display_name, ref.url)
        if error.is_final:
            entry = replace(
                entry,
                version=ref.version,
                etag=download.etag,
                last_modified=download.last_modified,
                detection=DETECTION,
            )
        return self._skip(entry)

    def _is_known_unchanged(self, tracked: TrackedDocument, ref: DocumentRef) -> bool:
        """The version, or a check earlier in this run, shows without a request that the document has not changed."""
        if ref.version or tracked.source_version:
            return ref.version == tracked.source_version
        started_at = self.run_started_at
        return started_at is not None and tracked.checked_at is not None and tracked.checked_at >= started_at

    async def _download(self, ref: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        """Download one document. Any error of a plugin's own `download` fails this document, not the fetch."""
        try:
            result: object = await self.fetcher.download(ref, validators, sink)
        except Exception as error:
            if isinstance(error, FetchError | PdfError) and hasattr(error, "code"):
                raise
            if isinstance(error, OSError) and is_host_error(error) and not isinstance(error, PermissionError):
                raise
            job_error = as_job_error(self.plugin, "download", error)
            if isinstance(job_error, PluginProgrammingError):
                raise job_error from error
            raise DownloadFailed(str(job_error)) from error
        if not isinstance(result, FetchResult):
            raise InvalidPluginResult(
                f"plugin {self.plugin} returned {str(result)[:100]!r} from download, not a FetchResult"
            )
        return result

    def _pdf_is_intact(self, tracked: TrackedDocument) -> bool:
        """A PDF must be in storage, undamaged, until OCR has processed it. After that it may have been deleted."""
        if tracked.is_processed and not tracked.pdf_missing:
            return True
        with self.connect() as connection:
            pdf = self.storage.pdf(repository.document_by_id(connection, tracked.id))
        return pdf.is_file() and sha256_file(pdf) == tracked.sha256

    def _has_same_text(self, tracked: TrackedDocument, ref: DocumentRef, pending: PendingDownload) -> bool:
        """Whether a web page differs from the stored one in its markup only, as in tokens and view states."""
        if ref.media_type != HTML:
            return False
        with self.connect() as connection:
            stored = self.storage.pdf(repository.document_by_id(connection, tracked.id))
        if stored.suffix != f".{STORED_EXTENSIONS[HTML]}" or not stored.is_file():
            return False
        pending.file.flush()
        return has_same_text(stored.read_bytes(), pending.path.read_bytes())

    def _record_unchanged(self, tracked: TrackedDocument, ref: DocumentRef) -> None:
        with self.connect() as connection:
            repository.record_unchanged(connection, tracked, ref)

    def _record_download(self, item: SyncItem, download: Download, pending: PendingDownload) -> FetchOutcome:
        def install(document: Document) -> str:
            pending.move_to(self.storage.pdf(document))
            return self.storage.storage_key(document)

        tracked = item.tracked
        with self.connect() as connection:
            outcome = repository.record_download(
                connection,
                self.storage.subdomain,
                item.ref,
                download,
                install,
                tracked.id if tracked else None,
                partial(storage_scan.path_conflicts, self.storage),
            )
            if outcome is FetchOutcome.UNCHANGED and tracked is not None and not self._pdf_is_intact(tracked):
                install(repository.document_by_id(connection, tracked.id))
                repository.record_restored(connection, tracked.id)
        return outcome

    def _record_failure(self, item: SyncItem, error: JobError) -> None:
        with self.connect() as connection:
            repository.record_failure(
                connection,
                self.storage.subdomain,
                item.ref,
                error.code,
                str(error),
                error.retryable,
                item.tracked.id if item.tracked else None,
            )

    def _record_removed(self, removed: list[TrackedDocument]) -> None:
        covered = [tracked.id for tracked in removed if self.fetcher.covers(tracked)]
        with self.connect() as connection:
            self.result.removed = repository.record_removed(connection, covered)


def _describe_unreadable(ref: DocumentRef) -> SkippedEntry:
    what = NAMES.get(ref.media_type, f"of the type {ref.media_type}")
    about = f"{ref.kind or 'document'} of {ref.meeting}, {ref.date or 'without a date'}"
    reason = f"{ref.display_name} ({about}) is {what}, which clerk does not read"
    return SkippedEntry(reason, "UnreadableType", ref.identity, ref.display_name, ref.url)


def _parse_http_date(text: str | None) -> date | None:
    """The day of a Last-Modified header; None if it has no valid one."""
    try:
        return None if text is None else parsedate_to_datetime(text).date()
    except ValueError:
        return None


def _clean(ref: DocumentRef) -> DocumentRef:
    """Remove characters that cannot be stored, and shorten what is too long for an index."""
    return replace(
        ref,
        url=_storable(ref.url),
        meeting=clean_text(ref.meeting) or "Meeting",
        key=_shorten(_storable(ref.identity)),
        version=_shorten(_storable(ref.version)),
        name=_storable(ref.name),
    )


def _storable(text: str) -> str:
    """Text as Postgres accepts it: valid Unicode without NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _shorten(key: str) -> str:
    """Replace the end of a key that is too long by a hash of the whole key."""
    return key if len(key) <= _MAX_KEY_LENGTH else f"{key[:400]} {hashlib.sha256(key.encode()).hexdigest()}"


def check_content(sink: Sink, expected: str, content_type: str = "") -> str:
    """The type of a download, by its first kilobyte: that which the listing says, or a PDF. Raises for any other."""
    if sink.size == 0:
        raise PdfEmpty("the file is empty")
    found = type_of_content(sink.head)
    if found in (expected, PDF):
        return found
    if expected == PDF_OR_HTML and found == HTML:
        return HTML
    start = sink.head.lstrip()[:200].lower()
    is_html = any(tag in start for tag in (b"<!doctype", b"<html", b"<head", b"<?xml"))
    description = "a web page" if is_html else f"{content_type or 'content of unknown type'}"
    excerpt = clean_text(sink.head[:80].decode("utf-8", "replace"))
    wanted = NAMES.get(expected, NAMES[PDF])
    raise NotAPdf(f"the source returned {description} instead of {wanted}; it begins with {excerpt!r}")


@contextlib.contextmanager
def _raise_first_of_group() -> Iterator[None]:
    """Raise the first error of a task group instead of the group."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
