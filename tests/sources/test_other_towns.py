"""Listings as other towns publish them: other columns, markup, dates and links than those of `vendor_sites`.

Each is served by a local web server and read without a database.
"""

# ruff: noqa: E501 (lines of HTML)

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from clerk.documents.media_types import HTML, PDF, PDF_OR_HTML
from clerk.errors import AccessDenied, SourceUnreadable
from clerk.sources.html_tree import MAX_LINKS
from clerk.sources.row_collector import MAX_ROWS
from clerk.sources.vendors import BUILT_IN, legistar, simbli
from tests.sources.conftest import Town
from tests.sources.offline import Listed, download_offline, list_offline
from tests.sources.web import Reply, Request, Web, pdf

TODAY = date(2026, 3, 1)
SINCE = {"since": "2026-01-01"}
"""One window of dates until the end of the year."""


def list_page(web: Web, label: str, path: str, page: str, extra: dict[str, Any]) -> Listed:
    web.serve_html(path, f"<html><head><title>Springfield</title></head><body>{page}</body></html>")
    return list_offline(label, {**extra, **SINCE}, TODAY)


GRANICUS = {
    # Class names and headings of the newer template, a column for the date first, relative and protocol-less links.
    "a sortable table": (
        """<h2>City Council</h2><table class="sortable" id="archive-table"><thead><tr><th>Date</th><th>Event</th><th>Length</th><th></th></tr></thead>
        <tbody><tr><td>Jan 13, 2026</td><td>Regular Meeting</td><td>1 hr 20 min</td><td><a href="/AgendaViewer.php?clip_id=7&amp;view_id=2">View</a></td></tr>
        <tr><td>02/03/26</td><td>Study Session - CANCELED</td><td></td><td><a href="//host.example/MinutesViewer.php?doc_id=ab-1&amp;clip_id=8">View</a></td></tr></tbody></table>""",
        [("Regular Meeting", "2026-01-13", "agenda"), ("Study Session", "2026-02-03", "minutes")],
    ),
    "panels by body without a column for the name": (
        """<div class="CollapsiblePanel"><div class="CollapsiblePanelTab" tabindex="0">Planning Commission</div>
        <table class="listingTable"><tr><td headers="Date x">January&nbsp;8,&nbsp;2026 - 06:00&nbsp;PM</td><td headers="Duration x">00h&nbsp;45m</td>
        <td><a href="GeneratedAgendaViewer.php?view_id=2&amp;event_id=5">Agenda</a></td>
        <td><a href="javascript:void(0);" onclick="window.open('MediaPlayer.php?view_id=2&amp;clip_id=5')">Video</a></td></tr></table></div>""",
        [("Planning Commission", "2026-01-08", "agenda")],
    ),
    "boxes instead of a table": (
        """<div id="archive"><div class="meeting"><span>Library Board</span> <time>2026-01-20</time>
        <div><a href="AgendaViewer.php?view_id=2&amp;clip_id=31">Agenda</a> <a href="MinutesViewer.php?view_id=2&amp;clip_id=31">Action Minutes</a></div></div>
        <div class="meeting"><span>Zoning Board</span> <time>January 21, 2026</time><div><a href="agendaviewer.php?view_id=2&amp;clip_id=32">Agenda</a></div></div></div>""",
        [
            ("Library Board", "2026-01-20", "agenda"),
            ("Library Board", "2026-01-20", "minutes"),
            ("Zoning Board", "2026-01-21", "agenda"),
        ],
    ),
    "a table in a table for the layout": (
        """<table><tr><td><a href="http://www.granicus.com">Help</a></td><td><table class="listingTableUpcoming"><tbody>
        <tr><td>Council</td><td>1/27/2026</td><td><a href="https://host.example/AgendaViewer.php?event_id=4">Orden del día</a></td></tr></tbody></table></td></tr></table>""",
        [("Council", "2026-01-27", "agenda")],
    ),
    "files without a viewer": (
        """<table class="listingTable"><thead><tr><th>Name</th><th>Date</th><th>Agenda</th><th>Minutes</th></tr></thead><tbody><tr><td>Council</td><td>Jan 6, 2026</td>
        <td><a href="https://d3.cloudfront.net/x/agenda_06.pdf">PDF</a></td><td><a href="https://files.example/minutes.html">HTML</a></td></tr></tbody></table>""",
        [("Council", "2026-01-06", "agenda"), ("Council", "2026-01-06", "minutes")],
    ),
    "the date is a link with a year of two digits": (
        """<table class="sortable" id="archive"><thead><tr><th id="Date">VIEW</th><th id="Name"></th><th id="Agenda" colspan="2">DOCUMENTS</th></tr></thead><tbody>
        <tr><td headers="Date Arts-Board"><a href="javascript:void(0);" onclick="window.open('//h.example/MediaPlayer.php?view_id=7&clip_id=21')"><span style="display:none;">1768435200</span>Jan&nbsp;14,&nbsp;26</a></td>
        <td headers="Name Arts-Board">Arts Board</td><td headers="Agenda Arts-Board"><a href="//h.example/AgendaViewer.php?view_id=7&clip_id=21">Agenda</a></td><td headers="Minutes Arts-Board"></td>
        <td headers="Captions Arts-Board"><a href="//h.example/TranscriptViewer.php?view_id=7&clip_id=21">Captions</a></td></tr></tbody></table>""",
        [("Arts Board", "2026-01-14", "agenda")],
    ),
    "the id of a name has words of columns": (
        """<table class="listingTable"><tr><td headers="Name" id="Agenda-Review-and-Video-Board">Agenda Review and Video Board</td><td headers="Date Agenda-Review-and-Video-Board">Jan 6, 2026</td>
        <td><a href="AgendaViewer.php?view_id=1&clip_id=1">Agenda</a></td></tr></table>""",
        [("Agenda Review and Video Board", "2026-01-06", "agenda")],
    ),
    "a link to the recording before the name, and minutes to choose from": (
        """<table class="listingTable"><tr><td headers="Name" id="Council"><a href="javascript:void(0);" onClick="window.open('//f.example/MediaPlayer.php?clip_id=46','player')">play</a>&nbsp;Council and Playhouse Board</td>
        <td headers="Date Council">Jan  7, 2026</td><td><a href="//f.example/AgendaViewer.php?view_id=3&clip_id=46">Agenda</a></td><td><select onchange="window.open(this.value)"><option value="">Documents</option>
        <option value="//f.example/MinutesViewer.php?clip_id=46&doc_id=aa">Draft Minutes</option><option value="//f.example/MinutesViewer.php?clip_id=46&doc_id=bb">Minutes</option></select></td></tr></table>""",
        [("Council and Playhouse Board", "2026-01-07", kind) for kind in ("agenda", "minutes", "minutes")],
    ),
    "a list with a class for each column": (
        """<div id="granicus"><div class="CollapsiblePanelTab">City Commission</div><ol><li class="table-row--head"><div>Name</div><div>Date</div></li>
        <li><div class="archive-name">Workshop</div><div class="archive-date">Jan 14, 2026 - 09:00 AM</div><div class="archive-duration">01h 20m</div><div class="archive-agenda"><a href="AgendaViewer.php?view_id=3&clip_id=5">Agenda</a></div>
        <div class="archive-minutes"><a href="MinutesViewer.php?view_id=3&clip_id=5">Minutes</a></div></li>
        <li><div class="archive-duration">00h 20m</div><div class="archive-name">Regular Meeting</div><div class="archive-date">Jan 7, 2026</div><div class="archive-agenda"><a href="AgendaViewer.php?view_id=3&clip_id=4">Agenda</a></div></li></ol></div>""",
        [("Workshop", "2026-01-14", "agenda"), ("Workshop", "2026-01-14", "minutes"), ("Regular Meeting", "2026-01-07", "agenda")],
    ),
    "rows with a class of columns": (
        """<table class="listingTable"><tr class="archive-row"><td>Council</td><td>Jan 6, 2026</td><td><a href="AgendaViewer.php?clip_id=9">Agenda</a></td></tr></table>""",
        [("Council", "2026-01-06", "agenda")],
    ),
    "recordings only": (
        """<table class="shade"><tr><td class="name">Council</td><td>Dec&nbsp;19,&nbsp;2025</td><td>8&nbsp;hr&nbsp;00&nbsp;min</td><td><a href="javascript:void(0);" onClick="window.open('//x.example/MediaPlayer.php?clip_id=7')">Video</a></td></tr></table>""",
        [],
    ),
    "documents that are not stored by Granicus": (
        """<table class="listingTable"><thead><tr><th>Meeting</th><th>Date</th><th>Agenda</th><th>Minutes</th></tr></thead><tbody><tr><td>Council</td><td>1/13/26</td>
        <td><a href="https://town.example/View.ashx?M=A&ID=5">Agenda</a> <a href="https://town.example/MeetingDetail.aspx?ID=5">Details</a></td><td><a href="https://town.example/DocumentCenter/View/12">Draft Minutes</a>
        <a href="https://town.example/how-to-read-minutes">How to read minutes</a></td></tr></tbody></table>""",
        [("Council", "2026-01-13", "agenda"), ("Council", "2026-01-13", "minutes")],
    ),
    "an addendum in the column of the agenda, and a draft in that of the minutes": (
        """<table class="listingTable"><tr><td headers="Name">Council</td><td headers="Date x">1/6/2026</td><td headers="AgendaLink x"><a href="AgendaViewer.php?clip_id=9">Full</a> <a href="MetaViewer.php?clip_id=9&meta_id=77">Revised items</a></td>
        <td headers="Minutes x"><a href="MetaViewer.php?clip_id=9&meta_id=78">Draft</a></td></tr></table>""",
        [("Council", "2026-01-06", kind) for kind in ("agenda", "agenda", "minutes")],
    ),
}  # fmt: skip


