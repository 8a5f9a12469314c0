"""Small portals in the shape of each vendor's, for a local web server."""

# ruff: noqa: E501 (lines of HTML)

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from urllib.parse import quote

from tests.sources.web import Reply, Request, Web

TODAY = date.today()
DAY = TODAY - timedelta(days=30)
"""Of a past meeting. Recent, because some listings reach back one year only."""
EARLIER = DAY - timedelta(days=14)
Expected = set[tuple[str, date, str]]


@dataclass
class Portal:
    """What a site needs to fetch the portal, and what it must find there."""

    extra: dict[str, Any]
    documents: Expected
    """Meeting, date and kind of the PDFs."""
    pages: Expected = field(default_factory=set)
    """Of the documents that are web pages."""
    listing: str = ""
    """Path of the listing, for tests that replace its answer."""


def american(day: date) -> str:
    return f"{day.month}/{day.day}/{day.year}"


def in_words(day: date) -> str:
    return f"{day:%B} {day.day}, {day.year}"


def html(web: Web, path: str, body: str) -> None:
    web.serve_html(path, f"<!DOCTYPE html><html><head><title>Springfield</title></head><body>{body}</body></html>")


class Server:
    """Serves one vendor's portal below a path of a web server."""

    def __init__(self, web: Web, name: str, pdf: Callable[[str], bytes]) -> None:
        self.web = web
        self.path = f"/{name}"
        self.url = f"{web.url}{self.path}"
        self.pdf = pdf

    def page(self, path: str, body: str) -> str:
        html(self.web, self.path + path, body)
        return self.path + path

    def answer(self, path: str, respond: Callable[[Request], Any]) -> str:
        """Serve JSON that depends on the request."""

        def reply(request: Request) -> Reply:
            return Reply(json.dumps(respond(request)).encode(), headers={"Content-Type": "application/json"})

        self.web.routes[self.path + path] = reply
        return self.path + path

    def files(self, *paths: str) -> None:
        for path in paths:
            self.web.routes[self.path + path] = Reply(
                self.pdf(f"{self.path} {path}"), headers={"Content-Type": "application/pdf"}
            )

    def by_query(self, path: str) -> None:
        """Serve a PDF per query at one path."""
        self.web.routes[self.path + path] = lambda request: Reply(self.pdf(f"{path} {sorted(request.query.items())}"))


def granicus(server: Server) -> Portal:
    listing = server.page(
        "/ViewPublisher.php",
        f"""<h3>Upcoming Events</h3><table class="listingTable" id="upcoming"><thead><tr>
        <th id="EventName">Name</th><th id="EventDate">Date</th><th id="EventAgendaLink"></th></tr></thead>
        <tbody><tr class="odd"><td class="listItem" headers="EventName">Planning Board - CANCELLED</td>
        <td headers="EventDate Planning"><span style="display:none;">1646704800</span>{f"{DAY:%B}&nbsp;{DAY.day:02},&nbsp;{DAY.year}"} - 06:00&nbsp;PM</td>
        <td><a href="{server.url}/AgendaViewer.php?view_id=3&amp;event_id=9">Agenda</a></td></tr></tbody></table>
        <h3>Available Archives</h3><table class="listingTable sortable"><thead><tr><th>Meeting</th><th>Date</th>
        <th>Duration</th><th class="Agenda"></th><th class="AgendaPacket"></th><th class="Minutes"></th></tr></thead><tbody>
        <tr class="listingRow"><td headers="Name">City Council</td><td>{EARLIER:%b} {EARLIER.day}, {EARLIER.year}</td>
        <td>01h&nbsp;29m</td><td><a href="javascript:void(0);"
        onclick="window.open('AgendaViewer.php?view_id=3&amp;clip_id=7','x','width=1')">Agenda</a></td>
        <td><a href="MetaViewer.php?view_id=3&amp;clip_id=7&amp;meta_id=5">Agenda Packet</a></td>
        <td><a href="MinutesViewer.php?view_id=3&amp;clip_id=7">Minutes</a></td>
        <td><a href="MediaPlayer.php?view_id=3&amp;clip_id=7">Video</a></td></tr>
        <tr class="listingRow"><td headers="Name">Without documents</td><td>{american(DAY)}</td></tr></tbody></table>""",
    )
    server.web.routes[f"{server.path}/AgendaViewer.php"] = lambda request: Reply(
        status=302,
        headers={
            "Location": f"{server.url}/gview?url={quote(server.url + '/stored.pdf', safe='')}&embedded=true"
            if "clip_id" in request.query
            else f"{server.url}/DocumentViewer.php?file=event.pdf"
        },
    )
    server.by_query("/MinutesViewer.php")
    server.by_query("/DocumentViewer.php")
    server.files("/stored.pdf", "/MetaViewer.php")
    expected = {
        ("Planning Board", DAY, "agenda"),
        ("City Council", EARLIER, "agenda"),
        ("City Council", EARLIER, "minutes"),
    }
    return Portal({"client": "town", "portal": server.url, "views": [3]}, expected, listing=listing)


