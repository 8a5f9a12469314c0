"""The documents of a site as kept in `content_items`: reading them, and recording what fetching found out.

Each recording is one transaction under a lock of the site, so that two fetches of one site (one of them a worker that
was believed dead) never make two rows of one document. The catch: a file takes its final name just before its row
is written; a crash in between leaves a file that nobody knows, which the next fetch of the same content takes up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any

import psycopg
from psycopg.rows import class_row

from clerk.documents.sanitize import clean_text, folder_name
from clerk.documents.storage import Document
from clerk.errors import DocumentUnknown, NotFetched

Connection = psycopg.Connection[Any]

_SKIPPED_KEPT = 20
_LONGEST_REASON = 300

_DOCUMENT = """
select i.id, i.subdomain, i.kind, i.meeting, i.date, i.occurrence, i.revision, i.sha256, i.source_url,
       i.fetch_error_code, i.fetch_error_message
from content_items i
where i.kind in ('minutes', 'agenda')
"""


@dataclass(frozen=True)
class DocumentRef:
    """A document that a source has."""

    url: str
    meeting: str
    """The body that met, as the source calls it."""
    date: date
    kind: str = "minutes"
    key: str = ""
    """What stays the same when the document is revised or its address changes: the vendor's id. Default: the url."""
    version: str = ""
    """What changes with the content, if the source tells (a publication time). Same version: no request is made."""

    @property
    def identity(self) -> str:
        return self.key or self.url


@dataclass(frozen=True)
class TrackedDocument:
    """A document that the source had before, and what it said about it. The newest of its lineage_id."""

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
    """When the source last confirmed what we have."""
    is_read: bool = False
    """Its pages are in storage: the PDF itself is not needed any more."""
    pdf_missing: bool = False
    """The PDF was found gone or damaged, and is wanted again."""

    @property
    def is_stored(self) -> bool:
        return self.sha256 is not None

    def is_about(self, found: DocumentRef) -> bool:
        """The same body on the same day: the file lies where it should."""
        return (self.kind, self.meeting, self.date) == (found.kind, found.meeting, found.date)


@dataclass(frozen=True)
class Download:
    """A PDF that arrived."""

    sha256: str
    size_bytes: int
    etag: str | None = None
    last_modified: str | None = None


class FetchOutcome(StrEnum):
    """What a fetch made of a document."""

    NEW = "new"
    REVISED = "revised"
    UNCHANGED = "unchanged"
    FAILED = "failed"


def document_by_id(connection: Connection, content_item_id: int) -> Document:
    row = connection.execute(_DOCUMENT + "and i.id = %s", [content_item_id]).fetchone()
    if row is None:
        raise DocumentUnknown(f"there is no document {content_item_id}")
    return Document(*row)


def list_documents(connection: Connection, subdomain: str) -> list[Document]:
    """All of a site's documents, superseded ones too, in the order of their meetings."""
    rows = connection.execute(
        _DOCUMENT + "and i.subdomain = %s order by i.date, i.kind, i.meeting, i.occurrence, i.revision", [subdomain]
    )
    return [Document(*row) for row in rows]


def require_fetched(document: Document) -> None:
    """Raises NotFetched, with the code of the failed download, if the PDF was never downloaded."""
    if document.sha256 is None and document.fetch_error_code is not None:
        raise NotFetched(document.fetch_error_message or "the document was not downloaded", document.fetch_error_code)


def list_tracked(connection: Connection, subdomain: str) -> list[TrackedDocument]:
    with connection.cursor(row_factory=class_row(TrackedDocument)) as cursor:
        return cursor.execute(
            """
            select i.id, i.source_key, i.kind, i.meeting, i.date, i.sha256, i.source_version, i.etag,
                   i.last_modified, i.fetch_error_code, i.checked_at,
                   coalesce(l.status = 'processed', false) as is_read, i.pdf_missing_since is not null as pdf_missing
            from content_items i
            left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
            where i.subdomain = %s and i.kind in ('minutes', 'agenda') and i.source_key is not null
              and i.superseded_at is null
            order by i.id
            """,
            [subdomain],
        ).fetchall()


