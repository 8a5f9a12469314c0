"""What vendors answer if there are no meetings, and what clerk says if the answer is something else. By fetcher."""

from __future__ import annotations

from tests.sources.vendor_sites import grid_page

NOT_UNDERSTOOD = {
    # Part of the error for a page that is not a listing.
    "granicus": "no table.listingTable",
    "civicclerk": "is not an object with the list 'value'",
    "boarddocs": "is not a list of meetings",
    "iqm2": "MeetingRow in the answer of",
    "municode": "no table.mcm",
    "novusagenda": "no table.rgMasterTable",
    "escribe": "is not an object with the list 'd'",
    "civicweb": "is not a list of meetings",
    "onbase": "no #meetings-list",
    "simbli": "is not a list of meetings",
    "boardbook": "no table#PublicMeetingsTable",
    "legistar-calendar": "no table.rgMasterTable",
    "civicplus-archive": "no link with AMID=",
}


EMPTY = {
    # An honest listing without meetings.
    "granicus": "<table class='listingTable'><thead><tr><th>Name</th></tr></thead></table>",
    "civicclerk": '{"value": []}',
    "boarddocs": "[{}]",
    "iqm2": "<div id='ContentPlaceholder1_pnlMeetings'></div>",
    "municode": "<table class='mcm'><thead><tr><th>Meeting</th></tr></thead></table>",
    "novusagenda": grid_page("radGridMeetings", "<th>Meeting Date</th>", ""),
    "escribe": '{"d": []}',
    "civicweb": "[]",
    "onbase": "<div id='meetings-list'>No meetings</div>",
    "simbli": "[]",
    "boardbook": "<table id='PublicMeetingsTable'></table>",
    # With the state of the recorded page, which the requests for the years repeat.
    "legistar-calendar": grid_page("gridCalendar", "<th>Name</th>", "").replace("state None", "state (1, 2)"),
    "civicplus-archive": "<a href='Archive.aspx?AMID=36'>City Council Minutes</a>",
}
