"""Atom feeds (RFC 4287): of a saved search, with an entry per matching page, and of a site, with one per document.

CLERK_PUBLISH_DIR/{subdomain}/feed.atom     the site's new and changed documents
                  _feeds/{name}.atom        the matches of a saved search with --feed
"""

from __future__ import annotations

import re
import uuid
import xml.etree.ElementTree as ET
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import psycopg
from psycopg.rows import class_row

from clerk.archive.pages import TABLES
from clerk.config import Settings
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import make_folder, write
from clerk.humanize import pluralize
from clerk.object_storage.path import StoragePath
from clerk.saved_searches.deliveries import Match
from clerk.saved_searches.notification import page_url
from clerk.saved_searches.repository import SavedSearchNotFound

Connection = psycopg.Connection[Any]

CONTENT_TYPE = "application/atom+xml; charset=utf-8"
SITE_FEED = "feed.atom"
FEEDS_FOLDER = "_feeds"
_ATOM = "http://www.w3.org/2005/Atom"
_MAX_ENTRIES = 100
_NAMESPACE = uuid.UUID("5f0c3a0e-7d1b-4c53-9a53-6f2f5f6f9c11")
"""Of the ids of feeds and entries. Never change it: feed readers would show every entry again."""
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MATCHES = """
select m.id, m.subdomain, m.kind, m.meeting, m.date, m.page, m.page_id, m.is_new_document, m.snippet, m.source_url,
       m.matched_at
from saved_search_results m
where m.saved_search = %s
order by m.id desc
limit %s
"""
_DOCUMENTS = """
select kind, meeting, date, pages, new_pages, first_published_at, changed_at
from published_documents
where subdomain = %s
order by changed_at desc, date desc, meeting, kind
limit %s
"""


class _Entry(NamedTuple):
    key: str
    title: str
    content: str
    published: datetime
    updated: datetime
    links: list[tuple[str, str]]
    """Relation and URL."""


def saved_search_feed(connection: Connection, name: str, public_url: str | None) -> bytes:
    """The newest matches of a saved search that has a feed; raises SavedSearchNotFound for any other."""
    row = connection.execute(
        "select query, created_at from saved_search_overview where name = %s and has_feed", [name]
    ).fetchone()
    if row is None:
        raise SavedSearchNotFound(f"there is no alert {name[:80]} with a feed", "`clerk alert list` shows the feeds")
    query, created_at = row
    with connection.cursor(row_factory=class_row(Match)) as cursor:
        matches = cursor.execute(_MATCHES, [name, _MAX_ENTRIES]).fetchall()
    entries = [
        _Entry(
            f"page/{match.subdomain}/{match.kind}/{match.page_id}",
            f"{match.meeting}, {match.date}: page {match.page} of the {match.kind} ({match.subdomain})",
            match.snippet,
            match.matched_at,
            match.matched_at,
            _links(page_url(public_url, match), match.source_url),
        )
        for match in matches
    ]
    own_url = f"{public_url}/-/feeds/alerts/{name}.atom" if public_url else None
    return _feed(f"alert/{name}", f"clerk alert {name}: {query}", own_url, created_at, entries)


def site_feed(connection: Connection, subdomain: str, public_url: str | None) -> bytes:
    """The documents of a site whose pages changed last."""
    row = connection.execute(
        "select coalesce(name, subdomain) from pipeline_overview where subdomain = %s", [subdomain]
    )
    name = next((name for (name,) in row), subdomain)
    entries = []
    documents = connection.execute(_DOCUMENTS, [subdomain, _MAX_ENTRIES]).fetchall()
    for kind, meeting, date, pages, new_pages, first_published_at, changed_at in documents:
        is_new = first_published_at == changed_at
        content = pluralize(pages, "page") if is_new else f"{new_pages} of {pluralize(pages, 'page')} changed or added"
        filters = urlencode({"meeting": meeting, "date": date, "_sort": "page"})
        url = f"{public_url}/{quote(subdomain)}/{TABLES.get(kind, 'minutes')}?{filters}" if public_url else None
        entries.append(
            _Entry(
                f"document/{subdomain}/{kind}/{meeting}/{date}",
                f"{meeting}, {date} ({kind})",
                content,
                first_published_at,
                changed_at,
                _links(url, None),
            )
        )
    own_url = f"{public_url}/-/feeds/sites/{quote(subdomain)}.atom" if public_url else None
    oldest = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    return _feed(f"site/{subdomain}", f"{name}: meeting records", own_url, oldest, entries)


