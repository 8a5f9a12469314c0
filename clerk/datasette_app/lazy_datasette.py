"""Datasette over thousands of archives: a site's database is looked up when it is asked for, and opened for one query.

Datasette itself opens every database that it knows at the start, counts its rows, asks it for its schema at every
request, and keeps a connection to it in every thread: with 2,000 archives that is minutes, and more open files than a
process may have. It also keeps reading the file that it once opened, while a new version of an archive is a new file
behind a link. Here the link is read with every request, so a new version is served from the next request on.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from datasette.app import Datasette
from datasette.database import Database

from clerk.archive.content_hash import open_readonly
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.documents.sanitize import is_subdomain
from clerk.documents.storage import SiteStorage
from clerk.publish.versions import DATABASE, SiteVersions, Version


class Archive(Database):  # type: ignore[misc]
    """One version of a site's archive. A connection lives as long as a query: opening takes a fraction of a
    millisecond, and neither files nor connections have to be kept count of."""

    def __init__(self, library: ArchiveDatasette, subdomain: str, version: Version) -> None:
        super().__init__(library, str(version.path / DATABASE), is_mutable=False)
        self.name = self.route = subdomain
        self.version = version
        # Else Datasette reads the whole file for it.
        self.cached_hash = version.content_hash

    async def execute_fn(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.ds.executor, self._ask, fn)

    def _ask(self, fn: Callable[[sqlite3.Connection], Any]) -> Any:
        uri = f"{Path(self.path).as_uri()}?immutable=1"
        with closing(sqlite3.connect(uri, uri=True, check_same_thread=False)) as connection:
            self.ds._prepare_connection(connection, self.name)
            return fn(connection)


class _Databases(Mapping[str, Database]):
    """Every published site can be asked for; only Datasette's own can be walked through."""

    def __init__(self, library: ArchiveDatasette, own: Mapping[str, Database]) -> None:
        self._library, self._own = library, dict(own)

    def __getitem__(self, name: str) -> Database:
        return self._own[name] if name in self._own else self._library.archive(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._own)

    def __len__(self) -> int:
        return len(self._own)


class ArchiveDatasette(Datasette):  # type: ignore[misc]
    databases: Mapping[str, Database]

    def __init__(self, publish_dir: Path, storage_dir: Path, facts: SiteMetadata) -> None:
        self.publish_dir, self.storage_dir, self.facts = publish_dir, storage_dir, facts
        self._archives: dict[str, Archive] = {}
        super().__init__(
            [],
            # A browser that kept a page would show an earlier version.
            settings={"default_cache_ttl": 0},
            template_dir=str(Path(__file__).parent / "templates"),
        )
        self.remove_database("_memory")
        self.databases = _Databases(self, self.databases)

    def get_database(self, name: str | None = None, route: str | None = None) -> Database:
        """Routes are names here."""
        return self.databases[route if route is not None else name or ""]

    def archive(self, subdomain: str) -> Archive:
        """The current version; KeyError if nothing is published under this name."""
        if not is_subdomain(subdomain):
            raise KeyError(subdomain)
        published = SiteVersions(self.publish_dir, subdomain)
        known = self._archives.get(subdomain)
        if known is not None and _points_at(published, known.version):
            return known
        version = published.current
        if version is None:
            self._archives.pop(subdomain, None)
            raise KeyError(subdomain)
        self._archives[subdomain] = archive = Archive(self, subdomain, version)
        return archive

    def published(self) -> list[Archive]:
        """Of every site, by name. Reads a link per site."""
        found = []
        for path in sorted(self.publish_dir.glob("*")):
            try:
                found.append(self.archive(path.name))
            except KeyError:
                continue
        return found

    def image(self, subdomain: str, page_image: str) -> Path | None:
        """The image of a page that is published: what `page_image` of its row says, and nothing else."""
        try:
            archive, storage = self.archive(subdomain), SiteStorage(self.storage_dir, subdomain)
        except KeyError:
            return None
        image = storage.image_at(page_image)
        if image is None or not image.is_file() or not _is_of_a_page(Path(archive.path), page_image):
            return None
        # A link in the storage must not lead out of it.
        return image if image.resolve().is_relative_to(storage.folder.resolve()) else None


def _points_at(published: SiteVersions, version: Version) -> bool:
    try:
        return published.link.readlink().name == version.name
    except OSError:
        return False


_OF_A_PAGE = """
select 1 from minutes where date = ?1 and page_image = ?2
union all
select 1 from agendas where date = ?1 and page_image = ?2
limit 1
"""


def _is_of_a_page(database: Path, page_image: str) -> bool:
    # There is an index on the date, with which the folder's name begins.
    day = page_image.split("/")[-2][: len("2024-03-05")]
    with open_readonly(database) as connection:
        return connection.execute(_OF_A_PAGE, [day, page_image]).fetchone() is not None
