"""A person in front of the dashboard: a real Chromium, driven by Playwright, and `clerk dashboard` as it is started.

Whatever a test is about, it fails if the browser had anything to complain about, or asked another host for anything.
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
from urllib.parse import urlsplit

import pytest
from fpdf import FPDF
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

from clerk.db.connection import connect_to
from clerk.db.sites import add_site
from clerk.demo.documents import HIDDEN_WORD, digital, scanned
from clerk.documents.storage import write
from tests.conftest import Databases, Url

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ALONE = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""Root needs the first; the others keep the browser itself from calling home."""
PATIENCE = 60_000.0
HOSTILE = "<script>document.title = 'caught'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Of a module, not of the session: while it is open, no other test of this process could run an event loop."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program, f"none of {', '.join(BROWSERS)} is installed: run bin/setup --for-tests"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ALONE)
        yield browser
        browser.close()


@dataclass
class Visit:
    """One window, and what the browser did not like about what it saw."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)

    def go(self, path: str) -> Page:
        self.page.goto(self.address + path)
        return self.page


@contextmanager
def visiting(browser: Browser, address: str, **options: object) -> Iterator[Visit]:
    context = browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    visit = Visit(context.new_page(), address.rstrip("/"))
    here = urlsplit(address).netloc

    def hear(said: ConsoleMessage) -> None:
        if said.type == "error":
            visit.complaints.append(said.text)

    def see(sent: Request) -> None:
        if urlsplit(sent.url).netloc != here:
            visit.strangers.append(sent.url)

    visit.page.on("console", hear)
    visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
    visit.page.on("request", see)
    try:
        yield visit
        assert (visit.complaints, visit.strangers) == ([], [])
    finally:
        context.close()


@dataclass(frozen=True)
class Installation:
    """A database, a storage, and the commands of clerk on them."""

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
        done = subprocess.run(
            [sys.executable, "-m", "clerk", *arguments], env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def dashboard(self, *options: str, token: str = "") -> Iterator[str]:
        """The address of a dashboard that runs for the length of the block."""
        with subprocess.Popen(
            [sys.executable, "-m", "clerk", "dashboard", *([] if "--port" in options else ["--port", "0"]), *options],
            env=self.environment | {"CLERK_DASHBOARD_TOKEN": token},
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                assert process.stderr is not None
                said = process.stderr.readline()
                found = re.search(r"http://\S+", said)
                assert found, said
                yield found[0].rstrip("/")
            finally:
                process.kill()


@pytest.fixture(scope="module")
def installation(server: Url, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    databases = Databases(server)
    yield Installation(databases.create(template), tmp_path_factory.mktemp("home"))
    databases.drop_all()


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A town's documents: one with text, one scanned with a word that is nowhere else, one broken, one hostile."""
    folder = tmp_path_factory.mktemp("papers")
    r = random.Random(1)  # noqa: S311 (not for secrets)
    write(folder / "City Council" / "2024-03-05.pdf", digital(r, "Springfield", date(2024, 3, 5), 2))
    write(folder / "City Council" / "2024-03-12.pdf", scanned(r, "Springfield", date(2024, 3, 12), 1, HIDDEN_WORD))
    write(folder / "City Council" / "2024-03-19.pdf", b"<html>moved</html>")
    hostile = FPDF()
    hostile.add_page()
    hostile.set_font("Helvetica")
    hostile.multi_cell(0, text=f"{HOSTILE}\n" + "A page that means no good is still a page of the minutes. " * 20)
    write(folder / "City Council" / "2024-03-26.pdf", bytes(hostile.output()))
    return folder


@pytest.fixture(scope="module")
def published(installation: Installation, papers: Path) -> Installation:
    """Springfield has been through the pipeline once, with real workers; Shelbyville is paused and has never run."""
    with connect_to(installation.database) as connection:
        extra = f'{{"path": "{papers}", "languages": "eng"}}'
        add_site(
            connection, "springfield", {"name": "Springfield", "state": "IL", "scraper": "directory", "extra": extra}
        )
        add_site(connection, "shelbyville", {"name": HOSTILE, "scraper": "directory", "extra": extra})
        connection.execute("select clerk_pause_site('shelbyville', 'the tests'), clerk_start_run('springfield')")
    installation.clerk("worker", "--burst")
    return installation


@pytest.fixture(scope="module")
def address(published: Installation) -> Iterator[str]:
    with published.dashboard() as address:
        yield address


@pytest.fixture
def visit(browser: Browser, address: str) -> Iterator[Visit]:
    with visiting(browser, address) as visit:
        yield visit