def run_started_at(connection: Connection, run_id: int) -> datetime | None:
    row = connection.execute("select r.started_at from pipeline_runs r where r.run_id = %s", [run_id]).fetchone()
    return None if row is None else row[0]


def record_skipped(connection: Connection, run_id: int, reasons: Sequence[str]) -> None:
    """What this run's listing named and no document can be made of, as its last attempt saw it."""
    kept = [clean_text(str(reason), _LONGEST_REASON) for reason in reasons[:_SKIPPED_KEPT]]
    connection.execute(
        "update pipeline_runs r set skipped = %s, skipped_examples = %s::text[] where r.run_id = %s",
        [len(reasons), kept or None, run_id],
    )


def record_download(
    connection: Connection,
    subdomain: str,
    found: DocumentRef,
    content: Download,
    place: Callable[[Document], str],
    instead_of: int | None = None,
    is_taken: Callable[[Document], bool] = lambda document: False,
) -> FetchOutcome:
    """A PDF arrived. `place` gives the file its final name and returns the storage key; only called if it is wanted.

    `instead_of`: the document that this one follows although its key is another, since its address changed.
    `is_taken`: whether files of something else lie where a document would go, though no row speaks of them.
    """
    with _site_lock(connection, subdomain):
        before = _newest(connection, subdomain, found, instead_of) or _without_source(
            connection, subdomain, found, content
        )
        if before is not None and before.sha256 == content.sha256 and before.is_about(found):
            _confirm(connection, before.id, found, content)
            return FetchOutcome.UNCHANGED
        if before is not None and before.sha256 is None and before.is_about(found):
            document = document_by_id(connection, before.id)
            _fill(connection, document.id, found, content, place(replace(document, sha256=content.sha256)))
            return FetchOutcome.NEW
        document = replace(_next_document(connection, subdomain, found, before), sha256=content.sha256)
        while is_taken(document):  # a later revision, from before this database was restored
            document = replace(document, revision=document.revision + 1)
        key = place(document)
        _supersede(connection, before)
        _fill(connection, _insert(connection, document, found, before), found, content, key)
        return FetchOutcome.NEW if before is None else FetchOutcome.REVISED


def record_unchanged(connection: Connection, known: TrackedDocument, found: DocumentRef) -> None:
    """The source says that it is still the same: by its version, or by answering 304."""
    _confirm(connection, known.id, found, Download("", 0, known.etag, known.last_modified))


def record_restored(connection: Connection, content_item_id: int) -> None:
    """Its file was lost or damaged in storage and is there again: the next run reads it, if it failed for that."""
    connection.execute(
        "update content_items set fetched_at = clerk_now(), pdf_missing_since = null where id = %s", [content_item_id]
    )


def record_failure(
    connection: Connection,
    subdomain: str,
    found: DocumentRef,
    code: str,
    message: str,
    may_pass: bool,
    instead_of: int | None = None,
) -> None:
    """It could not be had. Without a PDF from before it is a document that fails when its turn to be read comes.

    A failure that will not pass by itself counts once, not with every run; `may_pass` ones count each time.
    """
    with _site_lock(connection, subdomain):
        before = _newest(connection, subdomain, found, instead_of)
        if before is None:
            before_id = _insert(connection, _next_document(connection, subdomain, found, None), found, None)
        else:
            before_id = before.id
        connection.execute(
            """
            update content_items i
            set fetch_failed_at = case when i.sha256 is null
                                            and (%(may_pass)s or i.fetch_error_code is distinct from %(code)s)
                                       then clerk_now() else i.fetch_failed_at end,
                fetch_error_code = %(code)s, fetch_error_message = %(message)s,
                removed_at_source = null, updated_at = clerk_now()
            where i.id = %(id)s
            """,
            {"id": before_id, "code": code, "message": clean_text(message, 500), "may_pass": may_pass},
        )


