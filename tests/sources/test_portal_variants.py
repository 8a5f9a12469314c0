"""Variants of listings that public scrapers have seen on other towns' portals, each served by a local web server.

CivicWeb without its service, eScribe's method for past meetings, OnBase lists that the server cuts, BoardBook titles with
further dates, French dates, and the pages by which detection knows these portals.
"""

# ruff: noqa: E501 (lines of HTML)

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from clerk.documents.repository import DocumentRef
from clerk.errors import DownloadRefused, SourceUnreadable
from clerk.sources.parse import find_date, remove_dates
from clerk.sources.vendors import onbase, portal
from tests.sources.conftest import HttpClient
from tests.sources.offline import download_offline, list_offline
from tests.sources.test_detection import no_internet, run, summary
from tests.sources.test_other_towns import SINCE, TODAY, list_json, list_page
from tests.sources.web import Reply, Request, Web, pdf

__all__ = ["no_internet"]  # the fixture: pages of these tests name real hosts

SERVICE = "/Services/MeetingsService.svc/meetings"
TYPES = """<div class="meeting-type-item"><h2><a class="meeting-type-item-title" href="MeetingInformation.aspx?type=10">County Council</a></h2>
<ol><li><a class="list-link" href="/Portal/MeetingInformation.aspx?Org=Cal&amp;Id=501">County Council - Regular Meeting - Feb 17 2026</a></li>
<li><a class="list-link" href="MeetingInformation.aspx?Id=500">***CANCELLED*** County Council - 03 Feb 2026</a></li></ol></div>"""
BUTTONS = """<button id="ctl00_MainContent_MeetingButton501" class="meeting-list-item-button" onclick="meetingClick(this, 501,0,0)"><div class="meeting-list-item-button-date">Feb 17 2026</div><div>County Council - Regular Meeting</div></button>
<button id="ctl00_MainContent_MeetingButton480" class="meeting-list-item-button"><div class="meeting-list-item-button-date">Jan 06 2026</div><div title="County Council">County Council</div></button>
<button id="ctl00_MainContent_MeetingButton90" class="meeting-list-item-button"><div class="meeting-list-item-button-date">Dec 02 2024</div><div>County Council</div></button>"""


def meeting_page(links: str) -> str:
    return f'<h1 id="ctl00_MainContent_MeetingTitle">County Council</h1><button id="ctl00_MainContent_AgendaDocument">Agenda</button>{links}'


def serve_civicweb_pages(web: Web) -> None:
    """A portal that has pages, and no service."""
    documents = {
        "501": """<a id="document-cover-pdf" href="/document/7001/Council%20-%20Feb%2017%202026.pdf?handle=AB">Agenda</a>
            <a id="ctl00_MainContent_DocumentPrintVersion" href="/document/7002/Packet.pdf?handle=AB">Agenda Packet</a>
            <a href="/document/7003/Council%20Minutes.docx?handle=AB">Download</a><a href="/filepro/documents/5">All documents</a>""",
        "500": "",
        "480": """<a id="ctl00_MainContent_DocumentPrintVersion" href="/document/6001/Council.docx?handle=CD">Print</a>""",
    }

    def information(request: Request) -> Reply:
        number = request.query.get("Id")
        return Reply((BUTTONS if number is None else meeting_page(documents[number])).encode())

    web.serve_html("/Portal/MeetingTypeList.aspx", TYPES)
    web.routes["/Portal/MeetingInformation.aspx"] = information


@pytest.mark.parametrize("answer", [None, b"<html>Sign in</html>"])
def test_civicweb_without_its_service_is_read_by_its_pages(web: Web, answer: bytes | None) -> None:
    serve_civicweb_pages(web)
    if answer:
        web.routes[SERVICE] = Reply(answer)
    listed = list_offline("civicweb", {"portal": web.url, **SINCE}, TODAY)
    assert listed.documents == [
        ("County Council - Regular Meeting", "2026-02-17", "agenda"),
        ("County Council - Regular Meeting", "2026-02-17", "minutes"),
        ("County Council", "2026-01-06", "agenda"),
    ]
    assert [ref.url.removeprefix(web.url) for ref in listed.refs] == [
        "/document/7001/",
        "/document/7003/?printPdf=true",
        "/document/6001/?printPdf=true",
    ]
    assert listed.refs[0].key == "civicweb meeting 501 agenda"
    assert web.paths().count(SERVICE) == 1
    assert not [request for request in web.requests if request.query.get("Id") == "90"], "it is before `since`"


