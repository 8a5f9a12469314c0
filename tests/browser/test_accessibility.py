"""Accessibility of every page, checked by axe-core in both colour schemes and at two widths; keyboard shortcuts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page, expect

from clerk.demo.documents import HIDDEN_WORD
from tests.browser.conftest import Installation, Window, open_window

WIDTHS = (1280, 390)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RUN_AXE = """
    axe.run({resultTypes: ['violations']})
        .then(results => ({violations: results.violations, passes: results.passes.length}))
"""
"""To describe every element that passed would take longer than the checks."""
TOKEN = "a-token-of-sixteen-characters"  # noqa: S105 (of this test)
PAGES = (
    "/",
    "/sites",
    "/sites/springfield",
    "/sites/new",
    "/sites/springfield/edit",
    "/sites/springfield/votes",
    "/sites/springfield/people",
    "/failures",
    "/failures/documents",
    "/skipped",
    "/queues",
    "/alerts",
    "/log",
    "/search",
    f"/search?q={HIDDEN_WORD}",
    "/docs/runbooks/alerts.md",
    "/docs/errors.md",
    "/docs/dashboard.md",
    "/actions/update?site=springfield",
    "/no-such-page",
)


@pytest.fixture(scope="module")
def editable_url(published: Installation) -> Iterator[str]:
    """A dashboard with --allow-actions, which has every button."""
    with published.dashboard("--allow-actions", token=TOKEN) as url:
        yield url


def violations(page: Page) -> list[str]:
    """What axe-core reports about the page as it is now."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    results = page.evaluate(RUN_AXE)
    assert results["passes"], "axe has not checked the page"
    return [
        f"{violation['id']}: {node['html'][:200]} {node['failureSummary']}"
        for violation in results["violations"]
        for node in violation["nodes"]
    ]


def linked_pages(window: Window) -> list[str]:
    """A document, a failed job, a vote and a person, whose addresses differ from run to run."""
    site, votes, people = "/sites/springfield", "/sites/springfield/votes", "/sites/springfield/people"
    links = [
        window.open(site).locator("th.document a").first.get_attribute("href"),
        window.page.locator('a[href^="/jobs/"]').first.get_attribute("href"),
        window.open(votes).locator(f'a[href^="{votes}/"]').first.get_attribute("href"),
        window.open(people).locator(f'a[href^="{people}/"]').first.get_attribute("href"),
    ]
    return [link or "" for link in links]


def test_every_page_is_accessible_and_fits_the_window(browser: Browser, editable_url: str) -> None:
    """One visit of a page serves both widths and both colour schemes."""
    with open_window(browser, editable_url, http_credentials={"username": "ann", "password": TOKEN}) as window:
        problems: list[str] = []
        for path in [*PAGES, *linked_pages(window)]:
            page = window.open(path)
            page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true })")
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 800})
                overflow = page.evaluate("document.documentElement.scrollWidth") - width
                problems += [f"{path} at {width}: {overflow} pixels too wide"] if overflow > 0 else []
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    problems += [f"{path} at {width}, {scheme}: {violation}" for violation in violations(page)]
        # The browser logs the response 404, as expected here.
        window.errors = [error for error in window.errors if "404" not in error]
    assert problems == []


def test_keyboard_shortcuts(window: Window) -> None:
    page = window.open("/sites")
    sites = [page.get_by_role("rowheader").get_by_role("link").nth(index) for index in (0, 1)]
    page.keyboard.press("j")
    expect(sites[0]).to_be_focused()
    page.keyboard.press("j")
    expect(sites[1]).to_be_focused()
    assert sites[1].evaluate("link => getComputedStyle(link).outlineStyle") != "none", "the focus is not visible"
    page.keyboard.press("k")
    expect(sites[0]).to_be_focused()

    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keyboard shortcuts")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()

    page.keyboard.press("/")
    field = page.get_by_label("Search all archives")
    expect(field).to_be_focused()
    page.keyboard.type("j?/k")
    expect(field).to_have_value("j?/k")
    expect(dialog).to_be_hidden()

    page.get_by_role("button", name="Keyboard shortcuts").click()
    expect(dialog).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()

    name = sites[0].text_content() or ""
    field.blur()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/sites/{name}$"))
