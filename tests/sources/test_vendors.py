"""The fetchers of vendors' portals, each against a server that responds as the vendor does."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from clerk.documents.media_types import PDF
from clerk.documents.repository import FetchOutcome
from clerk.errors import SourceUnreadable
from clerk.sources.fetcher import Site
from clerk.sources.html_tree import MAX_LINKS
from clerk.sources.http.client import RateLimitedClient, Sink, Validators
from clerk.sources.row_collector import MAX_ROWS
from clerk.sources.vendors import BUILT_IN, civicclerk, municode, portal, web_forms
from tests.sources.conftest import Town
from tests.sources.offline import list_offline
from tests.sources.vendor_sites import DAY, EARLIER, PORTALS, Portal, Server, grid_page
from tests.sources.web import Reply, Web, pdf

SINCE = {"since": f"{EARLIER.year}-01-01"}


def play(web: Web, label: str) -> Portal:
    """Serve a vendor's portal."""
    served = PORTALS[label](Server(web, label, pdf))
    served.extra |= SINCE
    return served


@pytest.mark.parametrize("label", ["civicweb", "municode"])
def test_documents_stay_when_they_are_listed_again_or_no_longer_wanted(web: Web, town: Town, label: str) -> None:
    served = play(web, label)
    town.fetch(label, served.extra)
    again = town.fetch(label, served.extra)
    assert (again.outcomes, again.removed) == ({FetchOutcome.UNCHANGED: len(served.documents)}, 0)
    assert town.fetch(label, {**served.extra, "since": str(date.today())}).removed == 0
    assert town.fetch(label, {**served.extra, "kinds": ["minutes"]}).removed == 0


def test_old_meetings_are_not_requested_again(web: Web, town: Town) -> None:
    served = play(web, "civicweb")
    old, older = date.today() - timedelta(days=410), date.today() - timedelta(days=420)
    meetings = [
        {"Id": 1, "Name": "Council", "MeetingDate": str(old)},
        {"Id": 2, "Name": "Old", "MeetingDate": str(older)},
    ]
    web.serve_json(served.listing, meetings)
    web.serve_json(f"{served.listing}/2/meetingDocuments", [])
    extra = {**served.extra, "since": f"{older.year}-01-01"}
    assert town.fetch("civicweb", extra).outcomes == {FetchOutcome.NEW: 2}
    before = len(web.requests)
    assert town.fetch("civicweb", extra).removed == 0
    requested = [path for path in web.paths()[before:] if path.endswith("/meetingDocuments")]
    assert requested == [f"{served.listing}/2/meetingDocuments"], "the other has no documents yet"


@pytest.mark.parametrize("label", ["granicus", "civicclerk", "iqm2", "municode"])
def test_packets_are_listed_if_the_site_wants_them(web: Web, label: str) -> None:
    served = play(web, label)
    kinds = {ref.kind for ref in list_offline(label, {**served.extra, "kinds": ["packet"]}).refs}
    assert kinds == {"packet"}


def test_pages_without_their_tokens_are_errors(web: Web, town: Town) -> None:
    served = play(web, "simbli")
    web.serve_html("/simbli/SB_Meetings/SB_MeetingListing.aspx", "<script>var constr = 'abc'</script>")
    with pytest.raises(SourceUnreadable, match="no SecurityToken in the answer"):
        town.fetch("simbli", served.extra)
    served = play(web, "boarddocs")
    web.serve_html("/boarddocs/il/springfield/Board.nsf/Public", "<p>Welcome</p>")
    with pytest.raises(SourceUnreadable, match="no committee in the answer"):
        town.fetch("boarddocs", served.extra)
    served = play(web, "legistar-calendar")
    web.serve_html(served.listing, '<table class="rgMasterTable"></table>')
    with pytest.raises(SourceUnreadable, match="no field __VIEWSTATE"):
        town.fetch("legistar-calendar", served.extra)


