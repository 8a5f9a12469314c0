"""Search in the published archives, by the search index if there is one. `clerk search`, the dashboard and
`clerk serve` all call `search_published`."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Iterable
from pathlib import Path

from clerk.archive.search import Matches, SearchRequest, SearchResult, search
from clerk.documents.sanitize import is_subdomain
from clerk.publish.index_documents import UpdateResult
from clerk.publish.search_index import SearchIndex, open_index
from clerk.publish.versions import DATABASE, SiteVersions, published_archives

logger = logging.getLogger(__name__)


def current_versions(publish_dir: Path, site: str | None = None) -> dict[str, str]:
    """Subdomain → name of the version that `current` names. Reads one link per site."""
    versions = {}
    for name in [site] if site else sorted(os.listdir(publish_dir)):  # noqa: PTH208 (thousands per search)
        try:
            target = os.readlink(f"{publish_dir}/{name}/current")  # noqa: PTH115 (thousands per search)
        except (FileNotFoundError, NotADirectoryError):
            continue
        if _is_subdomain(name):
            versions[name] = target.rpartition("/")[2]
    return versions


_is_subdomain = functools.lru_cache(100_000)(is_subdomain)


def search_published(
    publish_dir: Path, request: SearchRequest, site: str | None = None, seconds: float | None = None
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

    def database(subdomain: str) -> Path | None:
        version = current.get(subdomain)
        return SiteVersions(publish_dir, subdomain).versions_folder / version / DATABASE if version else None

    rest = [(name, path) for name in current if name not in fresh and (path := database(name)) and path.is_file()]
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


def update_index(publish_dir: Path, sites: Iterable[str], wait: float) -> UpdateResult | None:
    """Index the current versions of `sites`. None if there is no index."""
    index = open_index(publish_dir)
    if index is None:
        return None
    current = current_versions(publish_dir)
    return index.update({site: current[site] for site in sites if site in current}, wait=wait)
