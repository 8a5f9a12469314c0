"""Detection of vendors: by addresses, and by pages of a local web server."""

# ruff: noqa: E501 (addresses)

from __future__ import annotations

import dataclasses
from typing import Any

import httpcore
import pytest

from clerk.sources.detection import detect, detect_by_address, detection_limits, match_vendors
from clerk.sources.detection_page import MAX_REQUESTS
from clerk.sources.detection_result import Confidence, Detection
from clerk.sources.http.ssrf import PublicOnlyBackend
from clerk.sources.vendors import BUILT_IN
from clerk.sources.vendors.granicus import Granicus
from clerk.sources.vendors.legistar import Legistar
from tests.sources.conftest import HttpClient
from tests.sources.test_fetchers import recording
from tests.sources.unrelated_pages import UNRELATED
from tests.sources.vendor_sites import PORTALS, Server
from tests.sources.web import Reply, Request, Web, pdf

GUID = "5157d66d-a361-43e8-87a4-3d5eca4821de"
PAGE = f"https://meetings.municode.com/PublishPage?cid=CLOVIS&ppid={GUID}"

ADDRESSES: list[tuple[str, str, dict[str, Any]]] = [
    ("https://weho.granicus.com/ViewPublisher.php?view_id=31", "granicus", {"client": "weho", "views": 31}),
    ("http://WEHO.granicus.com/AgendaViewer.php?view_id=3&clip_id=9", "granicus", {"client": "weho", "views": 3}),
    ("https://weho.granicus.com/player/clip/44?view_id=16&redirect=true", "granicus", {"client": "weho", "views": 16}),
    ("https://weho.granicus.com/DocumentViewer.php?file=a.pdf&view=1", "granicus", {"client": "weho", "views": 1}),
    ("https://webapi.legistar.com/v1/phoenix/events?$top=5", "legistar", {"client": "phoenix"}),
    ("https://springfield.portal.civicclerk.com/event/17/files", "civicclerk", {"client": "springfield"}),
    ("https://springfield.api.civicclerk.com/v1/Events", "civicclerk", {"client": "springfield"}),
    ("https://go.boarddocs.com/ks/usd265/Board.nsf/Public", "boarddocs", {"path": "ks/usd265"}),
    ("https://go.boarddocs.com/ks/usd265/Board.nsf/goto?open&id=CT23", "boarddocs", {"path": "ks/usd265"}),
    ("https://hanford.iqm2.com/Citizens/Default.aspx", "iqm2", {"client": "hanford"}),
    ("http://hanford.iqm2.com/Citizens/FileOpen.aspx?Type=14&ID=3&Inline=True", "iqm2", {"client": "hanford"}),
    ("https://clovis-nm.municodemeetings.com/bc-citycouncil", "municode", {"client": "clovis-nm"}),
    (f"{PAGE}&p=3", "municode", {"page": PAGE}),
    ("https://dinuba.novusagenda.com/agendapublic/meetingsgeneral.aspx?MeetingType=1", "novusagenda", {"client": "dinuba"}),
    ("https://dinuba.novusagenda.com/agendapublic/DisplayAgendaPDF.ashx?MeetingID=9", "novusagenda", {"client": "dinuba"}),
    ("https://pub-chulavista.escribemeetings.com/?Year=2025", "escribe", {"client": "chulavista"}),
    ("https://pub-chulavista.escribemeetings.com/FileStream.ashx?DocumentId=4", "escribe", {"client": "chulavista"}),
    ("https://lascruces.civicweb.net/Portal/MeetingTypeList.aspx", "civicweb", {"client": "lascruces"}),
    ("https://town.diligent.community/document/12/", "civicweb", {"portal": "https://town.diligent.community"}),
    ("https://lacity.primegov.com/public/portal", "primegov", {"client": "lacity"}),
    ("https://lacity.primegov.com/Public/CompiledDocument?meetingTemplateId=1&compileOutputType=1", "primegov", {"client": "lacity"}),
    ("https://simbli.eboardsolutions.com/SB_Meetings/SB_MeetingListing.aspx?S=4054", "simbli", {"school": "4054"}),
    ("https://simbli.eboardsolutions.com/SB_Meetings/ViewMeeting.aspx?S=4054&MID=1", "simbli", {"school": "4054"}),
    ("https://meetings.boardbook.org/Public/Organization/1810", "boardbook", {"organization": "1810"}),
    ("https://meetings.boardbook.org/Public/Agenda/1810?meeting=7", "boardbook", {"organization": "1810"}),
    ("https://meetings.boardbook.org/Documents/DownloadPDF/1b9-c8f?org=2273", "boardbook", {"organization": "2273"}),
    ("https://meetings.boardbook.org/Public/Organization/Elgin", "boardbook", {"organization": "Elgin"}),
    ("https://meetings.boardbook.org/Search/Index/2413?q=budget", "boardbook", {"organization": "2413"}),
    ("https://meeting.sparqdata.com/Public/Minutes/32?meeting=7", "boardbook", {"organization": "32", "portal": "https://meeting.sparqdata.com"}),
    ("http://westlake.granicus.com/viewpublisher.php?foo=1&View_ID=8", "granicus", {"client": "westlake", "views": 8}),
    ("https://salem.novusagenda.com/AgendaPublic/MeetingsResponsive.aspx?Date=6ms", "novusagenda", {"client": "salem"}),
    ("https://eboard.eboardsolutions.com/Meetings/Attachment.aspx?AID=1&S=6", "simbli", {"school": "6"}),
    (
        "https://meetings.municode.com/PublishPage/index?cid=CPTX&ppid=0&p=-1",
        "municode",
        {"page": "https://meetings.municode.com/PublishPage/index?cid=CPTX&ppid=0"},
    ),
    ("https://meetings.municode.com/PublishPage?ppid=0&cid=CPTX", "municode", {"page": "https://meetings.municode.com/PublishPage?ppid=0&cid=CPTX"}),
    ("https://legacy-springfield.teammunicode.com/meetings", "municode", {"portal": "https://legacy-springfield.teammunicode.com/meetings"}),
    ("https://springfield.civicclerk.com/Web/Player.aspx?id=1", "civicclerk", {"client": "springfield"}),
    ("https://council.escribemeetings.com/Meeting.aspx?Id=1", "escribe", {"portal": "https://council.escribemeetings.com"}),
]  # fmt: skip


