"""Packets, ordinances, resolutions, reports and notices in the archive; archives of versions that did not have them."""

from __future__ import annotations

from pathlib import Path

from clerk.archive.build_all import build_all
from clerk.archive.compile import compile_site
from clerk.archive.query import parse
from clerk.archive.search import SearchRequest, search
from clerk.archive.selection import select
from tests.archive.helpers import SiteDocuments, is_intact, rows, write_texts
from tests.archive.published import remove_other_documents


def compile_documents(site: SiteDocuments) -> int:
    return compile_site(site.storage, select(site.storage, site.candidates.values())).pages


def test_further_kinds_are_archived_searched_and_carried_over(tmp_path: Path) -> None:
    site = SiteDocuments(tmp_path)
    site.add("The bike lanes were discussed.")
    ordinance = site.add("An ordinance about bike lanes.", kind="ordinance")
    site.add("A report about bike lanes.", "Its second page", kind="report")
    assert compile_documents(site) == 4
    query = "select kind, meeting, page, page_image from other_documents order by kind, page"
    expected = [
        ("ordinance", "City Council", 1, None),
        ("report", "City Council", 1, None),
        ("report", "City Council", 2, None),
    ]
    database = site.storage.database
    assert rows(database, query) == expected
    assert is_intact(database)
    found = search([("springfield", database)], SearchRequest(parse("bike lanes"))).hits
    assert sorted(hit.kind for hit in found) == ["minutes", "ordinance", "report"]

    write_texts(site.storage, ordinance, ["An ordinance about hedges."])
    compile_documents(site)
    found = search([("springfield", database)], SearchRequest(parse("hedge"))).hits
    assert [hit.kind for hit in found] == ["ordinance"]
    found = search([("springfield", database)], SearchRequest(parse("bike lanes"))).hits
    assert sorted(hit.kind for hit in found) == ["minutes", "report"]
    assert rows(database, "select count(*) from search_changes") == [(0,)]

    site.storage.page_text(ordinance, 1).unlink()
    site.storage.manifest(ordinance).unlink()
    compile_documents(site)
    assert rows(database, query) == expected, "the rows of a damaged document stay"
    site.remove(ordinance)
    compile_documents(site)
    assert rows(database, query) == expected[1:]

    result = build_all(tmp_path, [("springfield", "Springfield")], tmp_path / "all.db")
    assert result.damaged == {}
    assert len(rows(tmp_path / "all.db", "select * from other_documents")) == 2


def test_an_archive_without_the_table_is_searched_and_collected(tmp_path: Path) -> None:
    site = SiteDocuments(tmp_path)
    site.add("The bike lanes were discussed.")
    compile_documents(site)
    remove_other_documents(site.storage.database)
    result = search([("springfield", site.storage.database)], SearchRequest(parse("bike")))
    assert (len(result.hits), result.broken) == (1, {})
    assert build_all(tmp_path, [("springfield", "Springfield")], tmp_path / "all.db").damaged == {}
    site.add("An ordinance", kind="ordinance")
    assert compile_documents(site) == 2, "the next build adds the table"