RSS = (
    "<link rel=alternate type='application/rss+xml' href='//town.example/ViewPublisherRSS.php?view_id=2&mode=agendas'>"
)
FEED = """<?xml version="1.0"?><rss version="2.0" xmlns:gran="https://example.org/rss"><channel><title>Town: Meetings (Agendas Feed)</title>
<item><title>City Council - Jan 13, 2026</title><pubDate>Fri, 09 Jan 2026 18:00:00 -0800</pubDate><gran:pubDateParts yr='2026' mo='01' day='09' hr='18' />
<link>{url}/AgendaViewer.php?view_id=2&amp;clip_id=7</link><description>x</description></item>
<item><title><![CDATA[Parks & Trees Board - Agenda - Jan 20, 2026 06:00 PM]]></title><link>{url}/AgendaViewer.php?view_id=2&amp;event_id=8</link></item>
<item><title>Special Meeting</title><gran:pubDateParts yr='2026' mo='02' day='3' /><link>{url}/MediaPlayer.php?view_id=2&amp;clip_id=9</link><description><![CDATA[<a href="{url}/AgendaViewer.php?view_id=2&clip_id=9">agenda</a>]]></description></item>
<item><title>Recording only - Jan 1, 2026</title><link>{url}/MediaPlayer.php?view_id=2&amp;clip_id=10</link></item></channel></rss>"""


