"""The scan of legacy folders, in all layouts."""

from __future__ import annotations

import os
from pathlib import Path

from clerk.legacy.disk import DocumentState, list_site_folders, scan
from tests.legacy.legacy_system import LegacyDisk, as_unprivileged_user


def states(disk: LegacyDisk, site: str = "town") -> dict[str, DocumentState]:
    return {document.name: document.state()[0] for document in scan(disk.root / site).documents}


def test_every_layout_is_found(legacy_disk: LegacyDisk) -> None:
    legacy_disk.text("town", "Council", "2020-01-01", "one", "two")
    legacy_disk.text("town", "Council", "2020-01-02", "one", "two", padded=True)
    legacy_disk.whole_text("town", "Council", "2010-01-01", "all of it")
    legacy_disk.text("town", "Council", "2020-01-01", "agenda", agenda=True)
    legacy_disk.pdf("town", "Council", "2020-01-03")
    legacy_disk.path("town", "pdfs", "Council", "2020-01-06.PDF").write_bytes(b"%PDF")
    legacy_disk.marker("town", "Council", "2020-01-04")
    legacy_disk.images("town", "Council", "2020-01-05", 2)
    cache = legacy_disk.root / "town/txt/Council/2020-01-01/0001.txt.extracted.json"
    cache.write_text("{}")
    (legacy_disk.root / "town/ocr_failures_2024.jsonl").write_text("{}")
    assert states(legacy_disk) == {
        "minutes Council/2020-01-01": DocumentState.TEXT,
        "minutes Council/2020-01-02": DocumentState.TEXT,
        "minutes Council/2010-01-01": DocumentState.TEXT,
        "agenda Council/2020-01-01": DocumentState.TEXT,
        "minutes Council/2020-01-03": DocumentState.PDF,
        "minutes Council/2020-01-04": DocumentState.NOTHING,
        "minutes Council/2020-01-05": DocumentState.NOTHING,
        "minutes Council/2020-01-06": DocumentState.PDF,
    }
    site = scan(legacy_disk.root / "town")
    assert (site.text_files, site.problems) == (6, [])


def test_an_incomplete_text_is_not_text(legacy_disk: LegacyDisk) -> None:
    legacy_disk.text("town", "Gap", "2020-01-01", "one", "two", "three")
    (legacy_disk.root / "town/txt/Gap/2020-01-01/2.txt").unlink()
    legacy_disk.text("town", "Images", "2020-01-01", "one")
    legacy_disk.images("town", "Images", "2020-01-01", 3)
    legacy_disk.text("town", "Stopped", "2020-01-01", "one")
    legacy_disk.pdf("town", "Stopped", "2020-01-01", pages=2)
    states_and_reasons = {document.meeting: document.state() for document in scan(legacy_disk.root / "town").documents}
    assert states_and_reasons == {
        "Gap": (DocumentState.NOTHING, "the text of page 2 is missing"),
        "Images": (DocumentState.NOTHING, "there is an image of page 3, and text of 1 pages"),
        "Stopped": (DocumentState.PDF, "the PDF has 2 pages, and there is text of 1"),
    }


def test_a_pdf_whose_pages_cannot_be_counted_does_not_invalidate_its_text(legacy_disk: LegacyDisk) -> None:
    legacy_disk.text("town", "Broken", "2020-01-01", "one")
    legacy_disk.pdf("town", "Broken", "2020-01-01").write_bytes(b"no PDF")
    legacy_disk.text("town", "Gap", "2020-01-01", "one", "two")
    (legacy_disk.root / "town/txt/Gap/2020-01-01/1.txt").unlink()
    legacy_disk.pdf("town", "Gap", "2020-01-01").write_bytes(b"no PDF")
    assert states(legacy_disk) == {
        "minutes Broken/2020-01-01": DocumentState.TEXT,
        "minutes Gap/2020-01-01": DocumentState.PDF,
    }


def test_a_text_beside_its_pdf_is_complete_if_pages_match_or_a_marker_exists(legacy_disk: LegacyDisk) -> None:
    legacy_disk.text("town", "Counted", "2020-01-01", "one", "two")
    legacy_disk.pdf("town", "Counted", "2020-01-01", pages=2)
    legacy_disk.text("town", "Marked", "2020-01-01", "one")
    legacy_disk.pdf("town", "Marked", "2020-01-01", pages=2)
    legacy_disk.marker("town", "Marked", "2020-01-01")
    assert set(states(legacy_disk).values()) == {DocumentState.TEXT}