def civicclerk(server: Server) -> Portal:
    def event(number: int, name: str, day: date, *files: tuple[int, str, int]) -> dict[str, Any]:
        return {
            "id": number,
            "eventName": name,
            "startDateTime": f"{day}T19:00:00Z",
            "eventCategoryName": "City Council",
            "publishedFiles": [
                {
                    "fileId": file,
                    "type": kind,
                    "fileType": code,
                    "name": "x",
                    "publishOn": f"{day}T01:02:03Z",
                    "url": "a.pdf",
                }
                for file, kind, code in files
            ],
        }

    pages = {
        "first": [event(1, "Work Session", EARLIER, (11, "Agenda", 1), (12, "Agenda Packet", 2)), event(2, "x", DAY)],
        "second": [event(3, "Regular", DAY, (31, "", 4), (32, "Other", 9))],
    }
    following = {"@odata.nextLink": f"{server.url}/v1/Events?$skip=2"}
    listing = server.answer(
        "/v1/Events",
        lambda request: (
            {"value": pages["second"]} if "$skip" in request.query else {"value": pages["first"], **following}
        ),
    )
    for number in (11, 12, 31):
        server.files(f"/v1/Meetings/GetMeetingFileStream(fileId={number},plainText=false)")
    expected = {("City Council", EARLIER, "agenda"), ("City Council", DAY, "minutes")}
    return Portal({"client": "town", "api": f"{server.url}/v1"}, expected, listing=listing)


def boarddocs(server: Server) -> Portal:
    base = "/il/springfield/Board.nsf"
    server.page(f"{base}/Public", '<a class="committee-trigger" committeeid="A4EP6J588C05">School Board</a>')
    listing = server.answer(
        f"{base}/BD-GetMeetingsList",
        lambda request: [
            {"unique": "CT23380490B4", "name": "Regular Meeting", "numberdate": f"{DAY:%Y%m%d}"},
            {"unique": "D2ELU4580B50", "name": "Special Meeting", "numberdate": f"{EARLIER:%Y%m%d}"},
            {
                "unique": "FUTURE000001",
                "name": "Without an agenda",
                "numberdate": f"{TODAY + timedelta(days=9):%Y%m%d}",
            },
            {},
        ],
    )
    server.web.routes[f"{server.path}{base}/Download-AgendaDetailed"] = lambda request: Reply(
        b""
        if request.form["id"] == "FUTURE000001"
        else f"<div class='meeting-name'>{request.form['id']}</div>".encode()
    )
    server.web.routes[f"{server.path}{base}/BD-GetMinutes"] = lambda request: Reply(
        b"<p>Minutes</p>" if request.form["id"] == "D2ELU4580B50" else b""
    )
    pages = {
        ("School Board", DAY, "agenda"),
        ("School Board", EARLIER, "agenda"),
        ("School Board", EARLIER, "minutes"),
    }
    return Portal({"path": "il/springfield", "portal": server.url}, set(), pages, listing)


