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
from contextlib import closing, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from datasette.app import Datasette
from datasette.database import Database, QueryInterrupted

from clerk.archive.content_hash import OTHER_DOCUMENTS, has_table, open_readonly, quote_identifier
from clerk.archive.query import ArchiveForm
from clerk.archive.search_tables import detect_form
from clerk.datasette_app import query_limits
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import SiteStorage, local_copy
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.publish.versions import SiteVersions, Version, current_versions

_TRUNCATE_CELLS = 300
"""Characters of a cell in a table; the page of a row has all."""


class Archive(Database):  # type: ignore[misc]
    """One version of a site's archive. Every query opens its own connection, in a fraction of a millisecond, so that
    no connection pool is needed."""

    _cached_table_counts: dict[str, int | None] | None

    def __init__(self, datasette: ArchiveDatasette, subdomain: str, version: Version) -> None:
        self.database = version.database
        super().__init__(datasette, str(version.database), is_mutable=False)
        self.name = self.route = subdomain
        self.version = version
        # Otherwise Datasette reads the whole file to hash it.
        self.cached_hash = version.content_hash

    @property
    def path(self) -> str:
        """The database as a local file: Datasette offers it as a download."""
        with local_copy(self.database) as file:
            return str(file)

    @path.setter
    def path(self, value: str) -> None:
        """Datasette's class sets it."""

    @cached_property
    def form(self) -> ArchiveForm:
        with open_readonly(self.database) as connection:
            return detect_form(connection)

    async def execute_fn(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.ds.executor, self._run_query, fn)

    def _run_query(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        with local_copy(self.database) as file:
            uri = f"{file.as_uri()}?immutable=1"
            with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
                self.ds._prepare_connection(connection, self.name)
                try:
                    return fn(connection)
                except sqlite3.DataError as error:  # a value is too long; an OperationalError is shown as status 400
                    raise sqlite3.OperationalError(str(error)) from error

    async def table_counts(self, limit: int = 10) -> dict[str, int | None]:
        """Rows of the tables that are shown. Datasette also counts the search tables, which no page shows, and logs an
        error if its time limit ends while SQLite opens one of them."""
        if self._cached_table_counts is not None:
            return self._cached_table_counts
        hidden = set(await self.hidden_table_names())
        counts: dict[str, int | None] = dict.fromkeys(await self.table_names())
        for table in [name for name in counts if name not in hidden]:
            with suppress(QueryInterrupted, sqlite3.DatabaseError):
                query = f"select count(*) from {quote_identifier(table)}"  # noqa: S608 (a name from the schema)
                result = await self.execute(query, custom_time_limit=limit, log_sql_errors=False)
                counts[table] = result.rows[0][0]
        self._cached_table_counts = counts
        return counts

    @cached_property
    def size(self) -> int:
        """Datasette would read it from a file."""
        return self.database.stat().st_size


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

    def __init__(
        self, publish_dir: StoragePath, storage_dir: StoragePath, site_metadata: SiteMetadata, allow_sql: bool
    ) -> None:
        self.publish_dir, self.storage_dir, self.site_metadata = publish_dir, storage_dir, site_metadata
        self._archives: dict[str, Archive] = {}
        super().__init__(
            [],
            # A cached page would show an earlier version.
            settings={
                "default_cache_ttl": 0,
                "default_allow_sql": allow_sql,
                "truncate_cells_html": _TRUNCATE_CELLS,
                "suggest_facets": False,  # each column would be counted at every request
            },
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
        cached = self._archives.get(subdomain)
        current = current_versions(self.publish_dir, subdomain).get(subdomain)
        if cached is not None and cached.version.name == current:
            return cached
        version = SiteVersions(self.publish_dir, subdomain).read(current) if current else None
        if version is None:
            self._archives.pop(subdomain, None)
            raise KeyError(subdomain)
        self._archives[subdomain] = archive = Archive(self, subdomain, version)
        return archive

    def published(self) -> list[Archive]:
        """The archives of all sites, sorted by name. Reads one link per site."""
        archives = []
        for name in current_versions(self.publish_dir):
            try:
                archives.append(self.archive(name))
            except KeyError:
                continue
        return archives

    def has_image(self, subdomain: str, page_image: str) -> bool:
        """Whether there is an image, for a link in a table. In a bucket it is not looked for: a request per row."""
        if isinstance(self.storage_dir, ObjectPath):
            return SiteStorage(self.storage_dir, subdomain).image_path(page_image) is not None
        return self.image(subdomain, page_image) is not None

    def image(self, subdomain: str, page_image: str) -> StoragePath | None:
        """The image file of a published page, or None if no published row has this `page_image`."""
        try:
            archive, storage = self.archive(subdomain), SiteStorage(self.storage_dir, subdomain)
        except KeyError:
            return None
        image = storage.image_path(page_image)
        if image is None or not image.is_file() or not _has_page_image(archive.database, page_image):
            return None
        if isinstance(image, ObjectPath):
            return image
        # A symbolic link must not lead out of the site's folder.
        folder = cast("Path", storage.folder)
        return image if image.resolve().is_relative_to(folder.resolve()) else None


_PAGE_WITH_IMAGE = """
select 1 from minutes where date = ?1 and page_image = ?2
union all
select 1 from agendas where date = ?1 and page_image = ?2
limit 1
"""
_OTHER_PAGE = "select 1 from other_documents where date = ?1 and page_image = ?2 limit 1"


def _has_page_image(database: StoragePath, page_image: str) -> bool:
    # The folder's name begins with the date, which is indexed.
    day = page_image.split("/")[-2][: len("2024-03-05")]
    with open_readonly(database) as connection:
        query_limits.limit(connection)
        queries = [_PAGE_WITH_IMAGE, *([_OTHER_PAGE] if has_table(connection, OTHER_DOCUMENTS) else [])]
        return any(connection.execute(query, [day, page_image]).fetchone() for query in queries)