def test_a_malformed_entry_is_skipped_and_the_listing_continues(web: Web, town: Town) -> None:
    served = play(web, "escribe")
    good = {
        "ID": "1",
        "MeetingName": "Council",
        "StartDate": str(DAY),
        "MeetingDocumentLink": [{"Type": "Agenda", "Url": "a"}],
    }
    bad: list[Any] = [
        7,
        {"MeetingDocumentLink": "x"},
        {**good, "MeetingName": " "},
        {**good, "MeetingDocumentLink": [None]},
    ]
    web.serve_json(served.listing, {"d": [*bad, good]})
    web.serve_pdf("/escribe/a", "a")
    assert town.fetch("escribe", served.extra).outcomes == {FetchOutcome.NEW: 1}
    assert town.skipped_count == 4 * len({EARLIER.year, date.today().year, (date.today() + portal._LOOKAHEAD).year})
    assert any(reason.startswith("the entry '7' is not a meeting") for reason in town.skipped)
    assert any("has a document without Url: 'None'" in reason for reason in town.skipped)


@pytest.mark.parametrize(
    ("label", "entries"),
    [
        ("civicclerk", {"value": [None, {"id": 1, "publishedFiles": [{"type": "Agenda"}], "eventName": "x"}]}),
        ("civicweb", [None, {"Id": "x"}]),
        ("simbli", ["x", {"MM_MeetingTitle": "no id"}]),
        ("boarddocs", [5, {"unique": "../../x", "numberdate": "20240101"}]),
    ],
)
def test_malformed_entries_of_other_vendors(web: Web, town: Town, label: str, entries: Any) -> None:
    served = play(web, label)
    web.serve_json(served.listing, entries)
    with pytest.raises(SourceUnreadable, match="were skipped"):
        town.fetch(label, served.extra)
    assert town.skipped_count >= 2


def test_a_row_without_a_name_is_skipped_and_one_without_a_date_is_not(web: Web) -> None:
    served = play(web, "municode")
    name = f"{web.url}/municode/MEET-Agenda-{1:032x}.pdf"
    rows = f"<tr><td></td><td>{DAY}</td><td><a href='{name}'>x</a><tr><td>Council<td>soon<td><a href='{name}'>x</a>"
    head = "<thead><tr><th>Meeting</th><th>Date</th><th>Agenda</th></tr></thead>"
    web.serve_html(served.listing, f"<table class=mcm>{head}<tbody>{rows}</table>")
    (ref,) = list_offline("municode", served.extra).refs
    assert (ref.meeting, ref.date) == ("Council", None)


def endless(web: Web, label: str, path: str) -> None:
    """Serve a listing that always has a further page."""
    count = iter(range(10_000_000))
    if label == "civicclerk":
        web.routes[path] = lambda _: Reply(
            json.dumps({"value": [], "@odata.nextLink": f"{web.url}{path}?n={next(count)}"}).encode()
        )
    elif label == "municode":
        web.routes[path] = lambda _: Reply(f"<table class=mcm><tr><td>{next(count)}</table>".encode())
    else:
        grid = "gridCalendar" if label == "legistar-calendar" else "radGridMeetings"
        web.routes[path] = lambda _: Reply(
            grid_page(grid, "<th>x</th>", f"<tr class=rgRow><td>{next(count)}</td></tr>", (1, 9)).encode()
        )


@pytest.mark.parametrize("label", ["civicclerk", "municode", "novusagenda", "legistar-calendar"])
def test_endless_paging_ends_as_an_error(web: Web, town: Town, monkeypatch: pytest.MonkeyPatch, label: str) -> None:
    for module in (civicclerk, municode, web_forms):
        monkeypatch.setattr(module, "MAX_PAGES", 4)
    served = play(web, label)
    endless(web, label, served.listing)
    with pytest.raises(SourceUnreadable, match="has more than 4 pages"):
        town.fetch(label, served.extra)


