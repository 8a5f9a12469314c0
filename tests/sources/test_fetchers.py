"""The built-in fetchers, each against a server that responds as the vendor does."""

from __future__ import annotations

import contextlib
import errno
import getpass
import json
import os
import socket
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from clerk.documents.repository import DocumentRef, FetchOutcome
from clerk.errors import DownloadFailed, EntriesSkipped, LocalPathForbidden, LocalPathMissing, SourceUnreadable
from clerk.sources.fetcher import Site
from clerk.sources.parse import find_date, find_kind, parse_links
from clerk.sources.vendors import BUILT_IN, local
from clerk.sources.vendors.civicplus import CivicPlus
from tests.sources.conftest import Town
from tests.sources.web import Reply, Request, Web, pdf

RECORDINGS = Path(__file__).parents[3] / "shared" / "samples" / "vendors"


def recording(name: str) -> str:
    path = RECORDINGS / name
    if not path.is_file():
        pytest.skip(f"the recording {name} is not available")
    return path.read_text("utf-8")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2024-03-05", date(2024, 3, 5)),
        ("Minutes_2024_3_5.pdf", date(2024, 3, 5)),
        ("cc20240305min.pdf", date(2024, 3, 5)),
        ("03-05-2024 minutes", date(2024, 3, 5)),
        ("agenda 3.5.24", date(2024, 3, 5)),
        ("03052024", date(2024, 3, 5)),
        ("March 5, 2024", date(2024, 3, 5)),
        ("Tuesday, March 5th, 2024 at 7:00", date(2024, 3, 5)),
        ("5 March 2024", date(2024, 3, 5)),
        ("Sept. 30 2024", date(2024, 9, 30)),
        ("2024 Mar 05", date(2024, 3, 5)),
        ("13-25-2024, no: 2024-12-01", date(2024, 12, 1)),
        ("no 1234567890 date", None),
        ("2024", None),
        ("", None),
    ],
)
def test_find_date(text: str, day: date | None) -> None:
    assert find_date(text) == day


def test_find_date_with_the_day_first() -> None:
    assert find_date("03-04-2025", day_first=True) == date(2025, 4, 3)
    assert find_date("2025-04-03", day_first=True) == date(2025, 4, 3)


def test_find_kind() -> None:
    assert find_kind("", "Council MINUTES") == "minutes"
    assert find_kind("Agenda packet", "minutes") == "packet"
    assert find_kind("budget") is None


def test_parse_links_of_invalid_html() -> None:
    html = """
    <title>Town &amp; Country</title><base href="/docs/"><h2><span>&#9660;</span>Planning <b>Board</b></h2>
    <table><tr><td>March 5, 2024<td><a href=a.pdf title="Minutes">PDF</a><td><a href='b.pdf'><img alt="Agenda"></a>
    <tr><td>April 2, 2024 <a href="http://[broken">x</a> <a href="c.pdf">PDF
    <script>document.write('<a href="no.pdf">')</script><ul><li><a>nothing</a><li><a href="d.pdf#page=2">Later"""
    title, links = parse_links("https://town.example/x/index.html", html)
    assert title == "Town & Country"
    assert [link.url.rpartition("/")[2] for link in links] == ["a.pdf", "b.pdf", "c.pdf", "d.pdf#page=2"]
    assert {link.heading for link in links} == {"Planning Board"}
    assert links[0].url == "https://town.example/docs/a.pdf"
    assert links[0].text == "Minutes PDF"
    assert "March 5, 2024" in links[0].context
    assert "March" not in links[2].context


@pytest.mark.parametrize("nested", ["<div>", "<font><p>", "<table><tr><td>", "<div></p>"])
def test_a_page_nested_too_deeply_is_rejected(nested: str) -> None:
    with pytest.raises(SourceUnreadable, match="nested elements"):
        parse_links("https://town.example/", nested * 100_000)


def test_elements_without_end_tags_do_not_count_as_nested() -> None:
    _, links = parse_links("https://town.example/", "<li>March 5<br><p><a href=a.pdf>Minutes</a>" * 30_000)
    assert len(links) == 30_000


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pdf(name))


