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
}