def test_granicus_feeds_are_read_where_the_page_lists_no_documents(web: Web) -> None:
    empty = FEED.partition("<item>")[0] + "</channel></rss>"

    def feed(request: Request) -> Reply:
        return Reply((FEED if request.query["mode"] == "agendas" else empty).format(url=web.url).encode())

    web.routes["/ViewPublisherRSS.php"] = feed
    extra = {"portal": web.url, "views": 2}
    for page in (
        f"{RSS}<div id='app'></div>",
        f"{RSS}<table class='listingTable'><tr><td>Council</td><td>Jan 13, 2026</td></tr></table>",
    ):
        listed = list_page(web, "granicus", "/ViewPublisher.php", page, extra)
        assert listed.documents == [
            ("City Council", "2026-01-13", "agenda"),
            ("Parks & Trees Board", "2026-01-20", "agenda"),
            ("Special Meeting", "2026-02-03", "agenda"),
        ]
        assert [ref.key for ref in listed.refs] == [
            f"granicus {number} agenda" for number in ("clip_id 7", "event_id 8", "clip_id 9")
        ]
        assert listed.skipped == ["Recording only - Jan 1, 2026 has no address of a document"]
    web.routes["/ViewPublisherRSS.php"] = Reply((empty + "<item>" * 6000).encode())
    with pytest.raises(SourceUnreadable, match="has more than 5,000 items"):
        list_page(web, "granicus", "/ViewPublisher.php", RSS, extra)
    web.routes["/ViewPublisherRSS.php"] = Reply(b"<html><p>Sign in</p></html>")
    with pytest.raises(
        SourceUnreadable, match=r"no table\.listingTable.*, and no feed at .*/ViewPublisherRSS\.php\?view_id=2"
    ):
        list_page(
            web,
            "granicus",
            "/ViewPublisher.php",
            f"<body class='archive'>{RSS}",
            extra,
        )
    assert list_page(web, "granicus", "/ViewPublisher.php", f"{RSS}<div id='granicus'></div>", extra).documents == []


def test_documents_that_a_granicus_feed_leaves_out_are_not_removed(web: Web, town: Town) -> None:
    web.serve_html("/ViewPublisher.php", RSS)
    item = "<item><title>Council - {day}</title><link>{url}/AgendaViewer.php?clip_id={number}</link></item>"
    items = [item.format(day=date(2026, 1, number), url=web.url, number=number) for number in (5, 6)]
    web.serve_pdf("/AgendaViewer.php", "agenda")
    extra = {"portal": web.url, "views": 2, "kinds": ["agenda"]}
    for kept in (items, items[1:]):
        web.routes["/ViewPublisherRSS.php"] = Reply(f"<rss><channel>{''.join(kept)}</channel></rss>".encode())
        assert town.fetch("granicus", extra).removed == 0
    assert len(town.rows()) == 2


@pytest.mark.parametrize("variant", GRANICUS)
def test_granicus(web: Web, variant: str) -> None:
    page, expected = GRANICUS[variant]
    listed = list_page(web, "granicus", "/ViewPublisher.php", page, {"portal": web.url, "views": 2})
    assert (listed.documents, listed.skipped) == (expected, [])


ONBASE_BOXES = """<div id="meetings-list"><ul><li><a href="#meetings-list-2026">2026</a></li></ul><div id="meetings-list-content"><div id="meetings-list-2026"><div>
<div class="row"><div><p class="date"><strong>1/22/2026</strong></p></div><div><p>Revised - Land Use Committee Meeting - Updated 01/21/26</p>
<p><a href="/211agendaonlinecomm/Meetings/ViewMeeting?id=52&amp;doctype=1&amp;site=comm" title="View Agenda for Revised - Land Use Committee Meeting on 1/22/2026 1:00:00 PM">Agenda</a></p></div></div><hr>
<div class="row"><div><p><span>1/20/2026</span></p></div><div><p>Rules Committee</p><p><a href="/211agendaonlinecomm/Meetings/ViewMeeting?id=53&amp;doctype=1" title="View Agenda for Rules Committee on 1/20/2026 9:00:00 AM">Agenda</a>
<a href="/211agendaonlinecomm/Meetings/ViewMeeting?id=53&amp;doctype=2" title="View Minutes for Rules Committee on 1/20/2026 9:00:00 AM">Actions</a></p></div></div></div></div></div></div>"""


def test_onbase_in_boxes(web: Web) -> None:
    extra = {"portal": f"{web.url}/211agendaonlinecomm"}
    listed = list_page(web, "onbase", "/211agendaonlinecomm/Meetings/Search", ONBASE_BOXES, extra)
    assert listed.documents == [
        ("Land Use Committee Meeting", "2026-01-22", "agenda"),
        ("Rules Committee", "2026-01-20", "agenda"),
        ("Rules Committee", "2026-01-20", "minutes"),
    ]
    # The page of a meeting has a frame for the document.
    web.routes["/211agendaonlinecomm/Documents/ViewAgenda"] = lambda request: Reply(pdf(str(request.query)))
    assert b"'meetingId': '52', 'doctype': '1'" in download_offline("onbase", extra, listed.refs[0])


