"""Documents without a date in the listing: dated from the PDF or by an operator, or listed as skipped."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from clerk.documents.repository import DocumentRef, FetchOutcome
from clerk.documents.skipped import OperatorDetails, list_entries, save_details
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Fetcher
from clerk.sources.parse import find_kind
from tests.ocr import pdfs
from tests.sources.conftest import Town
from tests.sources.documents import REAL_NAMES, text_pdf
from tests.sources.web import Reply, Request, Web

DETAILS = "source_key, date::text, date_origin, meeting, meeting_origin, kind, kind_origin"


def write(folder: Path, files: Mapping[str, bytes]) -> dict[str, str]:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return {"path": str(folder)}


def skipped(town: Town) -> dict[str, tuple[str, str]]:
    rows = town.connection.execute("select name, reason_code, reason from skipped_documents").fetchall()
    return {name: (code, reason) for name, code, reason in rows}


def details(town: Town) -> dict[str, list[str]]:
    """Date, its origin, meeting, its origin, kind and its origin, by name of the file."""
    return {str(key).removeprefix("file "): values for key, *values in town.rows(DETAILS)}


def test_of_21_real_names_every_file_is_read_or_listed(town: Town, tmp_path: Path) -> None:
    extra = write(tmp_path / "scans", {name: text_pdf(*lines) for name, lines in REAL_NAMES.items()})
    assert len(REAL_NAMES) == 21
    result = town.fetch("directory", extra)
    assert result.outcomes == {FetchOutcome.NEW: 14, FetchOutcome.SKIPPED: 7}
    read, listed = details(town), skipped(town)
    assert {*read, *listed} == set(REAL_NAMES)
    assert not {*read} & {*listed}
    origins = {name: (values[0], values[1]) for name, values in read.items()}
    assert origins == {
        "MenloPark_CivicPlus_01-12-2021.pdf": ("2021-01-12", "name"),
        "MorganHill_IQM2_01-20-2021.pdf": ("2021-01-20", "name"),
        "SanJose_Legistar_02-09-2021.pdf": ("2021-02-09", "name"),
        "Sunnyvale_Legistar_01-26-2021.pdf": ("2021-01-26", "name"),
        "june101998.pdf": ("1998-06-10", "name"),
        "MorganHill_IQM2_2.pdf": ("2020-05-06", "text"),
        "MountainView_Legistar.pdf": ("2021-01-26", "text"),
        "SanJose11.pdf": ("2021-08-24", "text"),
        "SanJose4.pdf": ("2021-08-04", "text"),
        "SanJose6.pdf": ("2021-08-31", "text"),
        "SanJose8.pdf": ("2021-06-29", "text"),
        "Sunnyvale_Legistar2.pdf": ("2020-10-13", "text"),
        "cuya_community_college_agenda.pdf": ("2019-09-26", "text"),
        "acta sesion.pdf": ("2025-03-27", "text"),
    }
    assert read["MenloPark_CivicPlus_01-12-2021.pdf"][4:] == ["agenda", "text"]
    assert read["june101998.pdf"][4:] == ["minutes", "default"]
    assert read["MorganHill_IQM2_2.pdf"][2:] == ["City Council", "text", "report", "text"]
    assert read["cuya_community_college_agenda.pdf"][2:] == ["Board of Trustees", "text", "agenda", "name"]
    assert read["SanJose4.pdf"][2:] == ["City Council", "text", "report", "text"]
    assert read["SanJose6.pdf"][4:] == ["resolution", "text"]
    assert {name: code for name, (code, _) in listed.items()} == {
        "example_pdf.pdf": "NoDate",
        "2018-Ord-_89-2018-Tree-Cutting-Amendment.pdf": "NoDate",
        "2018-Res-_259-Planning-Development-Fees.pdf": "NoDate",
        "1998-Ord-_62-98-Flood.pdf": "NoDate",
        "Irvine_Granicus.pdf": "AmbiguousDate",
        "overlay.pdf": "NoDate",
        "ccitt.pdf": "NoDate",
    }
    assert listed["ccitt.pdf"][1] == "ccitt.pdf has no date in its name, and its first page has no text"

    assert town.fetch("directory", extra).outcomes == {FetchOutcome.UNCHANGED: 14, FetchOutcome.SKIPPED: 7}
    assert skipped(town) == listed


def test_the_first_page_of_a_scan_is_recognized_to_find_its_date(town: Town, tmp_path: Path) -> None:
    lines = ("CITY COUNCIL", "MINUTES OF THE REGULAR MEETING", "March 5, 1998", *pdfs.MINUTES[2:5])
    scans = {"IMG_0001.PDF": pdfs.scanned([pdfs.page_image(lines)]), "blank.pdf": text_pdf()}
    extra = write(tmp_path / "scans", scans)
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.NEW: 1, FetchOutcome.SKIPPED: 1}
    assert details(town)["IMG_0001.PDF"] == ["1998-03-05", "text", "City Council", "text", "minutes", "text"]
    assert skipped(town)["blank.pdf"][1] == "blank.pdf has no date in its name, and its first page has no text"
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.UNCHANGED: 1, FetchOutcome.SKIPPED: 1}


def test_what_an_operator_says_is_used_by_the_next_fetch(town: Town, tmp_path: Path) -> None:
    extra = write(tmp_path / "scans", {"Board/a.pdf": text_pdf("nothing"), "Board/2024-03-05.pdf": text_pdf("x")})
    town.fetch("directory", extra)
    entries = {entry.name: entry.source_key for entry in list_entries(town.connection, "springfield")}
    assert set(entries) == {"Board/a.pdf", "Board/2024-03-05.pdf"}
    save_details(
        town.connection,
        "springfield",
        [
            OperatorDetails(entries["Board/a.pdf"], "Board/a.pdf", date(1998, 7, 13), None, "ordinance"),
            OperatorDetails(entries["Board/2024-03-05.pdf"], "Board/2024-03-05.pdf", None, "Water Board"),
        ],
    )
    state = "select name, state, date::text from skipped_documents"
    assert town.connection.execute(state).fetchall() == [("Board/a.pdf", "dated", "1998-07-13")]
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.NEW: 1, FetchOutcome.REVISED: 1}
    assert town.connection.execute(state).fetchall() == []
    current = town.connection.execute(
        f"select {DETAILS} from content_items where kind <> 'archive' and superseded_at is null order by date"
    ).fetchall()
    assert current == [
        ("file Board/a.pdf", "1998-07-13", "operator", "Board", "folder", "ordinance", "operator"),
        ("file Board/2024-03-05.pdf", "2024-03-05", "name", "Water Board", "operator", "minutes", "default"),
    ]
    assert "_ordinances/pdfs/Board/1998-07-13.pdf" in town.files()
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.UNCHANGED: 2}


def test_an_ignored_entry_is_not_reported_and_does_not_fail_the_fetch(town: Town, tmp_path: Path) -> None:
    extra = write(tmp_path / "scans", {"about.pdf": text_pdf("About us")})
    with pytest.raises(SourceUnreadable, match="all 1 entries"):
        town.fetch("directory", extra)
    save_details(town.connection, "springfield", [OperatorDetails("file about.pdf", "about.pdf", ignored=True)])
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.SKIPPED: 1}
    assert town.connection.execute("select state from skipped_documents").fetchall() == [("ignored",)]


@pytest.mark.parametrize(
    ("undated", "day", "origin"), [("modified", "2023-11-14", "modified"), ("created", "2019-08-07", "created")]
)
def test_file_times_are_used_on_request_only(town: Town, tmp_path: Path, undated: str, day: str, origin: str) -> None:
    created = datetime(2019, 8, 7, tzinfo=UTC)
    extra = write(tmp_path / "scans", {"Board/scan.pdf": text_pdf(created=created), "Board/2024-03-05.pdf": b"%PDF-1"})
    os.utime(tmp_path / "scans/Board/scan.pdf", (1_700_000_000, 1_700_000_000))
    assert town.fetch("directory", extra).outcomes[FetchOutcome.SKIPPED] == 1
    assert town.fetch("directory", extra | {"undated": undated}).outcomes[FetchOutcome.NEW] == 1
    assert details(town)["Board/scan.pdf"][:2] == [day, origin]
    assert town.fetch("directory", extra).outcomes[FetchOutcome.SKIPPED] == 1, "the site no longer asks for it"


def test_the_title_of_the_pdf_dates_a_page_without_a_date(town: Town, tmp_path: Path) -> None:
    title = "City Council - Regular Meeting - Jan 20, 2021 7:00 PM"
    extra = write(
        tmp_path / "scans",
        {"a.pdf": text_pdf(title=title), "b.pdf": text_pdf("Council Meeting of January 27, 2021", title=title)},
    )
    town.fetch("directory", extra)
    assert details(town)["a.pdf"][:2] == ["2021-01-20", "metadata"]
    assert skipped(town)["b.pdf"][1].endswith("and its title give several dates (2021-01-20 and 2021-01-27)")


def test_a_revision_is_dated_again_and_a_renamed_file_stays_one_document(town: Town, tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    extra = write(folder, {"Board/a.pdf": text_pdf("Meeting of March 5, 2024")})
    town.fetch("directory", extra)
    write(folder, {"Board/a.pdf": text_pdf("Meeting of March 12, 2024, corrected")})
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.REVISED: 1}
    write(folder, {"Board/a.pdf": text_pdf()})
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.REVISED: 1}, "it keeps the date that is known"
    (folder / "Board/a.pdf").write_bytes(text_pdf("Meeting of March 12, 2024"))
    (folder / "Board/a.pdf").rename(folder / "Board/b.pdf")
    assert town.fetch("directory", extra).outcomes == {FetchOutcome.REVISED: 1}
    current = "source_key, date::text, removed_at_source is null"
    rows = [row for row in town.rows(f"superseded_at is null, {current}") if row[0]]
    assert rows == [(True, "file Board/b.pdf", "2024-03-12", True)]


def test_links_without_a_date_are_downloaded_once(web: Web, town: Town) -> None:
    web.serve_html("/m", '<h1>Council</h1><a href="/a.pdf">Minutes</a> <a href="/b.pdf">About us</a>')
    contents = {"/a.pdf": text_pdf("Council meeting of March 5, 2024"), "/b.pdf": text_pdf("About us")}

    def reply(request: Request) -> Reply:
        etag = f'"{request.path}"'
        if request.headers.get("if-none-match") == etag:
            return Reply(b"", 304)
        return Reply(contents[request.path], headers={"ETag": etag})

    web.routes |= dict.fromkeys(contents, reply)
    extra = {"pages": f"{web.url}/m"}
    assert town.fetch("links", extra).outcomes == {FetchOutcome.NEW: 1, FetchOutcome.SKIPPED: 1}
    assert town.rows("date::text, date_origin, meeting_origin, kind_origin") == [
        ("2024-03-05", "text", "source", "source")
    ]
    reason = skipped(town)[f"{web.url}/b.pdf"][1]
    assert reason == f"{web.url}/b.pdf has no date in its listing, and its first page has no date"
    assert town.fetch("links", extra).outcomes == {FetchOutcome.UNCHANGED: 1, FetchOutcome.SKIPPED: 1}
    assert skipped(town)[f"{web.url}/b.pdf"][1] == reason


def test_an_undated_document_that_cannot_be_downloaded_is_listed(web: Web, town: Town) -> None:
    class Undated(Fetcher):
        async def documents(self) -> AsyncIterator[DocumentRef]:
            yield DocumentRef(f"{web.url}/1", "A", None)
            yield DocumentRef(f"{web.url}/2", "A", date(2024, 3, 5))

    web.serve_pdf("/2", "two")
    web.routes["/1"] = Reply(b"gone", 404)
    assert town.fetch(Undated, {}).outcomes == {FetchOutcome.NEW: 1, FetchOutcome.SKIPPED: 1}
    assert skipped(town)[f"{web.url}/1"][0] == "DownloadRefused"


def test_an_interrupted_listing_keeps_what_an_earlier_one_skipped(town: Town) -> None:
    class Listing(Fetcher):
        fails = False

        async def documents(self) -> AsyncIterator[DocumentRef]:
            if Listing.fails:
                self.skip("b is broken", name="b")
                raise SourceUnreadable("the server is down")
            self.skip("a is broken", name="a")
            return
            yield

    for fails, names in ((False, {"a"}), (True, {"a", "b"})):
        Listing.fails = fails
        with pytest.raises(SourceUnreadable):
            town.fetch(Listing, {})
        assert set(skipped(town)) == names


def test_entries_that_the_listing_skips_are_named_and_counted(town: Town, web: Web) -> None:
    class Listing(Fetcher):
        async def documents(self) -> AsyncIterator[DocumentRef]:
            self.skip("has no link", name="Special meeting")
            self.skip("row 3 is empty")
            self.skip("it is a video", url=f"https://example.gov/{'v' * 100}")
            yield DocumentRef(f"{web.url}/1", "Council", date(2024, 1, 2), kind="minutes")

    web.serve_pdf("/1", "one")
    result = town.fetch(Listing, {})
    assert town.skipped == [
        "Special meeting: has no link",
        "row 3 is empty",
        f"https://example.gov/{'v' * 39}…: it is a video",
    ]
    assert str(result).startswith("1 new, ")
    assert ", 3 skipped, " in str(result)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Agenda packet", "packet"),
        ("Notice and Agenda", "agenda"),
        ("2018-Ord-_89-2018-Tree-Cutting", "ordinance"),
        ("2018-Res-#259 Fees", "resolution"),
        ("Public Hearing Notice", "notice"),
        ("StaffReport 12", "report"),
        ("Acta 2025", "minutes"),
        ("Ordinary reporters", None),
        ("Extraction", None),
    ],
)
def test_kinds_in_names(name: str, kind: str | None) -> None:
    assert find_kind(name) == kind


SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
DATES = {
    "MorganHill_IQM2_2": "2020-05-06",
    "MountainView_Legistar": "2021-01-26",
    "SanJose11": "2021-08-24",
    "SanJose4": "2021-08-04",
    "SanJose6": "2021-08-31",
    "SanJose8": "2021-06-29",
    "Sunnyvale_Legistar2": "2020-10-13",
    "cuya_community_college_agenda": "2019-09-26",
}
"""Of the samples whose names have no date."""


def test_no_real_document_gets_a_wrong_date(town: Town, tmp_path: Path) -> None:
    files = [path for folder in ("civic", "scanned") for path in (SAMPLES / folder).glob("*.pdf")]
    if not files:
        pytest.skip("the samples are not available")
    extra = write(tmp_path / "scans", {path.name.partition("__")[2]: path.read_bytes() for path in files})
    town.fetch("directory", extra)
    read, listed = details(town), skipped(town)
    assert len(read) + len(listed) == len(files)
    assert {name.removesuffix(".pdf"): day for name, (day, origin, *_) in read.items() if origin != "name"} == DATES
