"""The pages of `clerk serve` in a browser: accessible in both colour schemes, and as wide as the window."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
import uvicorn
from playwright.sync_api import Browser

from clerk.cli.dashboard import listen
from clerk.datasette_app.app import create_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.db.sites import SiteRow
from clerk.publish.versions import SiteVersions
from tests.archive.vote_pages import PAGE, publish_votes
from tests.browser.conftest import open_window
from tests.browser.test_accessibility import violations

ROOT = Path(__file__).parents[2]
LONG_WORD = "x" * 200
VARIANTS: tuple[tuple[int, Literal["light", "dark"]], ...] = ((1280, "light"), (390, "dark"))
PAGES = (
    "/",
    "/-/search",
    "/-/search?q=ordinance&kind=minutes",
    "/-/search?q=ordinances+velodrome",
    "/-/search?q=%22open",
    "/springfield",
    "/springfield/minutes?_search=ordinance",
    "/springfield/minutes/1",
    "/-/meetings/springfield",
    "/-/meetings/springfield/2024-03-05/City%20Council",
    "/-/pages/springfield/minutes/2024-03-05/City%20Council/1?q=ordinance",
    "/-/votes/springfield",
    "/-/votes/springfield/1-1",
    "/-/votes/springfield/1-2",
    "/-/people/springfield",
    "/-/people/springfield/li-wei-chen",
    "/nowhere",
    "/springfield?sql=select+1",
)


@pytest.fixture(scope="module")
def serve_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("serve")
    draft = publish_votes(folder / "drafts", "springfield", PAGE)
    with closing(sqlite3.connect(draft)) as connection, connection:
        connection.execute("update minutes set text = text || ?", [LONG_WORD])
        connection.execute("update document_sources set source_url = 'https://city.example/' || ?", [LONG_WORD])
    SiteVersions(folder / "published", "springfield").publish(draft, keep=2)
    site_metadata = SiteMetadata(lambda: [SiteRow("springfield", "Springfield", "IL", "city")])
    site_metadata.refresh()
    app = create_app(folder / "published", folder / "storage", site_metadata)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def test_every_page_is_accessible_and_fits_the_window(browser: Browser, serve_url: str) -> None:
    problems: list[str] = []
    with open_window(browser, serve_url) as window:
        for path in PAGES:
            page = window.open(path)
            for width, scheme in VARIANTS:
                page.set_viewport_size({"width": width, "height": 800})
                page.emulate_media(color_scheme=scheme)
                overflow = page.evaluate("document.documentElement.scrollWidth") - width
                problems += [f"{path} at {width}: {overflow} pixels too wide"] if overflow > 0 else []
                problems += [f"{path} at {width}: {violation}" for violation in violations(page)]
        # The browser logs the responses 400, 403 and 404, as expected here.
        window.errors = [error for error in window.errors if not re.search("status of 40[034]", error)]
    assert problems == []


def test_the_colours_are_those_of_the_dashboard() -> None:
    """Each has them in its own style sheet: neither serves files of the other."""
    dashboard, serve = (
        (ROOT / "clerk" / package / "static" / "clerk.css").read_text() for package in ("web", "datasette_app")
    )
    assert re.findall("--[a-z]+: #[0-9a-f]+", dashboard) == re.findall("--[a-z]+: #[0-9a-f]+", serve)