def iqm2(server: Server) -> Portal:
    def row(number: int, board: str, day: date, *links: str) -> str:
        title = f"{day:%A}, {in_words(day)} 5:30 PM&#13;&#13;Board:&#09;{board}&#13;Type:&#09;Regular Meeting&#13;Status:&#09;Closed"
        return f"""<div class="Row MeetingRow"><div class="RowTop"><div class="RowLink">
        <a href="/Citizens/Detail_Meeting.aspx?ID={number}" title="{title}">{day:%b} {day.day}, {day.year} 5:30 PM</a></div>
        <div class="RowRight MeetingLinks">{"".join(links)}</div></div>
        <div class="RowBottom"><div class="RowDetails">{board} - Regular Meeting</div></div></div>"""

    def link(text: str, kind: int, number: int) -> str:
        return f"<div>&nbsp;<a href='FileOpen.aspx?Type={kind}&ID={number}&Inline=True'>{text}</a>&nbsp;</div>"

    hidden = "<div><a href='' class='HiddenDocumentLink'>Minutes</a></div>"
    rows = [
        row(1, "City Council", DAY, link("Agenda", 15, 5), link("Agenda Packet", 1, 5), hidden),
        row(2, "Zoning Board", EARLIER, link("Agenda", 14, 6), link("Minutes", 15, 7).replace("FileOpen", "FileView")),
        row(3, "Water Board", DAY, '<a href="/Citizens/Detail_Meeting.aspx?ID=3">Agenda</a>'),
    ]
    listing = server.page("/Citizens/Calendar.aspx", f'<div id="ContentPlaceholder1_pnlMeetings">{"".join(rows)}</div>')
    server.by_query("/Citizens/FileOpen.aspx")
    expected = {
        ("City Council", DAY, "agenda"),
        ("Zoning Board", EARLIER, "agenda"),
        ("Zoning Board", EARLIER, "minutes"),
    }
    # At the root of the host, to which its link leads.
    html(server.web, "/Citizens/Detail_Meeting.aspx", "<p>Agenda of the Water Board</p>")
    pages = {("Water Board", DAY, "agenda")}
    return Portal({"client": "town", "portal": server.url}, expected, pages, listing)


def municode(server: Server) -> Portal:
    def row(day: date, number: int, *kinds: str) -> str:
        files = {
            kind: f'<a href="{server.url}/d/f?u={server.url}/MEET-{kind}-{number:032x}.pdf&n={kind}-Council.pdf"><img alt="Document link"></a>'
            for kind in kinds
        }
        cells = "".join(
            f'<td class="div-table-col {kind.lower()}">{files.get(kind, "")}</td>'
            for kind in ("Agenda", "Packet", "Minutes")
        )
        return f'<tr><td class="meeting">City Council</td><td class="date">{american(day)}</td>{cells}</tr>'

    head = "<thead><tr><th>Meeting</th><th>Date</th><th>Agenda</th><th>Packet</th><th>Minutes</th></tr></thead>"
    pages = {"1": row(DAY, 1, "Agenda", "Packet"), "2": row(EARLIER, 2, "Agenda", "Minutes")}

    def respond(request: Request) -> Reply:
        rows = pages.get(request.query.get("p", ""), pages["2"])
        return Reply(f'<html><table class="div-table mcm">{head}{rows}</table></html>'.encode())

    server.web.routes[f"{server.path}/PublishPage"] = respond
    server.files(*(f"/MEET-{kind}-{number:032x}.pdf" for kind in ("Agenda", "Packet", "Minutes") for number in (1, 2)))
    expected = {
        ("City Council", DAY, "agenda"),
        ("City Council", EARLIER, "agenda"),
        ("City Council", EARLIER, "minutes"),
    }
    return Portal({"page": f"{server.url}/PublishPage?cid=TOWN&ppid=1"}, expected, listing=f"{server.path}/PublishPage")


def grid_page(grid: str, head: str, rows: str, pages: tuple[int, int] | None = None) -> str:
    """A Telerik grid, with a pager if `pages` has the current page and their number."""
    pager = ""
    if pages:
        current, count = pages
        links = "".join(
            f"""<a class="{"rgCurrentPage" if page == current else ""}"
            href="javascript:__doPostBack(&#39;ctl00${grid}$ctl{page:02}&#39;,&#39;&#39;)"><span>{page}</span></a>"""
            for page in range(1, count + 1)
        )
        pager = (
            f'<tfoot><tr class="rgPager"><td><table><tbody><tr><td>{links}</td></tr></tbody></table></td></tr></tfoot>'
        )
    return f"""<form><input type="hidden" name="__VIEWSTATE" value="state {pages}">
    <table class="rgMasterTable" id="{grid}_ctl00"><thead><tr>{head}</tr></thead>{pager}<tbody>{rows}</tbody></table></form>"""