def test_civicweb_pages_with_the_service_for_documents(web: Web) -> None:
    serve_civicweb_pages(web)
    for number in (501, 500, 480):
        web.serve_json(f"{SERVICE}/{number}/meetingDocuments", [])
    web.serve_json(f"{SERVICE}/480/meetingDocuments", {"Documents": [{"Id": "8", "DocumentType": 9, "Type": 2}]})
    listed = list_offline("civicweb", {"portal": web.url, **SINCE}, TODAY)
    assert listed.documents == [("County Council", "2026-01-06", "minutes")]


def test_civicweb_pages_that_are_something_else_are_errors(web: Web) -> None:
    extra = {"portal": web.url, **SINCE}
    with pytest.raises(DownloadRefused, match="MeetingTypeList"):
        list_offline("civicweb", extra, TODAY)
    web.serve_html("/Portal/MeetingTypeList.aspx", "<p>Welcome</p>")
    with pytest.raises(SourceUnreadable, match=r"no link to MeetingInformation\.aspx in the answer of"):
        list_offline("civicweb", extra, TODAY)
    serve_civicweb_pages(web)
    web.serve_html("/Portal/MeetingInformation.aspx", "<p>Sign in</p>")
    with pytest.raises(SourceUnreadable, match="MainContent_Meeting"):
        list_offline("civicweb", extra, TODAY)


def test_a_service_of_civicweb_that_fails_later_is_an_error(web: Web) -> None:
    serve_civicweb_pages(web)
    web.serve_json(SERVICE, [{"Id": 1, "Name": "Council", "MeetingDate": "2026-01-06"}])
    with pytest.raises(DownloadRefused, match="404"):
        list_offline("civicweb", {"portal": web.url, **SINCE}, TODAY)


def test_civicweb_documents_of_further_types_and_numbers_as_text(web: Web) -> None:
    meetings = [
        {"Id": "574", "Name": "Board - NO MEETING - Jan 06 2026", "MeetingTypeName": None, "MeetingDateTime": "2026-01-06 10:00"},
        {"Id": 575, "Name": "Regular Meeting - Jan 12 2026 (DRAFT AGENDA)", "Published": None},
        {"Id": 576, "Name": "Réunion ordinaire - 09 févr. 2026"},
        {"Id": 577, "Name": "Council", "MeetingDate": "2026-01-20"},
    ]  # fmt: skip
    documents: dict[int, Any] = {
        574: [{"Id": 1, "DocumentType": 9, "Type": 2, "IsPublic": False}, {"Id": 2, "DocumentType": "10"}],
        575: {"Documents": None},
        576: [{"Id": 5, "DocumentType": 55, "Type": 2}, {"Id": 6, "DocumentType": 53, "Type": 2}],
        577: [{"Id": 7, "DocumentType": [1]}, {"Id": 8, "DocumentType": None, "Type": "1"}],
    }
    for number, found in documents.items():
        web.serve_json(f"{SERVICE}/{number}/meetingDocuments", found)
    listed = list_json(web, "civicweb", SERVICE, meetings, {"portal": web.url})
    assert listed.documents == [
        ("Board", "2026-01-06", "minutes"),
        ("Réunion ordinaire", "2026-02-09", "minutes"),
        ("Council", "2026-01-20", "agenda"),
    ]
    assert [ref.url.removeprefix(web.url) for ref in listed.refs] == [
        "/document/2/",
        "/document/6/",
        "/document/8/?printPdf=true",
    ]