def test_directory(town: Town, tmp_path: Path) -> None:
    folder = tmp_path / "scans"
    put(
        folder,
        "City Council/2024-03-05.pdf",
        "City Council/agendas/2024-03-05.pdf",
        "PlanningBoard/2023/minutes 4-1-2023.PDF",
        "Zoning_Board agenda 20240101.pdf",
        "2022-02-02.pdf",
        "City Council/without a date.pdf",
        ".hidden/2024-01-01.pdf",
        "notes 2024-01-01.txt",
        "IMG_0001 2024-04-01.PDF",
        "scan12 2024-04-02.pdf",
        "Menlo Park — 2024-04-03 ( !!).pdf",
        "Parks (Special) & 2024-04-04.pdf",
        "new scans/Parks Board 2024-04-05.pdf",
        "new scans/2024-04-06.pdf",
        "From Martha/Planning Commission minutes 2024-04-07.pdf",
        "From Martha/2024-04-08.pdf",
        "City Council/Finance Committee 2024-04-09.pdf",
    )
    assert town.fetch("directory", {"path": str(folder)}).outcomes == {FetchOutcome.NEW: 14, FetchOutcome.SKIPPED: 1}
    unreadable, reason = town.skipped
    assert unreadable == (
        "notes 2024-01-01.txt (document of notes, 2024-01-01) is a text file, which clerk does not read"
    )
    assert reason.startswith("City Council/without a date.pdf has no date in its name, and its first page cannot be")
    assert set(town.rows("meeting, date, kind")) == {
        ("City Council", date(2024, 3, 5), "minutes"),
        ("City Council", date(2024, 3, 5), "agenda"),
        ("Planning Board", date(2023, 4, 1), "minutes"),
        ("Zoning Board", date(2024, 1, 1), "agenda"),
        ("Springfield", date(2022, 2, 2), "minutes"),
        ("Springfield", date(2024, 4, 1), "minutes"),
        ("Springfield", date(2024, 4, 2), "minutes"),
        ("Menlo Park", date(2024, 4, 3), "minutes"),
        ("Parks (Special)", date(2024, 4, 4), "minutes"),
        ("Parks Board", date(2024, 4, 5), "minutes"),
        ("Springfield", date(2024, 4, 6), "minutes"),
        ("Planning Commission", date(2024, 4, 7), "minutes"),
        ("From Martha", date(2024, 4, 8), "minutes"),
        ("City Council", date(2024, 4, 9), "minutes"),
    }
    assert town.fetch("directory", {"path": str(folder)}).outcomes == {
        FetchOutcome.UNCHANGED: 14,
        FetchOutcome.SKIPPED: 1,
    }
    put(folder, "City Council/2024-03-05.pdf")
    (folder / "City Council/2024-03-05.pdf").write_bytes(pdf("revised, and longer"))
    assert town.fetch("directory", {"path": str(folder)}).outcomes == {
        FetchOutcome.UNCHANGED: 13,
        FetchOutcome.REVISED: 1,
        FetchOutcome.SKIPPED: 1,
    }


def test_directory_uses_the_modification_date_if_configured(town: Town, tmp_path: Path) -> None:
    put(tmp_path / "scans", "Board/scan.pdf")
    os.utime(tmp_path / "scans/Board/scan.pdf", (1_700_000_000, 1_700_000_000))
    town.fetch("directory", {"path": str(tmp_path / "scans"), "undated": "modified"})
    assert town.rows("meeting, date::text, date_origin") == [("Board", "2023-11-14", "modified")]


def test_directory_does_not_follow_symbolic_links_out_of_the_folder(town: Town, tmp_path: Path) -> None:
    put(tmp_path, "secret/2024-01-01.pdf")
    put(tmp_path / "scans", "A/2024-01-02.pdf")
    (tmp_path / "scans/A/2024-01-01.pdf").symlink_to(tmp_path / "secret/2024-01-01.pdf")
    (tmp_path / "scans/B").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "scans/A/2024-01-03.pdf")
    town.fetch("directory", {"path": str(tmp_path / "scans")})
    assert town.rows("date::text") == [("2024-01-02",)]


