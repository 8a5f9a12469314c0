"""Import of documents that are in storage but not in the database, as after the restore of an old backup."""

from __future__ import annotations

from dataclasses import dataclass

from clerk.documents.repository import SELECT_DOCUMENTS, Connection, path_key, site_lock
from clerk.documents.storage import Document


@dataclass(frozen=True)
class StoredDocument:
    """A document found in storage."""

    document: Document
    """With its hash. The meeting's name is the folder's if no better one is known."""
    storage_key: str
    size_bytes: int | None = None
    """None if the PDF is missing and only texts are in storage."""
    page_count: int | None = None


def import_stored(connection: Connection, stored: StoredDocument) -> int | None:
    """Insert a document and return its id; None if the database already has it.

    A later revision of a document takes over the source of the revision before it. Any other document has no source
    until a fetch downloads the same content.
    """
    document = stored.document
    with site_lock(connection, document.subdomain):
        revisions = _list_revisions(connection, document)
        if document.revision in revisions:
            return None
        previous = max((number for number in revisions if number < document.revision), default=None)
        previous_id = None if previous is None else revisions[previous]
        row = connection.execute(
            """
            with previous as (
                update content_items set superseded_at = coalesce(superseded_at, clerk_now()), updated_at = clerk_now()
                where id = %(previous)s
                returning coalesce(lineage_id, id) as lineage_id, meeting
            )
            insert into content_items (subdomain, kind, meeting, date, occurrence, revision, sha256, size_bytes,
                                       page_count, storage_key, fetched_at, lineage_id, superseded_at)
            values (%(subdomain)s, %(kind)s, coalesce((select meeting from previous), %(meeting)s), %(date)s,
                    %(occurrence)s, %(revision)s, %(sha256)s, %(size)s, %(pages)s, %(key)s, clerk_now(),
                    (select lineage_id from previous), case when %(is_superseded)s then clerk_now() end)
            returning id
            """,
            {
                "previous": previous_id,
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
                "is_superseded": any(number > document.revision for number in revisions),
            },
        ).fetchone()
        assert row is not None
        if previous_id is not None:
            connection.execute(
                """
                update content_items i set source_url = previous.source_url, source_key = previous.source_key
                from content_items previous where i.id = %s and previous.id = %s and i.superseded_at is null
                """,
                [row[0], previous_id],
            )
        return int(row[0])


def _list_revisions(connection: Connection, document: Document) -> dict[int, int]:
    """Return revision and id of all documents whose files have the same path but for the revision."""
    rows = connection.execute(
        SELECT_DOCUMENTS + "and i.subdomain = %s and i.kind = %s and i.date = %s and i.occurrence = %s",
        [document.subdomain, document.kind, document.date, document.occurrence],
    )
    return {
        row.revision: row.id
        for row in (Document(*columns) for columns in rows)
        if path_key(row.meeting) == path_key(document.meeting)
    }
