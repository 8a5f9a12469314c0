"""A page that is left open shows what goes on."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from clerk.db.connection import connect_to
from tests.browser.conftest import Installation, visiting


def test_overview_updates_by_itself_while_a_run_goes_on(browser: Browser, published: Installation) -> None:
    with published.dashboard() as address, visiting(browser, address) as visit:
        page = visit.go("/")
        ended = page.locator("#part-events").get_by_role("row")
        expect(page.locator("#live")).to_contain_text("Live")
        before = ended.count()
        page.locator("#part-stages summary").click()
        page.evaluate("window.stayed = true")
        with connect_to(published.database) as connection:
            connection.execute("select clerk_start_run('springfield')")
        expect(page.locator("#part-figures")).to_contain_text("Jobs waiting1")
        published.clerk("worker", "--burst")
        expect(ended).to_have_count(before + 1)
        expect(ended.nth(1)).to_contain_text("springfield")
        assert page.evaluate("window.stayed"), "the page was loaded again"
        expect(page.locator("#part-stages details")).to_have_attribute("open", "")


def test_says_when_the_connection_is_lost_and_comes_back(browser: Browser, published: Installation) -> None:
    with published.dashboard() as address:
        port = address.rpartition(":")[2]
        # Not `visiting`: a browser complains about a connection that is refused, and it should be.
        page = browser.new_page()
        page.goto(address)
        expect(page.locator("#live")).to_contain_text("Live")
    expect(page.locator("#live")).to_have_text("Connection lost, trying again")
    with published.dashboard("--port", port):
        expect(page.locator("#live")).to_contain_text("Live")
    page.close()