def test_escribe_answers_of_past_meetings_and_several_documents_of_one_type(web: Web) -> None:
    def link(kind: str, title: str, number: int, form: str = ".pdf") -> dict[str, Any]:
        return {"Type": kind, "Format": form, "Title": title, "Url": f"FileStream.ashx?DocumentId={number}"}

    meetings = [
        {
            "Id": "a1",
            "MeetingType": "Conseil municipal - Annulée",
            "FormattedStart": "mardi 13 janvier 2026 @ 19:00",
            "MeetingLinks": [
                link("Agenda", "Ordre du jour", 1),
                link("Agenda", "Ordre du jour", 2),
                link("Agenda", "Ordre du jour", 3),
                link("PostMinutes", "Compte rendu", 4, "HTML"),
                link("AdditionalDocuments", "Minutes", 5),
                link("AdditionalDocuments", "Minutes", 6),
                link("AdditionalDocuments", "Agenda Item 4 - Presentation", 7),
                link("AdditionalDocuments", "Agenda as amended", 8),
            ],
        }
    ]
    path = "/MeetingsCalendarView.aspx/GetCalendarMeetings"
    for answer in ({"d": {"TotalCount": 1, "Meetings": meetings}}, {"d": json.dumps({"Meetings": meetings})}):
        listed = list_json(web, "escribe", path, answer, {"portal": web.url})
        assert [(ref.kind, ref.url.rpartition("=")[2]) for ref in listed.refs] == [
            *(("agenda", "1"), ("agenda", "2"), ("agenda", "3")),
            *(("minutes", "5"), ("minutes", "6"), ("agenda", "8")),
        ]
        assert {(ref.meeting, ref.date) for ref in listed.refs} == {("Conseil municipal", date(2026, 1, 13))}
        assert len({ref.identity for ref in listed.refs}) == 6
        assert listed.refs[0].key == "escribe a1 Agenda"
    for broken in ('{"x": ', "[" * 100_000):
        with pytest.raises(SourceUnreadable, match="is not an object with the list 'd'"):
            list_json(web, "escribe", path, {"d": broken}, {"portal": web.url})


class Cut:
    """A search of OnBase that lists the last `most` meetings of a period, as real servers do."""

    def __init__(self, days: list[date], most: int = 100, write: Callable[[list[date]], str] | None = None) -> None:
        self.days = sorted(days, reverse=True)
        self.most = most
        self.write = write or embedded

    def __call__(self, request: Request) -> Reply:
        first, last = (day_of(request.query[name]) for name in ("dropsv", "dropev"))
        return Reply(self.write([day for day in self.days if first <= day <= last][: self.most]).encode())


def day_of(text: str) -> date:
    month, day, year = map(int, text.split()[0].split("/"))
    return date(year, month, day)


def embedded(days: list[date]) -> str:
    meetings = [
        {"ID": str(day.toordinal()), "MeetingTypeName": "Council", "Time": f"{day}T18:00:00-05:00", "IsAgendaAvailable": True}
        for day in days
    ]  # fmt: skip
    results = {"Meetings": meetings, "NoMoreResults": False, "HasError": False}
    return f"<script>showSearchResults(new SearchResults({json.dumps(results)}));</script>"


def table(days: list[date]) -> str:
    rows = "".join(
        f"""<tr class="meeting-row" data-meeting-id="{day.toordinal()}"><td data-sortable-type="mtgType">Council</td>
        <td data-sortable-type="mtgTime">{day.month}/{day.day}/{day.year} 6:00:00 PM</td>
        <td><a href="/a/Meetings/ViewMeeting?id={day.toordinal()}&amp;doctype=1">Agenda</a></td></tr>"""
        for day in days
    )
    return f'<div id="meetings-list"><table>{rows}</table></div>'


@pytest.mark.parametrize("write", [embedded, table])
def test_onbase_lists_that_the_server_cuts_are_listed_by_shorter_periods(
    web: Web, write: Callable[[list[date]], str]
) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(170)]
    web.routes["/a/Meetings/Search"] = Cut(days, write=write)
    listed = list_offline("onbase", {"portal": f"{web.url}/a", **SINCE}, TODAY)
    assert sorted(ref.date for ref in listed.refs if ref.date) == days
    assert len(web.requests) == 3


def test_an_onbase_server_that_ignores_the_period_is_not_asked_again(web: Web) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(120)]
    web.routes["/a/Meetings/Search"] = Reply(embedded(days).encode())
    listed = list_offline("onbase", {"portal": f"{web.url}/a", **SINCE}, TODAY)
    assert len(listed.refs) == 120
    assert len(web.requests) == 3


def test_an_onbase_server_that_cuts_every_period_is_an_error(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onbase, "MAX_PAGES", 6)

    def respond(request: Request) -> Reply:
        return Reply(embedded([day_of(request.query["dropsv"])] * 100).encode())

    web.routes["/a/Meetings/Search"] = respond
    with pytest.raises(SourceUnreadable, match="Meetings/Search has more than 6 pages"):
        list_offline("onbase", {"portal": f"{web.url}/a", **SINCE}, TODAY)


