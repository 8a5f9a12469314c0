"""Plan of a fetch: which listed documents are processed, and which tracked document each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.documents.skipped import DUPLICATE, OperatorDetails, SkippedEntry


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
    """Match listed documents, each with a key of its own, with tracked ones.

    Equal keys are the same document. A new key for a meeting whose old key is no longer listed is a document whose
    address changed. A new key beside an old key that is still listed is a second meeting of that day. If the listing is
    not `complete`, no document counts as removed.
    """
    by_key = {document.source_key: document for document in tracked}
    listed_keys = {ref.identity for ref in listed}
    removed = [document for document in tracked if document.source_key not in listed_keys] if complete else []
    by_meeting: dict[tuple[object, ...], list[TrackedDocument]] = {}
    for document in reversed(removed):
        by_meeting.setdefault((document.kind, document.meeting, document.date), []).append(document)
    moved = set()
    items = []
    for ref in listed:
        match = by_key.get(ref.identity)
        if match is None and (same_meeting := by_meeting.get((ref.kind, ref.meeting, ref.date))):
            match = same_meeting.pop()
            moved.add(match.id)
        items.append(SyncItem(ref, match))
    return SyncPlan(items, [document for document in removed if document.id not in moved])


def unfetched_first(items: list[SyncItem]) -> list[SyncItem]:
    """New documents, then those that were checked least recently: a fetch may end before the last of them."""
    never = datetime.min.replace(tzinfo=UTC)
    return sorted(
        items, key=lambda item: (item.tracked is not None, (item.tracked and item.tracked.checked_at) or never)
    )


def find_duplicates(listed: list[DocumentRef]) -> tuple[list[DocumentRef], list[SkippedEntry]]:
    """Separate the entries that have the key of an earlier entry. One that repeats it exactly is the same document."""
    unique: dict[str, DocumentRef] = {}
    duplicates = []
    for ref in listed:
        first = unique.setdefault(ref.identity, ref)
        if first != ref:
            duplicates.append(describe_duplicate(ref, first))
    return list(unique.values()), duplicates


def describe_duplicate(ref: DocumentRef, first: DocumentRef) -> SkippedEntry:
    name = f"{ref.display_name} ({_describe(ref)})"
    reason = (
        f"{name} has the same key as {first.display_name} ({_describe(first)}) earlier in the listing:"
        f" {ref.identity[:100]}"
    )
    return SkippedEntry(reason, DUPLICATE, ref.identity, name, ref.url)


def apply_details(ref: DocumentRef, details_by_key: Mapping[str, OperatorDetails]) -> DocumentRef:
    """Use what an operator said about the document."""
    details = details_by_key.get(ref.identity)
    if details is None:
        return ref
    if details.date is not None:
        ref = replace(ref, date=details.date, date_origin="operator")
    if details.meeting is not None:
        ref = replace(ref, meeting=details.meeting, meeting_origin="operator")
    if details.kind is not None:
        ref = replace(ref, kind=details.kind, kind_origin="operator")
    return ref


def _describe(ref: DocumentRef) -> str:
    return f"{ref.meeting}, {ref.date or 'no date'}, {ref.kind or 'no kind'}"
