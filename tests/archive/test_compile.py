"""meetings.db: schema, page ids, and builds that write only differences."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clerk.archive.atomic_build import BuildResult
from clerk.archive.carry_over import NOT_PUBLISHED, PublishedCopies
from clerk.archive.compile import compile_site
from clerk.archive.pages import Page, with_ids
from clerk.archive.selection import select
from clerk.documents.storage import delete_folder, write
from clerk.errors import AllTextsMissing, PagesWouldVanish
from clerk.extraction import cache
from clerk.extraction.schema import Findings
from clerk.object_storage.path import ObjectPath, StoragePath
from tests.archive.helpers import SiteDocuments, edited, is_intact, rows
from tests.s3 import BOTH_IF_LONG

STORAGES = BOTH_IF_LONG


def compile_documents(site: SiteDocuments, published: PublishedCopies = NOT_PUBLISHED) -> BuildResult:
    return compile_site(site.storage, select(site.storage, site.candidates.values()), published=published)


def compile_from_scratch(site: SiteDocuments) -> BuildResult:
    """A build of the same texts without the existing file."""
    database, backup = site.storage.database, site.storage.root / "backup.db"
    database.rename(backup)
    try:
        return compile_documents(site)
    finally:
        database.unlink()
        backup.rename(database)


def test_page_ids_and_image_paths_follow_the_design(site: SiteDocuments) -> None:
    minutes = site.add("Call to order.", "Adjourned.")
    agenda = site.add("1. Roll call", kind="agenda", meeting="Parks & Recreation")
    write(site.storage.page_image(minutes, 2), b"PNG")
    write(site.storage.page_image(agenda, 1), b"PNG")
    built = compile_documents(site)
    facts = {"kind": "minutes", "meeting": "City Council", "date": "2024-03-05", "page": 2, "text": "Adjourned."}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    assert rows(site.storage.database, "select * from minutes where page = 2") == [
        (digest[:12], "City Council", "2024-03-05", 2, "Adjourned.", "/CityCouncil/2024-03-05/2.png", None, None)
    ]
    assert rows(site.storage.database, "select meeting, page_image from agendas") == [
        ("Parks & Recreation", "/_agendas/ParksRecreation/2024-03-05/1.png")
    ]
    assert built.pages == 3
    assert is_intact(site.storage.database)


def test_page_image_is_null_if_no_image_is_kept(site: SiteDocuments) -> None:
    document = site.add("Text layer.", "Scanned.")
    image = site.storage.page_image(document, 2)
    write(image, b"PNG")
    write(image.with_name(".1.png.abc.part"), b"")
    compile_documents(site)
    pages = "select page, page_image from minutes order by page"
    assert rows(site.storage.database, pages) == [(1, None), (2, "/CityCouncil/2024-03-05/2.png")]
    image.unlink()
    compile_documents(site)
    assert rows(site.storage.database, pages) == [(1, None), (2, None)]


def test_the_text_can_be_searched_and_datasette_finds_the_index(site: SiteDocuments) -> None:
    site.add("Ordenanza sobre la reunión", "nothing here")
    compile_documents(site)
    pages = rows(
        site.storage.database,
        "select m.page from minutes_fts f join minutes m on m.rowid = f.rowid where minutes_fts match 'reunion'",
    )
    assert pages == [(1,)]
    # Datasette's query for the full-text table of a table.
    by_datasette = rows(
        site.storage.database,
        "select name from sqlite_master where rootpage = 0 and sql like '%VIRTUAL TABLE%USING FTS%content=[minutes]%'",
    )
    assert by_datasette == [("minutes_fts",)]


def test_date_and_meeting_are_indexed(site: SiteDocuments) -> None:
    site.add("x")
    compile_documents(site)
    for column in ("date", "meeting"):
        for table in ("minutes", "agendas"):
            (plan,) = rows(site.storage.database, f"explain query plan select * from {table} where {column} = 'x'")
            assert f"idx_{table}_{column}" in plan[3]


def test_an_unchanged_archive_is_not_written(site: SiteDocuments) -> None:
    site.add("one", "two")
    first = compile_documents(site)
    before = _identity(site.storage.database)
    second = compile_documents(site)
    assert (first.changed, second.changed) == (True, False)
    assert first.content_hash == second.content_hash
    assert _identity(site.storage.database) == before


def _identity(file: StoragePath) -> object:
    """Without the access time, which reading changes."""
    if isinstance(file, ObjectPath):
        return file.info()
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ino


def test_a_file_that_was_moved_is_shown_once(site: SiteDocuments) -> None:
    """A folder's documents are identified by their path. The same file twice is two documents while both are listed."""
    old, new = site.add("one", meeting="Inbox"), site.add("one", meeting="City Council")
    other = site.add("two", meeting="Planning Board")
    for document, sha256 in ((old, "a"), (new, "a"), (other, "b")):
        candidate = site.candidates[document.id]
        site.candidates[document.id] = replace(candidate, document=replace(document, sha256=sha256))
    meetings = "select meeting from minutes order by meeting"
    compile_documents(site)
    assert rows(site.storage.database, meetings) == [("City Council",), ("Inbox",), ("Planning Board",)]
    for removed in (old, other):
        site.candidates[removed.id] = replace(site.candidates[removed.id], is_removed=True)
    compile_documents(site)
    assert rows(site.storage.database, meetings) == [("City Council",), ("Planning Board",)]


