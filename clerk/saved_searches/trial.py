"""Test deliveries: what `clerk alert test` sends, with pages that are already published."""

from __future__ import annotations

import sqlite3
import uuid
from datetime import UTC, datetime

from clerk.archive.content_hash import open_readonly
from clerk.config import Settings
from clerk.publish.versions import published_archives
from clerk.saved_searches import mail, webhook
from clerk.saved_searches.deliveries import Match
from clerk.saved_searches.notification import Notification
from clerk.saved_searches.page_query import sample_pages
from clerk.saved_searches.repository import Destination, SavedSearch

MAX_PAGES = 5


def make_notification(settings: Settings, saved_search: SavedSearch) -> tuple[Notification, dict[str, str]]:
    """A test message with pages that match now, and the archives that could not be read (subdomain → reason)."""
    now = datetime.now(UTC)
    matches: list[Match] = []
    broken: dict[str, str] = {}
    for subdomain, database in published_archives(settings.publish_dir):
        if saved_search.sites is not None and subdomain not in saved_search.sites:
            continue
        try:
            with open_readonly(database) as archive:
                pages = sample_pages(archive, saved_search.query, MAX_PAGES - len(matches))
        except sqlite3.Error as error:
            broken[subdomain] = str(error)
            continue
        matches += [
            Match(0, subdomain, **vars(page), is_new_document=True, source_url=None, matched_at=now) for page in pages
        ]
        if len(matches) >= MAX_PAGES:
            break
    key = str(uuid.uuid4())
    notification = Notification(
        key, saved_search.name, saved_search.query, matches, now, settings.public_url, is_test=True
    )
    return notification, broken


def send(settings: Settings, notification: Notification, destination: Destination) -> bool:
    """Send it now. False for a feed: its file has only real matches. Raises JobError."""
    match destination.channel:
        case "mail":
            mail.send(settings, notification, destination.address)
        case "webhook":
            webhook.send(settings, notification, destination)
        case _:
            return False
    return True