def test_onbase_with_the_list_in_a_script(web: Web) -> None:
    meetings = [
        {
            "ID": 9,
            "Name": "Council - January 12, 2026",
            "MeetingTypeName": "City Council",
            "Time": "2026-01-12T18:30:00-05:00",
        },
        {
            "ID": 10,
            "Name": "Budget Hearing",
            "MeetingTypeName": None,
            "Time": "2026-01-13T09:00:00",
            "IsAgendaAvailable": True,
        },
    ]
    meetings[0] |= {
        "IsAgendaAvailable": True,
        "IsMinutesAvailable": True,
        "AgendaUniqueName": "Council 9 Agenda",
        "MinutesUniqueName": "m9",
    }
    script = (
        f"<script>showSearchResults(new SearchResults({json.dumps({'Text': 'a } b', 'Meetings': meetings})}));</script>"
    )
    extra = {"portal": f"{web.url}/agendas"}
    listed = list_page(web, "onbase", "/agendas/Meetings/Search", script, extra)
    assert listed.documents == [
        ("City Council", "2026-01-12", "agenda"),
        ("City Council", "2026-01-12", "minutes"),
        ("Budget Hearing", "2026-01-13", "agenda"),
    ]
    assert [ref.media_type for ref in listed.refs] == [PDF, PDF, PDF_OR_HTML]
    # The download is a page whose script requests the file.
    web.serve_html("/agendas/Documents/DownloadFile/Council%209%20Agenda.pdf", "<p>Downloading, please wait</p>")
    web.routes["/agendas/Documents/DownloadFileBytes/Council%209%20Agenda.pdf"] = Reply(pdf("agenda"))
    assert download_offline("onbase", extra, listed.refs[0]) == pdf("agenda")
    with pytest.raises(SourceUnreadable, match="are not JSON"):
        list_page(web, "onbase", "/agendas/Meetings/Search", "<script>new SearchResults({broken)</script>", extra)


RESPONSIVE = """<div id="meetings"><table class="table table-condensed"><thead><tr><th></th><th>Date</th><th>Meeting Type</th><th>Location</th><th>Online Agenda</th><th>PDF</th><th>Minutes</th></tr></thead><tbody>
<tr><td></td><td>01/27/26</td><td><label data-toggle="collapse">
Council Regular Meeting</label><div>Council Regular
 Meeting</div></td><td>City Hall</td>
<td><a href="#" onClick="javascript:ViewHTML=window.open(&#39;MeetingView.aspx?MeetingID=46&amp;MinutesMeetingID=-1&amp;doctype=Agenda&#39;,&#39;ViewHTML&#39;)"><img alt="View Agenda HTML"></a></td>
<td><a href="DisplayAgendaPDF.ashx?MeetingID=46">PDF</a></td><td><a href="DisplayAgendaPDF.ashx?MinutesMeetingID=47">Legal</a></td></tr>
<tr class="collapse"><td colspan="8"><label>Meeting Type</label><div>Council Regular Meeting</div><a href="DisplayAgendaPDF.ashx?MeetingID=46">PDF View</a></td></tr></tbody></table></div>
<div id="items"><table><tr><td>01/27/26</td><td>Approve a contract</td><td><a href="#" onClick="window.open(&#39;Coversheet.aspx?ItemID=1&amp;MeetingID=46&#39;)">Agenda</a></td></tr></table></div>"""


def test_novusagenda_with_the_responsive_list_only(web: Web) -> None:
    listed = list_page(
        web, "novusagenda", "/agendapublic/MeetingsResponsive.aspx", RESPONSIVE, {"portal": f"{web.url}/agendapublic"}
    )
    assert listed.documents == [
        ("Council Regular Meeting", "2026-01-27", "agenda"),
        ("Council Regular Meeting", "2026-01-27", "minutes"),
    ]
    with pytest.raises(SourceUnreadable, match=r"no table\.rgMasterTable, #meetings"):
        list_page(
            web,
            "novusagenda",
            "/agendapublic/MeetingsResponsive.aspx",
            "<p>Sign in</p>",
            {"portal": f"{web.url}/agendapublic"},
        )


GRID = """<form><input type="hidden" name="__VIEWSTATE" value="x"><input type="image" name="s$imageButtonSearch"><select name="s$ddlDateRange"><option value="6ms">6 Month Span</option>
<option value="cus" selected>Custom Date Range</option></select><input name="s$radCalendarFrom" value="{first}"><input name="s$radCalendarTo" value="{last}"><input name="s$radCalendarTo$dateInput" value="x" disabled><input type="checkbox" name="s$all">
<textarea name="s$text">a &amp; b</textarea><table class="rgMasterTable" id="s_radGridMeetings_ctl00"><thead><tr><th>Meeting Type</th><th>Meeting Date</th><th>Download Agenda</th></tr></thead><tfoot><tr class="rgPager"><td>
<a class="{one}" href="javascript:__doPostBack('s$radGridMeetings$p1','')">1</a><a class="{two}" href="javascript:__doPostBack('s$radGridMeetings$p2','')">2</a></td></tr></tfoot><tbody>{rows}</tbody></table></form>"""