def test_onbase_summaries_are_no_packets_and_errors_of_the_search_are_errors(web: Web) -> None:
    row = """<div id="meetings-list"><table><tr class="meeting-row" data-meeting-id="4"><td>Formal</td><td>1/27/2026 9:30:00 AM</td>
        <td><a href="/a/Meetings/ViewMeeting?id=4&amp;doctype=1">Agenda</a><a href="/a/Meetings/ViewMeeting?id=4&amp;doctype=3">Summary</a>
        <a href="/a/Meetings/ViewMeeting?id=4&amp;doctype=2">Minutes</a><a href="/a/Documents/DownloadFile/p.pdf?documentType=5&amp;meetingId=4">PDF</a></td></tr></table></div>"""
    extra = {"portal": f"{web.url}/a", "kinds": ["agenda", "minutes", "packet"]}
    listed = list_page(web, "onbase", "/a/Meetings/Search", row, extra)
    assert [ref.kind for ref in listed.refs] == ["agenda", "minutes", "packet"]
    failed = 'new SearchResults({"Meetings": [], "HasError": true})'
    with pytest.raises(SourceUnreadable, match=r"the SearchResults in the answer of .* have an error"):
        list_page(web, "onbase", "/a/Meetings/Search", f"<script>{failed}</script>", extra)


def test_boardbook_titles_with_further_dates_and_without_a_time(web: Web) -> None:
    def row(number: int, title: str, posted: str, kind: str = "Regular") -> str:
        return f"""<tr class=" row-for-board"><td><div>{title}</div><div><b>Meeting Type:</b> {kind}</div><div>{posted}</div></td><td>Hall</td>
            <td><a href="/Public/PublicNotice/9?meeting={number}">Public Notice</a><a href="/Public/Agenda/9?meeting={number}">Agenda</a></td></tr>"""

    rows = [
        row(1, "February 9, 2026 at 6:00 PM - Regular Meeting", "Date Posted: 02/05/2026"),
        row(2, "January 12, 2026 Will begin after the Public Hearing - Regular Meeting", "Posted on 2026-01-09"),
        row(3, "January 13, 2026 at 6:00 PM - Board - Work Session", "Date Posted: January 9, 2026"),
        row(4, "January 20, 2026 at 6:00 PM", "Date Posted: January 9, 2026", "Special"),
    ]
    page = f"<table>{''.join(rows)}</table>"
    listed = list_page(web, "boardbook", "/Public/Organization/9", page, {"portal": web.url, "organization": 9})
    assert listed.documents == [
        ("Regular Meeting", "2026-02-09", "agenda"),
        ("Regular Meeting", "2026-01-12", "agenda"),
        ("Board - Work Session", "2026-01-13", "agenda"),
        ("Special", "2026-01-20", "agenda"),
    ]


@pytest.mark.parametrize(
    "script",
    [
        'x = {"ConnectionString": "a==", "SecurityToken": "b/+="}',
        "var constr = 'a=='; call({SecurityToken: 'b/+='})",
    ],
)
def test_simbli_tokens_and_lists_in_other_forms(web: Web, script: str) -> None:
    web.serve_html("/SB_Meetings/SB_MeetingListing.aspx", f"<script>{script}</script>")
    meetings = [{"MM_MeetingID": 4, "MM_MeetingTitle": "Board ", "DateTime": "02/19/2026 - 06:00 PM"}]
    path = "/Services/api/GetMeetingListing"
    listed = list_json(web, "simbli", path, {"Result": meetings}, {"school": 1, "portal": web.url})
    assert listed.documents == [("Board", "2026-02-19", "agenda")]
    sent = json.loads(web.requests[-1].body)
    assert (sent["ConnectionString"], sent["SecurityToken"]) == ("a==", "b/+=")