def record_removed(connection: Connection, ids: Iterable[int]) -> int:
    """The source no longer lists these. Returns how many of them it listed until now."""
    return connection.execute(
        """
        update content_items i set removed_at_source = clerk_now(), updated_at = clerk_now()
        where i.id = any (%s) and i.removed_at_source is null
        """,
        [list(ids)],
    ).rowcount


@dataclass(frozen=True)
class StoredDocument:
    """A document that lies in storage, and what is known from that."""

    document: Document
    """With its hash; the meeting's name as good as it can be told."""
    storage_key: str
    size_bytes: int | None = None
    """None if the PDF itself is not there."""
    page_count: int | None = None


def import_stored(connection: Connection, stored: StoredDocument) -> int | None:
    """A row for a document that no row speaks of: a database from before it was fetched. None if there is one by now.

    A revision goes on where the one before it stands: it is the source's newest word on the same key. Any other has
    no source until a fetch meets the same content.
    """
    document = stored.document
    with _site_lock(connection, document.subdomain):
        revisions = _revisions(connection, document)
        if any(one.revision == document.revision for one in revisions):
            return None
        before = max((one for one in revisions if one.revision < document.revision), key=_revision, default=None)
        row = connection.execute(
            """
            with before as (
                update content_items set superseded_at = coalesce(superseded_at, clerk_now()), updated_at = clerk_now()
                where id = %(before)s
                returning coalesce(lineage_id, id) as lineage_id, meeting
            )
            insert into content_items (subdomain, kind, meeting, date, occurrence, revision, sha256, size_bytes,
                                       page_count, storage_key, fetched_at, lineage_id, superseded_at)
            values (%(subdomain)s, %(kind)s, coalesce((select meeting from before), %(meeting)s), %(date)s,
                    %(occurrence)s, %(revision)s, %(sha256)s, %(size)s, %(pages)s, %(key)s, clerk_now(),
                    (select lineage_id from before), case when %(is_old)s then clerk_now() end)
            returning id
            """,
            {
                "before": before and before.id,
                "subdomain": document.subdomain,
                "kind": document.kind,
                "meeting": document.meeting,
                "date": document.date,
                "occurrence": document.occurrence,
                "revision": document.revision,
                "sha256": document.sha256,
                "size": stored.size_bytes,
                "pages": stored.page_count,
                "key": stored.storage_key,
                "is_old": any(one.revision > document.revision for one in revisions),
            },
        ).fetchone()
        assert row is not None
        if before is not None:
            connection.execute(
                """
                update content_items i set source_url = before.source_url, source_key = before.source_key
                from content_items before where i.id = %s and before.id = %s and i.superseded_at is null
                """,
                [row[0], before.id],
            )
        return int(row[0])


def _revision(document: Document) -> int:
    return document.revision


def _revisions(connection: Connection, document: Document) -> list[Document]:
    """What is known of the same meeting, by the path of its files."""
    rows = connection.execute(
        _DOCUMENT + "and i.subdomain = %s and i.kind = %s and i.date = %s and i.occurrence = %s",
        [document.subdomain, document.kind, document.date, document.occurrence],
    )
    return [one for one in (Document(*row) for row in rows) if _path(one.meeting) == _path(document.meeting)]


@contextlib.contextmanager
def _site_lock(connection: Connection, subdomain: str) -> Iterator[None]:
    with connection.transaction():
        connection.execute(
            "select pg_advisory_xact_lock(hashtextextended('clerk documents of ' || %s, 0))", [subdomain]
        )
        yield


def _newest(
    connection: Connection, subdomain: str, found: DocumentRef, instead_of: int | None
) -> TrackedDocument | None:
    with connection.cursor(row_factory=class_row(TrackedDocument)) as cursor:
        return cursor.execute(
            """
            select i.id, coalesce(i.source_key, '') as source_key, i.kind, i.meeting, i.date, i.sha256,
                   i.source_version, i.etag, i.last_modified, i.fetch_error_code
            from content_items i
            where i.subdomain = %(subdomain)s and i.superseded_at is null
              and (i.source_key = %(key)s or i.id = %(instead_of)s)
            order by i.source_key = %(key)s desc
            limit 1
            """,
            {"subdomain": subdomain, "key": found.identity, "instead_of": instead_of},
        ).fetchone()


