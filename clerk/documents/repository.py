"""Repository of the documents in `content_items`: queries, and recording of fetch results.

Each result is recorded in one transaction under a lock of the site, so that two concurrent fetches of a site (one by a
worker that was presumed dead) cannot insert one document twice.
Limitation: a file gets its final name just before its row is written. A crash in between leaves an untracked file,
which the next fetch of the same content uses.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime
from datetime import date as date_type
from enum import StrEnum
from typing import Any

import psycopg
from psycopg.rows import class_row

from clerk.documents.media_types import PDF, STORED_EXTENSIONS
from clerk.documents.sanitize import clean_text, folder_name
from clerk.documents.storage import Document
from clerk.errors import DocumentUnknown, NotFetched

Connection = psycopg.Connection[Any]

SELECT_DOCUMENTS = """
select i.id, i.subdomain, i.kind, i.meeting, i.date, i.occurrence, i.revision, i.sha256, i.source_url,
       i.fetch_error_code, i.fetch_error_message,
       coalesce(substring(i.storage_key from '[.](html|docx)$'), 'pdf')
from content_items i
where i.kind <> 'archive'
"""


@dataclass(frozen=True)
class DocumentRef:
    """A document in the listing of a source."""

    url: str
    meeting: str
    """Name of the body that met, as the source writes it."""
    date: date | None
    """None if the listing has no date: it is then looked for in the PDF."""
    kind: str = "minutes"
    """A kind of clerk.documents.kinds; empty if the listing does not say: it is then looked for in the PDF."""
    key: str = ""
    """Identifier that stays the same when the content or the URL changes: the vendor's id. Default: the URL."""
    version: str = ""
    """Value that changes with the content, for example a publication time. An equal version saves the request."""
    name: str = ""
    """What operators call it: the path of a file in its folder. Default: the URL."""
    date_origin: str = "source"
    """Where the date comes from; `content_items.date_origin` has the values. Likewise for meeting and kind."""
    meeting_origin: str = "source"
    kind_origin: str = "source"
    modified: date_type | None = None
    """Modification date of a file. It becomes the date of the document only if the site's `undated` says so."""
    media_type: str = PDF
    """Type of the file, as the source lists it. Only types of clerk.documents.media_types.READABLE are downloaded, and
    PDF_OR_HTML. The content of a download must be of that type, or a PDF."""

    @property
    def identity(self) -> str:
        return self.key or self.url

    @property
    def display_name(self) -> str:
        return self.name or self.url


@dataclass(frozen=True)
class TrackedDocument:
    """A document that was listed before: the latest revision, with what the source last reported about it."""

    id: int
    source_key: str
    kind: str
    meeting: str
    date: date
    sha256: str | None
    source_version: str | None
    etag: str | None
    last_modified: str | None
    fetch_error_code: str | None
    checked_at: datetime | None = None
    """When the source last confirmed that the stored PDF is current."""
    is_processed: bool = False
    """OCR has processed it, so the PDF is no longer needed."""
    date_origin: str | None = None
    meeting_origin: str | None = None
    kind_origin: str | None = None
    pdf_missing: bool = False
    """Reconciliation found the PDF missing or damaged, so it must be downloaded again."""

    @property
    def is_stored(self) -> bool:
        return self.sha256 is not None

    def is_same_meeting(self, ref: DocumentRef) -> bool:
        """Kind, body and date are equal, and with them the path of the file."""
        return (self.kind, self.meeting, self.date) == (ref.kind, ref.meeting, ref.date)


@dataclass(frozen=True)
class Download:
    """Content of a downloaded document, and the validators of the response."""

    sha256: str
    size_bytes: int
    etag: str | None = None
    last_modified: str | None = None


class FetchOutcome(StrEnum):
    """Result of a fetch for one document."""

    NEW = "new"
    REVISED = "revised"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    SKIPPED = "skipped"


def document_by_id(connection: Connection, content_item_id: int) -> Document:
    row = connection.execute(SELECT_DOCUMENTS + "and i.id = %s", [content_item_id]).fetchone()
    if row is None:
        raise DocumentUnknown(f"there is no document {content_item_id}")
    return Document(*row)