def novusagenda(server: Server) -> Portal:
    head = "<th>Meeting Date</th><th>Meeting Type</th><th>Meeting Location</th><th>Online Agenda</th><th>Download Agenda</th><th>Legal Minutes</th>"

    def row(day: date, agenda: int, minutes: str = "") -> str:
        return f"""<tr class="rgRow"><td>{day:%m/%d/%y}</td><td>Council Meeting</td><td>City Hall</td>
        <td><a onClick="javascript:v=window.open(&#39;MeetingView.aspx?MeetingID={agenda}&amp;doctype=Agenda&#39;,&#39;v&#39;)"><img alt="View Agenda HTML"></a></td>
        <td><a href="DisplayAgendaPDF.ashx?MeetingID={agenda}"><img alt="Agenda PDF"></a></td><td>{minutes}</td></tr>"""

    minutes = '<a href="DisplayAgendaPDF.ashx?MinutesMeetingID=5"><img alt="Legal Minutes"></a>'
    pages = {1: row(DAY, 1), 2: row(EARLIER, 2, minutes)}

    def respond(request: Request) -> Reply:
        page = 2 if request.form.get("__EVENTTARGET", "").endswith("ctl02") else 1
        return Reply(f"<html>{grid_page('radGridMeetings', head, pages[page], (page, 2))}</html>".encode())

    server.web.routes[f"{server.path}/meetingsgeneral.aspx"] = respond
    server.by_query("/DisplayAgendaPDF.ashx")
    expected = {
        ("Council Meeting", DAY, "agenda"),
        ("Council Meeting", EARLIER, "agenda"),
        ("Council Meeting", EARLIER, "minutes"),
    }
    return Portal({"client": "town", "portal": server.url}, expected, listing=f"{server.path}/meetingsgeneral.aspx")


def legistar_calendar(server: Server) -> Portal:
    head = "<th>Name</th><th>Meeting Date</th><th>Meeting Time</th><th>Agenda</th><th>Accessible Agenda</th><th>Minutes</th>"

    def row(name: str, day: date, number: int, minutes: bool = False) -> str:
        accessible = f'<a href="View.ashx?M=AADA&amp;ID={number}&amp;GUID=X">Accessible Agenda</a>'
        link = f'<a href="View.ashx?M=M&amp;ID={number}&amp;GUID=X">Minutes</a>' if minutes else "Not&nbsp;available"
        return f"""<tr class="rgRow"><td><a href="DepartmentDetail.aspx?ID=1">{name}</a></td><td>{american(day)}</td>
        <td>7:00 PM</td><td><a href="View.ashx?M=A&amp;ID={number}&amp;GUID=X">Agenda</a></td>
        <td>{accessible}</td><td>{link}</td></tr>"""

    rows = {1: row("City Council", DAY, 1), 2: row("Budget Committee", EARLIER, 2, minutes=True)}

    def respond(request: Request) -> Reply:
        page = 2 if request.form.get("__EVENTTARGET", "").endswith("ctl02") else 1
        return Reply(f"<html>{grid_page('gridCalendar', head, rows[page], (page, 2))}</html>".encode())

    server.web.routes[f"{server.path}/Calendar.aspx"] = respond
    server.by_query("/View.ashx")
    expected = {
        ("City Council", DAY, "agenda"),
        ("Budget Committee", EARLIER, "agenda"),
        ("Budget Committee", EARLIER, "minutes"),
    }
    return Portal({"client": "town", "portal": server.url}, expected, listing=f"{server.path}/Calendar.aspx")


