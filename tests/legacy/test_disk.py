"""What lies on the older system's disk, in all its layouts, and how much of each document that is."""

from __future__ import annotations

import os
from pathlib import Path

from clerk.legacy.disk import DocumentState, scan, site_folders
from tests.legacy.legacy_system import OldDisk, as_nobody


def holdings(disk: OldDisk, site: str = "town") -> dict[str, DocumentState]:
    return {document.name: document.holding()[0] for document in scan(disk.root / site).documents}


def test_every_layout_is_found(old_disk: OldDisk) -> None:
    old_disk.text("town", "Council", "2020-01-01", "one", "two")
    old_disk.text("town", "Council", "2020-01-02", "one", "two", padded=True)
    old_disk.whole_text("town", "Council", "2010-01-01", "all of it")
    old_disk.text("town", "Council", "2020-01-01", "agenda", agenda=True)
    old_disk.pdf("town", "Council", "2020-01-03")
    old_disk.path("town", "pdfs", "Council", "2020-01-06.PDF").write_bytes(b"%PDF")
    old_disk.marker("town", "Council", "2020-01-04")
    old_disk.images("town", "Council", "2020-01-05", 2)
    cache = old_disk.root / "town/txt/Council/2020-01-01/0001.txt.extracted.json"
    cache.write_text("{}")
    (old_disk.root / "town/ocr_failures_2024.jsonl").write_text("{}")
    assert holdings(old_disk) == {
        "minutes Council/2020-01-01": DocumentState.TEXT,
        "minutes Council/2020-01-02": DocumentState.TEXT,
        "minutes Council/2010-01-01": DocumentState.TEXT,
        "agenda Council/2020-01-01": DocumentState.TEXT,
        "minutes Council/2020-01-03": DocumentState.PDF,
        "minutes Council/2020-01-04": DocumentState.NOTHING,
        "minutes Council/2020-01-05": DocumentState.NOTHING,
        "minutes Council/2020-01-06": DocumentState.PDF,
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
    found = {document.meeting: document.holding() for document in scan(old_disk.root / "town").documents}
    assert found == {
        "Gap": (DocumentState.NOTHING, "the text of page 2 is missing"),
        "Images": (DocumentState.NOTHING, "there is an image of page 3, and text of 1 pages"),
        "Stopped": (DocumentState.PDF, "the PDF has 2 pages, and there is text of 1"),
    }


def test_a_pdf_that_does_not_tell_its_pages_says_nothing_against_its_text(old_disk: OldDisk) -> None:
    old_disk.text("town", "Broken", "2020-01-01", "one")
    old_disk.pdf("town", "Broken", "2020-01-01").write_bytes(b"no PDF")
    old_disk.text("town", "Gap", "2020-01-01", "one", "two")
    (old_disk.root / "town/txt/Gap/2020-01-01/1.txt").unlink()
    old_disk.pdf("town", "Gap", "2020-01-01").write_bytes(b"no PDF")
    assert holdings(old_disk) == {
        "minutes Broken/2020-01-01": DocumentState.TEXT,
        "minutes Gap/2020-01-01": DocumentState.PDF,
    }


def test_a_pdf_that_is_still_there_does_not_make_its_text_doubtful(old_disk: OldDisk) -> None:
    old_disk.text("town", "Counted", "2020-01-01", "one", "two")
    old_disk.pdf("town", "Counted", "2020-01-01", pages=2)
    old_disk.text("town", "Marked", "2020-01-01", "one")
    old_disk.pdf("town", "Marked", "2020-01-01", pages=2)
    old_disk.marker("town", "Marked", "2020-01-01")
    assert set(holdings(old_disk).values()) == {DocumentState.TEXT}


def test_one_file_with_all_of_the_text_is_not_hidden_by_some_pages(old_disk: OldDisk) -> None:
    for meeting in ("Linked", "HalfRead", "Gap", "WithoutPdf", "Pages", "Empty"):
        old_disk.whole_text("town", meeting, "2010-01-01", "" if meeting == "Empty" else "all of it")
        old_disk.text("town", meeting, "2010-01-01", "all of it" if meeting == "Linked" else "page one", "page two")
        if meeting != "WithoutPdf":
            old_disk.pdf("town", meeting, "2010-01-01", pages=2 if meeting == "Pages" else 3)
    for path in ("Linked/2010-01-01/2.txt", "Gap/2010-01-01/1.txt", "WithoutPdf/2010-01-01/1.txt"):
        (old_disk.root / "town/txt" / path).unlink()
    found = {document.meeting: document for document in scan(old_disk.root / "town").documents}
    assert {
        meeting: document.holding()[0] for meeting, document in found.items() if meeting != "Empty"
    } == dict.fromkeys(("Linked", "HalfRead", "Gap", "WithoutPdf", "Pages"), DocumentState.TEXT)
    assert found["Empty"].holding() == (DocumentState.PDF, "the PDF has 3 pages, and there is text of 2")
    for meeting in ("Linked", "HalfRead", "Gap", "WithoutPdf"):
        assert [path.read_text() for path in found[meeting].texts.values()] == ["all of it"]
    assert [*found["Pages"].texts] == [1, 2], "all pages, each by itself, say more"


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


def test_a_link_to_nothing_is_not_an_empty_folder(old_disk: OldDisk) -> None:
    """It is a disk that is not mounted, and a site that would be fetched and read from the beginning."""
    old_disk.root.mkdir()
    (old_disk.root / "town").symlink_to("unmounted")
    old_disk.text("village", "Council", "2020-01-01", "one")
    (old_disk.root / "village/_agendas").symlink_to("unmounted")
    (old_disk.root / "village/pdfs").symlink_to("unmounted")
    (old_disk.root / "village/txt/Council/2020-01-02").symlink_to("unmounted")
    (old_disk.root / "hamlet").write_text("a file")
    for site, links in (("town", [""]), ("village", ["/pdfs", "/txt/Council/2020-01-02", "/_agendas"]), ("hamlet", [])):
        found = scan(old_disk.root / site)
        assert not found.is_whole, site
        assert [problem for problem in found.problems if " is a link" in problem] == [
            f"{old_disk.root}/{site}{link} is a link to something that is not there" for link in links
        ]
    assert site_folders(old_disk.root) == ["town", "village"]


def test_folders_that_may_not_be_read(for_all: Path) -> None:
    disk = OldDisk(for_all)
    for site in ("closed", "town"):
        disk.text(site, "Council", "2020-01-01", "one")
        disk.text(site, "Closed", "2020-01-01", "one")
    (for_all / "closed").chmod(0)
    (for_all / "town/txt/Closed").chmod(0)
    with as_nobody():
        assert site_folders(for_all) == ["closed", "town"]
        found = {site: scan(for_all / site) for site in ("closed", "town")}
    assert [len(site.documents) for site in found.values()] == [0, 1]
    assert [site.is_whole for site in found.values()] == [False, False]
    assert found["closed"].problems == [f"{for_all}/closed cannot be read (Permission denied)"]
    assert found["town"].problems == [f"{for_all}/town/txt/Closed cannot be read (Permission denied)"]


def test_a_name_of_any_bytes_can_be_printed(old_disk: OldDisk) -> None:
    old_disk.text("town", os.fsdecode(b"Stra\xdfe"), "2020-01-01", "one")
    old_disk.text("town", os.fsdecode(b"Stra\xdfe"), "undated", "one")
    found = scan(old_disk.root / "town")
    assert [document.name for document in found.documents] == ["minutes Stra\\xdfe/2020-01-01"]
    assert found.problems == [f"{old_disk.root}/town/txt/Stra\\xdfe/undated is not named after a date"]