def list_documents(connection: Connection, subdomain: str) -> list[Document]:
    """Return all documents of a site by date of their meetings, including superseded ones."""
    rows = connection.execute(
        SELECT_DOCUMENTS + "and i.subdomain = %s order by i.date, i.kind, i.meeting, i.occurrence, i.revision",
        [subdomain],
    )
    return [Document(*row) for row in rows]


def require_fetched(document: Document) -> None:
    """Raise NotFetched, with the code of the failed download, if the PDF was never downloaded."""
    if document.sha256 is None and document.fetch_error_code is not None:
        raise NotFetched(document.fetch_error_message or "the document was not downloaded", document.fetch_error_code)


def has_stored_documents(connection: Connection) -> bool:
    """Whether any site has a document in storage."""
    row = connection.execute("select exists (select from content_items where sha256 is not null)").fetchone()
    return row is not None and bool(row[0])


def list_tracked(connection: Connection, subdomain: str) -> list[TrackedDocument]:
    """Return the latest revision of each document that the site's source has listed."""
    with connection.cursor(row_factory=class_row(TrackedDocument)) as cursor:
        return cursor.execute(
            """
            select i.id, i.source_key, i.kind, i.meeting, i.date, i.sha256, i.source_version, i.etag,
                   i.last_modified, i.fetch_error_code, i.checked_at,
                   coalesce(l.status = 'processed', false) as is_processed,
                   i.pdf_missing_since is not null as pdf_missing,
                   i.date_origin, i.meeting_origin, i.kind_origin
            from content_items i
            left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
            where i.subdomain = %s and i.kind <> 'archive' and i.source_key is not null
              and i.superseded_at is null
            order by i.id
            """,
            [subdomain],
        ).fetchall()


def run_started_at(connection: Connection, run_id: int) -> datetime | None:
    row = connection.execute("select r.started_at from pipeline_runs r where r.run_id = %s", [run_id]).fetchone()
    return None if row is None else row[0]


def record_download(
    connection: Connection,
    subdomain: str,
    ref: DocumentRef,
    download: Download,
    install: Callable[[Document], str],
    replaces: int | None = None,
    path_conflicts: Callable[[Document], bool] = lambda document: False,
) -> FetchOutcome:
    """Record a downloaded PDF as new, revised or unchanged.

    `install` moves the file to its final path and returns the storage key; it is called for new content only.
    `replaces`: id of the document that this one continues under another key, because its URL changed.
    `path_conflicts`: whether untracked files of other content are at the path of a document.
    """
    with site_lock(connection, subdomain):
        previous = _find_latest(connection, subdomain, ref, replaces) or _claim_without_source(
            connection, subdomain, ref, download
        )
        if previous is not None and previous.sha256 == download.sha256 and previous.is_same_meeting(ref):
            _update_source(connection, previous.id, ref, download)
            return FetchOutcome.UNCHANGED
        if previous is not None and previous.sha256 is None and previous.is_same_meeting(ref):
            document = document_by_id(connection, previous.id)
            document = replace(document, sha256=download.sha256, extension=STORED_EXTENSIONS[ref.media_type])
            _update_content(connection, document.id, ref, download, install(document))
            return FetchOutcome.NEW
        document = replace(_next_document(connection, subdomain, ref, previous), sha256=download.sha256)
        while path_conflicts(document):  # files of a revision that a restored database does not have
            document = replace(document, revision=document.revision + 1)
        storage_key = install(document)
        _supersede(connection, previous)
        _update_content(connection, _insert(connection, document, ref, previous), ref, download, storage_key)
        return FetchOutcome.NEW if previous is None else FetchOutcome.REVISED


def record_unchanged(connection: Connection, tracked: TrackedDocument, ref: DocumentRef) -> None:
    """Record that the source still has the same content, by its version or by status 304."""
    _update_source(connection, tracked.id, ref, Download("", 0, tracked.etag, tracked.last_modified))