def test_novusagenda_lists_all_years_if_the_list_shows_the_days_that_were_asked_for(web: Web, town: Town) -> None:
    def respond(request: Request) -> Reply:
        month, day, year = request.query["From"].split("/")
        page = 2 if request.form.get("__EVENTTARGET", "").endswith("p2") else 1
        link = f"<a href='DisplayAgendaPDF.ashx?MeetingID={year}{page}'>PDF</a>"
        row = f"<tr class='rgRow'><td>Council</td><td>0{page}/05/{year[2:]}</td><td>{link}</td></tr>"
        to = "-".join((*request.query["To"].split("/")[2:], *request.query["To"].split("/")[:2]))
        current = {"one": "rgCurrentPage", "two": ""} if page == 1 else {"one": "", "two": "rgCurrentPage"}
        rows = "" if int(year) in hidden else row
        return Reply(GRID.format(first=f"{year}-{month}-{day}", last=to, rows=rows, **current).encode())

    hidden: list[int] = []
    web.routes["/meetingsgeneral.aspx"] = respond
    web.serve_pdf("/DisplayAgendaPDF.ashx", "agenda")
    extra = {"portal": web.url, "meeting_types": 4, "since": "2019-06-01"}
    listed = list_offline("novusagenda", extra, TODAY)
    assert [ref.date for ref in listed.refs] == [date(year, page, 5) for year in range(2020, 2027) for page in (1, 2)]
    assert web.requests[0].query == {"MeetingType": "4", "Date": "cus", "From": "06/01/2019", "To": "01/01/2020"}
    sent = web.requests[-1].form
    assert {name: sent[name] for name in sent if name.startswith("s$")} == {
        "s$ddlDateRange": "cus",
        "s$radCalendarFrom": "2026-01-01",
        "s$radCalendarTo": "2026-06-30",
        "s$text": "a & b",
    }
    # A document of an old year counts as removed: the listing has all years.
    town.fetch("novusagenda", {**extra, "since": "2024-01-01"})
    hidden.append(2024)
    assert town.fetch("novusagenda", {**extra, "since": "2024-01-01"}).removed == 2


@pytest.mark.parametrize("refused", [True, False])
def test_novusagenda_has_fixed_ranges_where_the_list_does_not_know_others(web: Web, refused: bool) -> None:
    row = "<tr class='rgRow'><td>Council</td><td>{}</td><td><a href='DisplayAgendaPDF.ashx?MeetingID={}'>PDF</a></td></tr>"
    days = {"lyr": "02/03/25", "6ms": "01/06/26", "nyr": "04/07/26"}

    def respond(request: Request) -> Reply:
        if refused and request.query["Date"] not in days:
            return Reply(b"no such range", 404)
        day = days.get(request.query["Date"], days["6ms"])
        page = GRID.format(
            first="2025-12-01", last="2026-06-01", rows=row.format(day, day[:2]), one="", two="rgCurrentPage"
        )
        return Reply(page.encode())

    web.routes["/meetingsgeneral.aspx"] = respond
    listed = list_offline("novusagenda", {"portal": web.url, "since": "2010-01-01"}, TODAY)
    assert {ref.date for ref in listed.refs} == {date(2025, 2, 3), date(2026, 1, 6), date(2026, 4, 7)}
    assert len(listed.refs) == 3
    assert len(web.requests) == (5 if refused else 4)


IQM2 = """<div id="ContentPlaceholder1_pnlMeetings"><div class="Row MonthHeader">January, 2026</div>
<div class="Row MeetingRow"><div class="RowLink"><a href="/Citizens/Detail_Meeting.aspx?ID=1" title="TUESDAY, JANUARY 6, 2026  6:30 PM&#13;Group:&#09;Mayor and Council&#13;Type:&#09;Regular&#13;Status:&#09;Cancelled">Jan 6, 2026 6:30 PM</a></div>
<div class="RowRight MeetingLinks"><div><a href="FileOpen.aspx?ID=15&amp;Type=14&amp;Inline=True">Agenda</a></div><div><a href='FileOpen.aspx?Type=12&ID=15'>Draft Minutes</a></div>
<div><a href="FileOpen.aspx?Type=15&ID=15" title="Agenda Packet"><img src="p.gif"></a></div></div></div>
<div class="OtherRow"><span>Jan 8, 2026 Zoning Board of Appeals</span><a href="FileView.aspx?Type=1&amp;ID=16">Agenda</a></div></div>"""


def test_iqm2(web: Web) -> None:
    listed = list_page(
        web, "iqm2", "/Citizens/Calendar.aspx", IQM2, {"portal": web.url, "kinds": ["agenda", "minutes", "packet"]}
    )
    assert listed.documents == [
        ("Mayor and Council", "2026-01-06", "agenda"),
        ("Mayor and Council", "2026-01-06", "minutes"),
        ("Mayor and Council", "2026-01-06", "packet"),
        ("Zoning Board of Appeals", "2026-01-08", "agenda"),
    ]


MUNICODE = """<table class="views-table"><thead><tr><th>Meeting Date</th><th>Meeting Body</th><th>Downloads</th></tr></thead><tbody><tr>
<td><span class="date-display-single" content="2026-01-12T18:00:00-05:00">Monday</span></td><td>Town Council - Amended</td>
<td><a href="https://mccmeetings.blob.core.usgovcloudapi.net/town-pubu/MEET-Agenda-{guid}.pdf">Agenda</a> <a href="https://mccmeetings.blob.core.usgovcloudapi.net/town-pubu/MEET-ActionMinutes-{guid}.pdf">Action</a></td></tr></tbody></table>"""
CARDS = """<div class="view-content"><div class="views-row"><h4>Parks Board</h4><span>January 14, 2026</span>
<a href="https://meetings.municode.com/adaHtmlDocument/index?cc=TOWN&me={guid}">Agenda (HTML)</a></div></div>"""


BOXES = """<div class="view-content"><div class="views-row"><div class="views-field views-field-field-smart-date"><time datetime="2026-01-21T00:00:00Z">Tue, January 20 2026, 7pm</time></div>
<div class="views-field views-field-title"><a href="/page/1">City Commission</a></div><div class="views-field views-field-nothing-1"><a href="/files/agenda.pdf">Agenda</a> <a href="/files/amended.pdf">Amended agenda</a></div></div>
<div class="views-row"><div class="views-field views-field-nothing-1"><a href="/files/minutes.pdf">Minutes</a></div><div class="views-field-title views-field">Planning Board</div><div class="views-field views-field-field-smart-date">January 21, 2026</div></div></div>"""