def test_primegov_numbers_as_text_and_years_that_are_none(web: Web) -> None:
    document = {"id": 1, "templateName": "Agenda", "compileOutputType": "1", "templateId": "48"}
    meeting = {"id": 1, "title": "Council", "dateTime": "2026-01-13T09:00:00", "documentList": [document]}
    web.serve_json("/api/v2/PublicPortal/GetArchivedMeetingYears", ["2026"])
    web.serve_json("/api/v2/PublicPortal/ListUpcomingMeetings", [])
    path = "/api/v2/PublicPortal/ListArchivedMeetings"
    listed = list_json(web, "primegov", path, [meeting], {"portal": web.url})
    assert listed.documents == [("Council", "2026-01-13", "agenda")]
    web.serve_json("/api/v2/PublicPortal/GetArchivedMeetingYears", [{"y": 2026}])
    with pytest.raises(SourceUnreadable, match="no year in the answer of"):
        list_json(web, "primegov", path, [meeting], {"portal": web.url})


def serve_archive(web: Web, index: str, rows: str) -> None:
    web.routes["/Archive.aspx"] = lambda request: Reply(
        f"<html><h1>Archive Center</h1>{rows if 'AMID' in request.query else index}</html>".encode()
    )


def test_civicplus_archives_with_links_to_files_and_with_names_that_say_no_kind(web: Web) -> None:
    rows = """<ul><li><a href="/ArchiveCenter/ViewFile/Item/47">January 13, 2026 Minutes</a></li>
        <li><a href="Archive.aspx?ADID=47"><img alt="PDF"></a></li><li><a href="/Archive/ViewFile/Item/48?x=1">Meeting of January 27, 2026</a></li></ul>"""
    serve_archive(web, '<a href="Archive.aspx?AMID=36">City Council</a><a href="Archive.aspx?AMID=9">Budgets</a>', rows)
    extra = {"site": web.url, **SINCE}
    with pytest.raises(
        SourceUnreadable, match=r"none of the lists .* is named after agenda or minutes.*City Council, Budgets"
    ):
        list_offline("civicplus-archive", extra, TODAY)
    listed = list_offline("civicplus-archive", {**extra, "archives": 36}, TODAY)
    assert [(ref.url.removeprefix(web.url), str(ref.date), ref.kind, ref.kind_origin) for ref in listed.refs] == [
        ("/ArchiveCenter/ViewFile/Item/47", "2026-01-13", "minutes", "source"),
        ("/Archive/ViewFile/Item/48", "2026-01-27", "", "default"),
    ]


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("09 déc 2025", date(2025, 12, 9)),
        ("1er août 2025", date(2025, 8, 1)),
        ("12 février 2026", date(2026, 2, 12)),
        ("10 juillet 2025", date(2025, 7, 10)),
        ("4 juin 2025", date(2025, 6, 4)),
        ("5 mai 2026", date(2026, 5, 5)),
        ("30 avril 2026", date(2026, 4, 30)),
        ("Main 5, 2020", None),
        ("maintenance 5, 2020", None),
    ],
)
def test_french_dates(text: str, day: date | None) -> None:
    assert find_date(text) == day
    assert (remove_dates(text).strip() == "") == (day is not None)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("Board Meetings - NO MEETING - Dec 31 2024", "Board Meetings"),
        ("Regular Meeting - Dec 14 2026 (DRAFT AGENDA)", "Regular Meeting"),
        ("Comité (reportée) - 9 déc 2025", "Comité"),
        ("ANNULÉE - Conseil municipal", "Conseil municipal"),
        ("Board Reports", "Board Reports"),
        ("No Meeting Street Association", "No Meeting Street Association"),
    ],
)
def test_names_of_bodies_of_other_towns(name: str, body: str) -> None:
    assert portal.body_of(name) == body