def test_a_listing_that_repeats_its_last_page_ends(web: Web) -> None:
    served = play(web, "simbli")
    web.serve_json(served.listing, [{"Master_MeetingID": 1, "MM_MeetingTitle": "Board", "MM_DateTime": str(DAY)}])
    assert len(list_offline("simbli", served.extra).refs) == 1


def test_a_page_with_too_many_links_is_an_error_of_the_source(web: Web, town: Town) -> None:
    served = play(web, "granicus")
    web.serve_html(served.listing, "<table class=listingTable><tr><td>" + "<a href=a.pdf></a>" * (MAX_LINKS + 1))
    with pytest.raises(SourceUnreadable, match="has more than 50,000 links"):
        town.fetch("granicus", served.extra)


def test_a_page_with_too_many_rows_is_an_error_of_the_source(web: Web, town: Town) -> None:
    served = play(web, "granicus")
    web.serve_html(served.listing, "<table class=listingTable>" + "<tr>" * (MAX_ROWS + 1))
    with pytest.raises(SourceUnreadable, match="has more than 20,000 rows"):
        town.fetch("granicus", served.extra)


def test_a_viewer_cannot_lead_to_a_private_address(web: Web, town: Town) -> None:
    served = play(web, "granicus")
    web.routes["/granicus/AgendaViewer.php"] = Reply(
        status=302, headers={"Location": "https://docs.google.com/gview?url=http%3A%2F%2F10.0.0.1%2Fa.pdf"}
    )
    web.routes["/granicus/MinutesViewer.php"] = Reply(status=302, headers={"Location": "http://169.254.169.254/"})
    town.fetch("granicus", served.extra)
    assert set(town.rows("fetch_error_code")) == {("AddressForbidden",)}


def test_a_revised_agenda_is_a_revision(web: Web, town: Town) -> None:
    served = play(web, "civicclerk")
    town.fetch("civicclerk", served.extra)
    path = "/civicclerk/v1/Meetings/GetMeetingFileStream(fileId=11,plainText=false)"
    web.routes[path] = Reply(pdf("revised"))
    assert town.fetch("civicclerk", served.extra).outcomes == {FetchOutcome.UNCHANGED: 2}, "the version is the same"
    answer = {
        "id": 1,
        "eventCategoryName": "City Council",
        "startDateTime": f"{EARLIER}T19:00:00Z",
        "publishedFiles": [{"fileId": 11, "type": "Agenda", "publishOn": "later"}],
    }
    web.serve_json(served.listing, {"value": [answer]})
    assert town.fetch("civicclerk", served.extra).outcomes == {FetchOutcome.REVISED: 1}


def test_civicclerk_sends_the_headers_of_its_portal(web: Web, town: Town) -> None:
    served = play(web, "civicclerk")
    town.fetch("civicclerk", served.extra)
    assert {request.headers["origin"] for request in web.requests} == {"https://town.portal.civicclerk.com"}


def test_boarddocs_pages_are_posted(web: Web, town: Town) -> None:
    served = play(web, "boarddocs")
    refs = list_offline("boarddocs", served.extra).refs
    buffers: dict[str, bytes] = {}

    async def download(client: RateLimitedClient) -> None:
        fetcher = BUILT_IN["boarddocs"](Site("x", "x", served.extra), client)
        for ref in refs:
            buffer = io.BytesIO()
            await fetcher.download(ref, Validators(), Sink(buffer, 10_000))
            buffers[ref.identity] = buffer.getvalue()

    town.http.run(download)
    assert buffers["boarddocs CT23380490B4 agenda"] == b"<div class='meeting-name'>CT23380490B4</div>"
    assert buffers["boarddocs D2ELU4580B50 minutes"] == b"<p>Minutes</p>"
    assert web.requests[-1].form["current_committee_id"] == "A4EP6J588C05"


MUNICODE_PORTAL = """<table class="views-table"><thead><tr><th>Date<th>Meeting<th>Agenda</tr></thead><tbody>
<tr class="odd"><td data-th="Date"><span class="date-display-single" content="{day}T19:00:00-04:00">soon</span></td>
<td data-th="Meeting">Regular Council Meeting</td><td data-th="Agenda"><a href="{url}/MEET-Agenda-{guid}.pdf">PDF</a>
<a href="{url}/adaHtmlDocument/index?cc=X&me={guid}">HTML</a></td></tr></tbody></table>"""