@pytest.mark.parametrize(("url", "scraper", "extra"), ADDRESSES, ids=[url for url, *_ in ADDRESSES])
def test_an_address_on_a_host_of_the_vendor_needs_no_request(url: str, scraper: str, extra: dict[str, Any]) -> None:
    detection = detect_by_address(url)
    assert detection is not None
    assert detection.best is not None
    assert (detection.best.scraper, detection.best.extra, detection.best.missing) == (scraper, extra, [])
    assert detection.best.confidence == Confidence.CERTAIN
    assert [*detection.as_dict()] == [
        *("url", "vendor", "extra", "confidence", "missing", "evidence", "candidates", "links", "tried", "requests")
    ]
    BUILT_IN[scraper].check(detection.best.extra)


PATHS = {
    "https://www.springfield.gov/AgendaCenter/ViewFile/Agenda/_03052024-123": {
        "civicplus": {"site": "https://www.springfield.gov"}
    },
    "https://www.springfield.gov/Archive.aspx?AMID=36": {"civicplus-archive": {"site": "https://www.springfield.gov"}},
    "https://agenda.akron.gov/OnBaseAgendaOnline/Documents/Downloadfile/a.pdf?documentType=1&meetingId=2": {
        "onbase": {"portal": "https://agenda.akron.gov/OnBaseAgendaOnline"}
    },
    "https://legistar.council.example.gov/View.ashx?M=A&ID=1": {
        "legistar-calendar": {"portal": "https://legistar.council.example.gov"}
    },
    "https://springfield.hylandcloud.com/211agendaonlinecomm/Meetings/Search?dropid=4&mtids=1": {
        "onbase": {"portal": "https://springfield.hylandcloud.com/211agendaonlinecomm"}
    },
    "https://meetings.springfield.gov/CountyBoard/Documents/DownloadFileBytes/a.pdf?documentType=1&meetingId=2": {
        "onbase": {"portal": "https://meetings.springfield.gov/CountyBoard"}
    },
    "https://agendas.springfield.gov/Meetings/ViewMeeting?id=3&doctype=1": {
        "onbase": {"portal": "https://agendas.springfield.gov"}
    },
    "https://video.springfield.gov/ViewPublisher.php?view_id=14": {
        "granicus": {"portal": "https://video.springfield.gov", "views": [14]}
    },
    "https://meetings.springfield.gov/Citizens/Calendar.aspx": {"iqm2": {"portal": "https://meetings.springfield.gov"}},
}


