"""Which documents a site's archive is made of, and under which name each is shown.

Of a document's history (its revisions, and moves to another day) the newest that could be read is shown. Two
meetings of one body on one day are both shown, the second as `City Council (2)`: page ids are made of kind, meeting,
date, page and text, so two pages of the same words would otherwise be one.
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
       i.superseded_at is not null
from content_items i
left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
where i.subdomain = %s and i.kind in ('minutes', 'agenda')
order by i.id
"""


@dataclass(frozen=True)
class Candidate:
    document: Document
    lineage_id: int
    """The same for all of a document's history."""
    is_read: bool
    """The ledger says that it was read. Texts from an earlier reading may lie there even if it does not."""
    is_superseded: bool = False
    """A later one took its place. (Its row may be younger nevertheless: entered from storage after a restore.)"""


@dataclass(frozen=True)
class SelectedDocument:
    """A document of the archive. No two have kind, date and shown meeting in common."""

    document: Document
    meeting: str
    damaged: bool = False
    """Its texts are not what its manifest says: what the archive has of it already is kept until it is read again."""


def candidates(connection: psycopg.Connection[Any], subdomain: str) -> list[Candidate]:
    return [
        Candidate(Document(*columns), lineage_id, is_read, is_superseded)
        for *columns, lineage_id, is_read, is_superseded in connection.execute(_DOCUMENTS, [subdomain])
    ]


def select(storage: SiteStorage, found: Iterable[Candidate]) -> list[SelectedDocument]:
    """In the order of the archive: by date, kind and name."""
    chosen = [one for history in _histories(found) if (one := _newest_read(storage, history)) is not None]
    taken: set[tuple[date, str, str]] = set()
    shown = []
    # Every body's first meeting of a day is named before any second one, whatever a body may be called.
    for document, damaged in sorted(chosen, key=lambda one: (one[0].occurrence, one[0].meeting, one[0].id)):
        number = document.occurrence
        name = document.meeting if number == 1 else f"{document.meeting} ({number})"
        while (document.date, document.kind, name) in taken:
            number += 1
            name = f"{document.meeting} ({number})"
        taken.add((document.date, document.kind, name))
        shown.append(SelectedDocument(document, name, damaged))
    return sorted(shown, key=lambda one: (one.document.date, one.document.kind, one.meeting))


def _histories(found: Iterable[Candidate]) -> list[list[Candidate]]:
    """Oldest first. Revisions without lineage_id (an older database's) are grouped by meeting, date and occurrence."""
    histories: dict[int, list[Candidate]] = {}
    lineage_of: dict[tuple[str, str, date, int], int] = {}
    for candidate in sorted(found, key=lambda one: one.document.id):
        document = candidate.document
        about = (document.kind, document.meeting, document.date, document.occurrence)
        lineage_id = candidate.lineage_id
        if lineage_id not in histories:
            lineage_id = lineage_of.get(about, lineage_id)
        lineage_of.setdefault(about, lineage_id)
        histories.setdefault(lineage_id, []).append(candidate)
    return list(histories.values())


def _newest_read(storage: SiteStorage, history: Sequence[Candidate]) -> tuple[Document, bool] | None:
    """The document, and whether its texts are damaged."""
    for candidate in sorted(history, key=lambda one: (one.is_superseded, -one.document.id)):
        document = candidate.document
        try:
            known = manifest.load(storage.manifest(document))
        except manifest.ManifestUnreadable as error:
            logger.warning("document %s is kept as the archive has it: %s", document.id, error)
            return document, True
        if known is None and candidate.is_read:
            logger.warning("document %s is kept as the archive has it: its texts are gone", document.id)
            return document, True
        if known is not None and known.is_complete and (candidate.is_read or not known.failed):
            return document, False
    return None
