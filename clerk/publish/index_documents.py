"""The documents of the search index: one per page, and one per site with the version that was indexed."""

from __future__ import annotations

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clerk.archive.content_hash import open_readonly
from clerk.archive.pages import TABLES, existing_tables, kind_of_row
from clerk.archive.query import ArchiveForm
from clerk.archive.search import Facets, Match
from clerk.archive.search_tables import detect_form, index_columns
from clerk.errors import ClerkError
from clerk.object_storage.path import StoragePath
from clerk.publish.versions import version_database

if TYPE_CHECKING:
    import tantivy

SITE_RECORD = "site"
"""`kind` of the document with a site's version."""
_WRITER_BYTES = 128_000_000
_WRITER_THREADS = 2
_MAX_FACET_VALUES = 65_000
_PAGES = "select KIND, p.id, p.meeting, p.date, p.page, null, p.text from PAGES p"
_PAGES_WITH_SOURCE = """
select KIND, p.id, p.meeting, p.date, p.page, d.added_at, p.text
from PAGES p left join document_sources d on d.kind = KIND and d.meeting = p.meeting and d.date = p.date
"""
_TEXT = "select text from PAGES where id = ?"


class IndexUnavailable(ClerkError):
    """The search index cannot be used: tantivy is not installed, or another process writes to it."""

    code = "IndexUnavailable"


@dataclass
class UpdateResult:
    updated: dict[str, int] = field(default_factory=dict)
    """Subdomain → number of its pages."""
    removed: list[str] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Subdomain → why its archive could not be read."""


@dataclass(frozen=True)
class IndexedPage:
    site: str
    kind: str
    id: str
    meeting: str
    date: str
    page: int
    added_at: str | None
    digest: str
    """Of the text: a plugin may change a page's text without its id."""

    @property
    def key(self) -> str:
        return f"{self.site}/{self.kind}/{self.id}/{self.added_at}/{self.digest}"


def require_tantivy() -> None:
    """tantivy is an optional dependency, so it is imported where it is used."""
    try:
        import tantivy  # noqa: F401 (only whether it is there)
    except ModuleNotFoundError as error:
        raise IndexUnavailable("tantivy is not installed", "pip install 'clerk[index]'") from error


def create(folder: Path) -> tantivy.Index:
    """An empty index in an empty folder."""
    import tantivy

    schema = tantivy.SchemaBuilder()
    for name in ("words", "stems"):
        schema.add_text_field(name, tokenizer_name="whitespace", index_option="position")
    for name in ("site", "body", "kind"):
        schema.add_text_field(name, tokenizer_name="raw", fast=True, stored=True, index_option="basic")
    for name in ("key", "id", "day", "version"):
        schema.add_text_field(name, tokenizer_name="raw", stored=True, index_option="basic")
    for name in ("year", "date", "added"):
        schema.add_integer_field(name, indexed=True, fast=True)
    schema.add_integer_field("page", stored=True)
    return tantivy.Index(schema.build(), str(folder))


def write(
    index: tantivy.Index,
    folder: Path,
    publish_dir: StoragePath,
    due: dict[str, str],
    gone: Iterable[str],
    result: UpdateResult,
    progress: Callable[[int, int], object],
) -> None:
    """Index the versions `due` and remove the sites `gone`, in one commit.

    A site whose archive cannot be read keeps what is indexed of it, under its old version.
    """
    writer = index.writer(_WRITER_BYTES, _WRITER_THREADS)
    try:
        for number, (site, version) in enumerate(due.items(), 1):
            try:
                result.updated[site] = _write_site(index, writer, publish_dir, site, version)
            except sqlite3.Error as error:
                result.broken[site] = str(error)
            progress(number, len(due))
        for site in gone:
            writer.delete_documents_by_term("site", site)
            result.removed.append(site)
        writer.commit()
    except BaseException:
        writer.rollback()
        raise
    finally:
        # Releases tantivy's own lock.
        writer.wait_merging_threads()
    for file in folder.glob("*.json"):
        # tantivy makes them private; the dashboard and `clerk serve` may run as another user.
        file.chmod(0o644)