def _without_source(
    connection: Connection, subdomain: str, found: DocumentRef, content: Download
) -> TrackedDocument | None:
    """A document that was taken up from storage, or from the older system, which kept no address: the same body on the
    same day, with this content or, if nobody knows its content, with any. From now on it has the source's name."""
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
            [subdomain, found.kind, found.date, content.sha256],
        ).fetchall()
    older = next((one for one in rows if folder_name(one.meeting) == folder_name(found.meeting)), None)
    if older is None:
        return None
    connection.execute("update content_items set meeting = %s where id = %s", [found.meeting, older.id])
    return replace(older, meeting=found.meeting)


def _next_document(
    connection: Connection, subdomain: str, found: DocumentRef, before: TrackedDocument | None
) -> Document:
    """Where a document that is not there yet goes: the next revision of its meeting, or the next meeting of the day."""
    rows = connection.execute(
        _DOCUMENT + "and i.subdomain = %s and i.kind = %s and i.date = %s", [subdomain, found.kind, found.date]
    )
    same_day = [one for one in (Document(*row) for row in rows) if _path(one.meeting) == _path(found.meeting)]
    document = Document(0, subdomain, found.kind, found.meeting, found.date, source_url=found.url)
    if before is not None and before.is_about(found):
        occurrence = next(one.occurrence for one in same_day if one.id == before.id)
        revisions = [one.revision for one in same_day if one.occurrence == occurrence]
        return replace(document, occurrence=occurrence, revision=max(revisions) + 1)
    return replace(document, occurrence=max((one.occurrence for one in same_day), default=0) + 1)


def _path(meeting: str) -> str:
    """Meetings whose files would share a folder, on file systems that do not know case either."""
    return folder_name(meeting).casefold()


def _supersede(connection: Connection, before: TrackedDocument | None) -> None:
    if before is not None:
        connection.execute(
            "update content_items set superseded_at = clerk_now(), updated_at = clerk_now() where id = %s", [before.id]
        )


def _insert(connection: Connection, document: Document, found: DocumentRef, before: TrackedDocument | None) -> int:
    row = connection.execute(
        """
        insert into content_items (subdomain, kind, meeting, date, occurrence, revision, source_url, source_key,
                                   lineage_id)
        values (%(subdomain)s, %(kind)s, %(meeting)s, %(date)s, %(occurrence)s, %(revision)s, %(url)s, %(key)s,
                (select coalesce(i.lineage_id, i.id) from content_items i where i.id = %(before)s))
        returning id
        """,
        {
            "subdomain": document.subdomain,
            "kind": document.kind,
            "meeting": document.meeting,
            "date": document.date,
            "occurrence": document.occurrence,
            "revision": document.revision,
            "url": found.url,
            "key": found.identity,
            "before": before and before.id,
        },
    ).fetchone()
    assert row is not None
    return int(row[0])


def _fill(
    connection: Connection, content_item_id: int, found: DocumentRef, content: Download, storage_key: str
) -> None:
    connection.execute(
        """
        update content_items
        set sha256 = %s, size_bytes = %s, storage_key = %s, page_count = null, fetched_at = clerk_now()
        where id = %s
        """,
        [content.sha256, content.size_bytes, storage_key, content_item_id],
    )
    _confirm(connection, content_item_id, found, content)


def _confirm(connection: Connection, content_item_id: int, found: DocumentRef, content: Download) -> None:
    connection.execute(
        """
        update content_items
        set source_url = %s, source_key = %s, source_version = nullif(%s, ''), etag = %s, last_modified = %s,
            checked_at = clerk_now(), removed_at_source = null, fetch_error_code = null, fetch_error_message = null,
            fetch_failed_at = null, updated_at = clerk_now()
        where id = %s
        """,
        [found.url, found.identity, found.version, content.etag, content.last_modified, content_item_id],
    )
