"""Fixtures for browser tests: Chromium driven by Playwright, and `clerk dashboard` as a separate process.

Every test also fails if the browser logs an error or sends a request to another host.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fpdf import FPDF
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from clerk.db.connection import connect_to
from clerk.db.sites import add_site
from clerk.demo.documents import HIDDEN_WORD, digital, scanned
from clerk.documents.storage import write
from tests.conftest import Databases, Url
from tests.helpers import TIMEOUT

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""Root needs --no-sandbox; the others disable the browser's own network requests."""
PHONE: dict[str, Any] = {"viewport": {"width": 320, "height": 640}}
HOSTILE = "<script>document.title = 'executed'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One per module, not per session: while it is open, no other test of this process can run an event loop."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program, f"none of {', '.join(BROWSERS)} is installed: run bin/setup --for-tests"
    expect.set_options(timeout=TIMEOUT * 1000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@dataclass
class Window:
    """A browser window with the errors that the browser logged and its requests to other hosts."""

    page: Page
    base_url: str
    errors: list[str] = field(default_factory=list)
    foreign_requests: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        self.page.goto(self.base_url + path)
        return self.page


@contextmanager
def open_window(browser: Browser, base_url: str, **options: Any) -> Iterator[Window]:
    context = browser.new_context(**options)
    context.set_default_timeout(TIMEOUT * 1000)
    window = Window(context.new_page(), base_url.rstrip("/"))
    own_host = urlsplit(base_url).netloc

    def on_console(message: ConsoleMessage) -> None:
        if message.type == "error":
            window.errors.append(message.text)

    def on_request(request: Request) -> None:
        if urlsplit(request.url).netloc != own_host:
            window.foreign_requests.append(request.url)

    window.page.on("console", on_console)
    window.page.on("pageerror", lambda error: window.errors.append(str(error)))
    window.page.on("request", on_request)
    try:
        yield window
        assert (window.errors, window.foreign_requests) == ([], [])
    finally:
        context.close()


@dataclass(frozen=True)
class Installation:
    """A database and a home folder, and clerk commands that use them."""

    database: Url
    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DATABASE_URL": self.database,
            "CLERK_HOME": str(self.home),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }

    def clerk(self, *arguments: str) -> str:
        result = subprocess.run(
            [sys.executable, "-m", "clerk", *arguments], env=self.environment, capture_output=True, text=True
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    @contextmanager
    def dashboard(self, *options: str, token: str = "") -> Iterator[str]:
        """Run a dashboard for the length of the block; yield its URL."""
        with subprocess.Popen(
            [sys.executable, "-m", "clerk", "dashboard", *([] if "--port" in options else ["--port", "0"]), *options],
            env=self.environment | {"CLERK_DASHBOARD_TOKEN": token},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stderr is not None
                line = process.stderr.readline()
                match = re.search(r"http://\S+", line)
                assert match, line
                yield match[0].rstrip("/")
            finally:
                process.kill()


@pytest.fixture(scope="module")
def installation(server: Url, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    databases = Databases(server)
    yield Installation(databases.create(template), tmp_path_factory.mktemp("home"))
    databases.drop_all()


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of PDFs: one digital, one scanned with a word that no other has, one broken, one with hostile text."""
    folder = tmp_path_factory.mktemp("documents")
    rng = random.Random(1)  # noqa: S311 (not for secrets)
    write(folder / "City Council" / "2024-03-05.pdf", digital(rng, "Springfield", date(2024, 3, 5), 2))
    write(folder / "City Council" / "2024-03-12.pdf", scanned(rng, "Springfield", date(2024, 3, 12), 1, HIDDEN_WORD))
    write(folder / "City Council" / "2024-03-19.pdf", b"<html>moved</html>")
    hostile = FPDF()
    hostile.add_page()
    hostile.set_font("Helvetica")
    hostile.multi_cell(0, text=f"{HOSTILE}\n" + "A page with hostile text is still a page of the minutes. " * 20)
    write(folder / "City Council" / "2024-03-26.pdf", bytes(hostile.output()))
    return folder


@pytest.fixture(scope="module")
def published(installation: Installation, documents: Path) -> Installation:
    """Springfield has finished one run with real workers; Shelbyville is paused and has never run."""
    with connect_to(installation.database) as connection:
        extra = f'{{"path": "{documents}", "languages": "eng"}}'
        add_site(
            connection, "springfield", {"name": "Springfield", "state": "IL", "scraper": "directory", "extra": extra}
        )
        add_site(connection, "shelbyville", {"name": HOSTILE, "scraper": "directory", "extra": extra})
        connection.execute("select clerk_pause_site('shelbyville', 'tests'), clerk_start_run('springfield')")
    installation.clerk("worker", "--until-idle")
    return installation


@pytest.fixture(scope="module")
def base_url(published: Installation) -> Iterator[str]:
    with published.dashboard() as base_url:
        yield base_url


@pytest.fixture
def window(browser: Browser, base_url: str) -> Iterator[Window]:
    with open_window(browser, base_url) as window:
        yield window
