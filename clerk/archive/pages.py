"""A page as meetings.db has it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from clerk.archive.selection import SelectedDocument
from clerk.documents import manifest
from clerk.documents.storage import SiteStorage
from clerk.extraction import cache

logger = logging.getLogger(__name__)

TABLES = {"minutes": "minutes", "agenda": "agendas"}
"""Kind of document → its table."""
_ID_LENGTH = 12


@dataclass(frozen=True)
class Page:
    kind: str
    meeting: str
    date: str
    page: int
    text: str
    page_image: str
    entities_json: str | None = None
    votes_json: str | None = None

    @property
    def table(self) -> str:
        return TABLES[self.kind]

    @property
    def digest(self) -> str:
        facts = {"kind": self.kind, "meeting": self.meeting, "date": self.date, "page": self.page, "text": self.text}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class CarriedOver:
    """A document that cannot be read just now: its rows stay as they are."""

    table: str
    meeting: str
    date: str


def pages(storage: SiteStorage, shown: Iterable[SelectedDocument]) -> Iterator[Page | CarriedOver]:
    """One document in memory at a time."""
    for one in shown:
        document = one.document
        kept = CarriedOver(TABLES[document.kind], one.meeting, document.date.isoformat())
        if one.damaged:
            yield kept
            continue
        try:
            texts = manifest.page_texts(storage, document)
        except manifest.ManifestUnreadable as error:
            logger.warning("document %s is kept as the archive has it: %s", document.id, error)
            yield kept
            continue
        findings = cache.findings_for(storage.extracted(document), texts)
        for number, text in texts:
            found = findings.get(number)
            yield Page(
                document.kind,
                one.meeting,
                document.date.isoformat(),
                number,
                text,
                storage.page_image_url(document, number),
                found.entities_json if found else None,
                found.votes_json if found else None,
            )


def with_ids(found: Iterable[Page | CarriedOver], length: int = _ID_LENGTH) -> Iterator[tuple[str, Page] | CarriedOver]:
    """Ids are the first digits of the digest. Where two pages of a table share those (one site in ten thousand will
    see it), the later one takes the next digits: neither hides the other."""
    taken: set[tuple[str, str]] = set()
    for page in found:
        if isinstance(page, CarriedOver):
            yield page
            continue
        digest = page.digest
        candidates = (digest[start : start + length] for start in range(len(digest) - length + 1))
        key = next(candidate for candidate in candidates if (page.table, candidate) not in taken)
        taken.add((page.table, key))
        yield key, page
