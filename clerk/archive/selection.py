"""Selects the documents of a site's archive and the meeting name of each.

Of a document's lineage (its revisions, and moves to another date) the newest processed one is selected. If a body meets
twice on one day, the second meeting is named `City Council (2)`: page ids are computed from kind, meeting, date, page
and text, so pages with equal text would otherwise get the same id.

A document that the source no longer lists stays in the archive, unless the source lists the same file under another
name or address: then it was moved.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import psycopg

from clerk.documents import manifest
from clerk.documents.storage import Document, SiteStorage

logger = logging.getLogger(__name__)

_DOCUMENTS = """
select i.id, i.subdomain, i.kind, i.meeting, i.date, i.occurrence, i.revision, i.sha256, i.source_url,
       coalesce(i.lineage_id, i.id), coalesce(l.status = 'processed' or l.error_code = 'FilesLost', false),
       i.superseded_at is not null, to_char(i.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
       i.removed_at_source is not null
from content_items i
left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
where i.subdomain = %s and i.kind <> 'archive'
order by i.id
"""


@dataclass(frozen=True)
class Candidate:
    document: Document
    lineage_id: int
    """Shared by all revisions of a document."""
    is_processed: bool
    """The ledger says that OCR succeeded. Otherwise there may still be texts of an earlier success."""
    is_superseded: bool = False
    """A later revision replaced it. Its row can still have a higher id, if a restore imported it from storage."""
    added_at: str | None = None
    """When the fetch stage found it, in UTC."""
    is_removed: bool = False
    """The source no longer lists it."""


@dataclass(frozen=True)
class SelectedDocument:
    """A document of the archive. Kind, date and `meeting` are unique together."""

    document: Document
    meeting: str
    damaged: bool = False
    """Its texts differ from its manifest: the archive keeps its existing rows until it is processed again."""
    added_at: str | None = None


def read_candidates(connection: psycopg.Connection[Any], subdomain: str) -> list[Candidate]:
    return [
        Candidate(Document(*columns), lineage_id, is_processed, is_superseded, added_at, is_removed)
        for *columns, lineage_id, is_processed, is_superseded, added_at, is_removed in connection.execute(
            _DOCUMENTS, [subdomain]
        )
    ]


def select(storage: SiteStorage, candidates: Iterable[Candidate]) -> list[SelectedDocument]:
    """The documents of the archive, sorted by date, kind and name."""
    candidates = list(candidates)
    storage.prefetch_manifests(candidate.document for candidate in candidates)
    added_at = {candidate.document.id: candidate.added_at for candidate in candidates}
    newest = [pair for lineage in _lineages(candidates) if (pair := _newest_processed(storage, lineage)) is not None]
    newest = _without_moved(newest, {candidate.document.id for candidate in candidates if candidate.is_removed})
    taken: set[tuple[date, str, str]] = set()
    selected = []
    # First occurrences are named before second ones: a body can itself be called "City Council (2)".
    for document, damaged in sorted(newest, key=lambda pair: (pair[0].occurrence, pair[0].meeting, pair[0].id)):
        number = document.occurrence
        name = document.meeting if number == 1 else f"{document.meeting} ({number})"
        while (document.date, document.kind, name) in taken:
            number += 1
            name = f"{document.meeting} ({number})"
        taken.add((document.date, document.kind, name))
        selected.append(SelectedDocument(document, name, damaged, added_at[document.id]))
    return sorted(selected, key=lambda item: (item.document.date, item.document.kind, item.meeting))


def _without_moved(newest: list[tuple[Document, bool]], removed: set[int]) -> list[tuple[Document, bool]]:
    listed = {(document.kind, document.sha256) for document, _ in newest if document.id not in removed}
    return [
        (document, damaged)
        for document, damaged in newest
        if document.id not in removed or not document.sha256 or (document.kind, document.sha256) not in listed
    ]


def _lineages(candidates: Iterable[Candidate]) -> list[list[Candidate]]:
    """Oldest first. Revisions without lineage_id (older databases) are grouped by meeting, date and occurrence."""
    lineages: dict[int, list[Candidate]] = {}
    lineage_by_meeting: dict[tuple[str, str, date, int], int] = {}
    for candidate in sorted(candidates, key=lambda candidate: candidate.document.id):
        document = candidate.document
        meeting = (document.kind, document.meeting, document.date, document.occurrence)
        lineage_id = candidate.lineage_id
        if lineage_id not in lineages:
            lineage_id = lineage_by_meeting.get(meeting, lineage_id)
        lineage_by_meeting.setdefault(meeting, lineage_id)
        lineages.setdefault(lineage_id, []).append(candidate)
    return list(lineages.values())


def _newest_processed(storage: SiteStorage, lineage: Sequence[Candidate]) -> tuple[Document, bool] | None:
    """The document, and whether its texts are damaged."""
    for candidate in sorted(lineage, key=lambda candidate: (candidate.is_superseded, -candidate.document.id)):
        document = candidate.document
        try:
            stored = manifest.load(storage.manifest(document))
        except manifest.ManifestUnreadable as error:
            logger.warning("document %s keeps its rows in the archive: %s", document.id, error)
            return document, True
        if stored is None and candidate.is_processed:
            logger.warning("document %s keeps its rows in the archive: its texts are missing", document.id)
            return document, True
        if stored is not None and stored.is_complete and (candidate.is_processed or not stored.failed):
            return document, False
    return None