def test_only_differences_are_written(site: SiteDocuments) -> None:
    site.add("unchanged")
    revised = site.add("before", day=date(2024, 4, 2))
    removed = site.add("removed", day=date(2024, 5, 7))
    compile_documents(site)
    ((rowid,),) = rows(site.storage.database, "select rowid from minutes where text = 'unchanged'")
    site.add("after", "and more", day=date(2024, 4, 2), revision=2, lineage_id=revised.id, number=7)
    site.remove(removed)
    built = compile_documents(site)
    assert rows(site.storage.database, "select text from minutes order by date, page") == [
        ("unchanged",),
        ("after",),
        ("and more",),
    ]
    assert rows(site.storage.database, "select rowid from minutes where text = 'unchanged'") == [(rowid,)]
    assert is_intact(site.storage.database)
    assert built.content_hash == compile_from_scratch(site).content_hash


documents = st.lists(
    st.tuples(
        st.sampled_from(["minutes", "agenda"]),
        st.sampled_from(["City Council", "City Council (2)", "Café Ünion"]),
        st.integers(1, 3),
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=3),
    ),
    max_size=6,
    unique_by=lambda document: document[:3],
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(documents, min_size=1, max_size=4))
def test_any_order_of_changes_equals_a_fresh_build(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[str, str, int, list[str]]]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    site = SiteDocuments(folder / "storage")
    for state in history:
        site.candidates.clear()
        for kind, meeting, occurrence, texts in state:
            site.add(*texts, kind=kind, meeting=meeting, occurrence=occurrence)
        built = compile_documents(site)
        assert built.content_hash == compile_from_scratch(site).content_hash
        assert built.pages == sum(len(texts) for *_, texts in state), "every page has its own row"
        assert is_intact(site.storage.database)


def test_two_meetings_on_one_day_with_equal_text_are_both_shown(site: SiteDocuments) -> None:
    for document in (
        site.add("the same"),
        site.add("the same", occurrence=2),
        site.add("the same", meeting="City Council (2)"),
    ):
        write(site.storage.page_image(document, 1), b"PNG")
    compile_documents(site)
    assert rows(site.storage.database, "select meeting, page_image from minutes order by meeting") == [
        ("City Council", "/CityCouncil/2024-03-05/1.png"),
        ("City Council (2)", "/CityCouncil2/2024-03-05/1.png"),
        ("City Council (3)", "/CityCouncil/2024-03-05_2/1.png"),
    ]


def test_pages_whose_digests_share_a_prefix_get_different_ids() -> None:
    pages = [Page("minutes", "Council", "2024-01-01", number, "", "") for number in range(1, 60)]
    ids = [item[0] for item in with_ids(pages, length=2) if isinstance(item, tuple)]
    assert len(set(ids)) == len(pages) > len({page.digest[:2] for page in pages})
    assert all(key in page.digest for key, page in zip(ids, pages, strict=True))


def test_the_newest_processed_revision_is_shown(site: SiteDocuments) -> None:
    first = site.add("first")
    site.add("second", revision=2, lineage_id=first.id)
    site.add(revision=3, lineage_id=first.id, is_processed=False)
    compile_documents(site)
    assert rows(site.storage.database, "select text from minutes") == [("second",)]


def test_revisions_without_a_lineage_are_grouped_by_meeting_and_date(site: SiteDocuments) -> None:
    site.add("first")
    site.add("second", revision=2)
    compile_documents(site)
    assert rows(site.storage.database, "select text from minutes") == [("second",)]


def test_a_document_that_moved_to_another_day_is_shown_there_only(site: SiteDocuments) -> None:
    first = site.add("moved")
    site.add("moved", day=date(2024, 3, 12), lineage_id=first.id)
    compile_documents(site)
    assert rows(site.storage.database, "select date from minutes") == [("2024-03-12",)]