def test_a_single_text_file_is_preferred_to_incomplete_pages(legacy_disk: LegacyDisk) -> None:
    for meeting in ("Linked", "Interrupted", "Gap", "WithoutPdf", "Pages", "Empty"):
        legacy_disk.whole_text("town", meeting, "2010-01-01", "" if meeting == "Empty" else "all of it")
        legacy_disk.text("town", meeting, "2010-01-01", "all of it" if meeting == "Linked" else "page one", "page two")
        if meeting != "WithoutPdf":
            legacy_disk.pdf("town", meeting, "2010-01-01", pages=2 if meeting == "Pages" else 3)
    for path in ("Linked/2010-01-01/2.txt", "Gap/2010-01-01/1.txt", "WithoutPdf/2010-01-01/1.txt"):
        (legacy_disk.root / "town/txt" / path).unlink()
    documents = {document.meeting: document for document in scan(legacy_disk.root / "town").documents}
    assert {
        meeting: document.state()[0] for meeting, document in documents.items() if meeting != "Empty"
    } == dict.fromkeys(("Linked", "Interrupted", "Gap", "WithoutPdf", "Pages"), DocumentState.TEXT)
    assert documents["Empty"].state() == (DocumentState.PDF, "the PDF has 3 pages, and there is text of 2")
    for meeting in ("Linked", "Interrupted", "Gap", "WithoutPdf"):
        assert [path.read_text() for path in documents[meeting].texts.values()] == ["all of it"]
    assert [*documents["Pages"].texts] == [1, 2], "complete pages are preferred to the single file"


def test_unusable_files_are_reported_and_the_rest_is_found(legacy_disk: LegacyDisk) -> None:
    legacy_disk.text("town", "Council", "2020-01-01", "one")
    legacy_disk.text("town", "Council", "undated", "one")
    legacy_disk.pdf("town", "Council", "2020-02-30")
    loop = legacy_disk.root / "town/txt/Loop"
    loop.symlink_to("Loop")
    (legacy_disk.root / "town/txt/stray").write_text("a file")
    site = scan(legacy_disk.root / "town")
    assert [document.name for document in site.documents] == ["minutes Council/2020-01-01"]
    problems = "\n".join(site.problems)
    for name in ("undated", "2020-02-30.pdf", "Loop", "stray"):
        assert name in problems
    assert len(site.problems) == 4


def test_a_missing_folder_has_no_documents(tmp_path: Path) -> None:
    assert scan(tmp_path / "nowhere").documents == []
    assert scan(tmp_path / "nowhere").problems == []


def test_a_dangling_link_is_not_an_empty_folder(legacy_disk: LegacyDisk) -> None:
    """A disk is not mounted. If the folder counted as empty, the site would be processed from the start."""
    legacy_disk.root.mkdir()
    (legacy_disk.root / "town").symlink_to("unmounted")
    legacy_disk.text("village", "Council", "2020-01-01", "one")
    (legacy_disk.root / "village/_agendas").symlink_to("unmounted")
    (legacy_disk.root / "village/pdfs").symlink_to("unmounted")
    (legacy_disk.root / "village/txt/Council/2020-01-02").symlink_to("unmounted")
    (legacy_disk.root / "hamlet").write_text("a file")
    for site, links in (("town", [""]), ("village", ["/pdfs", "/txt/Council/2020-01-02", "/_agendas"]), ("hamlet", [])):
        scanned = scan(legacy_disk.root / site)
        assert not scanned.is_complete, site
        assert [problem for problem in scanned.problems if " is a dangling link" in problem] == [
            f"{legacy_disk.root}/{site}{link} is a dangling link" for link in links
        ]
    assert list_site_folders(legacy_disk.root) == ["town", "village"]


def test_unreadable_folders(public_folder: Path) -> None:
    disk = LegacyDisk(public_folder)
    for site in ("closed", "town"):
        disk.text(site, "Council", "2020-01-01", "one")
        disk.text(site, "Closed", "2020-01-01", "one")
    (public_folder / "closed").chmod(0)
    (public_folder / "town/txt/Closed").chmod(0)
    with as_unprivileged_user():
        assert list_site_folders(public_folder) == ["closed", "town"]
        sites = {site: scan(public_folder / site) for site in ("closed", "town")}
    assert [len(site.documents) for site in sites.values()] == [0, 1]
    assert [site.is_complete for site in sites.values()] == [False, False]
    assert sites["closed"].problems == [f"{public_folder}/closed cannot be read (Permission denied)"]
    assert sites["town"].problems == [f"{public_folder}/town/txt/Closed cannot be read (Permission denied)"]


def test_undecodable_names_are_printed_escaped(legacy_disk: LegacyDisk) -> None:
    legacy_disk.text("town", os.fsdecode(b"Stra\xdfe"), "2020-01-01", "one")
    legacy_disk.text("town", os.fsdecode(b"Stra\xdfe"), "undated", "one")
    scanned = scan(legacy_disk.root / "town")
    assert [document.name for document in scanned.documents] == ["minutes Stra\\xdfe/2020-01-01"]
    assert scanned.problems == [f"{legacy_disk.root}/town/txt/Stra\\xdfe/undated is not named after a date"]