def test_municode(web: Web) -> None:
    for page, expected in (
        (MUNICODE, [("Town Council", "2026-01-12", "agenda"), ("Town Council", "2026-01-12", "minutes")]),
        (CARDS, [("Parks Board", "2026-01-14", "agenda")]),
        (
            BOXES,
            [("City Commission", "2026-01-20", "agenda")] * 2 + [("Planning Board", "2026-01-21", "minutes")],
        ),
    ):
        assert list_page(web, "municode", "/", page.format(guid="b" * 32), {"portal": web.url}).documents == expected
    with pytest.raises(SourceUnreadable, match=r"no table\.mcm.* in the answer of"):
        list_page(web, "municode", "/", "<table><tr><td>Sign in</td></tr></table>", {"portal": web.url})
    # Newer addresses have `index`, a page of their own, and no GUID.
    address = f"{web.url}/PublishPage/index?ppid=0&p=-1&cid=CPTX"
    listed = list_page(web, "municode", "/PublishPage/index", MUNICODE.format(guid="c" * 32), {"page": address})
    assert len(listed.refs) == 2
    assert [request.query["p"] for request in web.requests[-2:]] == ["1", "2"]


def test_boardbook_without_the_usual_table(web: Web) -> None:
    page = """<h2>Springfield ISD Meetings</h2><ul><li>January 20, 2026 at 4:30 PM - Finance Committee <a href="/Public/Agenda/x?foo=1&amp;meeting=77">Agenda</a>
    <a href="/Public/Minutes/x?meeting=77">Minutes</a></li><li>Jan 22, 2026 - Board <a href="/public/agenda/x?meeting=78">View the Packet</a></li></ul>"""
    extra = {"portal": web.url, "organization": "x", "kinds": ["agenda", "minutes", "packet"]}
    assert list_page(web, "boardbook", "/Public/Organization/x", page, extra).documents == [
        ("Finance Committee", "2026-01-20", "agenda"),
        ("Finance Committee", "2026-01-20", "minutes"),
        ("Board", "2026-01-22", "packet"),
    ]


CALENDAR = """<form><input type="hidden" name="__VIEWSTATE" value="x"><input type="hidden" name="ctl00_Other_lstYears_ClientState" value="">
<table class="rgMasterTable" id="ctl00_gridCalendar_ctl00"><thead><tr><th>Meeting Date</th><th>Meeting Body</th><th>Meeting Location</th><th>Published Agenda</th><th></th></tr></thead><tbody>
<tr class="rgRow"><td>1/13/2026</td><td>Finance &amp; Audit Committee</td><td>City Hall</td><td><a href="View.ashx?M=A&amp;ID=5&amp;GUID=X">Published</a></td><td><a href="view.ashx?GUID=X&amp;ID=5&amp;M=M">View</a></td></tr></tbody></table></form>"""


def test_legistar_calendar(web: Web) -> None:
    listed = list_page(web, "legistar-calendar", "/Calendar.aspx", CALENDAR, {"portal": web.url})
    assert listed.documents == [
        ("Finance & Audit Committee", "2026-01-13", "agenda"),
        ("Finance & Audit Committee", "2026-01-13", "minutes"),
    ]
    assert web.requests[-1].form["__EVENTTARGET"] == "ctl00$Other$lstYears"


def test_civicplus(web: Web) -> None:
    page = """<div id="AgendaCenter"><h2>▼ City Council</h2><a href="/agendacenter/viewfile/agenda/_01132026-9?html=true">Agenda</a>
    <a href="https://host.example/AgendaCenter/ViewFile/Minutes/_01132026-9">Minutes</a><a href="/AgendaCenter/ViewFile/ArchivedAgenda/_01062026-8">Old</a>
    <a href="/AgendaCenter/ViewFile/Agenda/_01132026-9?packet=true&amp;x=1">Packet</a><a href="/AgendaCenter/PreviousVersions/9">Previous</a></div>"""
    listed = list_page(web, "civicplus", "/AgendaCenter/Search/", page, {"site": web.url, "packets": True})
    assert listed.documents == [
        ("City Council", "2026-01-13", "agenda"),
        ("City Council", "2026-01-13", "minutes"),
        ("City Council", "2026-01-06", "agenda"),
        ("City Council", "2026-01-13", "packet"),
    ]


def list_json(web: Web, label: str, path: str, value: Any, extra: dict[str, Any]) -> Listed:
    web.serve_json(path, value)
    return list_offline(label, {**extra, **SINCE}, TODAY)


def test_escribe_in_french_and_as_text(web: Web) -> None:
    link = {
        "Type": "Agenda",
        "Format": ".pdf",
        "Title": "Ordre du jour",
        "Url": "filestream.ashx?DocumentId=4",
        "LanguageId": 12,
    }
    meetings = [
        {
            "ID": "1",
            "MeetingName": "Conseil municipal",
            "StartDate": "/Date(1768345200000)/",
            "MeetingDocumentLink": [link],
        },
        {"ID": "2", "MeetingName": "Comité - ANNULÉE", "StartDate": "2026-01-20T19:00:00", "MeetingDocumentLink": []},
    ]
    path = "/MeetingsCalendarView.aspx/GetCalendarMeetings"
    listed = list_json(web, "escribe", path, {"d": json.dumps(meetings)}, {"portal": web.url})
    assert listed.documents == [("Conseil municipal", "2026-01-13", "agenda")]
    with pytest.raises(SourceUnreadable, match=r"no entry in the answer of .* has the field MeetingDocumentLink"):
        list_json(web, "escribe", path, {"d": [{"ID": "1", "MeetingName": "Council"}]}, {"portal": web.url})


