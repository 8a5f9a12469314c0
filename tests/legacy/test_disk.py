"""What lies on the older system's disk, in all its layouts, and how much of each document that is."""

from __future__ import annotations

from pathlib import Path

from clerk.legacy.disk import Holding, scan
from tests.legacy.old_system import OldDisk


def holdings(disk: OldDisk, site: str = "town") -> dict[str, Holding]:
    return {document.name: document.holding()[0] for document in scan(disk.root / site).documents}


def test_every_layout_is_found(old_disk: OldDisk) -> None:
    old_disk.text("town", "Council", "2020-01-01", "one", "two")
    old_disk.text("town", "Council", "2020-01-02", "one", "two", padded=True)
    old_disk.whole_text("town", "Council", "2010-01-01", "all of it")
    old_disk.text("town", "Council", "2020-01-01", "agenda", agenda=True)
    old_disk.pdf("town", "Council", "2020-01-03")
    old_disk.marker("town", "Council", "2020-01-04")
    old_disk.images("town", "Council", "2020-01-05", 2)
    cache = old_disk.root / "town/txt/Council/2020-01-01/0001.txt.extracted.json"
    cache.write_text("{}")
    (old_disk.root / "town/ocr_failures_2024.jsonl").write_text("{}")
    assert holdings(old_disk) == {
        "minutes Council/2020-01-01": Holding.TEXT,
        "minutes Council/2020-01-02": Holding.TEXT,
        "minutes Council/2010-01-01": Holding.TEXT,
        "agenda Council/2020-01-01": Holding.TEXT,
        "minutes Council/2020-01-03": Holding.PDF,
        "minutes Council/2020-01-04": Holding.NOTHING,
        "minutes Council/2020-01-05": Holding.NOTHING,
    }
    site = scan(old_disk.root / "town")
    assert (site.text_files, site.problems) == (6, [])


def test_half_a_text_is_not_a_text(old_disk: OldDisk) -> None:
    old_disk.text("town", "Gap", "2020-01-01", "one", "two", "three")
    (old_disk.root / "town/txt/Gap/2020-01-01/2.txt").unlink()
    old_disk.text("town", "Images", "2020-01-01", "one")
    old_disk.images("town", "Images", "2020-01-01", 3)
    old_disk.text("town", "Stopped", "2020-01-01", "one")
    old_disk.pdf("town", "Stopped", "2020-01-01", pages=2)
    old_disk.text("town", "Broken", "2020-01-01", "one")
    old_disk.pdf("town", "Broken", "2020-01-01").write_bytes(b"no PDF")
    found = {document.meeting: document.holding() for document in scan(old_disk.root / "town").documents}
    assert found == {
        "Gap": (Holding.NOTHING, "the text of page 2 is missing"),
        "Images": (Holding.NOTHING, "there is an image of page 3, and text of 1 pages"),
        "Stopped": (Holding.PDF, "the PDF has 2 pages, and there is text of 1"),
        "Broken": (Holding.PDF, "the PDF has an unknown number of pages, and there is text of 1"),
    }


def test_a_pdf_that_is_still_there_does_not_make_its_text_doubtful(old_disk: OldDisk) -> None:
    old_disk.text("town", "Counted", "2020-01-01", "one", "two")
    old_disk.pdf("town", "Counted", "2020-01-01", pages=2)
    old_disk.text("town", "Marked", "2020-01-01", "one")
    old_disk.pdf("town", "Marked", "2020-01-01", pages=2)
    old_disk.marker("town", "Marked", "2020-01-01")
    assert set(holdings(old_disk).values()) == {Holding.TEXT}


def test_a_second_name_of_the_whole_text_is_not_its_first_page(old_disk: OldDisk) -> None:
    for meeting, first_page in (("Linked", "all of it"), ("HalfRead", "page one")):
        old_disk.whole_text("town", meeting, "2010-01-01", "all of it")
        old_disk.text("town", meeting, "2010-01-01", first_page)
        old_disk.pdf("town", meeting, "2010-01-01", pages=3)
    assert holdings(old_disk) == {
        "minutes Linked/2010-01-01": Holding.TEXT,
        "minutes HalfRead/2010-01-01": Holding.PDF,
    }


def test_what_cannot_be_used_is_named_and_the_rest_is_found(old_disk: OldDisk) -> None:
    old_disk.text("town", "Council", "2020-01-01", "one")
    old_disk.text("town", "Council", "undated", "one")
    old_disk.pdf("town", "Council", "2020-02-30")
    loop = old_disk.root / "town/txt/Loop"
    loop.symlink_to("Loop")
    (old_disk.root / "town/txt/stray").write_text("a file")
    site = scan(old_disk.root / "town")
    assert [document.name for document in site.documents] == ["minutes Council/2020-01-01"]
    said = "\n".join(site.problems)
    for name in ("undated", "2020-02-30.pdf", "Loop", "stray"):
        assert name in said
    assert len(site.problems) == 4


def test_no_folder_is_no_documents(tmp_path: Path) -> None:
    assert scan(tmp_path / "nowhere").documents == []
    assert scan(tmp_path / "nowhere").problems == []