def write_saved_search_feed(connection: Connection, settings: Settings, name: str) -> None:
    path = settings.publish_dir / FEEDS_FOLDER / f"{name}.atom"
    make_folder(path.parent)
    write(path, saved_search_feed(connection, name, settings.public_url))


def write_site_feed(connection: Connection, settings: Settings, subdomain: str) -> None:
    """Beside the published archive. Does nothing if the site is not published on this machine."""
    folder = settings.publish_dir / subdomain
    if folder.is_dir():
        write(folder / SITE_FEED, site_feed(connection, subdomain, settings.public_url))


def remove_stale(connection: Connection, settings: Settings) -> int:
    """Delete the feed files of saved searches that were removed. Returns how many."""
    # The files are listed first: a feed that is created after the query must not be deleted.
    files: list[StoragePath] = [*(settings.publish_dir / FEEDS_FOLDER).glob("*.atom")]
    if not files:
        return 0
    rows = connection.execute("select name from saved_search_overview where has_feed")
    names = {name for (name,) in rows}
    stale = [file for file in files if file.stem not in names]
    for file in stale:
        file.unlink(missing_ok=True)
    return len(stale)


def write_missing(connection: Connection, settings: Settings) -> int:
    """Write the feeds of saved searches that have no file yet, so that readers can subscribe before the first match.
    Returns how many."""
    rows = connection.execute("select name from saved_search_overview where has_feed")
    written = {file.stem for file in (settings.publish_dir / FEEDS_FOLDER).glob("*.atom")}
    missing = [name for (name,) in rows if name not in written]
    for name in missing:
        write_saved_search_feed(connection, settings, name)
    return len(missing)


def read_file(publish_dir: StoragePath, kind: str, name: str) -> str | None:
    """A published feed, of a site or (kind `alerts`) of a saved search; None if there is none."""
    if not is_subdomain(name):  # names of saved searches are subdomains without dots
        return None
    path = publish_dir / name / SITE_FEED if kind == "sites" else publish_dir / FEEDS_FOLDER / f"{name}.atom"
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None


def _links(alternate: str | None, source: str | None) -> list[tuple[str, str]]:
    """Links of an entry. Without a page of our own, the source takes its place."""
    source = source if source is not None and re.match(r"https?://", source) else None
    if alternate is None:
        return [("alternate", source)] if source else []
    return [("alternate", alternate), *([("via", source)] if source else [])]


def _feed(key: str, title: str, own_url: str | None, created_at: datetime, entries: list[_Entry]) -> bytes:
    # Declares Atom as the default namespace of the document.
    ET.register_namespace("", _ATOM)
    root = ET.Element(f"{{{_ATOM}}}feed")
    _add(root, "id", _urn(key))
    _add(root, "title", title)
    _add(root, "updated", _timestamp(max((entry.updated for entry in entries), default=created_at)))
    _add(_add(root, "author"), "name", "clerk")
    _add(root, "generator", "clerk")
    if own_url is not None:
        _add(root, "link", rel="self", type="application/atom+xml", href=own_url)
    for entry in entries:
        element = _add(root, "entry")
        _add(element, "id", _urn(entry.key))
        _add(element, "title", entry.title)
        _add(element, "published", _timestamp(entry.published))
        _add(element, "updated", _timestamp(entry.updated))
        for relation, url in entry.links:
            _add(element, "link", rel=relation, href=url)
        _add(element, "content", entry.content, type="text")
    ET.indent(root)
    document: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return document


def _add(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    """Add an element. ElementTree escapes its text; characters that XML forbids are replaced."""
    element = ET.SubElement(parent, f"{{{_ATOM}}}{name}", {key: _clean(value) for key, value in attributes.items()})
    element.text = None if text is None else _clean(text)
    return element


def _clean(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)


def _urn(key: str) -> str:
    return f"urn:uuid:{uuid.uuid5(_NAMESPACE, key)}"


def _timestamp(time: datetime) -> str:
    return time.isoformat(timespec="seconds")
