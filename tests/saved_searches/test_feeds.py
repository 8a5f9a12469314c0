"""Atom feeds: well-formed, complete, escaped; as files, in `clerk serve` and in the dashboard."""

from __future__ import annotations

import re
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import datetime

import pytest
from starlette.testclient import TestClient

from clerk import config
from clerk.datasette_app.app import create_app as create_serve_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.publish.versions import published_archives
from clerk.saved_searches import feeds, repository
from clerk.web.app import create_app as create_dashboard
from clerk.web.db import ReadOnlyPool
from tests.conftest import Url
from tests.publish.helpers import Town
from tests.saved_searches.helpers import BIKES, MAY, save_search

ATOM = "{http://www.w3.org/2005/Atom}"
HOSTILE = "<script>alert(1)</script> & ]]> \x0b\x00\ufffe bike lanes"


def text(element: ET.Element, name: str) -> str:
    found = element.findtext(f"{ATOM}{name}")
    assert found is not None
    return found


def validate(content: str | bytes) -> ET.Element:
    """What RFC 4287 requires of a feed and of its entries."""
    root = ET.fromstring(content)  # noqa: S314 (our own feed)
    assert root.tag == f"{ATOM}feed"
    for element in (root, *root.iter(f"{ATOM}entry")):
        assert len(element.findall(f"{ATOM}id")) == len(element.findall(f"{ATOM}title")) == 1
        uuid.UUID(text(element, "id").removeprefix("urn:uuid:"))
        assert datetime.fromisoformat(text(element, "updated")).tzinfo is not None
    assert root.findtext(f"{ATOM}author/{ATOM}name")
    ids = [text(entry, "id") for entry in root.iter(f"{ATOM}entry")]
    assert len(ids) == len(set(ids))
    for entry in root.iter(f"{ATOM}entry"):
        # An entry without content would need a link.
        assert entry.find(f"{ATOM}content") is not None
        assert len(entry.findall(f"{ATOM}link[@rel='alternate']")) <= 1
    assert all(re.match(r"https?://", link.attrib["href"]) for link in root.iter(f"{ATOM}link"))
    return root


