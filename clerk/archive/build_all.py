"""`clerk build-all`: one database with the rows of every site's meetings.db, plus `subdomain` and `municipality`.

Sites without an archive are skipped; sites with a damaged archive are skipped and reported. The database is built from
scratch each time, because copying rows is faster than comparing them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from clerk.archive import vote_tables
from clerk.archive.atomic_build import BuildResult, build, load_schema
from clerk.archive.content_hash import OTHER_DOCUMENTS, has_table
from clerk.documents.storage import SiteStorage, local_copy
from clerk.object_storage.path import StoragePath

_COPY = """
insert into main.PAGES (subdomain, municipality, id, meeting, date, page, text, page_image, entities_json, votes_json)
select ?, ?, id, meeting, date, page, text, page_image, entities_json, votes_json from site.PAGES order by id
"""
_COPY_OTHER_DOCUMENTS = """
insert into main.other_documents (subdomain, municipality, id, kind, meeting, date, page, text, page_image,
                                  entities_json, votes_json)
select ?, ?, id, kind, meeting, date, page, text, page_image, entities_json, votes_json
from site.other_documents order by id
"""


@dataclass
class BuildAllResult:
    built: BuildResult | None = None
    sites: list[str] = field(default_factory=list)
    without_archive: list[str] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)


def build_all(
    storage_dir: StoragePath,
    sites: Iterable[tuple[str, str]],
    output: StoragePath,
    progress: Callable[[int, int], object] = lambda done, of: None,
) -> BuildAllResult:
    """Build `output` from `sites` (subdomain, name)."""
    result = BuildAllResult()
    sites = sorted(sites)

    def fill(connection: sqlite3.Connection) -> None:
        for number, (subdomain, name) in enumerate(sites, 1):
            progress(number, len(sites))
            database = SiteStorage(storage_dir, subdomain).database
            if not database.is_file():
                result.without_archive.append(subdomain)
                continue
            # ATTACH does not work inside a transaction.
            connection.execute("commit")
            try:
                with local_copy(database) as file:
                    _copy(connection, subdomain, name, file)
                result.sites.append(subdomain)
            except sqlite3.DatabaseError as error:
                result.damaged[subdomain] = str(error)
            finally:
                connection.execute("begin")

    result.built = build(output, load_schema("all_sites.sql"), fill, from_scratch=True)
    return result


def _copy(connection: sqlite3.Connection, subdomain: str, name: str, database: Path) -> None:
    # as_uri escapes ? and #, which would otherwise end the path.
    connection.execute("attach ? as site", [f"{database.absolute().as_uri()}?mode=ro"])
    try:
        problems = [row[0] for row in connection.execute("pragma site.quick_check(1)")]
        if problems != ["ok"]:
            raise sqlite3.DatabaseError(problems[0])
        connection.execute("savepoint one_site")
        try:
            for table in ("minutes", "agendas"):
                connection.execute(_COPY.replace("PAGES", table), [subdomain, name])
            if has_table(connection, OTHER_DOCUMENTS, "site"):
                connection.execute(_COPY_OTHER_DOCUMENTS, [subdomain, name])
            # Derived again, because an archive of an earlier version has no such tables.
            for table, rows in vote_tables.derive(connection, "site").items():
                columns = ("subdomain", "municipality", *vote_tables.COLUMNS[table])
                marks = ", ".join("?" * len(columns))
                insert = f"insert into main.{table} ({', '.join(columns)}) values ({marks})"  # noqa: S608 (our own names)
                connection.executemany(insert, ((subdomain, name, *row) for row in rows))
        except BaseException:
            connection.execute("rollback to one_site")
            raise
        finally:
            connection.execute("release one_site")
    finally:
        connection.execute("detach site")