def record_restored(connection: Connection, content_item_id: int) -> None:
    """Record that a missing or damaged PDF was downloaded again. If OCR failed for that, the next run repeats it."""
    connection.execute(
        "update content_items set fetched_at = clerk_now(), pdf_missing_since = null where id = %s", [content_item_id]
    )


def record_failure(
    connection: Connection,
    subdomain: str,
    ref: DocumentRef,
    code: str,
    message: str,
    retryable: bool,
    replaces: int | None = None,
) -> None:
    """Record a failed download. A document that has no PDF yet then fails in the OCR phase.

    A permanent failure is counted in one run only, a retryable one in each run.
    """
    with site_lock(connection, subdomain):
        previous = _find_latest(connection, subdomain, ref, replaces)
        if previous is None:
            document_id = _insert(connection, _next_document(connection, subdomain, ref, None), ref, None)
        else:
            document_id = previous.id
        connection.execute(
            """
            update content_items i
            set fetch_failed_at = case when i.sha256 is null
                                            and (%(retryable)s or i.fetch_error_code is distinct from %(code)s)
                                       then clerk_now() else i.fetch_failed_at end,
                fetch_error_code = %(code)s, fetch_error_message = %(message)s,
                removed_at_source = null, updated_at = clerk_now()
            where i.id = %(id)s
            """,
            {"id": document_id, "code": code, "message": clean_text(message, 500), "retryable": retryable},
        )


def record_removed(connection: Connection, ids: Iterable[int]) -> int:
    """Mark documents that the source no longer lists. Returns how many were not marked before."""
    return connection.execute(
        """
        update content_items i set removed_at_source = clerk_now(), updated_at = clerk_now()
        where i.id = any (%s) and i.removed_at_source is null
        """,
        [list(ids)],
    ).rowcount


@contextlib.contextmanager
def site_lock(connection: Connection, subdomain: str) -> Iterator[None]:
    """Transaction that excludes other changes to the documents of a site."""
    with connection.transaction():
        connection.execute(
            "select pg_advisory_xact_lock(hashtextextended('clerk documents of ' || %s, 0))", [subdomain]
        )
        yield


def _find_latest(
    connection: Connection, subdomain: str, ref: DocumentRef, replaces: int | None
) -> TrackedDocument | None:
    with connection.cursor(row_factory=class_row(TrackedDocument)) as cursor:
        return cursor.execute(
            """
            select i.id, coalesce(i.source_key, '') as source_key, i.kind, i.meeting, i.date, i.sha256,
                   i.source_version, i.etag, i.last_modified, i.fetch_error_code
            from content_items i
            where i.subdomain = %(subdomain)s and i.superseded_at is null
              and (i.source_key = %(key)s or i.id = %(replaces)s)
            order by i.source_key = %(key)s desc
            limit 1
            """,
            {"subdomain": subdomain, "key": ref.identity, "replaces": replaces},
        ).fetchone()


def _claim_without_source(
    connection: Connection, subdomain: str, ref: DocumentRef, download: Download
) -> TrackedDocument | None:
    """Find a document without source that `ref` continues, and give it the meeting name that the source uses.

    Documents that were imported from storage or from legacy clerk have no source. The one continued has the same
    kind, date and folder, and the same content if its content is known.
    """
    with connection.cursor(row_factory=class_row(TrackedDocument)) as cursor:
        rows = cursor.execute(
            """
            select i.id, '' as source_key, i.kind, i.meeting, i.date, i.sha256, i.source_version, i.etag,
                   i.last_modified, i.fetch_error_code
            from content_items i
            where i.subdomain = %s and i.kind = %s and i.date = %s and (i.sha256 is null or i.sha256 = %s)
              and i.source_key is null and i.superseded_at is null
            order by i.sha256 nulls last, i.id
            """,
            [subdomain, ref.kind, ref.date, download.sha256],
        ).fetchall()
    imported = next((row for row in rows if folder_name(row.meeting) == folder_name(ref.meeting)), None)
    if imported is None:
        return None
    connection.execute("update content_items set meeting = %s where id = %s", [ref.meeting, imported.id])
    return replace(imported, meeting=ref.meeting)


