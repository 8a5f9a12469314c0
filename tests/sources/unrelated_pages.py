"""Pages that belong to no vendor, though some of them look like it."""

# ruff: noqa: E501 (lines of HTML)

from __future__ import annotations

UNRELATED = {
    "news": """<html><head><title>Springfield Gazette</title><meta name="generator" content="WordPress 6.5"></head><body>
        <h1>Council approves budget</h1><p>The city council met on Tuesday. Its minutes are not yet published.</p>
        <a href="/category/council/">Council</a> <a href="/2024/03/budget-agenda/">The agenda in ten points</a>
        <script src="/wp-includes/js/jquery.js"></script></body></html>""",
    "parish council": """<html><head><title>Little Snoring Parish Council</title></head><body><h2>Minutes</h2>
        <ul><li><a href="/wp-content/uploads/2024/01/minutes-jan.pdf">January 2024</a></li>
        <li><a href="/agendas/march.pdf">March agenda</a></li></ul><a href="/meetings">Meetings</a></body></html>""",
    "shop": """<html><head><title>Agenda shop</title></head><body><h1>Calendars and agendas 2026</h1>
        <table class="listing"><tr class="row"><td><a href="/products/agenda-a5?variant=1">Agenda A5</a></td></tr></table>
        <form action="/cart/add"><input name="id" value="3"></form></body></html>""",
    "blog about vendors": """<html><head><title>Civic technology blog</title></head><body><article>
        <p>Granicus, Legistar, CivicClerk, BoardDocs and eScribe are the systems that most towns use. A portal is at
        springfield.granicus.com/ViewPublisher.php?view_id=1, and an AgendaCenter at /AgendaCenter.</p>
        <a href="https://www.granicus.com/products">Granicus</a> <a href="https://www.civicplus.com">CivicPlus</a>
        <a href="https://support.granicus.com/s/">Help</a> <a href="https://webapi.legistar.com/Help">API</a>
        <a href="https://www.boarddocs.com/">BoardDocs</a></article></body></html>""",
    "league table": """<html><head><title>Meetings and results</title></head><body><table class="views-table"><thead>
        <tr><th>Meeting</th><th>Date</th></tr></thead><tbody><tr class="meeting-row"><td>Ascot</td><td>3/5/2024</td></tr>
        </tbody></table><a href="/calendar.html">Calendar</a></body></html>""",
    "asp.net calendar": """<html><head><title>Events</title></head><body><form action="./Calendar.aspx" method="post">
        <input type="hidden" name="__VIEWSTATE" value="dDw"><table id="ctl00_gridEvents"><tr><td>Concert</td></tr></table>
        <a href="/Calendar.aspx?month=5">May</a> <a href="/Archive.aspx">Archive</a></form></body></html>""",
    "university": """<html><head><title>Faculty senate</title></head><body><h2>Minutes</h2>
        <a href="https://drive.google.com/file/d/abc/view">Minutes of March</a>
        <a href="https://box.example.edu/s/agenda">Agenda</a></body></html>""",
    "single page application": """<!DOCTYPE html><html><head><title>Portal</title></head><body><div id="root"></div>
        <script src="/static/js/main.3f2a.js"></script><noscript>Enable JavaScript.</noscript></body></html>""",
    "town on an unknown system": """<html><head><title>Town of Shelbyville</title><meta name="generator" content="Drupal 10"></head>
        <body><nav><a href="/government">Government</a><a href="/agendas-minutes">Agendas and minutes</a></nav>
        <iframe src="https://www.youtube.com/embed/xyz"></iframe><a href="https://www.facebook.com/shelbyville">Facebook</a>
        </body></html>""",
    "json": """[{"id": 1, "name": "Council", "date": "2024-03-05"}, {"id": 2, "name": "Board"}]""",
    "article that names Granicus": """<html><head><title>City drops Granicus</title></head><body><article><h1>City drops Granicus</h1>
        <p>The council will leave Granicus and Legistar for CivicClerk in May, the agenda says.</p>
        <a href="https://granicus.com/blog/transparency/">What Granicus says</a> <a href="/tag/granicus">More about Granicus</a></article></body></html>""",
    "links to vendors' own pages": """<html><head><title>Software for clerks</title></head><body><ul>
        <li><a href="https://www.civicplus.com/agenda-meeting-management/">CivicPlus agendas and minutes</a></li>
        <li><a href="https://www.escribemeetings.com/">eSCRIBE meetings</a></li><li><a href="https://www.diligent.com/community">Diligent</a></li>
        <li><a href="https://info.granicus.com/demo">Granicus demo</a></li><li><a href="https://www.novusagenda.com/">NovusAgenda</a></li>
        <li><a href="https://www.boardbook.org/">BoardBook</a></li><li><a href="https://www.iqm2.com/">IQM2</a></li></ul></body></html>""",
    "library": """<html><head><title>Springfield Public Library</title></head><body><a href="/calendar.aspx">Calendar</a>
        <h2>Board of trustees</h2><a href="/files/board-minutes-2024-01.pdf">Minutes January</a><a href="/board/agenda.pdf">Agenda</a></body></html>""",
    "WordPress events": """<html><head><title>Events</title><meta name="generator" content="WordPress 6.7"></head><body class="tribe-events">
        <div class="tribe-events-calendar"><a href="/event/board-meeting/2026-01-13/">Board meeting</a><a href="/agenda/">Agenda</a></div></body></html>""",
    "SharePoint": """<html><head><title>Meetings</title></head><body><a href="/Lists/Calendar/calendar.aspx">Calendar</a>
        <a href="/Shared%20Documents/Minutes%202026.docx">Minutes</a><script src="/_layouts/15/init.js"></script></body></html>""",
    "grid of another application": """<html><head><title>Orders</title></head><body><form action="Orders.aspx"><input type="hidden" name="__VIEWSTATE" value="x">
        <table class="rgMasterTable" id="RadGrid1_ctl00"><thead><tr><th>Name</th><th>Date</th></tr></thead><tbody><tr class="rgRow"><td>Order 1</td><td>1/2/2026</td></tr></tbody></table></form></body></html>""",
    "magazine": """<html><head><title>Magazine</title></head><body><a href="/Archive.aspx?year=2020">Archive 2020</a>
        <a href="/Archive.aspx?issue=7">Issue 7</a><a href="/meetings">Reader meetings</a></body></html>""",
    "meeting rooms": """<html><head><title>Rooms</title></head><body><div id="meetings-list"><div class="meeting-row"><a href="/Meetings/ViewMeeting?id=3">Room 3, Monday</a></div></div>
        <a href="/Meetings/Search?room=1">Search</a></body></html>""",
    "real estate": """<html><head><title>Homes</title></head><body><table class="listingTable"><tr class="listingRow"><td class="listItem">Elm Street</td><td><a href="/view.php?view_id=3">View</a></td></tr></table>
        <a href="/agendas">Agendas of open houses</a></body></html>""",
    "town with a vendor's web site but without its agendas": """<html><head><title>Town of Brockway</title></head><body><a href="/27/Government">Government</a>
        <a href="/calendar.aspx?CID=14">Calendar</a><footer>Government Websites by <a href="https://www.civicplus.com/">CivicPlus</a></footer></body></html>""",
}
