"""The search tables of a compiled archive stay in step with its pages."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from clerk.archive import selection
from clerk.archive.atomic_build import BuildResult, Finish, load_schema
from clerk.archive.compile import compile_site
from clerk.archive.query import ArchiveForm, parse
from clerk.archive.search import SearchRequest, search
from clerk.archive.search_tables import detect_form
from clerk.archive.terms import VERSION
from tests.archive.helpers import DAY, SiteDocuments, is_intact, rows, write_texts


@pytest.fixture
def site(tmp_path: Path) -> SiteDocuments:
    return SiteDocuments(tmp_path)


def compile_documents(site: SiteDocuments, finish: Finish | None = None) -> BuildResult:
    return compile_site(site.storage, selection.select(site.storage, site.candidates.values()), finish)


def found(site: SiteDocuments, words: str) -> list[int]:
    result = search([("springfield", site.storage.database)], SearchRequest(parse(words), limit=None))
    return sorted(hit.page for hit in result.hits)


def test_terms_follow_the_pages(site: SiteDocuments) -> None:
    document = site.add("The ordi-\nnance on trees", "Budget", "Bike lanes")
    other = site.add("Trees, too", day=DAY + timedelta(days=1))
    compile_documents(site)
    assert found(site, "ordinances") == [1]
    assert found(site, "tree") == [1, 1]
    write_texts(site.storage, document, ["The budget of trees", "Budgets", "School"])
    site.remove(other)
    compile_documents(site)
    assert found(site, "ordinance") == []
    assert found(site, "tree") == [1]
    assert found(site, "budget") == [1, 2]
    assert rows(site.storage.database, "select count(*) from search_changes") == [(0,)]
    assert is_intact(site.storage.database)


def test_many_changes_leave_the_same_index_as_a_build_from_scratch(site: SiteDocuments, tmp_path: Path) -> None:
    generator = random.Random(5)  # noqa: S311 (not for cryptography)
    words = ["tree", "trees", "budget", "ordi-\nnance", "2017-88", "$1,000", "reunión"]
    documents = [site.add("nothing", day=DAY + timedelta(days=number)) for number in range(5)]
    for _ in range(8):
        document = generator.choice(documents)
        texts = [" ".join(generator.choices(words, k=4)) for _ in range(generator.randint(1, 4))]
        write_texts(site.storage, document, list(texts))
        compile_documents(site)
    fresh = SiteDocuments(tmp_path)
    fresh.candidates = site.candidates
    queries = ["tree", "ordinance", "88-2017", "1000", "reuniones", '"trees budget"', "NEAR(tree budget, 1)"]
    before = {query: found(site, query) for query in queries}
    assert any(before.values())
    site.storage.database.unlink()
    compile_documents(fresh)
    assert {query: found(fresh, query) for query in queries} == before


def test_a_text_that_a_plugin_changes_is_indexed(site: SiteDocuments) -> None:
    site.add("Budget", "Tree")

    def redact(draft: Path, is_new: bool) -> None:
        with closing(sqlite3.connect(draft)) as connection, connection:
            connection.execute("update minutes set text = 'redacted' where page = 2")

    compile_documents(site, redact)
    assert found(site, "tree") == []
    assert found(site, "redact") == [2]


def test_sources_are_recorded_without_changing_the_content_hash(site: SiteDocuments) -> None:
    site.add("Budget")
    (candidate,) = site.candidates.values()

    def compile_with(url: str | None) -> str:
        document = replace(candidate.document, source_url=url)
        site.candidates[1] = replace(candidate, document=document, added_at="2024-03-09T10:00:00Z")
        return compile_documents(site).content_hash

    sources = "select kind, meeting, date, source_url, added_at from document_sources"
    first = compile_with("https://city.example/1.pdf?session=1")
    assert rows(site.storage.database, sources) == [
        ("minutes", "City Council", "2024-03-05", "https://city.example/1.pdf?session=1", "2024-03-09T10:00:00Z")
    ]
    assert compile_with("https://city.example/1.pdf?session=2") == first
    assert compile_with("/home/clerk/inbox/1.pdf") == first
    assert rows(site.storage.database, "select source_url from document_sources") == [(None,)], (
        "a local path is private"
    )
    request = SearchRequest(parse("budget"), added_since=date(2024, 3, 9))
    assert search([("springfield", site.storage.database)], request).total == 1
    request = SearchRequest(parse("budget"), added_since=date(2024, 3, 10))
    assert search([("springfield", site.storage.database)], request).total == 0


def test_an_archive_of_an_older_version_gets_search_tables(site: SiteDocuments) -> None:
    site.add("Trees")
    built = compile_documents(site)
    with closing(sqlite3.connect(site.storage.database)) as connection:
        page = connection.execute("select id, meeting, date, page, text from minutes").fetchone()
    site.storage.database.unlink()
    with closing(sqlite3.connect(site.storage.database)) as connection, connection:
        connection.executescript(load_schema("meetings.sql"))
        connection.execute("insert into minutes (id, meeting, date, page, text) values (?, ?, ?, ?, ?)", page)
        assert detect_form(connection) is ArchiveForm.TEXT
    assert found(site, "tree") == []
    assert found(site, "trees") == [1]
    assert compile_documents(site).content_hash == built.content_hash
    assert found(site, "tree") == [1]


def test_the_schema_records_the_version_of_the_terms(site: SiteDocuments) -> None:
    """Terms of another version would be deleted wrongly: the difference makes the next build start from scratch."""
    site.add("Trees")
    compile_documents(site)
    ((definition,),) = rows(site.storage.database, "select sql from sqlite_master where name = 'search_changes'")
    assert f"-- terms {VERSION}:" in definition
