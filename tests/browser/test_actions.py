"""Operator actions in the browser, with and without --allow-actions."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from clerk.db.connection import connect_to
from tests.browser.conftest import Installation, Window, open_window

TOKEN = "open sesame, open"  # noqa: S105 (of the tests only)


def test_actions_need_allow_actions(window: Window) -> None:
    page = window.open("/sites/springfield")
    expect(page.locator(".action")).to_have_count(0)
    assert page.request.post(window.base_url + "/actions/pause", form={"site": "springfield"}).status in (404, 405)


def test_pause_a_site_after_confirmation(browser: Browser, published: Installation) -> None:
    credentials = {"username": "anna", "password": TOKEN}
    with (
        published.dashboard("--allow-actions", token=TOKEN) as base_url,
        open_window(browser, base_url, http_credentials=credentials) as window,
    ):
        page = window.open("/sites/springfield")
        page.get_by_role("link", name=re.compile("^Pause")).click()
        page.get_by_role("button").filter(has_text=re.compile("pause", re.IGNORECASE)).click()
        expect(page.locator(".notice")).to_contain_text("springfield")
        expect(page.get_by_role("link", name=re.compile("^Resume"))).to_be_visible()
    with connect_to(published.database) as connection:
        query = "select action, via from operator_actions where subdomain = 'springfield' order by id desc limit 1"
        assert connection.execute(query).fetchone() == ("pause", "dashboard")
        connection.execute("select clerk_resume_site('springfield')")


def test_actions_without_csrf_token_or_access_token_are_rejected(browser: Browser, published: Installation) -> None:
    with published.dashboard("--allow-actions", token=TOKEN) as base_url:
        anonymous = browser.new_context()
        assert anonymous.request.get(base_url).status == 401
        assert anonymous.request.post(base_url + "/actions/pause", form={"site": "springfield"}).status == 401
        anonymous.close()
        credentials = {"username": "anna", "password": TOKEN}
        with open_window(browser, base_url, http_credentials=credentials) as window:
            page = window.open("/sites/springfield")
            response = page.request.post(base_url + "/actions/pause", form={"site": "springfield"})
            assert response.status == 403, response.text()
    with connect_to(published.database) as connection:
        assert connection.execute("select paused_at from sites where subdomain = 'springfield'").fetchone() == (None,)