@pytest.fixture
def _published(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site with two publications, and an alert that matched a page of each."""
    monkeypatch.setenv("CLERK_PUBLIC_URL", "https://archives.example.org/")
    save_search(town, query="bike lanes", feed=True)
    town.add_document(BIKES, "Nothing here.")
    town.run()
    town.add_document(HOSTILE, meeting="Board <of> Works & Parks", day=MAY)
    town.connection.execute(
        "update content_items set source_url = 'https://town.example/a?b=1&c=2' where date = %s", [MAY]
    )
    town.connection.execute("update content_items set source_url = '/srv/scans/1.pdf' where date <> %s", [MAY])
    town.run()


@pytest.fixture
def dashboard(database: Url) -> Iterator[TestClient]:
    with ReadOnlyPool(database) as pool:
        pool.assume_role()
        yield TestClient(create_dashboard(pool, public_url="https://archives.example.org"), base_url="http://localhost")


@pytest.mark.usefixtures("_published")
def test_the_feed_of_an_alert(town: Town) -> None:
    root = validate((town.published.root / "_feeds" / "bikes.atom").read_bytes())
    assert text(root, "title") == "clerk alert bikes: bike lanes"
    newest, oldest = root.findall(f"{ATOM}entry")
    assert text(newest, "title").startswith("Board <of> Works & Parks, 2024-05-07: page 1")
    assert "<script>alert(1)</script> & ]]>" in text(newest, "content")
    assert text(newest, "content").count("\ufffd") == 1
    links = {link.attrib["rel"]: link.attrib["href"] for link in newest.findall(f"{ATOM}link")}
    assert links == {
        "alternate": "https://archives.example.org/-/pages/springfield/minutes/2024-05-07"
        "/Board%20%3Cof%3E%20Works%20%26%20Parks/1",
        "via": "https://town.example/a?b=1&c=2",
    }
    # A source that is not on the web stays private.
    assert [link.attrib["rel"] for link in oldest.findall(f"{ATOM}link")] == ["alternate"]
    assert "/srv" not in ET.tostring(root, encoding="unicode")


@pytest.mark.usefixtures("_published")
def test_the_feed_of_a_site(town: Town) -> None:
    root = validate((town.published.folder / "feed.atom").read_bytes())
    assert text(root, "title") == "Springfield: meeting records"
    newest, oldest = root.findall(f"{ATOM}entry")
    assert text(newest, "title") == "Board <of> Works & Parks, 2024-05-07 (minutes)"
    assert text(oldest, "content") == "2 pages"
    link = oldest.find(f"{ATOM}link")
    assert link is not None
    assert link.attrib["href"].startswith("https://archives.example.org/springfield/minutes?meeting=City+Council")
    assert not {path.name for path in town.published.folder.iterdir()} - {"versions", "current", "feed.atom"}


def test_entries_without_a_public_url(town: Town) -> None:
    save_search(town, feed=True)
    town.add_document(BIKES)
    town.connection.execute("update content_items set source_url = 'https://town.example/1.pdf'")
    town.run()
    root = validate(feeds.saved_search_feed(town.connection, "bikes", None))
    assert [link.attrib["href"] for link in root.iter(f"{ATOM}link")] == ["https://town.example/1.pdf"]
    validate(feeds.site_feed(town.connection, "springfield", None))


def test_feeds_without_entries(town: Town) -> None:
    save_search(town, feed=True)
    assert not list(validate(feeds.saved_search_feed(town.connection, "bikes", None)).iter(f"{ATOM}entry"))
    assert not list(validate(feeds.site_feed(town.connection, "springfield", None)).iter(f"{ATOM}entry"))


@pytest.mark.usefixtures("_published")
def test_feeds_in_clerk_serve(town: Town) -> None:
    save_search(town, "private", mails=("desk@example.org",))
    metadata = SiteMetadata(list)
    with TestClient(create_serve_app(town.published.root, town.storage.root, metadata)) as client:
        for path in ("/-/feeds/sites/springfield.atom", "/-/feeds/alerts/bikes.atom"):
            response = client.get(path)
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/atom+xml; charset=utf-8"
            assert len(list(validate(response.content).iter(f"{ATOM}entry"))) == 2
        assert '/-/feeds/sites/springfield.atom"' in client.get("/").text
        link = validate(response.content).find(f"{ATOM}entry/{ATOM}link")
        assert link is not None
        page = client.get(link.attrib["href"].removeprefix("https://archives.example.org"))
        assert (page.status_code, "bike lanes" in page.text) == (200, True)
        for path in (
            "sites/nowhere",
            "alerts/private",
            "alerts/..",
            "sites/_feeds",
            "sites/springfield..",
            "other/bikes",
        ):
            assert client.get(f"/-/feeds/{path}.atom").status_code == 404


@pytest.mark.usefixtures("_published")
def test_feeds_in_the_dashboard(town: Town, dashboard: TestClient) -> None:
    save_search(town, "private", mails=("desk@example.org",))
    for path in ("sites/springfield", "alerts/bikes"):
        response = dashboard.get(f"/feeds/{path}.atom")
        assert response.headers["content-type"] == feeds.CONTENT_TYPE
        assert len(list(validate(response.content).iter(f"{ATOM}entry"))) == 2
    for path in ("sites/nowhere", "alerts/private", "alerts/nothing", "alerts/%00"):
        assert dashboard.get(f"/feeds/{path}.atom").status_code == 404


@pytest.mark.usefixtures("_published")
def test_the_file_of_a_removed_alert_is_deleted(town: Town) -> None:
    settings = config.load()
    assert feeds.remove_stale(town.connection, settings) == 0
    repository.remove(town.connection, "bikes")
    assert feeds.remove_stale(town.connection, settings) == 1
    assert list((town.published.root / "_feeds").iterdir()) == []
    assert feeds.write_missing(town.connection, settings) == 0


def test_a_feed_exists_before_the_first_match(town: Town) -> None:
    settings = config.load()
    save_search(town, "early", "velodrome", feed=True)
    assert feeds.read_file(settings.publish_dir, "alerts", "early") is None
    assert feeds.write_missing(town.connection, settings) == 1
    feed = feeds.read_file(settings.publish_dir, "alerts", "early")
    assert feed is not None
    assert not list(validate(feed.encode()).iter(f"{ATOM}entry"))
    assert feeds.write_missing(town.connection, settings) == 0


@pytest.mark.usefixtures("_published")
def test_the_folder_of_feeds_is_no_site(town: Town) -> None:
    assert [name for name, _ in published_archives(town.published.root)] == ["springfield"]