def test_a_missing_directory_removes_no_documents(town: Town, tmp_path: Path) -> None:
    put(tmp_path / "scans", "A/2024-01-02.pdf")
    town.fetch("directory", {"path": str(tmp_path / "scans")})
    (tmp_path / "scans").rename(tmp_path / "unmounted")
    with pytest.raises(
        LocalPathMissing, match=rf"the folder {tmp_path}/scans does not exist on {socket.gethostname()}"
    ):
        town.fetch("directory", {"path": str(tmp_path / "scans")})
    (tmp_path / "scans").touch()
    with pytest.raises(LocalPathMissing, match="is a file, not a folder"):
        town.fetch("directory", {"path": str(tmp_path / "scans")})
    assert town.rows("removed_at_source is null") == [(True,)]


def test_what_a_folder_that_may_not_be_read_is_called(tmp_path: Path) -> None:
    """Not by mode: root may read everything."""
    error = local.unreadable(tmp_path, PermissionError(errno.EACCES, "Permission denied"))
    assert isinstance(error, LocalPathForbidden)
    assert str(error) == f"user {getpass.getuser()} may not read {tmp_path} on {socket.gethostname()}"


def test_a_directory_without_dated_files_fails(town: Town, tmp_path: Path) -> None:
    put(tmp_path / "scans", "A/b.pdf")
    with pytest.raises(EntriesSkipped, match=r"A/b.pdf has no date"):
        town.fetch("directory", {"path": str(tmp_path / "scans")})


CSV = """\ufeffURL, Meeting ,date,kind
a.pdf,City Council,2024-03-05,minutes
{url}/b.pdf,"Board, Planning",2024-03-06,Agenda
a.pdf,Joint Board,2024-03-05,
c.pdf,No Date,soon,minutes
,Nothing,2024-01-01,minutes
d.pdf,Wrong Kind,2024-01-01,video
"""
JSON_LINES = """{{"url": "a.pdf", "meeting": "City Council", "date": "2024-03-05", "kind": "minutes"}}

{{"url": "{url}/b.pdf", "meeting": "Board, Planning", "date": "2024-03-06", "kind": "agenda"}}
{{"url": "a.pdf", "meeting": "Joint Board", "date": "2024-03-05"}}
[1]
{{broken
"""
EXPECTED_ROWS = {
    ("City Council", date(2024, 3, 5), "minutes"),
    ("Board, Planning", date(2024, 3, 6), "agenda"),
    ("Joint Board", date(2024, 3, 5), "minutes"),
}


@pytest.mark.parametrize("text", [CSV, CSV.replace(",", ";").replace("Board; Planning", "Board, Planning"), JSON_LINES])
def test_manifest(web: Web, town: Town, text: str) -> None:
    web.serve_pdf("/lists/a.pdf", "a")
    web.serve_pdf("/b.pdf", "b")
    web.routes["/lists/manifest"] = Reply(text.format(url=web.url).encode())
    extra = {"url": f"{web.url}/lists/manifest"}
    assert town.fetch("manifest", extra).outcomes == {FetchOutcome.NEW: 3}
    assert set(town.rows("meeting, date, kind")) == EXPECTED_ROWS
    assert town.fetch("manifest", extra).outcomes == {FetchOutcome.UNCHANGED: 3}


def test_a_local_manifest_may_list_files_in_its_folder_only(web: Web, town: Town, tmp_path: Path) -> None:
    put(tmp_path, "lists/a.pdf", "outside.pdf")
    web.serve_pdf("/b.pdf", "b")
    lines = [
        {"url": "a.pdf", "meeting": "A", "date": "2024-01-01"},
        {"url": "../outside.pdf", "meeting": "B", "date": "2024-01-01"},
        {"url": "/etc/hostname", "meeting": "C", "date": "2024-01-01"},
        {"url": f"{web.url}/b.pdf", "meeting": "D", "date": "2024-01-01"},
    ]
    manifest = tmp_path / "lists/manifest.jsonl"
    manifest.write_text("\n".join(map(json.dumps, lines)))
    assert town.fetch("manifest", {"path": str(manifest)}).outcomes == {FetchOutcome.NEW: 2, FetchOutcome.FAILED: 2}
    assert dict(town.rows("meeting, fetch_error_code")) == {
        "A": None,
        "B": "DownloadRefused",
        "C": "DownloadRefused",
        "D": None,
    }