def test_civicclerk_events_without_files(web: Web) -> None:
    event = {
        "id": 1,
        "eventName": "Authority-- CANCELED",
        "startDateTime": "2026-01-12T17:30:00Z",
        "categoryName": "Authority ",
    }
    extra = {"api": f"{web.url}/v1"}
    file = {"fileId": 5, "type": "Agenda", "name": "x"}
    listed = list_json(
        web,
        "civicclerk",
        "/v1/Events",
        {"value": [{**event, "publishedFiles": [file]}, {**event, "publishedFiles": None}]},
        extra,
    )
    assert listed.documents == [("Authority", "2026-01-12", "agenda")]
    assert list_json(web, "civicclerk", "/v1/Events", {"value": [event]}, extra).documents == []
    with pytest.raises(SourceUnreadable, match="has the field publishedFiles"):
        list_json(web, "civicclerk", "/v1/Events", {"value": [{**event, "hasAgenda": True}]}, extra)


def test_civicclerk_files_without_names_and_pages_with_relative_addresses(web: Web) -> None:
    event = {
        "id": 1,
        "eventName": "<b>Council</b> - CANCELLED",
        "eventDate": None,
        "startDateTime": "2026-01-12T17:30:00Z",
    }
    kinds: list[Any] = [[], {}, None]
    files = [
        *({"fileId": 1, "type": None, "name": None, "fileType": kind} for kind in kinds),
        {"fileId": "2", "type": "", "fileType": "4"},
        {"fileId": 3, "type": "Other", "name": "Addendum"},
        {"fileId": 4, "fileType": 1},
    ]
    pages = [{"value": [{**event, "publishedFiles": files}], "@odata.nextLink": "Events?$skiptoken=2"}, {"value": []}]
    web.routes["/v1/Events"] = lambda request: Reply(json.dumps(pages["$skiptoken" in request.query]).encode())
    listed = list_offline("civicclerk", {"api": f"{web.url}/v1"}, TODAY)
    assert listed.documents == [("Council", "2026-01-12", kind) for kind in ("minutes", "agenda", "agenda")]
    web.serve_json("/v1/Events", {"value": [], "@odata.nextLink": f"{web.url}/v1/Events?$skiptoken=2"})
    with pytest.raises(SourceUnreadable, match="names itself as the next page"):
        list_offline("civicclerk", {"api": f"{web.url}/v1"}, TODAY)


def test_boarddocs_with_committees_to_choose_from_and_pages_without_text(web: Web) -> None:
    base = "/il/town/Board.nsf"
    web.serve_html(
        f"{base}/Public",
        '<select id="committees"><option value="BRD222222222222">School Committee</option></select><div committeeid="AB12CD34EF56"></div>',
    )
    meetings = [
        {"unique": "MEETING00001", "name": "Regular Meeting @ 6:30 p.m.", "numberdate": "20260112190000"},
        {"unique": "MEETING00002", "name": "Retreat (CANCELED)", "numberdate": "2026-01-20T19:00:00"},
        {},
    ]
    web.routes[f"{base}/BD-GetMeetingsList"] = lambda request: Reply(
        json.dumps(meetings[:1] if request.form["current_committee_id"][0] == "A" else meetings[1:]).encode()
    )
    minutes = {"MEETING00001": b"<p>Minutes</p>", "MEETING00002": b"<div class='minutes'> &nbsp; </div>"}
    web.routes[f"{base}/BD-GetMinutes"] = lambda request: Reply(minutes[request.form["id"]])
    listed = list_page(web, "boarddocs", "/", "", {"portal": web.url, "path": "il/town"})
    assert listed.documents == [
        ("Regular Meeting", "2026-01-12", "agenda"),
        ("Regular Meeting", "2026-01-12", "minutes"),
        ("School Committee", "2026-01-20", "agenda"),
    ]
    web.routes[f"{base}/BD-GetMinutes"] = Reply(status=404)
    without_minutes = list_page(web, "boarddocs", "/", "", {"portal": web.url, "path": "il/town"})
    assert without_minutes.documents == [each for each in listed.documents if each[2] == "agenda"]
    web.routes[f"{base}/BD-GetMinutes"] = Reply(status=403)
    with pytest.raises(AccessDenied):
        list_page(web, "boarddocs", "/", "", {"portal": web.url, "path": "il/town"})


def test_civicweb_dates_with_the_day_first(web: Web) -> None:
    service = "/Services/MeetingsService.svc/meetings"
    web.serve_json(f"{service}/3/meetingDocuments", [{"Id": 31, "DocumentType": 2}, {"Id": 32, "DocumentType": 7}])
    web.serve_json(f"{service}/4/meetingDocuments", [{"Id": 41, "Type": 1}])
    meetings = [
        {"Id": 3, "Name": "***CANCELLED*** City Council - 18 Mar 2026"},
        {"Id": 4, "Name": "Library Board - Mar 31 2026 Amended Agenda"},
    ]
    listed = list_json(web, "civicweb", service, {"Meetings": meetings}, {"portal": web.url})
    assert listed.documents == [("City Council", "2026-03-18", "minutes"), ("Library Board", "2026-03-31", "agenda")]