def test_the_portal_of_municode(web: Web) -> None:
    first = MUNICODE_PORTAL.format(day=DAY, url=web.url, guid="a" * 32)
    web.routes["/m"] = lambda request: Reply(b"<p>No results</p>" if "page" in request.query else first.encode())
    refs = list_offline("municode", {"client": "town-il", "portal": f"{web.url}/m"}).refs
    assert [(ref.meeting, ref.date, ref.kind, ref.media_type) for ref in refs] == [
        ("Regular Council Meeting", DAY, "agenda", PDF)
    ]


@pytest.mark.parametrize(
    ("value", "day"),
    [
        ("2026-04-28T23:30:00Z", date(2026, 4, 28)),
        ("2026-04-06T19:00:00-04:00", date(2026, 4, 6)),
        ("2025/12/17 17:15:00", date(2025, 12, 17)),
        ("9/27/22", date(2022, 9, 27)),
        ("9/16/2019 7:00:00 PM", date(2019, 9, 16)),
        ("MONDAY, JANUARY 10, 2022 5:30 PM", date(2022, 1, 10)),
        ("April\u00a0 2,\u00a02025 - 5:03\u00a0PM", date(2025, 4, 2)),
        ("20240219", date(2024, 2, 19)),
        (20240219, date(2024, 2, 19)),
        ("/Date(1645084800000)/", date(2022, 2, 17)),
        ("\\/Date(1645146000000)\\/", date(2022, 2, 17)),  # 8 pm in New York
        ("/Date(1645153200000-0800)/", date(2022, 2, 17)),  # 7 pm in Los Angeles
        ("Nov\u00a009,\u00a022", date(2022, 11, 9)),
        ("Nov. 9 '22 - 6:00 PM", date(2022, 11, 9)),
        ("March 12, 15 and 19", None),
        ("Jan 13, 10:00 AM", None),
        ("0001-01-01T00:00:00Z", None),
        ("/Date(-62135596800000)/", None),
        ("/Date(999999999999999)/", None),
        ("to be announced", None),
        (None, None),
        (True, None),
    ],
)
def test_dates_of_vendors(value: object, day: date | None) -> None:
    assert portal.parse_day(value) == day


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("Agenda Setting Meeting - Oct 26 2026", "Agenda Setting Meeting"),
        ("ASCMV Closed Meeting- Jun 27 2024", "ASCMV Closed Meeting"),
        ("Work Session - CIAC - Jan 22 2026", "Work Session - CIAC"),
        ("CANCELLED - City Council", "City Council"),
        ("City Council (CANCELED)", "City Council"),
        ("Special Cancelled", "Special"),
        ("***Meeting Cancelled*** - Park Board 3/4/2024", "Park Board"),
        ("Monday, May 5, 2026 at 4:30 PM - Committee", "Committee"),
        ("Planning &amp; Zoning", "Planning & Zoning"),
        ("Board of Adjustment", "Board of Adjustment"),
        ("Tue. May 5, 2026 - Park Board", "Park Board"),
        ("Park Board (Tuesday) 5/5/2026", "Park Board"),
        ("Sun City Council", "Sun City Council"),
        ("Sunday Market Board", "Sunday Market Board"),
        ("May 5, 2026", ""),
        ("(CANCELED) City Council", "City Council"),
        ("CANCELLED Park Board", "Park Board"),
        ("Park Board - CANCELED DUE TO LACK OF QUORUM", "Park Board"),
        ("Park Board (Rescheduled from Jan 6, 2026)", "Park Board"),
        ("Notice of Cancellation - Park Board", "Park Board"),
        ("Cancellation Notice: Park Board", "Park Board"),
        ("Park Board Meeting of 1/6/26", "Park Board Meeting"),
        ("Park Board - Tue, Jan 13, 2026 - 6:00 PM PST", "Park Board"),
        ("Park Board - Monday, January 12, 2026 at 7 p.m.", "Park Board"),
        ("Board Meeting @ 9:00 a.m. - 3:00 p.m.", "Board Meeting"),
        ("Board Meeting @ 6 p.m. - Retreat", "Board Meeting - Retreat"),
        ("Park Board 01h 20m", "Park Board"),
        ("Park Board - Nov 09, 22", "Park Board"),
        ("<b>Park</b> Board<br/>", "Park Board"),
        ("&lt;i&gt;Park Board&lt;/i&gt;", "Park Board"),
    ],
)
def test_names_of_bodies(name: str, body: str) -> None:
    assert portal.body_of(name) == body


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Agenda (PDF)", "agenda"),
        ("Agenda Packet", "packet"),
        ("Agenda Package", "packet"),
        ("Revised Agenda", "agenda"),
        ("Draft Minutes", "minutes"),
        ("Minutes Recap", "minutes"),
        ("Action Summary", "minutes"),
        ("Ordre du jour", "agenda"),
        ("Procès-verbal", "minutes"),
        ("Agenda Cover Page (PDF)", None),
        ("Video", None),
        ("Video (90 min)", None),
        ("Official Proceedings", "minutes"),
        ("Addendum #2", "agenda"),
        ("", None),
    ],
)
def test_kinds_of_vendors(text: str, kind: str | None) -> None:
    assert portal.kind_of(text) == kind


