"""One site's fetch, as the data flows: list what the source has, compare with what is known, get the rest, record.

A document that cannot be had is recorded with its reason and fails when its turn to be read comes; it never fails
the site. A listing that breaks off does, after what it named was fetched; nothing counts as vanished then.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import hashlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from functools import partial
from typing import Any

from clerk.documents import repository, storage_scan
from clerk.documents.repository import DocumentRef, Download, FetchOutcome, TrackedDocument
from clerk.documents.sanitize import clean_text
from clerk.documents.storage import Document, PendingDownload, SiteStorage, delete_stale, pending_download, sha256_file
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
from clerk.sources.http.client import FetchResult, Sink, Validators
from clerk.sources.http.rate_limit import Connect

logger = logging.getLogger(__name__)

_AT_ONCE = 6
"""Documents under way at a time; hosts have their own, smaller number."""
_OUR_DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO}
_MOST_DOCUMENTS = 500_000
_LONGEST_ADDRESS = 2000
_LONGEST_KEY = 500
"""In bytes and characters: both are indexed, and an entry of an index has its limit at 2,700 bytes."""
_ABANDONED_AFTER = 86_400.0


@dataclass
class SyncResult:
    """How a fetch went."""

    changes: Counter[FetchOutcome] = field(default_factory=Counter)
    vanished: int = 0

    def __str__(self) -> str:
        counts = [f"{self.changes[change]} {change}" for change in FetchOutcome] + [f"{self.vanished} vanished"]
        return ", ".join(counts)


@dataclass(frozen=True)
class SyncItem:
    """A document to see about, and what is known of it."""

    found: DocumentRef
    known: TrackedDocument | None = None


@dataclass(frozen=True)
class Plan:
    errands: list[SyncItem]
    vanished: list[TrackedDocument]


def diff(listed: list[DocumentRef], known: list[TrackedDocument], complete: bool) -> Plan:
    """Who is who. The same key is the same document. A new key for a meeting whose old key is gone is a document that
    moved to another address; a new key beside one that is still listed is a second meeting of that day."""
    by_key = {one.source_key: one for one in known}
    listed = list({found.identity: found for found in reversed(listed)}.values())[::-1]
    keys = {found.identity for found in listed}
    gone = [one for one in known if one.source_key not in keys] if complete else []
    errands = []
    for found in listed:
        before = by_key.get(found.identity)
        if before is None and (before := next((one for one in gone if one.is_about(found)), None)) is not None:
            gone.remove(before)
        errands.append(SyncItem(found, before))
    return Plan(errands, gone)


class SourceSync:
    def __init__(
        self,
        plugin: str,
        fetcher: Fetcher,
        storage: SiteStorage,
        connect: Connect,
        max_bytes: int,
        report: Callable[[int, int], None],
        note_skipped: Callable[[list[str]], None],
        began: datetime | None = None,
    ) -> None:
        self.plugin = plugin
        self.fetcher = fetcher
        self.storage = storage
        self.connect = connect
        self.max_bytes = max_bytes
        self.report = report
        self.note_skipped = note_skipped
        self.began = began
        """When the run began: what was confirmed since, by an attempt that was cut short, is not asked for again."""
        self.tally = SyncResult()

    async def run(self) -> SyncResult:
        await asyncio.to_thread(delete_stale, self.storage.folder, _ABANDONED_AFTER)
        listed: list[DocumentRef] = []
        problem = await self._list(listed)
        await asyncio.to_thread(self.note_skipped, self.fetcher.skipped)
        plan = diff(listed, await asyncio.to_thread(self._known), complete=problem is None)
        await self._do_all(plan.errands)
        if problem is not None:
            raise problem
        await asyncio.to_thread(self._note_vanished, plan.vanished)
        if self.fetcher.skipped and not listed:
            raise SourceUnreadable(f"nothing in the listing can be used; the first: {self.fetcher.skipped[0]}")
        return self.tally

    async def _list(self, listed: list[DocumentRef]) -> Exception | None:
        """Fills `listed`; returns what broke the listing off."""
        documents: object = self.fetcher.documents()
        if not isinstance(documents, AsyncIterator):
            raise InvalidPluginResult(
                f"plugin {self.plugin} lists documents as {type(documents).__name__}, not with yield"
            )
        try:
            async for found in documents:
                sane = self._sane(found)
                if len(sane.url.encode()) > _LONGEST_ADDRESS:
                    self.fetcher.skip(f"{sane.url[:80]}… is too long for an address ({len(sane.url)} characters)")
                else:
                    listed.append(sane)
                self.fetcher.client.alive()
                if len(listed) > _MOST_DOCUMENTS:
                    raise InvalidPluginResult(f"plugin {self.plugin} lists more than {_MOST_DOCUMENTS} documents")
        except Exception as error:  # noqa: BLE001 (raised again when what was listed is safe)
            return error
        return None

    def _sane(self, found: object) -> DocumentRef:
        """Names from outside made clean; what is not a document at all is the plugin's fault."""
        if not isinstance(found, DocumentRef):
            raise InvalidPluginResult(f"plugin {self.plugin} listed {str(found)[:100]!r}, which is not a DocumentRef")
        texts = (found.url, found.meeting, found.kind, found.key, found.version)
        if not all(isinstance(text, str) for text in texts) or found.kind not in KINDS:
            raise InvalidPluginResult(f"plugin {self.plugin} listed {str(found)[:200]!r}, which has wrong values")
        if type(found.date) is not date:
            raise InvalidPluginResult(f"plugin {self.plugin} listed {str(found)[:200]!r}, whose date is not a date")
        return replace(
            found,
            url=_storable(found.url),
            meeting=clean_text(found.meeting) or "Meeting",
            key=_short(_storable(found.identity)),
            version=_short(_storable(found.version)),
        )

    async def _do_all(self, errands: list[SyncItem]) -> None:
        waiting = iter(errands)
        total = len(errands)

        async def work() -> None:
            for errand in waiting:
                change = await self._do(errand)
                self.tally.changes[change] += 1
                await self._report(total)

        await self._report(total)
        with _first_of_many():
            await self._side_by_side(work, min(_AT_ONCE, total))

    async def _side_by_side(self, work: Callable[[], Coroutine[Any, Any, None]], number: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(number):
                group.create_task(work())

    async def _report(self, total: int) -> None:
        await asyncio.to_thread(self.report, self.tally.changes.total(), total)

    async def _do(self, errand: SyncItem) -> FetchOutcome:
        known, found = errand.known, errand.found
        fresh = known is not None and known.is_about(found) and known.is_stored and self._is_there(known)
        if known and fresh and self._needs_no_request(known, found):
            await asyncio.to_thread(self._record_unchanged, known, found)
            return FetchOutcome.UNCHANGED
        validators = Validators(known.etag, known.last_modified) if known and fresh else Validators()
        try:
            with pending_download(self.storage.folder) as arrival:
                sink = Sink(arrival.file, self.max_bytes)
                answer = await self._download(found, validators, sink)
                self.fetcher.client.alive()
                if answer.not_modified and known is not None:
                    await asyncio.to_thread(self._record_unchanged, known, found)
                    return FetchOutcome.UNCHANGED
                require_pdf(sink, answer.content_type)
                content = Download(sink.sha256, sink.size, answer.validators.etag, answer.validators.last_modified)
                return await asyncio.to_thread(self._record_content, errand, content, arrival)
        except (FetchError, PdfError) as problem:
            logger.info("%s cannot be had: %s", found.url, problem)
            await asyncio.to_thread(self._record_failure, errand, problem)
            return FetchOutcome.FAILED

    def _needs_no_request(self, known: TrackedDocument, found: DocumentRef) -> bool:
        if found.version or known.source_version:
            return found.version == known.source_version
        return self.began is not None and known.checked_at is not None and known.checked_at >= self.began

    async def _download(self, found: DocumentRef, validators: Validators, sink: Sink) -> FetchResult:
        """A plugin's own way to download may go wrong in any way; that is one document's failure, not the site's."""
        try:
            answer: object = await self.fetcher.download(found, validators, sink)
        except (FetchError, PdfError):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _OUR_DISK:
                raise
            raise DownloadFailed(f"plugin {self.plugin} raised {type(error).__name__}: {error}") from error
        if not isinstance(answer, FetchResult):
            raise InvalidPluginResult(
                f"plugin {self.plugin} returned {str(answer)[:100]!r} from download, not a FetchResult"
            )
        return answer

    def _is_there(self, known: TrackedDocument) -> bool:
        """A PDF that is still to be read must lie in storage, whole; one that was read may have been cleared away."""
        if known.is_read and not known.pdf_missing:
            return True
        with self.connect() as connection:
            pdf = self.storage.pdf(repository.document_by_id(connection, known.id))
        return pdf.is_file() and sha256_file(pdf) == known.sha256

    def _known(self) -> list[TrackedDocument]:
        with self.connect() as connection:
            return repository.list_tracked(connection, self.storage.subdomain)

    def _record_unchanged(self, known: TrackedDocument, found: DocumentRef) -> None:
        with self.connect() as connection:
            repository.record_unchanged(connection, known, found)

    def _record_content(self, errand: SyncItem, content: Download, arrival: PendingDownload) -> FetchOutcome:
        def place(document: Document) -> str:
            arrival.move_to(self.storage.pdf(document))
            return self.storage.storage_key(document)

        known = errand.known
        with self.connect() as connection:
            change = repository.record_download(
                connection,
                self.storage.subdomain,
                errand.found,
                content,
                place,
                known.id if known else None,
                partial(storage_scan.path_conflicts, self.storage),
            )
            if change is FetchOutcome.UNCHANGED and known is not None and not self._is_there(known):
                place(repository.document_by_id(connection, known.id))
                repository.record_restored(connection, known.id)
        return change

    def _record_failure(self, errand: SyncItem, problem: JobError) -> None:
        with self.connect() as connection:
            repository.record_failure(
                connection,
                self.storage.subdomain,
                errand.found,
                problem.code,
                str(problem),
                problem.retryable,
                errand.known.id if errand.known else None,
            )

    def _note_vanished(self, gone: list[TrackedDocument]) -> None:
        with self.connect() as connection:
            self.tally.vanished = repository.record_removed(
                connection, [one.id for one in gone if self.fetcher.covers(one)]
            )


def _storable(text: str) -> str:
    """As Postgres takes it: no NUL, nothing that is not Unicode."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def _short(key: str) -> str:
    """A key that is too long goes on with its hash."""
    return key if len(key) <= _LONGEST_KEY else f"{key[:400]} {hashlib.sha256(key.encode()).hexdigest()}"


def require_pdf(sink: Sink, content_type: str = "") -> None:
    """As readers of PDFs do it: the mark may come late, but within the first kilobyte."""
    if sink.size == 0:
        raise PdfEmpty("the answer is empty")
    if b"%PDF-" not in sink.head:
        start = sink.head.lstrip()[:200].lower()
        page = any(mark in start for mark in (b"<!doctype", b"<html", b"<head", b"<?xml"))
        said = clean_text(sink.head[:80].decode("utf-8", "replace"))
        what = "a web page" if page else f"something else ({content_type or 'of no said type'})"
        raise NotAPdf(f"{what} came in place of a PDF, beginning with {said!r}")


@contextlib.contextmanager
def _first_of_many() -> Iterator[None]:
    """A task group raises all that went wrong; the first is enough to say."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        raise error from None
