"""Fetch of one site: list the documents of the source, compare with the database, download, record.

A document that cannot be downloaded is recorded with its error and fails in the OCR phase; it does not fail the fetch.
A listing that raises fails the fetch after the documents that it listed were downloaded. In that case no document is
recorded as removed at the source.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial

from clerk.documents import repository, storage_scan
from clerk.documents.repository import DocumentRef, Download, FetchOutcome, TrackedDocument
from clerk.documents.sanitize import clean_text
from clerk.documents.storage import Document, PendingDownload, SiteStorage, delete_stale, pending_download, sha256_file
from clerk.error_causes import is_host_error
from clerk.errors import (
    DownloadFailed,
    FetchError,
    InvalidPluginResult,
    JobError,
    NotAPdf,
    PdfEmpty,
    PdfError,
    SourceUnreadable,
)
from clerk.sources.fetcher import KINDS, Fetcher
from clerk.sources.http.client import FetchResult, Sink, Validators, redact_url
from clerk.sources.http.rate_limit import Connect

logger = logging.getLogger(__name__)

_CONCURRENT_DOWNLOADS = 6
"""Per site. The limit per host is lower."""
_MAX_DOCUMENTS = 500_000
_MAX_URL_BYTES = 2000
_PDF_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_MAX_KEY_LENGTH = 500
"""URLs and keys are indexed, and a Postgres index entry holds at most 2,700 bytes."""
_STALE_AFTER = 86_400.0


@dataclass
class SyncResult:
    """Number of documents by outcome of a fetch."""

    outcomes: Counter[FetchOutcome] = field(default_factory=Counter)
    removed: int = 0
    """Documents that the source no longer lists."""

    def __str__(self) -> str:
        counts = [f"{self.outcomes[outcome]} {outcome}" for outcome in FetchOutcome]
        return ", ".join([*counts, f"{self.removed} removed at the source"])


@dataclass(frozen=True)
class SyncItem:
    """A listed document, and its row in the database if it has one."""

    ref: DocumentRef
    tracked: TrackedDocument | None = None


@dataclass(frozen=True)
class SyncPlan:
    items: list[SyncItem]
    removed: list[TrackedDocument]


def diff(listed: list[DocumentRef], tracked: list[TrackedDocument], complete: bool) -> SyncPlan:
    """Match listed documents with tracked ones.

    Equal keys are the same document. A new key for a meeting whose old key is no longer listed is a document whose
    address changed. A new key beside an old key that is still listed is a second meeting of that day. If the listing is
    not `complete`, no document counts as removed.
    """
    by_key = {document.source_key: document for document in tracked}
    unique: dict[str, DocumentRef] = {}
    for ref in listed:
        unique.setdefault(ref.identity, ref)
    removed = [document for document in tracked if document.source_key not in unique] if complete else []
    items = []
    for ref in unique.values():
        match = by_key.get(ref.identity)
        if match is None and (match := next((old for old in removed if old.is_same_meeting(ref)), None)) is not None:
            removed.remove(match)
        items.append(SyncItem(ref, match))
    return SyncPlan(items, removed)


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
        record_skipped: Callable[[int, list[str]], None],
        run_started_at: datetime | None = None,
    ) -> None:
        self.plugin = plugin
        self.fetcher = fetcher
        self.storage = storage
        self.connect = connect
        self.max_bytes = max_bytes
        self.report = report
        self.record_skipped = record_skipped
        self.run_started_at = run_started_at
        """Documents that an earlier attempt of this run has checked since then are not requested again."""
        self.result = SyncResult()

    async def run(self) -> SyncResult:
        await asyncio.to_thread(delete_stale, self.storage.folder, _STALE_AFTER)
        listed: list[DocumentRef] = []
        error = await self._list_documents(listed)
        await asyncio.to_thread(self.record_skipped, self.fetcher.skipped_count, self.fetcher.skipped)
        plan = diff(listed, await asyncio.to_thread(self._list_tracked), complete=error is None)
        await self._process_all(plan.items)
        if error is not None:
            raise error
        await asyncio.to_thread(self._record_removed, plan.removed)
        if self.fetcher.skipped and not listed:
            raise SourceUnreadable(
                f"all {self.fetcher.skipped_count:,} entries of the listing were skipped; "
                f"the first: {self.fetcher.skipped[0]}"
            )
        return self.result

    async def _list_documents(self, listed: list[DocumentRef]) -> Exception | None:
        """Append the documents of the source to `listed`. Returns the error that interrupted the listing, if any."""
        documents: object = self.fetcher.documents()
        if not isinstance(documents, AsyncIterator):
            raise InvalidPluginResult(
                f"plugin {self.plugin}: documents() returned {type(documents).__name__}, not an async generator"
            )
        try:
            async for listed_ref in documents:
                ref = self._clean(listed_ref)
                if len(ref.url.encode()) > _MAX_URL_BYTES:
                    self.fetcher.skip(f"{ref.url[:80]}… is too long for a URL ({len(ref.url)} characters)")
                else:
                    listed.append(ref)
                self.fetcher.client.heartbeat()
                if len(listed) > _MAX_DOCUMENTS:
                    raise InvalidPluginResult(f"plugin {self.plugin} listed more than {_MAX_DOCUMENTS:,} documents")
        except Exception as error:  # noqa: BLE001 (raised after the listed documents are downloaded)
            return error
        finally:
            self.fetcher.close()
        return None

    def _clean(self, ref: object) -> DocumentRef:
        """Check the types of what a plugin listed, and remove characters that cannot be stored."""
        if not isinstance(ref, DocumentRef):
            raise InvalidPluginResult(f"plugin {self.plugin} listed {str(ref)[:100]!r}, which is not a DocumentRef")
        texts = (ref.url, ref.meeting, ref.kind, ref.key, ref.version)
        if not all(isinstance(text, str) for text in texts):
            raise InvalidPluginResult(
                f"plugin {self.plugin} listed {str(ref)[:200]!r}, which has a field that is no text"
            )
        if ref.kind not in KINDS:
            raise InvalidPluginResult(
                f"plugin {self.plugin} listed {str(ref)[:200]!r}: kind must be {' or '.join(KINDS)}"
            )
        if type(ref.date) is not date:
            raise InvalidPluginResult(f"plugin {self.plugin} listed {str(ref)[:200]!r}: date must be a datetime.date")
        return replace(
            ref,
            url=_storable(ref.url),
            meeting=clean_text(ref.meeting) or "Meeting",
            key=_shorten(_storable(ref.identity)),
            version=_shorten(_storable(ref.version)),
        )

    async def _process_all(self, items: list[SyncItem]) -> None:
        queue = iter(items)

        async def work() -> None:
            for item in queue:
                outcome = await self._process(item)
                self.result.outcomes[outcome] += 1
                await self._report(len(items))

        await self._report(len(items))
        with _raise_first_of_group():
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_CONCURRENT_DOWNLOADS, len(items))):
                    group.create_task(work())

    async def _report(self, total: int) -> None:
        await asyncio.to_thread(self.report, self.result.outcomes.total(), total)

    async def _process(self, item: SyncItem) -> FetchOutcome:
        ref, tracked = item.ref, item.tracked
        current = (
            tracked is not None and tracked.is_same_meeting(ref) and tracked.is_stored and self._pdf_is_intact(tracked)
        )
        if tracked and current and self._is_known_unchanged(tracked, ref):
            await asyncio.to_thread(self._record_unchanged, tracked, ref)
            return FetchOutcome.UNCHANGED
        validators = Validators(tracked.etag, tracked.last_modified) if tracked and current else Validators()
        try:
            with pending_download(self.storage.folder) as pending:
                sink = Sink(pending.file, self.max_bytes)
                result = await self._download(ref, validators, sink)
                self.fetcher.client.heartbeat()
                if result.not_modified and tracked is not None:
                    await asyncio.to_thread(self._record_unchanged, tracked, ref)
                    return FetchOutcome.UNCHANGED
                require_pdf(sink, result.content_type)
                download = Download(sink.sha256, sink.size, result.validators.etag, result.validators.last_modified)
                return await asyncio.to_thread(self._record_download, item, download, pending)
        except (FetchError, PdfError) as error:
            logger.info("%s was not downloaded: %s", redact_url(ref.url), error)
            await asyncio.to_thread(self._record_failure, item, error)
            return FetchOutcome.FAILED

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
            raise DownloadFailed(f"plugin {self.plugin} raised {type(error).__name__}: {error}") from error
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

    def _list_tracked(self) -> list[TrackedDocument]:
        with self.connect() as connection:
            return repository.list_tracked(connection, self.storage.subdomain)

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


def _storable(text: str) -> str:
    """Text as Postgres accepts it: valid Unicode without NUL."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _shorten(key: str) -> str:
    """Replace the end of a key that is too long by a hash of the whole key."""
    return key if len(key) <= _MAX_KEY_LENGTH else f"{key[:400]} {hashlib.sha256(key.encode()).hexdigest()}"


def require_pdf(sink: Sink, content_type: str = "") -> None:
    """Raise unless the first kilobyte has a PDF header, as PDF readers accept it, or an object of a PDF without one."""
    if sink.size == 0:
        raise PdfEmpty("the response is empty")
    if b"%PDF" not in sink.head and not _PDF_OBJECT.search(sink.head):
        start = sink.head.lstrip()[:200].lower()
        is_html = any(tag in start for tag in (b"<!doctype", b"<html", b"<head", b"<?xml"))
        description = "a web page" if is_html else f"{content_type or 'content of unknown type'}"
        excerpt = clean_text(sink.head[:80].decode("utf-8", "replace"))
        raise NotAPdf(f"the source returned {description} instead of a PDF; it begins with {excerpt!r}")


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