def escribe(server: Server) -> Portal:
    def link(kind: str, form: str, address: str, title: str = "") -> dict[str, Any]:
        return {"Type": kind, "Format": form, "Title": title or kind, "Url": address, "LanguageId": 9}

    meeting = {
        "ID": "3a6304b5",
        "MeetingName": "Board of Ethics",
        "StartDate": f"{DAY:%Y/%m/%d} 17:15:00",
        "MeetingDocumentLink": [
            link("AgendaCover", ".pdf", "FileStream.ashx?DocumentId=1", "Agenda Cover Page (PDF)"),
            link("Agenda", ".pdf", "FileStream.ashx?DocumentId=2"),
            link("Agenda", "HTML", "Meeting.aspx?Id=3a6304b5&Agenda=Agenda"),
            link("PostMinutes", ".pdf", "FileStream.ashx?DocumentId=3", "Proc\u00e8s-verbal"),
        ],
    }
    page = {
        "ID": "4b",
        "MeetingName": "Council",
        "StartDate": f"{EARLIER:%Y/%m/%d} 09:00:00",
        "MeetingDocumentLink": [link("Agenda", "HTML", "Meeting.aspx?Id=4b&Agenda=Agenda")],
    }
    empty = {"ID": "5c", "MeetingName": "Council", "StartDate": f"{DAY:%Y/%m/%d} 09:00:00", "MeetingDocumentLink": None}
    listing = server.answer(
        "/MeetingsCalendarView.aspx/GetCalendarMeetings", lambda request: {"d": [meeting, page, empty]}
    )
    server.by_query("/FileStream.ashx")
    server.page("/Meeting.aspx", "<p>Agenda of the council</p>")
    expected = {("Board of Ethics", DAY, "agenda"), ("Board of Ethics", DAY, "minutes")}
    return Portal({"client": "town", "portal": server.url}, expected, {("Council", EARLIER, "agenda")}, listing)


def civicweb(server: Server) -> Portal:
    service = "/Services/MeetingsService.svc/meetings"
    listing = server.answer(
        service,
        lambda request: [
            {
                "Id": 1,
                "Name": f"Council - {DAY:%b} {DAY.day} {DAY.year}",
                "MeetingDateTime": f"{DAY} 17:00",
                "Published": True,
            },
            {"Id": 2, "Name": "Library Board", "MeetingDate": str(EARLIER), "Published": True},
            {"Id": 3, "Name": "Council", "MeetingDate": str(DAY), "Published": False},
        ],
    )
    server.answer(
        f"{service}/1/meetingDocuments",
        lambda request: [{"Id": 11, "DocumentType": 1}, {"Id": 12, "DocumentType": 4}, {"Id": 13, "DocumentType": 10}],
    )
    # The form of Diligent Community.
    server.answer(
        f"{service}/2/meetingDocuments",
        lambda request: {"Documents": [{"Id": 21, "DocumentType": 2, "LastModified": 639138740102030000}]},
    )
    server.files("/document/12/", "/document/13/", "/document/21/")
    expected = {("Council", DAY, "agenda"), ("Council", DAY, "minutes"), ("Library Board", EARLIER, "minutes")}
    return Portal({"client": "town", "portal": server.url}, expected, listing=listing)


def onbase(server: Server) -> Portal:
    def row(number: int, day: date, *kinds: tuple[str, int]) -> str:
        when = f"{american(day)} 7:00:00 PM"
        links = "".join(
            f"""<a href="{server.path}/Meetings/ViewMeeting?id={number}&amp;doctype={code}" title="View {kind} for x on {when}">{kind}</a>
            <a href="{server.path}/Documents/Downloadfile/{number}_{kind}.pdf?documentType={code}&amp;meetingId={number}"
            title="Download {kind} for {in_words(day)} City Council on {when}"><img src="pdf.png"></a>"""
            for kind, code in kinds
        )
        return f"""<tr class="meeting-row" data-meeting-id="{number}"><td data-sortable-type="mtgName">{in_words(day)}</td>
        <td data-sortable-type="mtgType">City Council</td><td data-sortable-type="mtgTime">{when}</td>
        <td class="visible-xs">{links}</td><td>{links}</td></tr>"""

    rows = row(1, DAY, ("Agenda", 1)) + row(2, EARLIER, ("Agenda", 1), ("Minutes", 2)) + row(3, DAY)
    listing = server.page("/Meetings/Search", f'<div id="meetings-list"><table><tbody>{rows}</tbody></table></div>')
    server.files(
        "/Documents/Downloadfile/1_Agenda.pdf",
        "/Documents/Downloadfile/2_Agenda.pdf",
        "/Documents/Downloadfile/2_Minutes.pdf",
    )
    expected = {
        ("City Council", DAY, "agenda"),
        ("City Council", EARLIER, "agenda"),
        ("City Council", EARLIER, "minutes"),
    }
    return Portal({"portal": server.url}, expected, listing=listing)


