"""Search in the published archives, by the search index if there is one. `clerk search`, the dashboard and
`clerk serve` all call `search_published`."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from clerk.archive.search import Matches, SearchRequest, SearchResult, search
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.publish.index_documents import UpdateResult
from clerk.publish.search_index import SearchIndex, open_index
from clerk.publish.versions import current_versions, published_archives, version_database

logger = logging.getLogger(__name__)


def search_published(
    publish_dir: StoragePath, request: SearchRequest, site: str | None = None, seconds: float | None = None
) -> SearchResult:
    """Search the current versions of all sites, or of one.

    Sites that the index does not have in their current version are searched in their archives.
    """
    index = open_index(publish_dir)
    if index is None or not index.supports(request.query):
        return search(published_archives(publish_dir, site), request, seconds)
    current = current_versions(publish_dir, site)
    try:
        matches, fresh = _search_index(index, request, current, site)
    except (OSError, ValueError) as error:  # tantivy raises ValueError
        logger.warning("the search index cannot be used, so every archive is searched: %s", error)
        return search(published_archives(publish_dir, site), request, seconds)

    def database(subdomain: str) -> StoragePath | None:
        version = current.get(subdomain)
        return version_database(publish_dir, subdomain, version) if version else None

    stale = ((name, path) for name in current if name not in fresh and (path := database(name)))
    rest = [(name, path) for name, path in stale if isinstance(path, ObjectPath) or path.is_file()]
    return search(rest, request, seconds, matches, database)


def _search_index(
    index: SearchIndex, request: SearchRequest, current: dict[str, str], site: str | None
) -> tuple[Matches, set[str]]:
    """The matches of the index, and the sites that it has in their current version."""
    indexed = index.versions()
    fresh = {name for name, version in current.items() if indexed.get(name) == version}
    all_are_fresh = site is None and len(fresh) == len(indexed)
    matches = index.search(request, None if all_are_fresh else fresh) if fresh else Matches(archives=0)
    matches.archives = len(fresh)
    return matches, fresh


def update_index(publish_dir: StoragePath, sites: Iterable[str], wait: float) -> UpdateResult | None:
    """Index the current versions of `sites`. None if there is no index."""
    index = open_index(publish_dir)
    if index is None:
        return None
    current = current_versions(publish_dir)
    return index.update({site: current[site] for site in sites if site in current}, wait=wait)