def test_a_remote_manifest_may_not_list_local_files(web: Web, town: Town, tmp_path: Path) -> None:
    put(tmp_path, "a.pdf")
    web.routes["/m"] = Reply(f"url,meeting,date\n{(tmp_path / 'a.pdf').as_uri()},A,2024-01-01\n".encode())
    town.fetch("manifest", {"url": f"{web.url}/m"})
    assert town.rows("fetch_error_code") == [("AddressForbidden",)]


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"", b"name,place\n1,2\n"])
def test_an_invalid_manifest_fails(web: Web, town: Town, body: bytes) -> None:
    web.routes["/m"] = Reply(body)
    with pytest.raises(SourceUnreadable):
        town.fetch("manifest", {"url": f"{web.url}/m"})


def test_links(web: Web, town: Town) -> None:
    web.serve_html(
        "/meetings",
        """<h1>City Council</h1><ul>
        <li>March 5, 2024 <a href="/f/1.pdf">Minutes</a> <a href="/f/2.PDF?v=3">Agenda</a> <a href="/f/1.pdf">again</a>
        <li><a href="/f/minutes-2024-04-02.pdf">April</a><li><a href="/f/about.pdf">About us</a>
        <li><a href="/archive/2023">2023</a> <a href="/elsewhere">Elsewhere</a><a href="mailto:a@b.c">Mail.pdf</a>""",
    )
    web.serve_html(
        "/archive/2023", '<h2>Library Board</h2><a href="x.pdf">Minutes of 1/2/2023</a> <a href="/meetings">'
    )
    for path in ("/f/1.pdf", "/f/2.PDF", "/f/minutes-2024-04-02.pdf", "/archive/x.pdf"):
        web.serve_pdf(path, path)
    extra = {"pages": f"{web.url}/meetings", "follow": r"/archive/\d+$"}
    web.routes["/f/about.pdf"] = Reply(b"%PDF-1.4 about")
    assert town.fetch("links", extra).outcomes == {FetchOutcome.NEW: 4, FetchOutcome.SKIPPED: 1}
    assert [entry.name for entry in town.skipped_entries] == [f"{web.url}/f/about.pdf"]
    assert set(town.rows("meeting, date, kind")) == {
        ("City Council", date(2024, 3, 5), "minutes"),
        ("City Council", date(2024, 3, 5), "agenda"),
        ("City Council", date(2024, 4, 2), "minutes"),
        ("Library Board", date(2023, 1, 2), "minutes"),
    }
    assert "/elsewhere" not in web.paths()


def test_links_with_a_custom_pattern(web: Web, town: Town) -> None:
    web.serve_html("/m", '<a href="/get?id=7&d=2024-05-06">Get</a><a href="/get?id=x">no</a>')
    web.serve_pdf("/get", "seven")
    extra = {"pages": [f"{web.url}/m"], "link": r"get\?id=\d", "meeting": "Water Board", "kind": "agenda"}
    town.fetch("links", extra)
    assert town.rows("meeting, date::text, kind") == [("Water Board", "2024-05-06", "agenda")]


def event(number: int, day: str = "2024-03-05", **values: Any) -> dict[str, Any]:
    return {
        "EventId": number,
        "EventBodyName": "City Council",
        "EventDate": f"{day}T00:00:00",
        "EventAgendaFile": None,
        "EventMinutesFile": None,
        "EventAgendaLastPublishedUTC": None,
        "EventMinutesLastPublishedUTC": None,
        **values,
    }


def serve_legistar(web: Web, events: list[dict[str, Any]]) -> None:
    """Returns at most a thousand rows, like the vendor."""

    def respond(request: Request) -> Reply:
        skip, top = int(request.query["$skip"]), min(int(request.query["$top"]), 1000)
        since = request.query.get("$filter", "EventDate ge datetime'0001-01-01'").split("'")[1]
        selected = [event for event in events if event["EventDate"][:10] >= since]
        return Reply(json.dumps(selected[skip : skip + top]).encode())

    web.routes["/v1/town/events"] = respond