ONBASE_SCRIPT = """<html><head><title>Home - OnBase Agenda Online</title><script src="/251agendaonline/bundles/jquery?v=1"></script>
<link href="/251agendaonline/Style" rel="stylesheet"></head><body><a href="/251agendaonline/Meetings">Search</a><script>new SearchResults({})</script></body></html>"""
ESCRIBE_HOME = """<form method="post" action="./MeetingsCalendarView.aspx?MeetingViewId=1"><div class="past-meetings-region"><div class="MeetingTypeList">
<span class="MeetingTypeNameText">Council</span></div></div></form>"""
PAGES = {
    "/Portal/MeetingTypeList.aspx": ("civicweb", TYPES, {"portal": ""}),
    "/types": ("civicweb", TYPES.replace("/Portal/", ""), {"portal": ""}),
    "/meeting": ("civicweb", BUTTONS, {"portal": ""}),
    "/Portal/MeetingSchedule.aspx": ("civicweb", '<select id="ctl00_MainContent_MeetingTypes"></select>', {"portal": ""}),
    "/251agendaonline/": ("onbase", ONBASE_SCRIPT, {"portal": "/251agendaonline"}),
    "/council": ("escribe", ESCRIBE_HOME, {"portal": ""}),
    "/organization": (
        "boardbook",
        '<table><tr class=" row-for-board"><td><a href="/Public/Agenda/733?meeting=6">Agenda</a></td></tr></table>',
        {"portal": "", "organization": "733"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", PAGES)
def test_pages_of_portals_on_any_host_are_recognised(path: str, http: HttpClient, web: Web) -> None:
    scraper, page, extra = PAGES[path]
    web.serve_html(path, page)
    detection = run(http, f"{web.url}{path}")
    assert detection.best is not None, detection.tried
    found = {name: str(value).removeprefix(web.url) for name, value in detection.best.extra.items()}
    assert (detection.best.scraper, found) == (scraper, extra)


def test_a_town_that_embeds_a_portal_of_onbase_on_its_own_host(http: HttpClient, web: Web) -> None:
    web.serve_html("/", f'<iframe src="{web.url}/251agendaonline/"></iframe>')
    web.serve_html("/251agendaonline/Meetings/Search", ONBASE_SCRIPT)
    assert summary(run(http, f"{web.url}/")) == [("onbase", "certain")]


AGENDA_CENTER = """<div id="agendaCenter"><a href="/AgendaCenter/Search/">Search</a><div class="listing"><h2 role="button">Public Works</h2>
<div class="category" id="cat3"><h3 role="button">Engineering Committee</h3><table><thead><tr><th>Agenda</th><th>Minutes</th></tr></thead><tbody>
<tr class="catAgendaRow"><td><h3 class="noMargin"><a name="_02042026-31"></a><strong><abbr title="February">Feb</abbr> 4, 2026</strong> &mdash; Posted <abbr>Jan</abbr> 30, 2026 10:49 AM</h3>
<p><a href="/AgendaCenter/ViewFile/Agenda/_02042026-31">Agenda</a></p></td><td><a href="/AgendaCenter/ViewFile/Minutes/_02042026-31"><img alt="Minutes"></a></td></tr>
<tr class="catAgendaRow"><td><h3>Wednesday, January 7, 2026</h3><p><a href="/AgendaCenter/ViewFile/Agenda/_01072026-30?html=true">Agenda</a></p></td><td></td></tr></tbody></table></div>
<div class="category" id="cat5"><h3>Water Committee</h3><table><tbody>
<tr class="catAgendaRow"><td><h3><strong>Jan 6, 2026</strong></h3><p><a href="/AgendaCenter/ViewFile/Agenda/_01062026-29">Agenda</a></p></td><td></td></tr></tbody></table></div></div>
<div class="listing"><h2>City Council</h2><ul>
<li><h3>Jan 20, 2026</h3><a href="/AgendaCenter/ViewFile/Agenda/_01202026-28">Agenda</a></li>
<li><h3>Jan 13, 2026</h3><a href="/AgendaCenter/ViewFile/Agenda/_01132026-27">Agenda</a></li></ul></div></div>"""


def test_civicplus_rows_with_a_heading_of_their_own(web: Web) -> None:
    listed = list_page(web, "civicplus", "/AgendaCenter/Search/", AGENDA_CENTER, {"site": web.url})
    assert listed.documents == [
        ("Engineering Committee", "2026-02-04", "agenda"),
        ("Engineering Committee", "2026-02-04", "minutes"),
        ("Engineering Committee", "2026-01-07", "agenda"),
        ("Water Committee", "2026-01-06", "agenda"),
        ("City Council", "2026-01-20", "agenda"),
        ("City Council", "2026-01-13", "agenda"),
    ]


def test_civicplus_date_instead_of_a_category(web: Web) -> None:
    page = """<div class="listing"><h2>1/13/2026</h2><a href="/AgendaCenter/ViewFile/Agenda/_01132026-27">Agenda</a></div>"""
    listed = list_page(web, "civicplus", "/AgendaCenter/Search/", page, {"site": web.url})
    assert [(day, kind) for _, day, kind in listed.documents] == [("2026-01-13", "agenda")]
    assert find_date(listed.documents[0][0]) is None


def test_civicplus_page_that_only_links_to_the_agenda_center(web: Web) -> None:
    page = '<ul><li><a href="/AgendaCenter">Agenda Center</a></li></ul><h1>Page not found</h1>'
    with pytest.raises(SourceUnreadable, match="not an AgendaCenter page"):
        list_page(web, "civicplus", "/AgendaCenter/Search/", page, {"site": web.url})


def test_legistar_packet(web: Web) -> None:
    page = """<form><input type="hidden" name="__VIEWSTATE" value="x"><table class="rgMasterTable" id="ctl00_gridCalendar_ctl00"><thead><tr><th>Name</th><th>Meeting Date</th><th>Meeting Topic</th><th>Agenda</th><th></th></tr></thead><tbody>
    <tr class="rgRow"><td>City Council</td><td>1/13/2026</td><td>Budget</td><td><a href="View.ashx?M=A&amp;ID=5&amp;GUID=X">Agenda</a> <a href="View.ashx?M=PA&amp;ID=5&amp;GUID=X">Full</a></td><td>Not available</td></tr></tbody></table></form>"""
    extra = {"portal": web.url, "kinds": ["agenda", "packet"]}
    listed = list_page(web, "legistar-calendar", "/Calendar.aspx", page, extra)
    assert listed.documents == [
        ("City Council", "2026-01-13", "agenda"),
        ("City Council", "2026-01-13", "packet"),
    ]


def test_primegov_documents_without_a_form_or_template(web: Web) -> None:
    documents = [
        {"id": 1, "templateId": 11, "templateName": "Agenda"},
        {"id": 2, "templateName": "Minutes", "compileOutputType": 1},
        {"id": 3, "templateId": 12, "templateName": "Council Meeting Materials", "compileOutputType": 1},
        {"templateName": "Minutes", "compileOutputType": 1},
        {"id": 5, "templateId": 13, "templateName": "Agenda", "compileOutputType": 2},
    ]
    meeting = {"id": 7, "title": "City Council", "dateTime": "2026-01-13T18:00:00", "documentList": documents}
    web.serve_json("/api/v2/PublicPortal/GetArchivedMeetingYears", [2026])
    web.serve_json("/api/v2/PublicPortal/ListArchivedMeetings", [meeting])
    extra = {"portal": web.url, "kinds": ["agenda", "minutes", "packet"]}
    listed = list_json(web, "primegov", "/api/v2/PublicPortal/ListUpcomingMeetings", [], extra)
    assert listed.documents == [
        ("City Council", "2026-01-13", "agenda"),
        ("City Council", "2026-01-13", "minutes"),
        ("City Council", "2026-01-13", "packet"),
    ]
    assert len(listed.skipped) == 1


@pytest.mark.parametrize("form", ["DownloadFileBytes", "ViewDocument", "Invoke", "InvokeAttachment"])
def test_onbase_ways_to_send_a_document(form: str, web: Web) -> None:
    """A page that waits, and then a request that depends on the version. The last ones put it into the session."""
    name = "Council%209%20Agenda.pdf"
    portal = f"{web.url}/AgendaOnline"
    web.routes[f"/AgendaOnline/Documents/DownloadFile/{name}"] = Reply(
        b"<p>Downloading, please wait</p>", headers={"Set-Cookie": "session=7; path=/"}
    )

    def invoke(request: Request) -> Reply:
        assert request.method == "POST"
        assert request.query["meetingId"] == "9"
        answer = {"DocumentName": "Stream 9.pdf", "MeetingId": 9, "DocumentType": 1, "ItemId": 4, "IsSection": False}
        return Reply(json.dumps(answer).encode(), headers={"Content-Type": "application/json"})

    def view(request: Request) -> Reply:
        expected = {"meetingId": "9", "documentType": "1", "itemId": "4", "publishId": "0", "isSection": "false"}
        is_known = request.query == expected and request.headers.get("cookie") == "session=7"
        return Reply(pdf("agenda")) if is_known else Reply(status=404)

    if form.startswith("Invoke"):
        method = "InvokeDownloadAttachment" if form.endswith("Attachment") else "InvokeDownloadMeetingDocument"
        web.routes[f"/AgendaOnline/Documents/{method}/{name}"] = invoke
        web.routes["/AgendaOnline/Documents/ViewDocument/Stream%209.pdf"] = view
    else:
        web.routes[f"/AgendaOnline/Documents/{form}/{name}"] = Reply(pdf("agenda"))
    query = "documentType=1&meetingId=9" + ("&isAttachment=True" if form.endswith("Attachment") else "")
    ref = DocumentRef(f"{portal}/Documents/DownloadFile/{name}?{query}", "Council", TODAY, "agenda", "onbase 9")
    assert download_offline("onbase", {"portal": portal}, ref) == pdf("agenda")


@pytest.mark.parametrize("slash", ["\\/", "\\u002F", "/"])
def test_a_portal_in_the_data_of_a_page_that_the_browser_builds_is_possible(
    slash: str, http: HttpClient, web: Web
) -> None:
    address = "https://tillamook-k12.community.diligentoneplatform.com/Portal/MeetingInformation.aspx?Id=5"
    data = json.dumps({"menu": [{"name": "Board", "link": "LINK"}]}).replace("LINK", address.replace("/", slash))
    web.serve_html("/", f"<div id='app'></div><script>window.__DATA__={data}</script>")
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("civicweb", "possible")]
    assert detection.candidates[0].extra == {"portal": "https://tillamook-k12.community.diligentoneplatform.com"}
    web.serve_html("/", f"<script type='application/ld+json'>{data}</script><script src='/x.js'></script>")
    assert summary(run(http, f"{web.url}/")) == []


def test_paths_in_scripts_are_not_requested(http: HttpClient, web: Web) -> None:
    other = web.url.replace("127.0.0.1", "localhost")
    web.serve_html("/", f"<script>var a = '{other}/OnBaseAgendaOnline/Meetings/Search?dropid=4';</script>")
    assert summary(run(http, f"{web.url}/")) == []
    assert not any("OnBase" in path for path in web.paths())


def test_a_link_to_policies_is_no_sign_of_meetings(http: HttpClient, web: Web) -> None:
    policies = "https://simbli.eboardsolutions.com/Policy/PolicyListing.aspx?S=36032023"
    meetings = "https://meetings.boardbook.org/Public/Organization/1559"
    web.serve_html("/", f"<a href='{policies}'>Board Policies</a><a href='{meetings}'>Board Meetings</a>")
    assert summary(run(http, f"{web.url}/")) == [("boardbook", "likely"), ("simbli", "possible")]


@pytest.mark.parametrize("refusals", [0, 1, 9])
def test_legistar_calendar_that_does_not_select_the_year(refusals: int, web: Web) -> None:
    def page(selected: str, rows: str) -> Reply:
        years = "".join(f'<li class="rcbItem ">{year}</li>' for year in ("All Years", "2026"))
        return Reply(
            f"""<form><input type="hidden" name="__VIEWSTATE" value="x"><div id="lstYears_DropDown"><ul>{years}</ul></div>
            <input name="ctl00$lstYears" type="text" id="ctl00_lstYears_Input" value="{selected}" readonly="readonly">
            <table class="rgMasterTable" id="ctl00_gridCalendar_ctl00"><thead><tr><th>Name</th><th>Meeting Date</th><th>Agenda</th></tr></thead><tbody>{rows}</tbody></table></form>""".encode()
        )

    def row(number: int, day: str) -> str:
        return f'<tr class="rgRow"><td>City Council</td><td>{day}</td><td><a href="View.ashx?M=A&ID={number}">Agenda</a></td></tr>'

    posted: list[str] = []

    def calendar(request: Request) -> Reply:
        if request.method == "POST":
            posted.append(request.form["ctl00_ContentPlaceHolder1_lstYears_ClientState"])
            if len(posted) > refusals:
                return page("2026", row(1, "1/13/2026") + row(2, "2/10/2026"))
        return page("This Month", row(2, "2/10/2026"))

    web.routes["/Calendar.aspx"] = calendar
    listed = list_offline("legistar-calendar", {"portal": web.url, **SINCE}, TODAY)
    assert len(listed.documents) == (1 if refusals == 9 else 2)
    assert listed.skipped == (["the calendar of 2026 was answered with another period"] if refusals == 9 else [])
    assert len(posted) == min(refusals, 1) + 1