def test_an_addendum_is_of_the_kind_of_its_column() -> None:
    assert portal.kind_of("Addendum", "Minutes") == "minutes"


def invalid() -> Iterator[tuple[str, dict[str, Any], str]]:
    for label in PORTALS:
        if required := BUILT_IN[label].required:
            yield label, {}, f"extra needs {required[0]!r}"
    yield "granicus", {"client": "town", "views": "two"}, "'views' must be a number"
    yield "granicus", {"client": "https://town.granicus.com", "views": 1}, "must be the name of the portal"
    yield (
        "granicus",
        {"client": "town", "views": 1, "sinse": "2020-01-01"},
        "unknown keys: sinse; known are",
    )
    yield "iqm2", {"client": "town", "portal": "town.iqm2.com"}, "'portal' must be a URL"
    yield "iqm2", {"client": "town", "kinds": "minutes"}, "'kinds' must be a list of minutes"
    yield "iqm2", {"client": "town", "kinds": ["video"]}, "'kinds' must be a list of minutes"
    yield "escribe", {"client": "town", "since": "last year"}, "'since' must be a date"
    yield "municode", {}, "either 'client' (or 'portal') or 'page'"
    yield "municode", {"client": "town", "page": "https://x.example"}, "either 'client' (or 'portal') or 'page'"
    yield "boarddocs", {"path": "springfield"}, "'path' must be STATE/NAME"
    yield "boarddocs", {"path": "il/springfield", "committees": ["a b"]}, "'committees' must be an id"
    yield "novusagenda", {"client": "town", "meeting_types": ["one"]}, "'meeting_types' must be a number"
    yield "onbase", {"portal": "https://x.example", "meeting_types": "all of them"}, "'meeting_types' must be a number"
    yield "civicplus-archive", {"site": "https://x.example", "archives": "x"}, "'archives' must be a number"
    yield "simbli", {"school": "../x"}, "must be number of the school"


@pytest.mark.parametrize(("label", "extra", "problem"), list(invalid()))
def test_invalid_settings_are_explained(label: str, extra: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match="extra") as raised:
        BUILT_IN[label].check(extra)
    assert problem in str(raised.value)


@pytest.mark.parametrize("label", PORTALS)
def test_every_setting_of_a_portal_is_described(web: Web, label: str) -> None:
    served = play(web, label)
    BUILT_IN[label].check(served.extra)
    assert set(served.extra) <= set(BUILT_IN[label].extra_help)