def test_legistar(web: Web, town: Town) -> None:
    published = {"EventAgendaLastPublishedUTC": "2024-03-01T00:16:51.183"}
    events = [
        event(1, EventAgendaFile=f"{web.url}/1a.pdf", EventMinutesFile=f"{web.url}/1m.pdf", **published),
        event(2, EventAgendaFile=f"{web.url}/2a.pdf"),
        event(3),
        event(4, "2019-01-01", EventAgendaFile=f"{web.url}/old.pdf"),
    ]
    for path in ("/1a.pdf", "/1m.pdf", "/2a.pdf", "/old.pdf"):
        web.serve_pdf(path, path)
    serve_legistar(web, events)
    extra = {"client": "town", "api": f"{web.url}/v1", "since": "2024-01-01", "token": "secret"}
    assert town.fetch("legistar", extra).outcomes == {FetchOutcome.NEW: 3}
    assert web.requests[0].query["token"] == extra["token"]
    # The council met twice that day: both agendas are stored.
    assert sorted(town.rows("kind, occurrence")) == [("agenda", 1), ("agenda", 2), ("minutes", 1)]
    before = len(web.requests)
    assert town.fetch("legistar", extra).outcomes == {FetchOutcome.UNCHANGED: 3}
    assert sorted(web.paths()[before:]) == ["/1m.pdf", "/2a.pdf", "/v1/town/events"]
    web.serve_pdf("/1a.pdf", "revised")
    events[0]["EventAgendaLastPublishedUTC"] = "2024-03-04T10:00:00"
    assert town.fetch("legistar", extra).outcomes == {FetchOutcome.UNCHANGED: 2, FetchOutcome.REVISED: 1}
    # Documents older than `since` are not listed, but they do not count as removed.
    assert town.fetch("legistar", {**extra, "since": "2025-01-01"}).removed == 0


def test_legistar_requests_all_pages(web: Web, town: Town) -> None:
    serve_legistar(
        web, [event(number) for number in range(1, 2001)] + [event(2001, EventAgendaFile=f"{web.url}/a.pdf")]
    )
    web.serve_pdf("/a.pdf", "a")
    assert town.fetch("legistar", {"client": "town", "api": f"{web.url}/v1"}).outcomes == {FetchOutcome.NEW: 1}
    assert [request.query["$skip"] for request in web.requests[:3]] == ["0", "1000", "2000"]


def test_legistar_with_an_unknown_client(web: Web, town: Town) -> None:
    web.routes["/v1/town/events"] = Reply(b"LegistarConnectionString setting is not set up in InSite", 500)
    with pytest.raises(DownloadFailed, match="500"):
        town.fetch("legistar", {"client": "town", "api": f"{web.url}/v1"})


@pytest.mark.parametrize("body", [b'{"Message": "no"}', b"<html>", b"[1, null]"])
def test_legistar_with_an_unexpected_response(web: Web, town: Town, body: bytes) -> None:
    web.routes["/v1/town/events"] = Reply(body)
    with pytest.raises((SourceUnreadable, DownloadFailed)):
        town.fetch("legistar", {"client": "town", "api": f"{web.url}/v1"})


def test_legistar_with_a_recorded_response(web: Web, town: Town) -> None:
    events = json.loads(recording("legistar-events.json"))
    web.serve_json("/v1/town/events", events)
    town.http = town.http.with_limits(attempts=1)
    with_files = sum(bool(entry[name]) for entry in events for name in ("EventAgendaFile", "EventMinutesFile"))
    refs = list_documents(town, "legistar", {"client": "town", "api": f"{web.url}/v1"})
    assert len(refs) == with_files > 0
    assert refs[0].url.startswith("https://mauicounty.legistar1.com/")
    assert (refs[0].meeting, refs[0].date) == ("Affordable Housing Committee", date(2020, 9, 23))
    assert refs[0].version == "2020-09-17T00:16:51.183"


