"""meetings.db: its form, its ids, and that a build changes just what changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from contextlib import closing
from datetime import date
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clerk.archive.atomic_build import BuildResult
from clerk.archive.carry_over import NOTHING, PublishedCopies
from clerk.archive.compile import compile_site
from clerk.archive.pages import Page, with_ids
from clerk.archive.selection import select
from clerk.errors import AllTextsMissing, PagesWouldVanish
from clerk.extraction import cache
from clerk.extraction.contract import Findings
from tests.archive.library import Shelf, is_whole, rows


def compiled(shelf: Shelf, earlier: PublishedCopies = NOTHING) -> BuildResult:
    return compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()), earlier=earlier)


def compiled_anew(shelf: Shelf, tmp_path: Path) -> BuildResult:
    """What a build from nothing makes of the same texts."""
    present, aside = shelf.storage.database, tmp_path / "aside.db"
    present.rename(aside)
    try:
        return compiled(shelf)
    finally:
        present.unlink()
        aside.rename(present)


def test_a_page_has_the_id_and_image_that_the_design_says(shelf: Shelf) -> None:
    shelf.put("Call to order.", "Adjourned.")
    shelf.put("1. Roll call", kind="agenda", meeting="Parks & Recreation")
    built = compiled(shelf)
    facts = {"kind": "minutes", "meeting": "City Council", "date": "2024-03-05", "page": 2, "text": "Adjourned."}
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    assert rows(shelf.storage.database, "select * from minutes where page = 2") == [
        (digest[:12], "City Council", "2024-03-05", 2, "Adjourned.", "/CityCouncil/2024-03-05/2.png", None, None)
    ]
    assert rows(shelf.storage.database, "select meeting, page_image from agendas") == [
        ("Parks & Recreation", "/_agendas/ParksRecreation/2024-03-05/1.png")
    ]
    assert built.pages == 3
    assert is_whole(shelf.storage.database)


def test_the_text_can_be_searched_and_datasette_finds_the_index(shelf: Shelf) -> None:
    shelf.put("Ordenanza sobre la reunión", "nothing here")
    compiled(shelf)
    found = rows(
        shelf.storage.database,
        "select m.page from minutes_fts f join minutes m on m.rowid = f.rowid where minutes_fts match 'reunion'",
    )
    assert found == [(1,)]
    # How Datasette looks for the full-text table of a table.
    by_datasette = rows(
        shelf.storage.database,
        "select name from sqlite_master where rootpage = 0 and sql like '%VIRTUAL TABLE%USING FTS%content=[minutes]%'",
    )
    assert by_datasette == [("minutes_fts",)]


def test_date_and_meeting_are_indexed(shelf: Shelf) -> None:
    shelf.put("x")
    compiled(shelf)
    for column in ("date", "meeting"):
        for table in ("minutes", "agendas"):
            (plan,) = rows(shelf.storage.database, f"explain query plan select * from {table} where {column} = 'x'")
            assert f"idx_{table}_{column}" in plan[3]


def test_an_unchanged_archive_is_left_alone(shelf: Shelf) -> None:
    shelf.put("one", "two")
    first = compiled(shelf)
    before = shelf.storage.database.stat()
    second = compiled(shelf)
    assert (first.changed, second.changed) == (True, False)
    assert first.content_hash == second.content_hash
    assert shelf.storage.database.stat() == before


def test_only_differences_are_written(shelf: Shelf, tmp_path: Path) -> None:
    shelf.put("kept")
    revised = shelf.put("before", day=date(2024, 4, 2))
    gone = shelf.put("gone", day=date(2024, 5, 7))
    compiled(shelf)
    ((place,),) = rows(shelf.storage.database, "select rowid from minutes where text = 'kept'")
    shelf.put("after", "and more", day=date(2024, 4, 2), revision=2, lineage_id=revised.id, number=7)
    shelf.take_away(gone)
    built = compiled(shelf)
    assert rows(shelf.storage.database, "select text from minutes order by date, page") == [
        ("kept",),
        ("after",),
        ("and more",),
    ]
    assert rows(shelf.storage.database, "select rowid from minutes where text = 'kept'") == [(place,)]
    assert is_whole(shelf.storage.database)
    assert built.content_hash == compiled_anew(shelf, tmp_path).content_hash


documents = st.lists(
    st.tuples(
        st.sampled_from(["minutes", "agenda"]),
        st.sampled_from(["City Council", "City Council (2)", "Café Ünion"]),
        st.integers(1, 3),
        st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), min_size=1, max_size=3),
    ),
    max_size=6,
    unique_by=lambda one: one[:3],
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(documents, min_size=1, max_size=4))
def test_any_order_of_changes_gives_what_a_fresh_build_gives(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[str, str, int, list[str]]]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    shelf = Shelf(folder / "storage")
    for state in history:
        shelf.candidates.clear()
        for kind, meeting, occurrence, texts in state:
            shelf.put(*texts, kind=kind, meeting=meeting, occurrence=occurrence)
        built = compiled(shelf)
        assert built.content_hash == compiled_anew(shelf, folder).content_hash
        assert built.pages == sum(len(texts) for *_, texts in state), "no page hides another"
        assert is_whole(shelf.storage.database)


def test_two_meetings_of_one_day_are_both_shown_even_with_the_same_words(shelf: Shelf) -> None:
    shelf.put("the same")
    shelf.put("the same", occurrence=2)
    shelf.put("the same", meeting="City Council (2)")
    compiled(shelf)
    assert rows(shelf.storage.database, "select meeting, page_image from minutes order by meeting") == [
        ("City Council", "/CityCouncil/2024-03-05/1.png"),
        ("City Council (2)", "/CityCouncil2/2024-03-05/1.png"),
        ("City Council (3)", "/CityCouncil/2024-03-05_2/1.png"),
    ]


def test_pages_whose_digests_begin_alike_are_both_kept() -> None:
    pages = [Page("minutes", "Council", "2024-01-01", number, "", "") for number in range(1, 60)]
    ids = [one[0] for one in with_ids(pages, length=2) if isinstance(one, tuple)]
    assert len(set(ids)) == len(pages) > len({page.digest[:2] for page in pages})
    assert all(key in page.digest for key, page in zip(ids, pages, strict=True))


def test_the_newest_revision_that_could_be_read_is_shown(shelf: Shelf) -> None:
    first = shelf.put("first")
    shelf.put("second", revision=2, lineage_id=first.id)
    shelf.put(revision=3, lineage_id=first.id, is_read=False)
    compiled(shelf)
    assert rows(shelf.storage.database, "select text from minutes") == [("second",)]


def test_revisions_without_a_series_belong_together_by_what_they_are_about(shelf: Shelf) -> None:
    shelf.put("first")
    shelf.put("second", revision=2)
    compiled(shelf)
    assert rows(shelf.storage.database, "select text from minutes") == [("second",)]


def test_a_document_that_moved_to_another_day_is_shown_there_only(shelf: Shelf) -> None:
    first = shelf.put("moved")
    shelf.put("moved", day=date(2024, 3, 12), lineage_id=first.id)
    compiled(shelf)
    assert rows(shelf.storage.database, "select date from minutes") == [("2024-03-12",)]


def test_texts_of_an_earlier_reading_count_though_the_last_one_failed(shelf: Shelf) -> None:
    shelf.put("read before", is_read=False)
    shelf.put("half", None, day=date(2024, 4, 2), is_read=False)
    compiled(shelf)
    assert rows(shelf.storage.database, "select text from minutes") == [("read before",)]


def test_a_failed_page_is_left_out_and_the_numbers_stay(shelf: Shelf) -> None:
    shelf.put("one", None, "three")
    compiled(shelf)
    assert rows(shelf.storage.database, "select page, text from minutes order by page") == [(1, "one"), (3, "three")]


def test_a_document_whose_texts_are_damaged_keeps_its_rows(shelf: Shelf) -> None:
    document = shelf.put("one", "two")
    shelf.put("other", day=date(2024, 4, 2))
    before = compiled(shelf)
    shelf.storage.page_text(document, 2).write_text("something else")
    assert compiled(shelf) == BuildResult(before.content_hash, 3, changed=False)
    shelf.storage.page_text(document, 2).unlink()
    shelf.storage.manifest(document).write_text("{")
    assert compiled(shelf) == BuildResult(before.content_hash, 3, changed=False)
    shelf.storage.manifest(document).unlink()
    assert compiled(shelf) == BuildResult(before.content_hash, 3, changed=False)


def test_rows_of_damaged_texts_come_from_a_published_copy_where_the_archive_is_gone(shelf: Shelf) -> None:
    document = shelf.put("one", "two")
    shelf.put("other", day=date(2024, 4, 2))
    before = compiled(shelf)
    copies = tuple(shelf.storage.root / name for name in ("newest.db", "older.db", "oldest.db"))
    for copy in copies:
        shutil.copy(shelf.storage.database, copy)
    copies[0].write_bytes(b"damaged")
    with closing(sqlite3.connect(copies[1])) as another_form:
        another_form.execute("alter table minutes drop column page_image")
        another_form.commit()
    shutil.rmtree(shelf.storage.texts(document))
    shelf.storage.database.unlink()
    built = compiled(shelf, PublishedCopies(copies, is_published=True))
    assert (built.content_hash, built.pages) == (before.content_hash, 3)
    assert is_whole(shelf.storage.database)


def test_published_pages_do_not_vanish_with_the_archive(shelf: Shelf) -> None:
    document = shelf.put("one", "two")
    shelf.put("other", day=date(2024, 4, 2))
    compiled(shelf)
    shutil.rmtree(shelf.storage.texts(document))
    shelf.storage.database.unlink()
    with pytest.raises(PagesWouldVanish, match="City Council 2024-03-05"):
        compiled(shelf, PublishedCopies(is_published=True))
    assert not shelf.storage.database.exists()


def test_a_document_that_never_was_in_the_archive_does_not_hold_it_up(shelf: Shelf) -> None:
    shelf.put("other", day=date(2024, 4, 2))
    compiled(shelf)
    shutil.rmtree(shelf.storage.texts(shelf.put("one")))
    assert compiled(shelf, PublishedCopies(is_published=True)).pages == 1
    copy = shelf.storage.root / "copy.db"
    shelf.storage.database.rename(copy)
    assert compiled(shelf, PublishedCopies((copy,), is_published=True)).pages == 1


def test_an_archive_is_not_emptied_because_a_disk_is_not_there(shelf: Shelf) -> None:
    shelf.put("one")
    compiled(shelf)
    away = shelf.storage.folder.with_name("away")
    shelf.storage.folder.rename(away)
    with pytest.raises(AllTextsMissing):
        compiled(shelf)
    assert not shelf.storage.database.exists()


@pytest.mark.parametrize("damage", ["garbage", "truncated", "index", "another form", "empty"])
def test_a_present_file_that_cannot_be_trusted_is_built_anew(shelf: Shelf, damage: str) -> None:
    shelf.put(*(f"page {number} " * 400 for number in range(40)))
    good = compiled(shelf)
    database = shelf.storage.database
    content = database.read_bytes()
    match damage:
        case "garbage":
            database.write_bytes(b"not a database at all" * 1000)
        case "truncated":
            database.write_bytes(content[: len(content) // 2])
        case "empty":
            database.write_bytes(b"")
        case "index":
            with closing(sqlite3.connect(database)) as connection:
                connection.execute("delete from minutes_fts_data where id > 10")
                connection.commit()
        case "another form":
            with closing(sqlite3.connect(database)) as connection:
                connection.execute("alter table minutes add column more text")
    again = compiled(shelf)
    assert again == BuildResult(good.content_hash, 40, changed=True)
    assert is_whole(database)


def test_a_text_that_somebody_changed_in_the_archive_is_put_right(shelf: Shelf) -> None:
    shelf.put("as it was read")
    good = compiled(shelf)
    with closing(sqlite3.connect(shelf.storage.database)) as connection:
        connection.execute("update minutes set text = 'forged'")
        connection.commit()
    assert compiled(shelf).content_hash == good.content_hash
    assert rows(shelf.storage.database, "select text from minutes") == [("as it was read",)]


def test_a_log_beside_the_old_file_is_not_replayed_into_the_new_one(shelf: Shelf) -> None:
    document = shelf.put("one")
    compiled(shelf)
    database = shelf.storage.database
    with closing(sqlite3.connect(database)) as reader:
        reader.execute("pragma journal_mode = wal")
        reader.execute("update minutes set meeting = 'forged'")
        reader.commit()
        assert database.with_name("meetings.db-wal").exists()
        shelf.put("two", revision=2, lineage_id=document.id)
        compiled(shelf)
        assert not database.with_name("meetings.db-wal").exists()
    assert rows(database, "select meeting, text from minutes") == [("City Council", "two")]
    assert is_whole(database)


def test_people_and_votes_are_merged_from_beside_the_texts(shelf: Shelf) -> None:
    document = shelf.put("Mayor Ellen Ortiz", "nothing")
    plain = compiled(shelf)
    found = {1: Findings('{"persons": []}', '{"votes": []}'), 2: Findings("{}", "{}")}
    texts = [(1, "Mayor Ellen Ortiz"), (2, "nothing")]
    cache.save(shelf.storage.extracted(document), cache.Extracted("rules", "1", cache.text_hash(texts), found))
    merged = compiled(shelf)
    assert merged.content_hash != plain.content_hash
    assert rows(shelf.storage.database, "select entities_json, votes_json from minutes order by page") == [
        ('{"persons": []}', '{"votes": []}'),
        ("{}", "{}"),
    ]
    # Found in another text: worth nothing.
    cache.save(shelf.storage.extracted(document), cache.Extracted("rules", "1", cache.text_hash(texts[:1]), found))
    assert compiled(shelf).content_hash == plain.content_hash


def test_what_a_plugin_adds_stays_and_counts(shelf: Shelf) -> None:
    shelf.put("one")
    plain = compiled(shelf)
    chosen = select(shelf.storage, shelf.candidates.values())

    def add_table(draft: Path, fresh: bool) -> None:
        with closing(sqlite3.connect(draft)) as connection:
            connection.execute("create table if not exists budget (year integer, picture blob)")
            connection.execute("insert into budget values (2024, x'00ff')")
            connection.commit()

    added = compile_site(shelf.storage, chosen, add_table)
    assert added.changed
    assert added.content_hash != plain.content_hash
    assert compiled(shelf) == BuildResult(added.content_hash, 1, changed=False)
    assert rows(shelf.storage.database, "select year from budget") == [(2024,)]


def test_a_hook_that_raises_leaves_the_archive_as_it_was(shelf: Shelf) -> None:
    document = shelf.put("one")
    compiled(shelf)
    before = shelf.storage.database.read_bytes()
    shelf.put("two", revision=2, lineage_id=document.id)

    def burst(draft: Path, fresh: bool) -> None:
        raise RuntimeError("burst")

    with pytest.raises(RuntimeError, match="burst"):
        compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()), burst)
    assert shelf.storage.database.read_bytes() == before
    assert sorted(path.name for path in shelf.storage.folder.iterdir()) == ["meetings.db", "txt"]


def test_a_hook_that_damages_the_draft_does_not_reach_the_archive(shelf: Shelf) -> None:
    shelf.put("one")
    good = compiled(shelf)

    def damage(draft: Path, fresh: bool) -> None:
        draft.write_bytes(draft.read_bytes()[:4096] + b"\xff" * 4096)

    with pytest.raises(Exception, match=r"integrity|malformed|damaged|not a database"):
        compile_site(shelf.storage, select(shelf.storage, shelf.candidates.values()), damage)
    assert compiled(shelf) == BuildResult(good.content_hash, 1, changed=False)


def test_words_that_are_hostile_to_databases_are_kept_word_for_word(shelf: Shelf) -> None:
    texts = ["\0nul\0", "'; drop table minutes; --", "\u202eright to left", "\U0001f4a3" * 100, "", "\x1b[2J", '"' * 50]
    shelf.put(*texts, meeting="Robert'); drop table minutes; --")
    compiled(shelf)
    assert [text for (text,) in rows(shelf.storage.database, "select text from minutes order by page")] == texts
    assert is_whole(shelf.storage.database)


def test_an_empty_site_has_an_empty_archive(shelf: Shelf) -> None:
    assert compiled(shelf).pages == 0
    assert is_whole(shelf.storage.database)