def _next_document(
    connection: Connection, subdomain: str, ref: DocumentRef, previous: TrackedDocument | None
) -> Document:
    """Return the document for new content: the next revision of its meeting, or the next meeting of that day."""
    rows = connection.execute(
        SELECT_DOCUMENTS + "and i.subdomain = %s and i.kind = %s and i.date = %s", [subdomain, ref.kind, ref.date]
    )
    same_day = [old for old in (Document(*row) for row in rows) if path_key(old.meeting) == path_key(ref.meeting)]
    assert ref.date is not None
    document = Document(
        0,
        subdomain,
        ref.kind,
        ref.meeting,
        ref.date,
        source_url=ref.url,
        extension=STORED_EXTENSIONS.get(ref.media_type, "pdf"),
    )
    if previous is not None and previous.is_same_meeting(ref):
        occurrence = next(old.occurrence for old in same_day if old.id == previous.id)
        revisions = [old.revision for old in same_day if old.occurrence == occurrence]
        return replace(document, occurrence=occurrence, revision=max(revisions) + 1)
    return replace(document, occurrence=max((old.occurrence for old in same_day), default=0) + 1)


def path_key(meeting: str) -> str:
    """Equal for meetings whose files share a folder, also on a file system that ignores case."""
    return folder_name(meeting).casefold()


def _supersede(connection: Connection, previous: TrackedDocument | None) -> None:
    if previous is not None:
        connection.execute(
            "update content_items set superseded_at = clerk_now(), updated_at = clerk_now() where id = %s",
            [previous.id],
        )


def _insert(connection: Connection, document: Document, ref: DocumentRef, previous: TrackedDocument | None) -> int:
    row = connection.execute(
        """
        insert into content_items (subdomain, kind, meeting, date, occurrence, revision, source_url, source_key,
                                   date_origin, meeting_origin, kind_origin, lineage_id)
        values (%(subdomain)s, %(kind)s, %(meeting)s, %(date)s, %(occurrence)s, %(revision)s, %(url)s, %(key)s,
                %(date_origin)s, %(meeting_origin)s, %(kind_origin)s,
                (select coalesce(i.lineage_id, i.id) from content_items i where i.id = %(previous)s))
        returning id
        """,
        {
            "subdomain": document.subdomain,
            "kind": document.kind,
            "meeting": document.meeting,
            "date": document.date,
            "occurrence": document.occurrence,
            "revision": document.revision,
            "url": ref.url,
            "key": ref.identity,
            "date_origin": ref.date_origin,
            "meeting_origin": ref.meeting_origin,
            "kind_origin": ref.kind_origin,
            "previous": previous and previous.id,
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def _update_content(
    connection: Connection, content_item_id: int, ref: DocumentRef, download: Download, storage_key: str
) -> None:
    connection.execute(
        """
        update content_items
        set sha256 = %s, size_bytes = %s, storage_key = %s, page_count = null, fetched_at = clerk_now()
        where id = %s
        """,
        [download.sha256, download.size_bytes, storage_key, content_item_id],
    )
    _update_source(connection, content_item_id, ref, download)


def _update_source(connection: Connection, content_item_id: int, ref: DocumentRef, download: Download) -> None:
    connection.execute(
        """
        update content_items
        set source_url = %s, source_key = %s, source_version = nullif(%s, ''), etag = %s, last_modified = %s,
            checked_at = clerk_now(), removed_at_source = null, fetch_error_code = null, fetch_error_message = null,
            fetch_failed_at = null, date_origin = %s, meeting_origin = %s, kind_origin = %s, updated_at = clerk_now()
        where id = %s
        """,
        [
            ref.url,
            ref.identity,
            ref.version,
            download.etag,
            download.last_modified,
            ref.date_origin,
            ref.meeting_origin,
            ref.kind_origin,
            content_item_id,
        ],
    )
