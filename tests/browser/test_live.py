"""Live updates of an open page."""

from __future__ import annotations

from playwright.sync_api import Browser, ViewportSize, expect

from clerk.db.connection import connect_to
from tests.browser.conftest import Installation, open_window

NARROW: ViewportSize = {"width": 660, "height": 640}
"""Wider than a phone, where rows are cards, but narrower than the table, which scrolls."""


def test_the_overview_is_updated_in_place_during_a_run(browser: Browser, published: Installation) -> None:
    with published.dashboard() as base_url, open_window(browser, base_url) as window:
        page = window.open("/")
        events = page.locator("#part-events").get_by_role("row")
        expect(page.locator("#live")).to_contain_text("Live")
        count = events.count()
        page.locator("#part-hours summary").first.click()
        page.evaluate("window.notReloaded = true")
        with connect_to(published.database) as connection:
            connection.execute("select clerk_start_run('springfield')")
        expect(page.locator("#part-figures")).to_contain_text("Jobs waiting1")
        published.clerk("worker", "--until-idle")
        expect(events).to_have_count(count + 1)
        expect(events.nth(1)).to_contain_text("springfield")
        assert page.evaluate("window.notReloaded"), "the page was reloaded"
        expect(page.locator("#part-hours details").first).to_have_attribute("open", "")


def test_typed_text_focus_and_scroll_position_survive_an_update(browser: Browser, published: Installation) -> None:
    with published.dashboard() as base_url, open_window(browser, base_url, viewport=NARROW) as window:
        page = window.open("/sites")
        field, link = page.get_by_label("Name contains"), page.get_by_role("link", name="springfield")
        table = page.get_by_role("region", name="Sites")
        # Elements are kept from the first update on, which sends every part.
        link.evaluate("element => window.linkBefore = element")
        expect(page.locator("#live")).to_contain_text("Live")
        table.evaluate("element => element.scrollLeft = 40")
        field.press_sequentially("spring")
        with connect_to(published.database) as connection:
            connection.execute("select clerk_pause_site('springfield', 'first update')")
            expect(table).to_contain_text("paused by first update")
            expect(field).to_be_focused()
            expect(field).to_have_value("spring")
            assert field.evaluate("element => element.selectionStart") == len("spring")

            link.focus()
            connection.execute("select clerk_resume_site('springfield')")
            expect(table).not_to_contain_text("paused by first update")
            expect(link).to_be_focused()
        assert page.evaluate("window.linkBefore === document.activeElement"), "the link was replaced"
        assert table.evaluate("element => element.scrollLeft") == 40


def test_a_lost_connection_is_shown_and_restored(browser: Browser, published: Installation) -> None:
    with published.dashboard() as base_url:
        port = base_url.rpartition(":")[2]
        # Not `open_window`: the browser logs an error for each refused connection, as expected here.
        page = browser.new_page()
        page.goto(base_url)
        expect(page.locator("#live")).to_contain_text("Live")
    expect(page.locator("#live")).to_have_text("Connection lost, retrying")
    with published.dashboard("--port", port):
        expect(page.locator("#live")).to_contain_text("Live")
    page.close()
