"""An operator acts, where the dashboard was started so."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect

from clerk.db.connection import connect_to
from tests.browser.conftest import Installation, Visit, visiting

SESAME = "open sesame"


def test_no_buttons_and_no_actions_unless_allowed(visit: Visit) -> None:
    page = visit.go("/sites/springfield")
    expect(page.locator(".action")).to_have_count(0)
    assert page.request.post(visit.address + "/actions/pause", form={"site": "springfield"}).status in (404, 405)


def test_pauses_a_site_after_asking(browser: Browser, published: Installation) -> None:
    with published.dashboard("--allow-actions") as address, visiting(browser, address) as visit:
        page = visit.go("/sites/springfield")
        page.get_by_role("link", name=re.compile("^Pause")).click()
        page.get_by_role("button").filter(has_text=re.compile("pause", re.IGNORECASE)).click()
        expect(page.locator(".notice")).to_contain_text("springfield")
        expect(page.get_by_role("link", name=re.compile("^Resume"))).to_be_visible()
    with connect_to(published.database) as connection:
        query = "select action, via from operator_actions where subdomain = 'springfield' order by id desc limit 1"
        assert connection.execute(query).fetchone() == ("pause", "dashboard")
        connection.execute("select clerk_resume_site('springfield')")


def test_actions_without_csrf_or_token_are_refused(browser: Browser, published: Installation) -> None:
    with published.dashboard("--allow-actions", token=SESAME) as address:
        stranger = browser.new_context()
        assert stranger.request.get(address).status == 401
        assert stranger.request.post(address + "/actions/pause", form={"site": "springfield"}).status == 401
        stranger.close()
        known = {"username": "anna", "password": SESAME}
        with visiting(browser, address, http_credentials=known) as visit:
            page = visit.go("/sites/springfield")
            answer = page.request.post(address + "/actions/pause", form={"site": "springfield"})
            assert answer.status == 403, answer.text()
    with connect_to(published.database) as connection:
        assert connection.execute("select paused_at from sites where subdomain = 'springfield'").fetchone() == (None,)