def test_texts_of_an_earlier_success_are_used_if_the_last_attempt_failed(site: SiteDocuments) -> None:
    site.add("earlier success", is_processed=False)
    site.add("half", None, day=date(2024, 4, 2), is_processed=False)
    compile_documents(site)
    assert rows(site.storage.database, "select text from minutes") == [("earlier success",)]


def test_a_failed_page_is_skipped_and_page_numbers_stay(site: SiteDocuments) -> None:
    site.add("one", None, "three")
    compile_documents(site)
    assert rows(site.storage.database, "select page, text from minutes order by page") == [(1, "one"), (3, "three")]


def test_a_document_whose_texts_are_damaged_keeps_its_rows(site: SiteDocuments) -> None:
    document = site.add("one", "two")
    site.add("other", day=date(2024, 4, 2))
    before = compile_documents(site)
    site.storage.page_text(document, 2).write_text("something else")
    assert compile_documents(site) == BuildResult(before.content_hash, 3, changed=False)
    site.storage.page_text(document, 2).unlink()
    site.storage.manifest(document).write_text("{")
    assert compile_documents(site) == BuildResult(before.content_hash, 3, changed=False)
    site.storage.manifest(document).unlink()
    assert compile_documents(site) == BuildResult(before.content_hash, 3, changed=False)


def test_rows_of_lost_texts_come_from_a_published_copy_if_the_archive_is_lost(site: SiteDocuments) -> None:
    document = site.add("one", "two")
    site.add("other", day=date(2024, 4, 2))
    before = compile_documents(site)
    copies = tuple(site.storage.root / name for name in ("newest.db", "older.db", "oldest.db"))
    for copy in copies:
        copy.write_bytes(site.storage.database.read_bytes())
    copies[0].write_bytes(b"damaged")
    with edited(copies[1]) as other_schema:
        other_schema.execute("alter table minutes drop column page_image")
    delete_folder(site.storage.texts(document))
    site.storage.database.unlink()
    built = compile_documents(site, PublishedCopies(copies, is_published=True))
    assert (built.content_hash, built.pages) == (before.content_hash, 3)
    assert is_intact(site.storage.database)


def test_compilation_fails_if_published_pages_would_be_lost(site: SiteDocuments) -> None:
    document = site.add("one", "two")
    site.add("other", day=date(2024, 4, 2))
    compile_documents(site)
    delete_folder(site.storage.texts(document))
    site.storage.database.unlink()
    with pytest.raises(PagesWouldVanish, match="City Council 2024-03-05"):
        compile_documents(site, PublishedCopies(is_published=True))
    assert not site.storage.database.exists()


def test_lost_texts_that_never_were_in_the_archive_do_not_fail_the_compilation(site: SiteDocuments) -> None:
    site.add("other", day=date(2024, 4, 2))
    compile_documents(site)
    delete_folder(site.storage.texts(site.add("one")))
    assert compile_documents(site, PublishedCopies(is_published=True)).pages == 1
    copy = site.storage.root / "copy.db"
    site.storage.database.rename(copy)
    assert compile_documents(site, PublishedCopies((copy,), is_published=True)).pages == 1


@pytest.mark.folder_only
def test_an_unmounted_disk_does_not_empty_the_archive(site: SiteDocuments) -> None:
    site.add("one")
    compile_documents(site)
    site.storage.folder.rename(site.storage.folder.with_name("unmounted"))
    with pytest.raises(AllTextsMissing):
        compile_documents(site)
    assert not site.storage.database.exists()


