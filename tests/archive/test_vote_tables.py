"""The tables votes, vote_rolls and people of meetings.db."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from clerk.archive import vote_tables
from clerk.archive.atomic_build import load_schema
from clerk.archive.build_all import build_all
from clerk.archive.compile import compile_site
from clerk.archive.selection import select
from clerk.archive.votes import page_image, read_vote
from clerk.extraction import cache
from clerk.extraction.rules import Rules
from clerk.extraction.schema import Findings, validate
from tests.archive.helpers import SiteDocuments, rows
from tests.archive.vote_pages import PAGE


def compile_with_findings(root: Path, *texts: str, kind: str = "minutes") -> Path:
    site = SiteDocuments(root)
    document = site.add(*texts, kind=kind)
    numbered = list(enumerate(texts, 1))
    found = validate("rules", Rules().extract(numbered), [number for number, _ in numbered])
    cache.save(site.storage.extracted(document), cache.CachedFindings("rules", "3", cache.text_hash(numbered), found))
    compile_site(site.storage, select(site.storage, site.candidates.values()))
    database: Path = site.storage.database
    return database


def test_votes_and_people_are_derived_from_the_pages(tmp_path: Path) -> None:
    database = compile_with_findings(tmp_path, PAGE)
    page = rows(database, "select id from minutes")[0][0]
    assert rows(
        database,
        "select id, motion, motion_by_id, seconded_by_id, result, contradictory, ayes, nays from votes order by id",
    ) == [
        (f"{page}-1", "to adopt Ordinance 12", "li-wei-chen", "dana-whitfield", "passed", 0, 2, 1),
        (f"{page}-2", "to waive the fee", "dana-whitfield", "li-wei-chen", "passed", 1, 1, 2),
    ]
    assert rows(database, "select person_id, name, vote from vote_rolls order by vote_id, position") == [
        ("li-wei-chen", "Chen", "aye"),
        ("dana-whitfield", "Whitfield", "aye"),
        ("ellen-ortiz", "Ortiz", "nay"),
    ]
    assert rows(
        database, "select id, name, role, pages, votes, motions, seconds, first_date from people order by id"
    ) == [
        ("dana-whitfield", "Dana Whitfield", "Council Member", 1, 1, 1, 1, "2024-03-05"),
        ("ellen-ortiz", "Ellen Ortiz", "Mayor", 1, 1, 0, 0, "2024-03-05"),
        ("li-wei-chen", "Li Wei Chen", "Council Member", 1, 1, 1, 1, "2024-03-05"),
    ]


def test_votes_of_further_kinds_have_their_kind_and_page(tmp_path: Path) -> None:
    database = compile_with_findings(tmp_path, PAGE, kind="resolution")
    page = rows(database, "select id from other_documents")[0][0]
    assert rows(database, "select id, kind, page_id from votes order by id") == [
        (f"{page}-1", "resolution", page),
        (f"{page}-2", "resolution", page),
    ]
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("update other_documents set page_image = '/_resolutions/Council/2024-03-05/1.png'")
        vote = read_vote(connection, f"{page}-1")
        assert vote is not None
        assert page_image(connection, vote) == "/_resolutions/Council/2024-03-05/1.png"
    output = tmp_path / "_all" / "meetings.db"
    assert build_all(tmp_path, [("springfield", "Springfield")], output).damaged == {}
    assert rows(output, "select distinct kind from votes") == [("resolution",)]


def test_the_queries_of_a_person_use_indexes(tmp_path: Path) -> None:
    database = compile_with_findings(tmp_path, PAGE)
    for query in ("select 1 from vote_rolls where person_id = 'x'", "select 1 from votes where motion_by_id = 'x'"):
        assert "USING" in str(rows(database, f"explain query plan {query}")), query


def test_a_second_compilation_changes_nothing(tmp_path: Path) -> None:
    database = compile_with_findings(tmp_path, PAGE)
    before = database.stat().st_mtime_ns, database.stat().st_ino
    compile_with_findings(tmp_path, PAGE)
    assert (database.stat().st_mtime_ns, database.stat().st_ino) == before


def test_an_archive_of_an_earlier_version_gets_the_tables(tmp_path: Path) -> None:
    database = compile_with_findings(tmp_path, PAGE)
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in ("votes", "vote_rolls", "people"):
            connection.execute(f"drop table {table}")
    compile_with_findings(tmp_path, PAGE)
    assert rows(database, "select count(*) from votes") == [(2,)]


def test_rows_of_removed_votes_are_deleted(tmp_path: Path) -> None:
    database = compile_with_findings(tmp_path, PAGE, "Mayor Ellen Ortiz spoke.")
    compile_with_findings(tmp_path, "Nothing happened.", "Mayor Ellen Ortiz spoke.")
    assert rows(database, "select (select count(*) from votes), (select count(*) from vote_rolls)") == [(0, 0)]
    assert rows(database, "select id, pages from people") == [("ellen-ortiz", 1)]


def test_build_all_has_the_tables_also_for_sites_that_have_none_yet(tmp_path: Path) -> None:
    database = compile_with_findings(tmp_path, PAGE)
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("drop table votes")
    output = tmp_path / "_all" / "meetings.db"
    result = build_all(tmp_path, [("springfield", "Springfield")], output)
    assert result.damaged == {}
    assert rows(output, "select subdomain, municipality, motion_by from votes order by id") == [
        ("springfield", "Springfield", "Chen"),
        ("springfield", "Springfield", "Whitfield"),
    ]
    assert rows(output, "select count(*) from vote_rolls") == [(3,)]
    assert rows(output, "select subdomain, name from people where id = 'ellen-ortiz'") == [
        ("springfield", "Ellen Ortiz")
    ]


def memory_archive(*pages: tuple[str, str, dict[str, object], dict[str, object]]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.executescript(load_schema("meetings.sql"))
    for number, (meeting, date, entities, votes) in enumerate(pages):
        values = [f"p{number}", meeting, date, json.dumps(entities), json.dumps(votes)]
        connection.execute(
            "insert into minutes (id, meeting, date, page, text, entities_json, votes_json) values (?, ?, ?, 1, '',"
            " ?, ?)",
            values,
        )
    return connection


def persons(*names: str) -> dict[str, object]:
    return {"persons": [{"text": name, "confidence": 0.9} for name in names]}


def test_a_surname_is_a_person_of_the_same_document_or_body_if_there_is_one() -> None:
    connection = memory_archive(
        ("Council", "2024-01-01", persons("Ann Lee", "Bo Lee", "Cy Fox"), {}),
        ("Council", "2024-02-01", persons("Lee", "Fox"), {}),
        ("Council", "2024-03-01", persons("Ann Lee"), {"votes": [{"motion_by": "Lee", "raw_text": "x"}]}),
        ("Parks", "2024-03-01", persons("Fox"), {}),
    )
    vote_tables.update(connection)
    found = dict(connection.execute("select id, pages from people"))
    assert found == {"ann-lee": 2, "bo-lee": 1, "cy-fox": 2, "lee": 1, "fox": 1}
    assert connection.execute("select motion_by, motion_by_id, result from votes").fetchall() == [
        ("Lee", "ann-lee", "")
    ]


def test_findings_that_are_not_json_are_counted_and_left_out(caplog: object) -> None:
    connection = memory_archive(("Council", "2024-01-01", persons("Ann Lee"), {}))
    connection.execute("update minutes set votes_json = '{'")
    vote_tables.update(connection)
    assert connection.execute("select count(*) from people").fetchone() == (0,)
    assert "1 pages" in caplog.text  # type: ignore[attr-defined]


def test_names_with_accents_and_marks_have_one_id() -> None:
    assert (
        vote_tables.person_id("José  O\u2019Neil-Díaz, Jr.")
        == vote_tables.person_id("JOSE O'NEIL DIAZ JR")
        == "jose-oneil-diaz-jr"
    )
    assert vote_tables.person_id("!!!") == "unnamed"


def test_unknown_results_of_an_earlier_version_become_empty_texts(tmp_path: Path) -> None:
    site = SiteDocuments(tmp_path)
    document = site.add("a page")
    old = '{"votes": [{"motion_by": "Lee", "raw_text": "\\"result\\": null", "result": null}]}'
    findings = {1: Findings("{}", old)}
    cache.save(
        site.storage.extracted(document), cache.CachedFindings("rules", "2", cache.text_hash([(1, "a page")]), findings)
    )
    compile_site(site.storage, select(site.storage, site.candidates.values()))
    (votes_json,) = rows(site.storage.database, "select votes_json from minutes")[0]
    assert json.loads(votes_json)["votes"][0]["result"] == ""
    assert json.loads(votes_json)["votes"][0]["raw_text"] == '"result": null'