def _write_site(
    index: tantivy.Index, writer: tantivy.IndexWriter, publish_dir: StoragePath, site: str, version: str
) -> int:
    """Write the differences between the indexed pages of a site and those of a version. Returns its number of pages."""
    with open_readonly(version_database(publish_dir, site, version)) as connection:
        form = detect_form(connection)
        # All rows are read before anything is written: a damaged archive changes nothing.
        wanted = {page.key: page for page in _read_pages(connection, site, form)}
        indexed = _read_keys(index, site)
        added = [
            (page, *index_columns(_read_text(connection, page))) for key, page in wanted.items() if key not in indexed
        ]
    for key in indexed - wanted.keys():
        writer.delete_documents_by_term("key", key)
    for page, words, stems in added:
        add_page(writer, page, words, stems)
    add_site_record(writer, site, version)
    return len(wanted)


def _read_pages(connection: sqlite3.Connection, site: str, form: ArchiveForm) -> Iterator[IndexedPage]:
    query = _PAGES_WITH_SOURCE if form is ArchiveForm.TERMS else _PAGES
    for table in existing_tables(connection):
        rows = connection.execute(query.replace("PAGES", table).replace("KIND", kind_of_row(table, "p")))
        for kind, page_id, meeting, day, page, added_at, text in rows:
            yield IndexedPage(site, kind, page_id, meeting, day, page, added_at, _digest(text))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _read_text(connection: sqlite3.Connection, page: IndexedPage) -> str:
    row = connection.execute(_TEXT.replace("PAGES", TABLES[page.kind]), [page.id]).fetchone()
    return str(row[0])


def add_page(writer: tantivy.IndexWriter, page: IndexedPage, words: str, stems: str) -> None:
    import tantivy

    writer.add_document(
        tantivy.Document(
            words=words,
            stems=stems,
            site=page.site,
            body=page.meeting,
            kind=page.kind,
            key=page.key,
            id=page.id,
            day=page.date,
            year=_as_number(page.date[:4]),
            date=_as_number(page.date),
            added=_as_number((page.added_at or "")[:10]),
            page=page.page,
        )
    )


def add_site_record(writer: tantivy.IndexWriter, site: str, version: str) -> None:
    import tantivy

    key = f"{site}/{SITE_RECORD}"
    writer.delete_documents_by_term("key", key)
    writer.add_document(tantivy.Document(site=site, kind=SITE_RECORD, key=key, version=version))


def read_versions(index: tantivy.Index) -> dict[str, str]:
    """Subdomain → name of the version that is indexed."""
    records = _read_stored(index, "kind", SITE_RECORD)
    return {record["site"][0]: record["version"][0] for record in records}


def _read_keys(index: tantivy.Index, site: str) -> set[str]:
    return {record["key"][0] for record in _read_stored(index, "site", site) if record["kind"][0] != SITE_RECORD}


def _read_stored(index: tantivy.Index, name: str, value: str) -> list[Any]:
    import tantivy

    index.reload()
    searcher = index.searcher()
    query = tantivy.Query.term_query(index.schema, name, value)
    found = searcher.search(query, max(1, searcher.num_docs), count=False).hits
    return [searcher.doc(address) for _, address in found]


def read_match(document: Any, score: float, rank: int) -> Match:
    values = {name: document[name][0] for name in ("site", "kind", "id", "body", "day", "page")}
    place = (values["site"], values["kind"], values["id"], values["body"], values["day"], int(values["page"]))
    return Match(*place, -score, rank)


def read_facets(searcher: tantivy.Searcher, query: tantivy.Query) -> Facets:
    terms = {name: {"terms": {"field": name, "size": _MAX_FACET_VALUES}} for name in ("site", "body", "kind", "year")}
    found = searcher.aggregate(query, terms)

    def counts(name: str) -> Counter[str]:
        return Counter({_as_text(bucket["key"]): bucket["doc_count"] for bucket in found[name]["buckets"]})

    return Facets(counts("site"), counts("body"), counts("kind"), counts("year"))


def _as_text(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, float | int) else str(value)


def _as_number(text: str) -> int:
    """`2024-03-05` → 20240305. 0 for what is not a date."""
    digits = text.replace("-", "")
    return int(digits) if digits.isascii() and digits.isdigit() else 0