def list_documents(town: Town, label: str, extra: dict[str, Any]) -> list[DocumentRef]:
    """List without downloading, because recordings contain the URLs of real servers."""
    fetcher_class = BUILT_IN[label]

    async def run(client: Any) -> list[DocumentRef]:
        with contextlib.closing(fetcher_class(Site("springfield", "Springfield", extra), client)) as fetcher:
            return [ref async for ref in fetcher.documents()]

    return town.http.run(run)


def results(*rows: str) -> str:
    return f"""<html><a href="/AgendaCenter">Back</a><div class="listing"><h2><span>&#9660;</span>Parks Board</h2>
    <table>{"".join(rows)}</table></div></html>"""


def row(name: str, minutes: bool = False) -> str:
    end = f'<td><a href="/AgendaCenter/ViewFile/Minutes/{name}"><img alt="Minutes"></a></td>' if minutes else ""
    return f"""<tr><td><h4><a href="/AgendaCenter/ViewFile/Agenda/{name}?html=true">Nov 19</a></h4></td>{end}
    <td><ol><li><a href="/AgendaCenter/ViewFile/Agenda/{name}?html=true">HTML</a></li>
    <li><a href="/AgendaCenter/ViewFile/Agenda/{name}">PDF</a></li>
    <li><a href="/AgendaCenter/ViewFile/Agenda/{name}?packet=true">Packet</a></li>
    <li><a href="/AgendaCenter/PreviousVersions/{name}">Previous Versions</a></li></ol></td></tr>"""


def test_civicplus(web: Web, town: Town) -> None:
    this_year = date.today().year
    rows = {this_year - 1: [row(f"_1119{this_year - 1}-808", minutes=True)], this_year: [row(f"_0102{this_year}-901")]}

    def search(request: Request) -> Reply:
        return Reply(results(*rows.get(int(request.query["startDate"][-4:]), [])).encode())

    web.routes["/AgendaCenter/Search/"] = search
    for kind, name in (("Agenda", f"_1119{this_year - 1}-808"), ("Minutes", f"_1119{this_year - 1}-808")):
        web.serve_pdf(f"/AgendaCenter/ViewFile/{kind}/{name}", kind)
    web.serve_html(f"/AgendaCenter/ViewFile/Agenda/_0102{this_year}-901", "<html>There is no file</html>")
    extra = {"site": web.url, "since": f"{this_year - 1}-01-01"}
    assert town.fetch("civicplus", extra).outcomes == {FetchOutcome.NEW: 2, FetchOutcome.FAILED: 1}
    assert set(town.rows("meeting, date, kind, fetch_error_code")) == {
        ("Parks Board", date(this_year - 1, 11, 19), "agenda", None),
        ("Parks Board", date(this_year - 1, 11, 19), "minutes", None),
        ("Parks Board", date(this_year, 1, 2), "agenda", "NotAPdf"),
    }
    town.fetch("civicplus", extra | {"packets": True})
    assert ("packet", f"{web.url}/AgendaCenter/ViewFile/Agenda/_1119{this_year - 1}-808?packet=true") in town.rows(
        "kind, source_url"
    )
    start_dates = [request.query["startDate"] for request in web.requests if request.path == "/AgendaCenter/Search/"]
    assert start_dates[:2] == [f"01/01/{this_year - 1}", f"01/01/{this_year}"]


def test_civicplus_on_a_page_of_another_system(web: Web, town: Town) -> None:
    web.serve_html("/AgendaCenter/Search/", "<html>Page not found</html>")
    with pytest.raises(SourceUnreadable, match="not an AgendaCenter"):
        town.fetch("civicplus", {"site": web.url})


def test_civicplus_with_a_recorded_page() -> None:
    _, links = parse_links("https://lc.example/AgendaCenter/Search/", recording("civicplus-search-results.html"))
    fetcher = CivicPlus(Site("lc", "Las Cruces", {"site": "https://lc.example"}), None)  # type: ignore[arg-type]
    refs = {ref.key: ref for ref in fetcher._documents(links)}
    assert len(refs) == 32
    assert sum(ref.kind == "minutes" for ref in refs.values()) == 4
    ref = refs["civicplus 791 minutes"]
    assert ref.meeting == "Board of Commissioners for Las Cruces Utilities"
    assert ref.date == date(2020, 11, 12)
    assert ref.url == "https://lc.example/AgendaCenter/ViewFile/Minutes/_11122020-791"
    assert {ref.meeting for ref in refs.values()} >= {
        "Parks & Rec Advisory Board",
        "Mayor's Suicide Prevention Taskforce",
    }


