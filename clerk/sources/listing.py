"""Lists a source without downloading its documents, to show what a fetch would find."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from clerk.documents.media_types import NAMES, PDF_OR_HTML, READABLE
from clerk.documents.repository import DocumentRef
from clerk.documents.sanitize import clean_text
from clerk.errors import BudgetExceeded
from clerk.humanize import join_words, pluralize, shorten
from clerk.sources.fetcher import Fetcher
from clerk.sources.listed_documents import listed_documents
from clerk.sources.sync_plan import describe_duplicate

_MAX_DOCUMENTS = 500_000
_MAX_BODIES = 1000
_MAX_BODIES_SHOWN = 8
_MAX_NAMES = 3
MAX_EXAMPLES = 10


@dataclass
class SourceListing:
    documents: int = 0
    bodies: Counter[str] = field(default_factory=Counter)
    """Documents by the body or meeting; at most 1,000 names, further ones are counted under an empty name."""
    kinds: Counter[str] = field(default_factory=Counter)
    oldest: date | None = None
    newest: date | None = None
    undated: int = 0
    """Documents without a date in the listing: it is looked for in the PDF."""
    unreadable: Counter[str] = field(default_factory=Counter)
    """Entries of types that clerk does not read, by type in words. They are not counted as documents."""
    unreadable_names: list[str] = field(default_factory=list)
    """Names or addresses of the first of these."""
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)
    """Why entries were skipped, for the first ones."""
    is_complete: bool = True
    examples: list[DocumentRef] = field(default_factory=list)
    """The first documents."""
    incomplete_urls: int = 0
    """Documents that cannot be downloaded, because their URL is only a part of one."""
    incomplete_url: str = ""
    """The first of these URLs."""
    stopped: str = ""
    """Why the listing is not complete, if not because of the time limit: `by the budget of a run (…)`."""

    def add(self, ref: DocumentRef) -> None:
        if ref.media_type not in (*READABLE, PDF_OR_HTML):
            self.unreadable[NAMES.get(ref.media_type, ref.media_type)] += 1
            if len(self.unreadable_names) < MAX_EXAMPLES:
                self.unreadable_names.append(ref.display_name)
            return
        self.documents += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(ref)
        name = clean_text(ref.meeting)
        self.bodies[name if name in self.bodies or len(self.bodies) < _MAX_BODIES else ""] += 1
        self.kinds[ref.kind or "unknown kind"] += 1
        if ref.date is None:
            self.undated += 1
        else:
            self.oldest = min(self.oldest or ref.date, ref.date)
            self.newest = max(self.newest or ref.date, ref.date)

    def as_dict(self) -> dict[str, Any]:
        return {
            "documents": self.documents,
            "kinds": dict(self.kinds.most_common()),
            "bodies": dict(self.bodies.most_common()),
            "oldest": self.oldest,
            "newest": self.newest,
            "undated": self.undated,
            "unreadable": dict(self.unreadable.most_common()),
            "unreadable_names": self.unreadable_names,
            "skipped": self.skipped,
            "reasons": self.reasons,
            "complete": self.is_complete,
            "examples": [
                {"url": ref.url, "meeting": ref.meeting, "date": ref.date, "kind": ref.kind, "name": ref.name}
                for ref in self.examples
            ],
            "stopped": self.stopped,
        }


async def list_source(
    fetcher: Fetcher, lister: str, max_seconds: float | None, report: Callable[[int], None]
) -> SourceListing:
    """List all documents, or those that are listed within `max_seconds`. `report` is called with their number."""
    listing = SourceListing()
    first_of_key: dict[str, DocumentRef] = {}
    downloads_urls = type(fetcher).download is Fetcher.download
    try:
        async with asyncio.timeout(max_seconds):
            async for ref in listed_documents(fetcher, lister):
                # As in a run: an equal entry is the same document, one that differs is skipped.
                if (first := first_of_key.setdefault(ref.identity, ref)) is not ref:
                    if first != ref:
                        fetcher.skip_entry(describe_duplicate(ref, first))
                    continue
                listing.add(ref)
                if downloads_urls and not urlsplit(ref.url).scheme:
                    listing.incomplete_urls += 1
                    listing.incomplete_url = listing.incomplete_url or ref.url
                report(listing.documents)
                if listing.documents + listing.unreadable.total() >= _MAX_DOCUMENTS:
                    listing.is_complete = False
                    break
    except TimeoutError:
        listing.is_complete = False
    except BudgetExceeded as error:
        listing.is_complete, listing.stopped = False, f"by the budget of a run ({error})"
    finally:
        fetcher.close()
        listing.skipped, listing.reasons = fetcher.skipped_count, list(fetcher.skipped)
    return listing


def _count_kind(kind: str, number: int) -> str:
    if kind == "unknown kind":
        return f"{number:,} of unknown kind"
    return pluralize(number, kind, kind if kind == "minutes" else None)


def describe_listing(listing: SourceListing, undated: str = "") -> list[tuple[str, str]]:
    """What a source lists, in words, each with a title. `undated`: more about documents without a date."""
    kinds = join_words([_count_kind(kind, number) for kind, number in listing.kinds.most_common()])
    bodies = [f"{name or 'others'} {number:,}" for name, number in listing.bodies.most_common(_MAX_BODIES_SHOWN)]
    further = len(listing.bodies) - len(bodies)
    rows = [("documents", f"{listing.documents:,}{f': {kinds}' if kinds else ''}")]
    if bodies:
        rows.append(("bodies", ", ".join(bodies) + (f" and {further:,} more" if further else "")))
    if listing.oldest:
        rows.append(("dates", f"{listing.oldest} to {listing.newest}"))
    notes = []
    if unreadable := listing.unreadable.total():
        shown = [shorten(name) for name in listing.unreadable_names[:_MAX_NAMES]]
        more = f" and {unreadable - len(shown):,} more" if unreadable > len(shown) else ""
        types = join_words(list(listing.unreadable))
        notes.append(f"{pluralize(unreadable, 'file')} that clerk does not read ({types}): {', '.join(shown)}{more}")
    if listing.undated:
        documents = pluralize(listing.undated, "document")
        notes.append(f"{documents} without a date, which is looked for in the PDF{undated}")
    if listing.incomplete_urls:
        documents = pluralize(listing.incomplete_urls, "document")
        notes.append(
            f"{documents} cannot be downloaded: the fetcher must list complete URLs, such as those of urljoin, "
            f"not {shorten(listing.incomplete_url)!r}"
        )
    if listing.skipped:
        more = f"; and {listing.skipped - 1:,} more" if listing.skipped > 1 else ""
        first = f": {listing.reasons[0]}{more}" if listing.reasons else ""
        notes.append(f"{pluralize(listing.skipped, 'entry', 'entries')} skipped{first}")
    if not listing.is_complete:
        notes.append(f"the listing was stopped {listing.stopped or 'at the time limit'}: there may be more")
    return rows + [("note", note) for note in notes]
