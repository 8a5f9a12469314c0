"""What a delivery says: the matching pages with their links, as text for mails and as JSON for webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Any

from clerk.archive.hits import page_path
from clerk.humanize import pluralize
from clerk.saved_searches.deliveries import Match

_MAX_LISTED = 50
"""Pages in the text of a mail; the others are counted."""


@dataclass(frozen=True)
class Notification:
    key: str
    """Idempotency key: the same at every attempt to deliver it."""
    name: str
    query: str
    matches: Sequence[Match]
    created_at: datetime
    public_url: str | None
    is_test: bool = False

    @property
    def subject(self) -> str:
        sites = sorted({match.subdomain for match in self.matches})
        where = sites[0] if len(sites) == 1 else pluralize(len(sites), "site")
        pages = f"{pluralize(len(self.matches), 'page')} of {where}" if sites else "no page yet"
        return f"{'[test] ' if self.is_test else ''}clerk alert {self.name}: {pages}"

    def as_text(self) -> str:
        lines = [
            f"{pluralize(len(self.matches), 'new or changed page')} matched the search",
            f"    {self.query}",
            "",
        ]
        if self.is_test:
            lines = ["This is a test of the alert. It lists pages that are already published.", "", *lines]
        listed = self.matches[:_MAX_LISTED]
        documents = groupby(listed, lambda match: (match.subdomain, match.meeting, match.date, match.kind))
        for (subdomain, meeting, date, kind), pages in documents:
            lines.append(f"{subdomain}: {meeting}, {date} ({kind})")
            for match in pages:
                lines.append(f"  page {match.page}{'' if match.is_new_document else ' (changed or added)'}")
                lines.append(f"    {match.snippet}")
                lines += [f"    {url}" for url in (page_url(self.public_url, match), match.source_url) if url]
            lines.append("")
        if len(self.matches) > len(listed):
            lines += [f"… and {pluralize(len(self.matches) - len(listed), 'more page')}.", ""]
        lines += ["-- ", f"Sent by clerk for the alert {self.name}. Its operator can pause or remove the alert."]
        return "\n".join(lines) + "\n"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.key,
            "type": "alert.test" if self.is_test else "alert.matches",
            "timestamp": self.created_at.isoformat(),
            "alert": self.name,
            "query": self.query,
            "pages": [
                {
                    "site": match.subdomain,
                    "kind": match.kind,
                    "meeting": match.meeting,
                    "date": match.date,
                    "page": match.page,
                    "page_id": match.page_id,
                    "new_document": match.is_new_document,
                    "snippet": match.snippet,
                    "url": page_url(self.public_url, match),
                    "source_url": match.source_url,
                    "matched_at": match.matched_at.isoformat(),
                }
                for match in self.matches
            ],
        }


def page_url(public_url: str | None, match: Match) -> str | None:
    """The permanent address of the page in `clerk serve`; None without CLERK_PUBLIC_URL."""
    if public_url is None:
        return None
    return public_url + page_path(match.subdomain, match.kind, match.date, match.meeting, match.page)