@pytest.mark.parametrize("url", PATHS)
def test_a_path_on_another_host_suggests_a_vendor_and_decides_nothing(url: str) -> None:
    assert {match.scraper: match.extra for match in match_vendors(url)} == PATHS[url]
    assert detect_by_address(url) is None


@pytest.mark.parametrize(
    "url",
    [
        "https://www.granicus.com/products",
        "https://assets.granicus.com/theme.css",
        "https://portal.civicclerk.com/",
        "https://support.granicus.com/s/article",
        "https://granicus.com.example.org/ViewPublisher.php",
        "https://notgranicus.com/",
        "https://www.primegov.com/",
        "https://webapi.legistar.com/Help",
        "https://example.org/?u=https://weho.granicus.com/x",
        "ftp://weho.granicus.com/",
        "https://[broken/",
        "mailto:clerk@weho.granicus.com",
    ],
)
def test_other_addresses_are_not_recognised(url: str) -> None:
    assert match_vendors(url) == []


def test_a_stored_document_of_legistar_names_the_client() -> None:
    matches = match_vendors("https://legistar.granicus.com/phoenix/meetings/2024/1/1_A_City_Council.pdf")
    assert [(match.scraper, match.extra) for match in matches] == [("legistar", {"client": "phoenix"})]


@pytest.fixture(autouse=True)
def no_internet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages of these tests name real hosts: nothing is requested from them."""
    resolve = PublicOnlyBackend._resolve

    async def resolve_address(self: PublicOnlyBackend, host: str, port: int, timeout: float | None) -> list[str]:
        if host != "localhost" and not host.replace(".", "").isdecimal():
            raise httpcore.ConnectError(f"{host} is not requested in tests")
        return await resolve(self, host, port, timeout)

    monkeypatch.setattr(PublicOnlyBackend, "_resolve", resolve_address)


def run(http: HttpClient, url: str) -> Detection:
    limited = HttpClient(http.pool, detection_limits(http.limits))
    detection = limited.run(lambda client: detect(url, client))
    assert detection.requests <= MAX_REQUESTS
    return detection


def summary(detection: Detection) -> list[tuple[str, str]]:
    return [(candidate.scraper, str(candidate.confidence)) for candidate in detection.candidates]


START = {
    "civicclerk": "/Events",
    "civicweb": "/Services/MeetingsService.svc/meetings",
    "simbli": None,
    "escribe": None,
    "boarddocs": None,
}


@pytest.mark.parametrize("label", [label for label in PORTALS if START.get(label, "") is not None])
def test_the_listing_of_each_vendor_is_recognised_on_any_host(label: str, http: HttpClient, web: Web) -> None:
    portal = PORTALS[label](Server(web, label, pdf))
    query = "?view_id=3" if label == "granicus" else ""
    detection = run(http, web.url + (portal.listing or f"/{label}{START[label]}") + query)
    assert detection.best is not None, detection.tried
    assert detection.best.scraper == label
    assert detection.best.evidence


def test_a_town_that_links_to_its_portal_is_likely_and_one_that_embeds_it_is_certain(
    http: HttpClient, web: Web
) -> None:
    portal = "https://springfield.granicus.com/ViewPublisher.php?view_id=2"
    web.serve_html("/linked", f"<a href='{portal}'>Agendas and minutes</a>")
    web.serve_html("/embedded", f"<iframe src='{portal}'></iframe>")
    linked, embedded = run(http, f"{web.url}/linked"), run(http, f"{web.url}/embedded")
    assert summary(linked) == [("granicus", "likely")]
    assert summary(embedded) == [("granicus", "certain")]
    assert linked.best is not None
    assert linked.best.extra == {"client": "springfield", "views": 2}
    assert linked.best.evidence == [f"the page {web.url}/linked links to {portal} (“Agendas and minutes”)"]


def test_the_views_of_a_granicus_portal_are_put_together(http: HttpClient, web: Web) -> None:
    address = "https://springfield.granicus.com/ViewPublisher.php?view_id="
    web.serve_html("/", "".join(f"<a href='{address}{number}'>Meetings {number}</a>" for number in (7, 2)))
    detection = run(http, f"{web.url}/")
    assert detection.best is not None
    assert detection.best.extra == {"client": "springfield", "views": [2, 7]}


def test_a_page_that_links_to_several_systems_has_several_candidates(http: HttpClient, web: Web) -> None:
    web.serve_html(
        "/",
        "<a href='https://springfield.iqm2.com/Citizens/'>Council agendas</a>"
        "<a href='https://go.boarddocs.com/il/spring/Board.nsf/Public'>School board meetings</a>",
    )
    detection = run(http, f"{web.url}/")
    assert sorted(summary(detection)) == [("boarddocs", "likely"), ("iqm2", "likely")]
    assert detection.is_ambiguous


def test_portals_of_two_towns_on_one_page_are_only_possible(http: HttpClient, web: Web) -> None:
    web.serve_html(
        "/",
        "<a href='https://springfield.iqm2.com/Citizens/'>Agendas of Springfield</a>"
        "<a href='https://shelbyville.iqm2.com/Citizens/'>Agendas of Shelbyville</a>",
    )
    assert summary(run(http, f"{web.url}/")) == [("iqm2", "possible"), ("iqm2", "possible")]


def test_a_redirect_to_a_portal_is_followed_no_further_than_needed(http: HttpClient, web: Web) -> None:
    web.routes["/agendas"] = Reply(status=302, headers={"Location": f"{web.url}/there/Citizens/Calendar.aspx"})
    web.serve_html("/there/Citizens/Calendar.aspx", "<div class='MeetingRow'><div class='RowLink'></div></div>")
    detection = run(http, f"{web.url}/agendas")
    assert summary(detection) == [("iqm2", "certain")]
    assert detection.requests == 2
    assert detection.best is not None
    assert detection.best.extra == {"portal": f"{web.url}/there"}


def test_the_agenda_center_of_a_town_is_found_from_its_first_page(http: HttpClient, web: Web) -> None:
    web.serve_html("/", "<a href='/AgendaCenter'>Agendas</a><a href='/Archive.aspx'>Archive Center</a>")
    web.serve_html("/AgendaCenter", "<a href='/AgendaCenter/ViewFile/Agenda/_03052024-1'>Agenda</a>")
    web.serve_html("/Archive.aspx", "<a href='/Archive.aspx?AMID=3'>Budgets</a>")
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("civicplus", "certain"), ("civicplus-archive", "possible")]
    document = run(http, f"{web.url}/AgendaCenter/ViewFile/Agenda/_03052024-1")
    assert summary(document)[0] == ("civicplus", "certain")
    archive = run(http, f"{web.url}/Archive.aspx")
    assert summary(archive)[0] == ("civicplus-archive", "certain")


def test_the_agenda_center_of_another_host_is_only_likely(http: HttpClient, web: Web) -> None:
    other = web.url.replace("127.0.0.1", "localhost")
    web.serve_html("/", f"<a href='{other}/AgendaCenter'>Agendas of the county</a>")
    web.serve_html("/AgendaCenter", "<a href='/AgendaCenter/ViewFile/Agenda/_03052024-1'>Agenda</a>")
    assert summary(run(http, f"{web.url}/"))[0] == ("civicplus", "likely")


def test_an_address_in_a_script_is_evidence_of_a_marked_page(http: HttpClient, web: Web) -> None:
    web.serve_html(
        "/",
        """<table class="listingTable"><tr><td class="listItem"><a href="javascript:void(0);"
        onclick="window.open('//weho.granicus.com/AgendaViewer.php?view_id=31&amp;clip_id=9','x')">Agenda</a></td></tr></table>""",
    )
    detection = run(http, f"{web.url}/")
    assert [(each.scraper, each.extra) for each in detection.candidates] == [
        ("granicus", {"client": "weho", "views": 31})
    ]


def test_the_list_of_municode_on_a_host_of_the_town_is_the_portal(http: HttpClient, web: Web) -> None:
    agenda = "https://mccmeetings.blob.core.usgovcloudapi.net/springfieldil-pubu/MEET-Agenda-1.pdf"
    web.serve_html(
        "/meetings",
        f"""<table class="views-table"><tr><td data-th="Meeting">Council</td>
        <td class="views-field views-field-field-agendas" data-th="Agenda"><a href="{agenda}">PDF</a></td></tr></table>""",
    )
    detection = run(http, f"{web.url}/meetings?page=2")
    assert summary(detection)[0] == ("municode", "likely")
    assert detection.as_dict()["extra"] == {"portal": f"{web.url}/meetings"}
    web.serve_html("/", f"<a href='{agenda}'>Agenda</a>")
    assert run(http, f"{web.url}/").as_dict()["missing"] == ["client"], "the folder's name is not that of the portal"


PORTAL = "https://springfield.iqm2.com/Citizens/Default.aspx"
ELSEWHERE = {
    f"<iframe src='about:blank' data-src='{PORTAL}'></iframe>": "certain",
    f"<a href='{PORTAL}'><img src='m.png' alt='Meeting portal'></a>": "likely",
    f"<script>window.location = '{PORTAL}'</script>": "possible",
    r"""<script>write('<iframe src=\"https:\/\/springfield.iqm2.com\/Citizens\/Calendar.aspx\">')</script>""": "possible",
}


@pytest.mark.parametrize("page", ELSEWHERE)
def test_a_portal_is_found_wherever_a_page_has_its_address(page: str, http: HttpClient, web: Web) -> None:
    web.serve_html("/", page)
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("iqm2", ELSEWHERE[page])]
    assert detection.as_dict()["extra"] == {"client": "springfield"}


def test_an_address_in_the_data_of_a_script_is_no_evidence(http: HttpClient, web: Web) -> None:
    article = '{"articleBody": "The agenda is at https://springfield.iqm2.com/Citizens/", "url": "https:\\/\\/springfield.iqm2.com"}'
    web.serve_html("/", f"<script type='application/ld+json'>{article}</script>")
    assert summary(run(http, f"{web.url}/")) == []


@pytest.mark.parametrize(
    ("url", "scraper", "extra", "missing"),
    [
        ("https://meetings.municode.com/adaHtmlDocument/index?cc=SPRINGIL&me=1", "municode", {}, "client"),
        ("https://go.boarddocs.com/", "boarddocs", {}, "path"),
        ("https://granicus_production_attachments.s3.amazonaws.com/springfield/a.pdf", "granicus", {"client": "springfield"}, "views"),
    ],
)  # fmt: skip
def test_an_address_of_a_vendor_without_all_settings_says_which_are_missing(
    url: str, scraper: str, extra: dict[str, Any], missing: str, http: HttpClient
) -> None:
    result = run(http, url).as_dict()
    assert (result["vendor"], result["extra"], result["missing"]) == (scraper, extra, [missing])
    assert result["confidence"] == "possible"


def test_the_responsive_list_of_novusagenda_without_pdfs_is_recognised(http: HttpClient, web: Web) -> None:
    page = """<div id="meetings"><a onClick="javascript:v=window.open('MeetingView.aspx?MeetingID=5&doctype=Agenda','v')">View</a></div>"""
    web.serve_html("/list.aspx", page)
    assert summary(run(http, f"{web.url}/list.aspx")) == [("novusagenda", "likely")]


def test_an_answer_is_recognised_although_its_first_entry_lacks_fields(http: HttpClient, web: Web) -> None:
    events = [{"id": 1}, {"id": 2, "eventName": "Council", "publishedFiles": []}]
    web.serve_json("/answer", {"messages": [], "value": events})
    assert summary(run(http, f"{web.url}/answer"))[0][0] == "civicclerk"


def test_a_page_about_meetings_is_followed(http: HttpClient, web: Web) -> None:
    web.serve_html("/", "<a href='/government/meetings'>Council meetings</a><a href='/parks'>Parks</a>")
    web.serve_html("/government/meetings", "<a href='https://springfield.civicweb.net/Portal/'>Agendas</a>")
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("civicweb", "likely")]
    assert "/parks" not in web.paths()


def test_an_address_that_is_not_there_is_no_evidence_and_one_that_fails_is_possible(http: HttpClient, web: Web) -> None:
    web.serve_html("/", "<a href='/AgendaCenter'>Agendas</a>")
    assert summary(run(http, f"{web.url}/")) == []
    web.routes["/AgendaCenter"] = Reply(status=403)
    assert summary(run(http, f"{web.url}/")) == [("civicplus", "possible")]


@pytest.mark.parametrize("knows", [True, False])
def test_legistar_needs_a_client_that_the_web_api_knows(
    knows: bool, http: HttpClient, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = dataclasses.replace(Legistar.recognition, probe=f"{web.url}/v1/{{client}}/events")
    monkeypatch.setattr(Legistar, "recognition", api)
    web.serve_html("/", "<iframe src='https://springfield.legistar.com/Calendar.aspx'></iframe>")
    web.routes["/v1/springfield/events"] = Reply(b"[]" if knows else b"no such client", 200 if knows else 500)
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("legistar", "certain" if knows else "likely")]


def test_a_page_of_legistar_is_the_calendar_where_there_is_no_web_api(http: HttpClient, web: Web) -> None:
    web.serve_html("/View.aspx", "<table id='ctl00_gridCalendar_ctl00'></table>")
    detection = run(http, f"{web.url}/View.aspx")
    assert [(each.scraper, each.extra) for each in detection.candidates] == [("legistar-calendar", {"portal": web.url})]


def test_the_views_of_a_portal_are_found_on_its_first_page(
    http: HttpClient, web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    views = (r"(?P<client>127)\.0\.0\.1/.*[?&]view_id=(?P<views>\d+)", r"(?P<client>127)\.0\.0\.1/")
    monkeypatch.setattr(Granicus, "recognition", dataclasses.replace(Granicus.recognition, hosts=views))
    web.serve_html("/", "".join(f"<a href='/ViewPublisher.php?view_id={number}'>x</a>" for number in (7, 2)))
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("granicus", "certain")]
    assert detection.as_dict()["extra"] == {"client": "127", "views": [2, 7]}
    web.serve_html("/", "<h1>Welcome</h1>")
    listing = "<table class='listingTable'><tr><td class='listItem' headers='Name'>Council</td></tr></table>"
    web.serve_html("/ViewPublisher.php", listing)
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("granicus", "likely")]
    assert detection.as_dict()["extra"] == {"client": "127", "views": 1}


def test_a_granicus_portal_without_a_view_says_what_is_missing(http: HttpClient, web: Web) -> None:
    web.serve_html("/", "<iframe src='https://springfield.granicus.com/'></iframe>")
    detection = run(http, f"{web.url}/")
    assert summary(detection) == [("granicus", "possible")]
    assert detection.as_dict()["missing"] == ["views"]


@pytest.mark.parametrize("name", UNRELATED)
def test_an_unrelated_page_is_unknown(name: str, http: HttpClient, web: Web) -> None:
    page = UNRELATED[name].encode()
    kind = "application/json" if name == "json" else "text/html"
    web.routes["/"] = Reply(page, headers={"Content-Type": kind})
    # A server that answers every address with its first page must not confirm anything.
    for path in ("/AgendaCenter", "/Archive.aspx", "/Calendar.aspx", "/meetings"):
        web.routes[path] = web.routes["/"]
    detection = run(http, f"{web.url}/")
    assert summary(detection) == []
    result = detection.as_dict()
    assert (result["vendor"], result["confidence"]) == (None, "unknown")
    assert result["tried"]


def test_pages_that_link_to_documents_of_meetings_are_a_source_without_a_vendor(http: HttpClient, web: Web) -> None:
    web.serve_html("/", "<a href='/records'>Agendas and minutes</a><a href='/docs/dogs.pdf'>Dog licence</a>")
    web.serve_html(
        "/records", "<title>Agendas and minutes</title><a href='/1.pdf'>March 5</a><a href='/2.docx'>May 7</a>"
    )
    detection = run(http, web.url)
    assert (detection.best, detection.as_dict()["confidence"]) == (None, "unknown")
    assert detection.links is not None
    assert detection.links.extra == {"pages": f"{web.url}/records"}
    assert detection.links.evidence == [f"the page {web.url}/records links to 2 documents"]
    web.serve_html("/", "<a href='/records'>Agendas and minutes</a><a href='/docs/agenda.pdf'>Next agenda</a>")
    web.serve_html("/AgendaCenter", "<title>Minutes</title><a href='/1.pdf'>The same document again</a>")
    assert (again := run(http, web.url)).links is not None
    assert again.links.extra == {"pages": [web.url, f"{web.url}/records"]}
    web.serve_html("/records", "<a href='/dogs.pdf'>Dog licence</a><a href='/minutes.xlsx'>Minutes</a>")
    web.serve_html("/", "<a href='/records'>Minutes</a>")
    web.routes.pop("/AgendaCenter")
    assert run(http, web.url).links is None


def test_there_are_twenty_unrelated_pages() -> None:
    assert len(UNRELATED) == 20


def test_a_list_of_towns_with_portals_of_several_vendors_is_no_towns_portal(http: HttpClient, web: Web) -> None:
    towns = ("shelbyville.iqm2.com/Citizens/", "ogdenville.civicweb.net/Portal/", "pub-capital.escribemeetings.com/")
    web.serve_html("/", "".join(f"<a href='https://{town}'>Agendas and minutes</a>" for town in towns))
    detection = run(http, f"{web.url}/")
    assert {confidence for _, confidence in summary(detection)} == {"possible"}
    assert len(detection.candidates) == 3


def test_endless_redirects_and_links_are_bounded(http: HttpClient, web: Web) -> None:
    def redirect(request: Request) -> Reply:
        return Reply(status=302, headers={"Location": f"{web.url}/loop?n={len(web.requests)}"})

    web.routes["/loop"] = redirect
    assert summary(run(http, f"{web.url}/loop")) == []
    assert len(web.requests) <= MAX_REQUESTS
    web.requests.clear()
    links = "".join(f"<a href='/meetings/{number}'>Minutes {number}</a>" for number in range(200_000))
    web.serve_html("/", links[:4_900_000])
    for number in range(20):
        web.serve_html(f"/meetings/{number}", "<h1>Meetings</h1>")
    web.routes["/AgendaCenter"] = redirect
    detection = run(http, f"{web.url}/")
    assert summary(detection) == []
    assert "no more than 12 requests" in str(detection.tried)
    assert len(web.requests) <= MAX_REQUESTS


def test_private_addresses_are_not_requested(http: HttpClient, web: Web) -> None:
    web.routes["/"] = Reply(status=302, headers={"Location": "http://10.0.0.1/AgendaCenter"})
    detection = run(http, f"{web.url}/")
    assert detection.candidates == []
    assert "10.0.0.1 is not a public address" in str(detection.tried)
    refused = HttpClient(http.pool, dataclasses.replace(http.limits, allow_loopback=False))
    web.requests.clear()
    detection = run(refused, f"{web.url}/")
    assert (summary(detection), web.requests) == ([], [])
    assert detection.failure.startswith("127.0.0.1 is not a public address")


RECORDINGS = {
    "boardbook-organization.html": "boardbook",
    "boarddocs-agenda-detailed.html": "boarddocs",
    "boarddocs-meetings-list.json": "boarddocs",
    "civicclerk-events.json": "civicclerk",
    "civicplus-search-results.html": "civicplus",
    "civicweb-meeting-documents.json": "civicweb",
    "civicweb-meetings.json": "civicweb",
    "escribe-calendar-meetings.json": "escribe",
    "granicus-view-publisher.html": "granicus",
    "iqm2-calendar.html": "iqm2",
    "legistar-events.json": "legistar",
    "municode-meetings.html": "municode",
    "novusagenda-meetings-general.html": "novusagenda",
    "onbase-meetings-search.html": "onbase",
    "primegov-list-meetings.json": "primegov",
    "simbli-meeting-listing.json": "simbli",
}


@pytest.mark.parametrize("name", RECORDINGS)
def test_recorded_answers_are_recognised_by_their_content(name: str, http: HttpClient, web: Web) -> None:
    web.routes["/answer"] = Reply(
        recording(name).encode(),
        headers={"Content-Type": "text/html" if name.endswith("html") else "application/json"},
    )
    detection = run(http, f"{web.url}/answer")
    assert detection.best is not None, detection.tried
    assert detection.best.scraper == RECORDINGS[name]
