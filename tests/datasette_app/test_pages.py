"""The pages of the Datasette application, through an HTTP client."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from clerk.datasette_app.app import create_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.db.sites import SiteRow
from clerk.publish.versions import SiteVersions
from tests.archive.published import write_archive
from tests.datasette_app.conftest import Archives

HOSTILE = "<script>alert(1)</script>"
SITES = [
    SiteRow(
        "springfield",
        "Springfield",
        "IL",
        "city",
        extra='{"source": "City Clerk", "source_url": "https://city.example/", "license": "CC0", "path": "/home/me",'
        ' "about": "A local newspaper", "about_url": "https://paper.example/"}',
    ),
    SiteRow("riverton", f"Riverton {HOSTILE}", extra='{"source_url": "javascript:alert(1)"}'),
]


@pytest.fixture
def site_metadata() -> SiteMetadata:
    site_metadata = SiteMetadata(lambda: SITES)
    site_metadata.refresh()
    return site_metadata


@pytest.fixture
def client(archives: Archives, site_metadata: SiteMetadata) -> Iterator[TestClient]:
    with TestClient(create_app(archives.published, archives.storage, site_metadata)) as client:
        yield client


def test_the_sites_are_listed_by_name_and_can_be_filtered(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one", "two")
    archives.publish("riverton", "three")
    archives.publish("north.haven", "four", kind="agenda")
    page = client.get("/").text
    assert '<a href="/springfield"><bdi>Springfield</bdi></a>' in page
    assert '<a href="/north~2Ehaven"><bdi>north.haven</bdi></a>' in page
    assert HOSTILE not in page
    sites = client.get("/.json").json()["sites"]
    assert [(site["site"], site["pages"]) for site in sites] == [
        ("north.haven", 1),
        ("riverton", 1),
        ("springfield", 2),
    ]
    assert [site["site"] for site in client.get("/.json?q=IL+spring").json()["sites"]] == ["springfield"]
    assert "No published site has “nowhere” in its name or state." in client.get("/?q=nowhere").text


def test_the_address_of_health_checks_opens_no_archive(archives: Archives, client: TestClient) -> None:
    """The probes of the Helm chart request it."""
    archives.publish("springfield", "text")
    (archives.published / "springfield" / "current" / "meetings.db").unlink()
    assert client.get("/-/versions.json").status_code == 200


def test_a_site_shows_its_metadata(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one")
    page = client.get("/springfield").text
    assert "<h1><bdi>Springfield</bdi></h1>" in page
    assert "Records of public meetings: city, IL" in page
    assert "The archive has the documents that could be read and dated. The source may have more." in page
    assert 'href="https://city.example/"' in page
    assert "City Clerk" in page
    assert "CC0" in page
    assert 'href="https://paper.example/"' in page
    assert "A local newspaper" in page
    assert "<title>Springfield: meeting archive</title>" in page
    assert "/home/me" not in page


def test_an_invalid_source_url_is_not_linked(archives: Archives, client: TestClient) -> None:
    archives.publish("riverton", "one")
    assert "javascript:" not in client.get("/riverton").text


def test_facets_search_and_json(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "The council spoke of bike lanes.", "The budget.")
    page = client.get("/springfield/minutes").text
    assert 'id="facet-meeting"' in page
    assert 'id="facet-date"' not in page
    assert 'name="_search"' in page
    assert client.get("/springfield/minutes.csv").headers["content-type"] == "text/csv; charset=utf-8"
    rows = client.get("/springfield/minutes.json?_shape=array&_search=lanes").json()
    assert [row["page"] for row in rows] == [1]
    assert "<mark>bike</mark> <mark>lanes</mark>" in client.get("/springfield/search?q=bike+lanes").text
    assert "<mark>bike</mark>" in client.get("/springfield/search?q=bik*&since=2024-03-05").text
    assert "<mark>bike</mark>" not in client.get("/springfield/search?q=bike&since=2024-03-06").text
    assert client.get("/springfield/search").status_code == 200
    missing = client.get("/nowhere/search")
    assert missing.status_code == 404
    assert "No archive named nowhere is published." in missing.text
    assert "There is no page at this address, and no archive of this name is published." in client.get("/about").text
    assert client.get('/springfield/search?q="bike+AND').status_code == 400


SQL = (
    "/springfield?sql={}",
    "/springfield.json?sql={}",
    "/springfield.csv?sql={}",
    "/springfield/minutes?_where=({})",
    "/springfield/minutes.json?_where=({})",
)


@pytest.mark.parametrize("path", SQL)
def test_visitors_may_not_run_their_own_sql(archives: Archives, client: TestClient, path: str) -> None:
    archives.publish("springfield", "one")
    answer = client.get(path.format("select+'their'||'sql'"))
    assert answer.status_code == 403
    assert "theirsql" not in answer.text
    if "?sql" in path and ".json" not in path:
        assert "Visitors may not run SQL on this server." in answer.text
    assert "<textarea" not in client.get("/springfield").text, "the box for SQL"


@pytest.fixture
def sql_client(archives: Archives, site_metadata: SiteMetadata) -> Iterator[TestClient]:
    """With --allow-sql."""
    archives.publish("springfield", *["one"] * 20)
    app = create_app(archives.published, archives.storage, site_metadata, allow_sql=True)
    with TestClient(app) as client:
        yield client


def test_sql_can_be_allowed(sql_client: TestClient) -> None:
    query = "select count(*) as pages from minutes"
    assert sql_client.get("/springfield.json", params={"sql": query, "_shape": "array"}).json() == [{"pages": 20}]
    assert "<textarea" in sql_client.get("/springfield").text


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("select length(hex(zeroblob(400000000)))", "string or blob too big"),
        ("select replace(hex(zeroblob(40000)), '0', hex(zeroblob(40000)))", "string or blob too big"),
        ("select group_concat(hex(zeroblob(1000000))) from minutes", "string or blob too big"),
        ("select zeroblob(9000000) from minutes", "the result has more than 50,000,000 bytes"),
        ("select hex(zeroblob(4000000)) from minutes", "the result has more than 50,000,000 bytes"),
        (f"select {'+'.join(['1'] * 200)}", "Expression tree is too large"),
        (" union all ".join(["select 1"] * 50), "too many terms in compound SELECT"),
        (f"select 'a' like '{'%a' * 400}'", "LIKE or GLOB pattern too complex"),
    ],
)
def test_queries_are_limited(sql_client: TestClient, query: str, message: str) -> None:
    answer = sql_client.get("/springfield.json", params={"sql": query})
    assert answer.status_code == 400, answer.text
    assert message in answer.json()["error"]


def test_filters_are_limited_too(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one")
    assert client.get("/springfield/minutes.json", params={"text__like": "%a" * 400}).status_code == 400
    assert client.get("/springfield/minutes.json?text__contains=on&_shape=array").json()[0]["text"] == "one"


def test_a_name_with_a_dot_is_served(archives: Archives, client: TestClient) -> None:
    archives.publish("north.haven", "four", kind="agenda")
    assert client.get("/north~2Ehaven/agendas.json?_shape=array").json()[0]["text"] == "four"


@pytest.mark.parametrize("path", ["/springfield/minutes", "/springfield/minutes/1", "/springfield/search?q=council"])
def test_page_text_is_escaped(archives: Archives, client: TestClient, path: str) -> None:
    archives.publish("springfield", f"The council {HOSTILE} <img src=x onerror=alert(1)>", meeting=HOSTILE)
    answer = client.get(path)
    assert answer.status_code == 200
    assert "alert(1)" in answer.text
    assert HOSTILE not in answer.text
    assert "<img src=x" not in answer.text


def test_tables_show_the_beginning_of_a_text_and_link_to_the_whole(archives: Archives, client: TestClient) -> None:
    text = "The council spoke. " * 100 + f"{HOSTILE} Bike lanes came last."
    archives.publish("springfield", text, "Short.", "One\n\nword\nper\nline.")
    path = "/-/pages/springfield/minutes/2024-03-05/City%20Council/1"
    page = client.get("/springfield/minutes").text
    assert f'… <a class="clerk-whole" href="{path}">whole page</a>' in page
    assert f'<a href="{path}">1</a>' in page
    assert '<a href="/-/meetings/springfield/2024-03-05/City%20Council">City Council</a>' in page
    assert "Bike lanes" not in page
    assert "One word per line." in page
    found = client.get("/springfield/minutes?_search=lanes").text
    assert "Bike <mark>lanes</mark> came last." in found
    assert f'href="{path}?q=lanes">whole page</a>' in found
    row = client.get("/springfield/minutes/1").text
    assert "Bike lanes came last." in row, "the page of one row has the whole text"
    assert "whole page" not in row
    assert client.get("/springfield/minutes.json?_shape=array&page=1").json()[0]["text"] == text
    assert HOSTILE not in page + found + row


def test_a_readable_page_per_meeting(archives: Archives, client: TestClient) -> None:
    pages = [
        {"kind": "minutes", "page": 1, "text": f"The council spoke of bike lanes. {HOSTILE}", "meeting": "Parks/Trees"},
        {"kind": "minutes", "page": 2, "text": "Adjourned.", "meeting": "Parks/Trees"},
        {"kind": "agenda", "page": 1, "text": "Bike lanes", "meeting": "Parks/Trees",
         "source_url": "https://city.example/agenda.pdf", "added_at": "2024-03-09T10:00:00Z"},
        {"kind": "packet", "page": 1, "text": "Maps", "meeting": "Parks/Trees"},
        {"kind": "minutes", "page": 1, "text": "Another day", "meeting": "Parks/Trees", "date": "2023-01-10"},
    ]  # fmt: skip
    draft = archives.storage / "draft.db"
    draft.parent.mkdir(parents=True)
    write_archive(draft, *pages)
    SiteVersions(archives.published, "springfield").publish(draft, keep=2)
    listed = client.get("/-/meetings/springfield").text
    path = "/-/meetings/springfield/2024-03-05/Parks%2FTrees"
    assert re.findall(r'<a href="(/-/meetings/springfield/[^"]*)"', listed) == [
        path,
        "/-/meetings/springfield/2023-01-10/Parks%2FTrees",
    ]
    assert '<span class="clerk-note">minutes, agenda, packet</span>' in listed
    of_2023 = client.get("/-/meetings/springfield?year=2023").text
    assert "2024-03-05" not in of_2023
    assert "<bdi>Parks/Trees</bdi></a> <span>1</span>" in of_2023, "the filter also counts only that year"
    assert "No meeting matches these filters." in client.get("/-/meetings/springfield?body=None").text
    page = client.get(path).text
    assert "<h1><bdi>Parks/Trees</bdi>, 5 March 2024</h1>" in page
    assert "Springfield, Parks/Trees, meeting of 5 March 2024." in page
    for anchor in ("minutes", "minutes-1", "minutes-2", "agenda-1", "packet-1"):
        assert f'id="{anchor}"' in page
    assert (
        '<a class="clerk-address" href="https://city.example/agenda.pdf" rel="noreferrer noopener">'
        "https://city.example/agenda.pdf</a>" in page
    )
    assert "No votes were found in the documents of this meeting." in page
    assert "Another day" not in page
    assert HOSTILE not in page
    assert 'href="/-/pages/springfield/minutes/2024-03-05/Parks%2FTrees/2"' in page
    assert "<mark>bike</mark>" in client.get(f"{path}?q=bike").text
    assert "Page 1 of 2" in client.get("/-/pages/springfield/minutes/2024-03-05/Parks%2FTrees/1").text
    for missing in (f"{path}x", "/-/meetings/springfield/2024-03-06/x", "/-/meetings/nowhere", "/-/meetings/%2e%2e"):
        assert client.get(missing).status_code == 404


def test_only_the_first_pages_of_a_long_document_are_shown(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", *(f"text {number}." for number in range(1, 121)))
    page = client.get("/-/meetings/springfield/2024-03-05/City%20Council").text
    assert "text 100." in page
    assert "text 101." not in page
    assert "The first 100 of 120 pages are shown." in page


def test_the_csp_allows_only_datasettes_own_scripts(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one")
    for path in ("/", "/springfield", "/springfield/minutes", "/springfield?sql=select+1", "/nowhere"):
        answer = client.get(path)
        policy = answer.headers["content-security-policy"]
        scripts = re.search("script-src ([^;]*)", policy)
        assert scripts
        assert "unsafe" not in scripts[1]
        assert "default-src 'none'" in policy
        inline = re.findall("<script>(.*?)</script>", answer.text, re.DOTALL)
        assert all(_hash(script) in scripts[1] for script in inline), inline
        assert answer.headers["x-content-type-options"] == "nosniff"


def _hash(script: str) -> str:
    import base64
    import hashlib

    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def test_a_new_version_is_served_from_the_next_request_on(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "first")
    path = "/springfield/minutes.json?_shape=array"
    assert [row["text"] for row in client.get(path).json()] == ["first"]
    assert 'data-unit="row">1</td>' in client.get("/springfield").text
    for version in range(3):  # by then the first version is deleted
        archives.publish("springfield", "first", f"second {version}")
        assert {row["text"] for row in client.get(path).json()} == {"first", f"second {version}"}
    assert 'data-unit="rows">2</td>' in client.get("/springfield").text
    published = SiteVersions(archives.published, "springfield")
    published.switch_to(published.previous())
    assert {row["text"] for row in client.get(path).json()} == {"first", "second 1"}


def test_sites_published_and_removed_while_serving(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one")
    assert client.get("/riverton/minutes.json").status_code == 404
    archives.publish("riverton", "two")
    assert client.get("/riverton/minutes.json").status_code == 200
    SiteVersions(archives.published, "riverton").link.unlink()
    assert client.get("/riverton/minutes.json").status_code == 404
    assert [site["site"] for site in client.get("/.json").json()["sites"]] == ["springfield"]


def test_a_broken_archive_does_not_affect_other_sites(archives: Archives, client: TestClient) -> None:
    broken = archives.publish("riverton", "one").path / "meetings.db"
    broken.write_bytes(b"no database at all" * 1000)
    archives.publish("springfield", "one")
    assert client.get("/riverton").status_code == 500
    assert client.get("/springfield/minutes.json").status_code == 200
    assert len(client.get("/.json").json()["sites"]) == 2


def test_images_of_published_pages(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one", "two")
    archives.publish("riverton", "agenda", kind="agenda")
    archives.add_image("springfield", "images/CityCouncil/2024-03-05/1.png")
    archives.add_image("riverton", "_agendas/images/CityCouncil/2024-03-05/1.png")
    page = client.get("/springfield/minutes").text
    link = '<a href="/-/images/springfield/CityCouncil/2024-03-05/1.png">/CityCouncil/2024-03-05/1.png</a>'
    assert link in page
    assert "/-/images/springfield/CityCouncil/2024-03-05/2.png" not in page, "there is no such image"
    answer = client.get("/-/images/springfield/CityCouncil/2024-03-05/1.png")
    assert (answer.status_code, answer.content) == (200, b"\x89PNG of a page")
    assert answer.headers["content-type"] == "image/png"
    assert client.get("/-/images/riverton/_agendas/CityCouncil/2024-03-05/1.png").status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "springfield/CityCouncil/2024-03-05/2.png",  # the file exists, but no published row names it
        "springfield/CityCouncil/2024-03-05/3.png",  # named by a published row, but a link out of the folder
        "springfield/%2e%2e/2024-03-05/1.png",
        "springfield/..%2f..%2fsecret/2024-03-05/1.png",
        "springfield/CityCouncil/%2e%2e/1.png",
        "springfield/%2e%2e%2f%2e%2e%2fsecret",
        "springfield/CityCouncil/2024-03-05/1.png%00",
        "springfield/%ff%fe/2024-03-05/1.png",
        "%2e%2e/CityCouncil/2024-03-05/1.png",
        "nowhere/CityCouncil/2024-03-05/1.png",
        "springfield/draft.db",
    ],
)
def test_only_images_of_published_pages_are_served(archives: Archives, client: TestClient, path: str) -> None:
    archives.publish("springfield", "one", "two", "three")
    archives.publish("springfield", "one")
    secret = archives.add_image("secret", "2024-03-05/1.png")
    archives.add_image("springfield", "images/CityCouncil/2024-03-05/2.png")
    (archives.storage / "springfield/images/CityCouncil/2024-03-05/3.png").symlink_to(secret)
    if path.endswith("3.png"):
        archives.publish("springfield", "one", "two", "three")
    assert client.get(f"/-/images/{path}").status_code == 404


def test_the_text_and_the_original_of_a_document_can_be_downloaded(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one", "zwei ü")
    page, meeting = "/-/pages/springfield/minutes/2024-03-05/City%20Council/1", "/springfield/2024-03-05/City%20Council"
    download = "/-/documents/springfield/minutes/2024-03-05/City%20Council"
    for path in (page, f"/-/meetings{meeting}"):
        shown = client.get(path).text
        assert f'<a href="{download}/text" download>text</a>' in shown
        assert "The original is neither on this server nor on the web" in shown
        assert f"{download}/original" not in shown
    text = client.get(f"{download}/text")
    assert text.text == "[Page 1 of 2]\n\none\n\n[Page 2 of 2]\n\nzwei ü\n\n"
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert "attachment" in text.headers["content-disposition"]
    assert client.get(f"{download}/original").status_code == 404

    archives.add_document("springfield", "2024-03-05_r2", "one", "not published", content=b"%PDF-of a later revision")
    archives.add_document("springfield", "2024-03-05", "one", "zwei ü", content=b"%PDF-1.7")
    for path in (page, f"/-/meetings{meeting}"):
        shown = client.get(path).text
        assert f'<a href="{download}/original" download>PDF</a>' in shown
        assert "The original is neither" not in shown
    original = client.get(f"{download}/original")
    assert original.content == b"%PDF-1.7"
    assert original.headers["content-type"] == "application/pdf"
    assert original.headers["content-disposition"] == (
        'attachment; filename="springfield CityCouncil 2024-03-05 minutes.pdf"'
    )
    for missing in ("agenda/2024-03-05/City%20Council", "minutes/2024-03-05/None", "minutes/%2e%2e/x", "none/x/x"):
        assert client.get(f"/-/documents/springfield/{missing}/text").status_code == 404

    (archives.storage / "springfield/pdfs/CityCouncil/2024-03-05.pdf").unlink()
    archives.add_document(
        "springfield", "2024-03-05", "one", "zwei ü", file="2024-03-05.html", content=b"<script>alert(1)</script>"
    )
    assert "download>Web page</a>" in client.get(page).text
    assert client.get(f"{download}/original").headers["content-type"].startswith("text/plain")

    (archives.storage / "springfield/pdfs/CityCouncil/2024-03-05.html").unlink()
    secret = archives.add_image("secret", "2024-03-05/1.png")
    (archives.storage / "springfield/pdfs/CityCouncil/2024-03-05.pdf").symlink_to(secret)
    assert client.get(f"{download}/original").status_code == 404, "a link out of the folder"


def test_datasettes_internal_databases_are_hidden(archives: Archives, client: TestClient) -> None:
    archives.publish("springfield", "one")
    assert client.get("/_memory").status_code == 404
    assert client.get("/_internal").status_code == 403


def test_no_archive_stays_open_between_requests(archives: Archives, client: TestClient) -> None:
    import psutil

    for number in range(30):
        archives.publish(f"town{number}", "one")
    for number in range(30):
        assert client.get(f"/town{number}/minutes.json").status_code == 200
    assert [file for file in psutil.Process().open_files() if "meetings.db" in file.path] == []


def test_site_names_are_kept_while_the_database_is_unreachable(caplog: pytest.LogCaptureFixture) -> None:
    from clerk.errors import DatabaseUnreachable

    responses = [SITES]

    def read() -> list[SiteRow]:
        if responses:
            return responses.pop()
        raise DatabaseUnreachable("no answer", "start it")

    site_metadata = SiteMetadata(read)
    site_metadata.refresh()
    site_metadata.refresh()
    assert site_metadata.name("springfield") == "Springfield"
    assert "site names cannot be read from the database: no answer" in caplog.text


def test_a_site_links_to_its_search_and_hides_the_search_tables(archives: Archives, client: TestClient) -> None:
    archives.publish("north.haven", "The budget.")
    page = client.get("/north~2Ehaven").text
    assert '<form action="/north~2Ehaven/search" method="get" role="search" class="clerk-search">' in page
    assert '<a href="/-/meetings/north.haven/2024-03-05/City%20Council"><bdi>City Council</bdi></a>' in page
    assert 'href="/north~2Ehaven/document_sources"' in page
    counts = {table["name"]: table["count"] for table in client.get("/north~2Ehaven.json").json()["tables"]}
    assert counts["minutes"] == 1
    assert counts["minutes_search"] is None, "counting the search tables can log an error, and no page shows them"
    for table in ("minutes_search", "minutes_fts", "search_changes"):
        assert f'href="/north~2Ehaven/{table}"' not in page
    assert "<mark>budget</mark>" in client.get("/north~2Ehaven/search?q=budget").text