def meeting(number: int, day: str, *documents: tuple[int, str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "dateTime": f"{day}T10:00:00",
        "title": "City Council Meeting",
        "documentList": [
            {"id": template * 10, "templateId": template, "templateName": name, "compileOutputType": output}
            for template, name, output in documents
        ],
    }


def serve_primegov(web: Web, archived: dict[int, list[Any]], upcoming: list[Any]) -> None:
    portal = "/api/v2/PublicPortal"
    web.serve_json(f"{portal}/GetArchivedMeetingYears", list(archived))
    web.serve_json(f"{portal}/ListUpcomingMeetings", upcoming)
    web.routes[f"{portal}/ListArchivedMeetings"] = lambda request: Reply(
        json.dumps(archived[int(request.query["year"])]).encode()
    )
    web.routes["/Public/CompiledDocument"] = lambda request: Reply(pdf(request.query["meetingTemplateId"]))


def test_primegov(web: Web, town: Town) -> None:
    today = meeting(3, "2025-06-01", (30, "Agenda", 1))
    archived = {
        2023: [meeting(1, "2023-01-01", (10, "Agenda", 1))],
        2025: [
            meeting(2, "2025-01-01", (20, "HTML Agenda", 3), (20, "Agenda", 1), (21, "Minutes", 1), (22, "Notice", 1)),
            today,
            meeting(4, "2025-06-02"),
        ],
    }
    serve_primegov(web, archived, [today, meeting(5, "2026-01-01", (50, "Special Agenda", 1))])
    extra = {"client": "town", "portal": web.url, "since": "2025-01-01"}
    assert town.fetch("primegov", extra).outcomes == {FetchOutcome.NEW: 5}
    assert set(town.rows("date::text, kind")) == {
        ("2025-01-01", "agenda"),
        ("2025-01-01", "minutes"),
        ("2025-01-01", "notice"),
        ("2025-06-01", "agenda"),
        ("2026-01-01", "agenda"),
    }
    assert town.fetch("primegov", extra).outcomes == {FetchOutcome.UNCHANGED: 5}


def test_primegov_with_a_recorded_response(web: Web, town: Town) -> None:
    meetings = json.loads(recording("primegov-list-meetings.json"))
    serve_primegov(web, {2025: meetings}, [])
    refs = list_documents(town, "primegov", {"client": "town", "portal": web.url})
    kinds = {"Agenda": "agenda", "Minutes": "minutes", "Notice": "notice"}
    expected = {
        (document["templateId"], kind)
        for entry in meetings
        for document in entry["documentList"]
        for word, kind in kinds.items()
        if document["compileOutputType"] == 1 and word in document["templateName"]
    }
    assert {(int(ref.url.split("=")[1].split("&")[0]), ref.kind) for ref in refs} == expected
    assert expected
    assert refs[-1].meeting == "City Council Meeting"


def invalid_extras() -> Iterator[tuple[str, dict[str, Any]]]:
    for label in BUILT_IN:
        yield label, {}
    yield "directory", {"path": "relative/path"}
    yield "directory", {"path": "/x", "undated": "guess"}
    yield "manifest", {"url": "https://x.example/m.csv", "path": "/m.csv"}
    yield "links", {"pages": 5}
    yield "links", {"pages": "https://x.example", "link": "("}
    yield "links", {"pages": "https://x.example", "kind": "video"}
    yield "links", {"pages": "https://x.example", "undated": "guess"}
    yield "legistar", {"client": "https://webapi.legistar.com/v1/town"}
    yield "legistar", {"client": "town", "since": "yesterday"}
    yield "civicplus", {"site": "www.example.gov"}
    yield "primegov", {"client": "evil.example/x"}


@pytest.mark.parametrize(("label", "extra"), list(invalid_extras()))
def test_invalid_extra_is_rejected(label: str, extra: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="extra"):
        BUILT_IN[label].check(extra)