def test_primegov_agendas_that_are_web_pages_and_packets(web: Web) -> None:
    def document(number: int, name: str, form: int, template: int) -> dict[str, Any]:
        return {"id": number, "templateName": name, "compileOutputType": form, "templateId": template, "link": None}

    meetings = [
        {
            "id": 1,
            "title": "Performance Review",
            "dateTime": "2026-01-13T09:00:00",
            "documentList": [document(1, "HTML Agenda", 3, 48)],
        },
        {
            "id": 2,
            "title": "Regular Business Meeting ",
            "date": "Jan 20, 2026",
            "documentList": [
                document(2, "HTML Agenda", 3, 49),
                document(3, "Agenda", 1, 49),
                document(4, "Agenda", 2, 49),
                document(5, "Board Agenda Packet", 1, 50),
                document(6, "Summary Minutes", 1, -1),
            ],
        },
    ]
    web.serve_json("/api/v2/PublicPortal/GetArchivedMeetingYears", [2026])
    web.serve_json("/api/v2/PublicPortal/ListUpcomingMeetings", [])
    listed = list_json(web, "primegov", "/api/v2/PublicPortal/ListArchivedMeetings", meetings, {"portal": web.url})
    assert listed.documents == [
        ("Performance Review", "2026-01-13", "agenda"),
        ("Regular Business Meeting", "2026-01-20", "agenda"),
        ("Regular Business Meeting", "2026-01-20", "minutes"),
    ]
    assert [ref.media_type for ref in listed.refs] == [HTML, PDF, PDF]
    assert listed.refs[2].url.endswith("?compiledMeetingDocumentFileId=6&compileOutputType=1")
    with pytest.raises(SourceUnreadable, match="has the field documentList"):
        list_json(web, "primegov", "/api/v2/PublicPortal/ListArchivedMeetings", [{"id": 1}], {"portal": web.url})


def test_legistar_events_without_files_are_not_understood(web: Web) -> None:
    extra = {"client": "town", "api": f"{web.url}/v1"}
    event = {"EventId": 1, "EventBodyName": "Council", "EventDate": "2026-01-13T00:00:00"}
    assert list_json(web, "legistar", "/v1/town/events", [{**event, "EventAgendaFile": None}], extra).documents == []
    with pytest.raises(SourceUnreadable, match="has the field EventAgendaFile or EventMinutesFile"):
        list_json(web, "legistar", "/v1/town/events", [event], extra)


def test_endless_lists_of_other_vendors_end_as_errors(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (simbli, legistar):
        monkeypatch.setattr(module, "MAX_PAGES", 3)
    monkeypatch.setattr(legistar, "_PAGE_SIZE", 1)
    count = iter(range(1_000_000))

    def meetings(request: Request) -> Reply:
        return Reply(
            json.dumps(
                [{"Master_MeetingID": next(count), "MM_MeetingTitle": "x", "MM_DateTime": "2026-01-02"}]
            ).encode()
        )

    web.serve_html("/SB_Meetings/SB_MeetingListing.aspx", "<script>var constr = 'a'; var sToken = 'b';</script>")
    web.routes["/Services/api/GetMeetingListing"] = meetings
    with pytest.raises(SourceUnreadable, match="has more than 3 pages"):
        list_offline("simbli", {"school": 1, "portal": web.url}, TODAY)
    web.routes["/v1/town/events"] = lambda _: Reply(b'[{"EventId": 1, "EventAgendaFile": null}]')
    with pytest.raises(SourceUnreadable, match="has more than 3 pages"):
        list_offline("legistar", {"client": "town", "api": f"{web.url}/v1"}, TODAY)


HOSTILE = {
    "granicus": ("/ViewPublisher.php", {"views": 1}),
    "iqm2": ("/Citizens/Calendar.aspx", {}),
    "municode": ("/", {}),
    "novusagenda": ("/meetingsgeneral.aspx", {}),
    "onbase": ("/Meetings/Search", {}),
    "boardbook": ("/Public/Organization/1", {"organization": 1}),
    "legistar-calendar": ("/Calendar.aspx", {}),
    "civicplus": ("/AgendaCenter/Search/", {}),
    "civicplus-archive": ("/Archive.aspx", {"archives": 1}),
}


CONTAINERS = """AgendaCenter<div id="x_pnlMeetings"><div class="MeetingRow"><table class="listingTable mcm rgMasterTable" id="PublicMeetingsTable">
<tr class="rgRow meeting-row"><td>"""
"""What each vendor's page is recognised by, in one."""


@pytest.mark.parametrize("label", HOSTILE)
def test_a_page_with_too_many_links_is_an_error_of_each_vendor(web: Web, label: str) -> None:
    path, settings = HOSTILE[label]
    address = {BUILT_IN[label].recognition.base: web.url}
    with pytest.raises(SourceUnreadable, match="has more than 50,000 links"):
        list_page(
            web,
            label,
            path,
            f"{CONTAINERS}<a href=Archive.aspx?AMID=1>x</a>" + "<a href=?a&ADID=1>x</a>" * MAX_LINKS,
            {**address, **settings},
        )


def test_a_page_with_too_many_rows_that_are_found_by_their_links_is_an_error(web: Web) -> None:
    links = "".join(
        f"<div><a href='AgendaViewer.php?clip_id={number}'>Agenda</a></div>" for number in range(MAX_ROWS + 1)
    )
    with pytest.raises(SourceUnreadable, match="has more than 20,000 rows"):
        list_page(web, "granicus", "/ViewPublisher.php", links, {"portal": web.url, "views": 1})