@pytest.mark.parametrize("damage", ["garbage", "truncated", "index", "other schema", "empty"])
def test_an_unusable_existing_file_is_rebuilt_from_scratch(site: SiteDocuments, damage: str) -> None:
    site.add(*(f"page {number} " * 400 for number in range(40)))
    good = compile_documents(site)
    database = site.storage.database
    content = database.read_bytes()
    match damage:
        case "garbage":
            database.write_bytes(b"not a database at all" * 1000)
        case "truncated":
            database.write_bytes(content[: len(content) // 2])
        case "empty":
            database.write_bytes(b"")
        case "index":
            with edited(database) as connection:
                connection.execute("delete from minutes_fts_data where id > 10")
        case "other schema":
            with edited(database) as connection:
                connection.execute("alter table minutes add column more text")
    rebuilt = compile_documents(site)
    assert rebuilt == BuildResult(good.content_hash, 40, changed=True)
    assert is_intact(database)


def test_a_text_changed_inside_the_archive_is_restored(site: SiteDocuments) -> None:
    site.add("original")
    good = compile_documents(site)
    with edited(site.storage.database) as connection:
        connection.execute("update minutes set text = 'forged'")
    assert compile_documents(site).content_hash == good.content_hash
    assert rows(site.storage.database, "select text from minutes") == [("original",)]


@pytest.mark.folder_only
def test_a_wal_file_beside_the_old_database_is_not_replayed_into_the_new_one(site: SiteDocuments) -> None:
    document = site.add("one")
    compile_documents(site)
    database = site.storage.database
    with closing(sqlite3.connect(database)) as reader:
        reader.execute("pragma journal_mode = wal")
        reader.execute("update minutes set meeting = 'forged'")
        reader.commit()
        assert database.with_name("meetings.db-wal").exists()
        site.add("two", revision=2, lineage_id=document.id)
        compile_documents(site)
        assert not database.with_name("meetings.db-wal").exists()
    assert rows(database, "select meeting, text from minutes") == [("City Council", "two")]
    assert is_intact(database)


def test_extraction_results_are_merged_into_the_rows(site: SiteDocuments) -> None:
    document = site.add("Mayor Ellen Ortiz", "nothing")
    plain = compile_documents(site)
    findings = {1: Findings('{"persons": []}', '{"votes": []}'), 2: Findings("{}", "{}")}
    texts = [(1, "Mayor Ellen Ortiz"), (2, "nothing")]
    cache.save(site.storage.extracted(document), cache.CachedFindings("rules", "1", cache.text_hash(texts), findings))
    merged = compile_documents(site)
    assert merged.content_hash != plain.content_hash
    assert rows(site.storage.database, "select entities_json, votes_json from minutes order by page") == [
        ('{"persons": []}', '{"votes": []}'),
        ("{}", "{}"),
    ]
    # Results for another text are ignored.
    cache.save(
        site.storage.extracted(document), cache.CachedFindings("rules", "1", cache.text_hash(texts[:1]), findings)
    )
    assert compile_documents(site).content_hash == plain.content_hash


def test_tables_of_plugins_are_kept_and_part_of_the_content_hash(site: SiteDocuments) -> None:
    site.add("one")
    plain = compile_documents(site)
    selected = select(site.storage, site.candidates.values())

    def add_table(draft: Path, from_scratch: bool) -> None:
        with closing(sqlite3.connect(draft)) as connection:
            connection.execute("create table if not exists budget (year integer, image blob)")
            connection.execute("insert into budget values (2024, x'00ff')")
            connection.commit()

    added = compile_site(site.storage, selected, add_table)
    assert added.changed
    assert added.content_hash != plain.content_hash
    assert compile_documents(site) == BuildResult(added.content_hash, 1, changed=False)
    assert rows(site.storage.database, "select year from budget") == [(2024,)]


def test_a_hook_that_raises_leaves_the_archive_as_it_was(site: SiteDocuments) -> None:
    document = site.add("one")
    compile_documents(site)
    before = site.storage.database.read_bytes()
    site.add("two", revision=2, lineage_id=document.id)

    def fail(draft: Path, from_scratch: bool) -> None:
        raise RuntimeError("failed")

    with pytest.raises(RuntimeError, match="failed"):
        compile_site(site.storage, select(site.storage, site.candidates.values()), fail)
    assert site.storage.database.read_bytes() == before
    assert sorted(path.name for path in site.storage.folder.iterdir()) == ["meetings.db", "txt"]


def test_a_hook_that_damages_the_draft_does_not_reach_the_archive(site: SiteDocuments) -> None:
    site.add("one")
    good = compile_documents(site)

    def damage(draft: Path, from_scratch: bool) -> None:
        draft.write_bytes(draft.read_bytes()[:4096] + b"\xff" * 4096)

    with pytest.raises(Exception, match=r"integrity|malformed|damaged|not a database"):
        compile_site(site.storage, select(site.storage, site.candidates.values()), damage)
    assert compile_documents(site) == BuildResult(good.content_hash, 1, changed=False)


def test_hostile_texts_are_stored_unchanged(site: SiteDocuments) -> None:
    texts = ["\0nul\0", "'; drop table minutes; --", "\u202eright to left", "\U0001f4a3" * 100, "", "\x1b[2J", '"' * 50]
    site.add(*texts, meeting="Robert'); drop table minutes; --")
    compile_documents(site)
    assert [text for (text,) in rows(site.storage.database, "select text from minutes order by page")] == texts
    assert is_intact(site.storage.database)


def test_an_empty_site_has_an_empty_archive(site: SiteDocuments) -> None:
    assert compile_documents(site).pages == 0
    assert is_intact(site.storage.database)
