"""What readers of the published archives get, from the real application."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from clerk.datasette_app.app import create_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.db.sites import SiteRow
from clerk.publish.versions import SiteVersions
from tests.datasette_app.conftest import World

HOSTILE = "<script>alert(1)</script>"
SITES = [
    SiteRow(
        "springfield",
        "Springfield",
        "IL",
        "city",
        extra='{"source": "City Clerk", "source_url": "https://city.example/", "license": "CC0", "path": "/home/me"}',
    ),
    SiteRow("riverton", f"Riverton {HOSTILE}", extra='{"source_url": "javascript:alert(1)"}'),
]


@pytest.fixture
def facts() -> SiteMetadata:
    facts = SiteMetadata(lambda: SITES)
    facts.refresh()
    return facts


@pytest.fixture
def client(world: World, facts: SiteMetadata) -> Iterator[TestClient]:
    with TestClient(create_app(world.published, world.storage, facts)) as client:
        yield client


def test_the_sites_are_listed_by_name_and_can_be_filtered(world: World, client: TestClient) -> None:
    world.publish("springfield", "one", "two")
    world.publish("riverton", "three")
    world.publish("north.haven", "four", kind="agenda")
    page = client.get("/").text
    assert '<a href="/springfield">Springfield</a>' in page
    assert '<a href="/north~2Ehaven">north.haven</a>' in page
    assert HOSTILE not in page
    found = client.get("/.json").json()["sites"]
    assert [(site["site"], site["pages"]) for site in found] == [
        ("north.haven", 1),
        ("riverton", 1),
        ("springfield", 2),
    ]
    assert [site["site"] for site in client.get("/.json?q=IL+spring").json()["sites"]] == ["springfield"]
    assert "No site of that name is published." in client.get("/?q=nowhere").text


def test_a_site_says_who_it_is(world: World, client: TestClient) -> None:
    world.publish("springfield", "one")
    page = client.get("/springfield").text
    assert "<h1>Springfield" in page
    assert "Meeting records: city, IL" in page
    assert 'href="https://city.example/"' in page
    assert "City Clerk" in page
    assert "CC0" in page
    assert "/home/me" not in page


def test_an_address_that_is_none_is_not_linked(world: World, client: TestClient) -> None:
    world.publish("riverton", "one")
    assert "javascript:" not in client.get("/riverton").text


def test_facets_search_and_json(world: World, client: TestClient) -> None:
    world.publish("springfield", "The council spoke of bike lanes.", "The budget.")
    page = client.get("/springfield/minutes").text
    assert 'id="facet-meeting"' in page
    assert 'id="facet-date"' in page
    assert 'name="_search"' in page
    rows = client.get("/springfield/minutes.json?_shape=array&_search=lanes").json()
    assert [row["page"] for row in rows] == [1]
    assert "[bike] [lanes]" in client.get("/springfield/search?words=bike+lanes").text
    # What would mean something to FTS5 is a word here.
    assert client.get('/springfield/search?words="bike+AND').status_code == 200


def test_a_name_with_a_dot_is_served(world: World, client: TestClient) -> None:
    world.publish("north.haven", "four", kind="agenda")
    assert client.get("/north~2Ehaven/agendas.json?_shape=array").json()[0]["text"] == "four"


@pytest.mark.parametrize(
    "path", ["/springfield/minutes", "/springfield/minutes/1", "/springfield/search?words=council"]
)
def test_page_text_stays_text(world: World, client: TestClient, path: str) -> None:
    world.publish("springfield", f"The council {HOSTILE} <img src=x onerror=alert(1)>", meeting=HOSTILE)
    answer = client.get(path)
    assert answer.status_code == 200
    assert "alert(1)" in answer.text
    assert HOSTILE not in answer.text
    assert "<img src=x" not in answer.text


def test_no_script_runs_but_datasettes_own(world: World, client: TestClient) -> None:
    world.publish("springfield", "one")
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


def test_a_new_version_is_served_from_the_next_request_on(world: World, client: TestClient) -> None:
    world.publish("springfield", "first")
    path = "/springfield/minutes.json?_shape=array"
    assert [row["text"] for row in client.get(path).json()] == ["first"]
    assert "1 row" in client.get("/springfield").text
    for version in range(3):  # the first one is gone from the disk by then
        world.publish("springfield", "first", f"second {version}")
        assert {row["text"] for row in client.get(path).json()} == {"first", f"second {version}"}
    assert "2 rows" in client.get("/springfield").text
    published = SiteVersions(world.published, "springfield")
    published.switch_to(published.before_current())
    assert {row["text"] for row in client.get(path).json()} == {"first", "second 1"}


def test_a_site_that_is_published_later_or_taken_away(world: World, client: TestClient) -> None:
    world.publish("springfield", "one")
    assert client.get("/riverton/minutes.json").status_code == 404
    world.publish("riverton", "two")
    assert client.get("/riverton/minutes.json").status_code == 200
    SiteVersions(world.published, "riverton").link.unlink()
    assert client.get("/riverton/minutes.json").status_code == 404
    assert [site["site"] for site in client.get("/.json").json()["sites"]] == ["springfield"]


def test_a_broken_archive_breaks_nothing_else(world: World, client: TestClient) -> None:
    broken = world.publish("riverton", "one").path / "meetings.db"
    broken.write_bytes(b"no database at all" * 1000)
    world.publish("springfield", "one")
    assert client.get("/riverton").status_code == 500
    assert client.get("/springfield/minutes.json").status_code == 200
    assert len(client.get("/.json").json()["sites"]) == 2


def test_images_of_published_pages(world: World, client: TestClient) -> None:
    world.publish("springfield", "one", "two")
    world.publish("riverton", "agenda", kind="agenda")
    world.picture("springfield", "images/CityCouncil/2024-03-05/1.png")
    world.picture("riverton", "_agendas/images/CityCouncil/2024-03-05/1.png")
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
        "springfield/CityCouncil/2024-03-05/2.png",  # there, and of no published page
        "springfield/CityCouncil/2024-03-05/3.png",  # of a published page, and a link that leads away
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
def test_nothing_else_can_be_had_as_an_image(world: World, client: TestClient, path: str) -> None:
    world.publish("springfield", "one", "two", "three")
    world.publish("springfield", "one")
    secret = world.picture("secret", "2024-03-05/1.png")
    world.picture("springfield", "images/CityCouncil/2024-03-05/2.png")
    (world.storage / "springfield/images/CityCouncil/2024-03-05/3.png").symlink_to(secret)
    if path.endswith("3.png"):
        world.publish("springfield", "one", "two", "three")
    assert client.get(f"/-/images/{path}").status_code == 404


def test_no_database_of_datasettes_own_is_shown(world: World, client: TestClient) -> None:
    world.publish("springfield", "one")
    assert client.get("/_memory").status_code == 404
    assert client.get("/_internal").status_code == 403


def test_many_archives_keep_no_file_open(world: World, client: TestClient) -> None:
    import psutil

    for number in range(30):
        world.publish(f"town{number}", "one")
    for number in range(30):
        assert client.get(f"/town{number}/minutes.json").status_code == 200
    assert [file for file in psutil.Process().open_files() if "meetings.db" in file.path] == []


def test_names_stay_when_the_database_goes_away(caplog: pytest.LogCaptureFixture) -> None:
    from clerk.errors import DatabaseUnreachable

    answers = [SITES]

    def read() -> list[SiteRow]:
        if answers:
            return answers.pop()
        raise DatabaseUnreachable("no answer", "look")

    facts = SiteMetadata(read)
    facts.refresh()
    facts.refresh()
    assert facts.name("springfield") == "Springfield"
    assert "the names of the sites cannot be read: no answer" in caplog.text
