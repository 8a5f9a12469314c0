"""Datasette for thousands of archives: databases are looked up per request and opened per query.

Datasette itself opens every database at startup, counts its rows, reads its schema at every request, and keeps a
connection to it in every thread. With 2,000 archives that takes minutes and exceeds the limit of open files. It also
keeps reading the file it opened first, while a new version of an archive is a new file behind a symbolic link. This
class reads the link at every request, so that the next request sees a new version.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any

from datasette.app import Datasette
from datasette.database import Database

from clerk.archive.content_hash import OTHER_DOCUMENTS, has_table, open_readonly
from clerk.archive.query import ArchiveForm
from clerk.archive.search_tables import detect_form
from clerk.datasette_app import query_limits
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import SiteStorage
from clerk.publish.versions import DATABASE, SiteVersions, Version


class Archive(Database):  # type: ignore[misc]
    """One version of a site's archive. Every query opens its own connection, in a fraction of a millisecond, so that
    no connection pool is needed."""

    def __init__(self, datasette: ArchiveDatasette, subdomain: str, version: Version) -> None:
        super().__init__(datasette, str(version.path / DATABASE), is_mutable=False)
        self.name = self.route = subdomain
        self.version = version
        # Otherwise Datasette reads the whole file to hash it.
        self.cached_hash = version.content_hash

    @cached_property
    def form(self) -> ArchiveForm:
        with open_readonly(Path(self.path)) as connection:
            return detect_form(connection)

    async def execute_fn(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.ds.executor, self._run_query, fn)

    def _run_query(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        uri = f"{Path(self.path).as_uri()}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
            self.ds._prepare_connection(connection, self.name)
            try:
                return fn(connection)
            except sqlite3.DataError as error:  # a value is too long; Datasette shows an OperationalError as status 400
                raise sqlite3.OperationalError(str(error)) from error


class _Databases(Mapping[str, Database]):
    """All databases by name. Iteration yields Datasette's internal ones only, not the published sites."""

    def __init__(self, datasette: ArchiveDatasette, internal: Mapping[str, Database]) -> None:
        self._datasette, self._internal = datasette, dict(internal)

    def __getitem__(self, name: str) -> Database:
        return self._internal[name] if name in self._internal else self._datasette.archive(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._internal)

    def __len__(self) -> int:
        return len(self._internal)


class ArchiveDatasette(Datasette):  # type: ignore[misc]
    databases: Mapping[str, Database]

    def __init__(self, publish_dir: Path, storage_dir: Path, site_metadata: SiteMetadata, allow_sql: bool) -> None:
        self.publish_dir, self.storage_dir, self.site_metadata = publish_dir, storage_dir, site_metadata
        self._archives: dict[str, Archive] = {}
        super().__init__(
            [],
            # A cached page would show an earlier version.
            settings={"default_cache_ttl": 0, "default_allow_sql": allow_sql},
            template_dir=str(Path(__file__).parent / "templates"),
        )
        self.remove_database("_memory")
        self.databases = _Databases(self, self.databases)

    def get_database(self, name: str | None = None, route: str | None = None) -> Database:
        """The route of a database is its name."""
        return self.databases[route if route is not None else name or ""]

    def archive(self, subdomain: str) -> Archive:
        """The current version of a site; KeyError if the site is not published."""
        if not is_subdomain(subdomain):
            raise KeyError(subdomain)
        versions = SiteVersions(self.publish_dir, subdomain)
        cached = self._archives.get(subdomain)
        if cached is not None and _is_current(versions, cached.version):
            return cached
        version = versions.current
        if version is None:
            self._archives.pop(subdomain, None)
            raise KeyError(subdomain)
        self._archives[subdomain] = archive = Archive(self, subdomain, version)
        return archive

    def published(self) -> list[Archive]:
        """The archives of all sites, sorted by name. Reads one link per site."""
        archives = []
        for path in sorted(self.publish_dir.glob("*")):
            try:
                archives.append(self.archive(path.name))
            except KeyError:
                continue
        return archives

    def image(self, subdomain: str, page_image: str) -> Path | None:
        """The image file of a published page, or None if no published row has this `page_image`."""
        try:
            archive, storage = self.archive(subdomain), SiteStorage(self.storage_dir, subdomain)
        except KeyError:
            return None
        image = storage.image_path(page_image)
        if image is None or not image.is_file() or not _has_page_image(Path(archive.path), page_image):
            return None
        # A symbolic link must not lead out of the site's folder.
        return image if image.resolve().is_relative_to(storage.folder.resolve()) else None


def _is_current(versions: SiteVersions, version: Version) -> bool:
    try:
        return versions.link.readlink().name == version.name
    except OSError:
        return False


_PAGE_WITH_IMAGE = """
select 1 from minutes where date = ?1 and page_image = ?2
union all
select 1 from agendas where date = ?1 and page_image = ?2
limit 1
"""
_OTHER_PAGE = "select 1 from other_documents where date = ?1 and page_image = ?2 limit 1"


def _has_page_image(database: Path, page_image: str) -> bool:
    # The folder's name begins with the date, which is indexed.
    day = page_image.split("/")[-2][: len("2024-03-05")]
    with open_readonly(database) as connection:
        query_limits.limit(connection)
        queries = [_PAGE_WITH_IMAGE, *([_OTHER_PAGE] if has_table(connection, OTHER_DOCUMENTS) else [])]
        return any(connection.execute(query, [day, page_image]).fetchone() for query in queries)