def simbli(server: Server) -> Portal:
    server.page("/SB_Meetings/SB_MeetingListing.aspx", "<script>var constr = 'abc'; var sToken = \"def\";</script>")
    meetings = [
        {
            "Master_MeetingID": 7,
            "MM_MeetingTitle": "Audit &amp; Finance",
            "MM_DateTime": f"{DAY}T13:00:00",
            "MinutesStatus": "PUBLISHED",
        },
        {
            "Master_MeetingID": 8,
            "MM_MeetingTitle": "Board",
            "DateTime": f"{EARLIER:%m/%d/%Y} - 01:00 PM",
            "MinutesStatus": "UNPUBLISHED",
        },
    ]
    listing = server.answer(
        "/Services/api/GetMeetingListing",
        lambda request: meetings[json.loads(request.body)["RecordStart"] :][:1],
    )
    server.page("/SB_Meetings/ViewMeeting.aspx", "<p>Board meeting</p>")
    pages = {("Audit & Finance", DAY, "agenda"), ("Audit & Finance", DAY, "minutes"), ("Board", EARLIER, "agenda")}
    return Portal({"school": 4054, "portal": server.url}, set(), pages, listing)


def boardbook(server: Server) -> Portal:
    def row(day: date, name: str, number: int, *kinds: str) -> str:
        links = "".join(
            f'<li><a href="{server.path}/Public/{kind}/18?meeting={number}">{kind}</a></li>' for kind in kinds
        )
        return f"""<tr class=" row-for-board"><td><div>{in_words(day)} at 4:30 PM - {name}</div>
        <div><b>Meeting Type:</b> Regular</div></td><td>City Hall</td><td><ul>{links}</ul></td></tr>"""

    rows = row(DAY, "School Board", 1, "Agenda") + row(EARLIER, "School Board Cancelled", 2, "Agenda", "Minutes")
    listing = server.page(
        "/Public/Organization/18",
        f'<h2>Meetings</h2><table id="PublicMeetingsTable"><thead><tr><th>Meeting</th></tr></thead><tbody>{rows}</tbody></table>',
    )
    # The second agenda has no PDF of its own: the portal redirects to the list, but its page is one here.
    server.web.routes[f"{server.path}/Public/DownloadAgenda/18"] = lambda request: (
        Reply(server.pdf("agenda 1"))
        if request.query["meeting"] == "1"
        else Reply(status=302, headers={"Location": f"{server.url}/Public/Organization/18"})
    )
    server.by_query("/Public/Agenda/18")
    server.by_query("/Public/Minutes/18")
    expected = {
        ("School Board", DAY, "agenda"),
        ("School Board", EARLIER, "agenda"),
        ("School Board", EARLIER, "minutes"),
    }
    return Portal({"organization": 18, "portal": server.url}, expected, listing=listing)


def civicplus_archive(server: Server) -> Portal:
    index = '<ul><li><a href="Archive.aspx?AMID=36">City Council Minutes</a><li><a href="Archive.aspx?AMID=40">Newsletters</a></ul>'
    rows = f"""<h1>Archive Center</h1><table><tr><td><a href="Archive.aspx?ADID=100"><span>{in_words(DAY)} Minutes</span></a>
    <tr><td><a href="Archive.aspx?ADID=101">Special Called Meeting {EARLIER:%m-%d-%Y}</a></table><a href="Archive.aspx?AMID=36">"""

    def respond(request: Request) -> Reply:
        if "ADID" in request.query:
            return Reply(server.pdf(request.query["ADID"]))
        return Reply(f"<html>{rows if 'AMID' in request.query else index}</html>".encode())

    server.web.routes[f"{server.path}/Archive.aspx"] = respond
    expected = {("City Council", DAY, "minutes"), ("City Council", EARLIER, "minutes")}
    return Portal({"site": server.url}, expected, listing=f"{server.path}/Archive.aspx")


PORTALS: dict[str, Callable[[Server], Portal]] = {
    "granicus": granicus,
    "civicclerk": civicclerk,
    "boarddocs": boarddocs,
    "iqm2": iqm2,
    "municode": municode,
    "novusagenda": novusagenda,
    "escribe": escribe,
    "civicweb": civicweb,
    "onbase": onbase,
    "simbli": simbli,
    "boardbook": boardbook,
    "legistar-calendar": legistar_calendar,
    "civicplus-archive": civicplus_archive,
}
"""By the label of the fetcher."""
