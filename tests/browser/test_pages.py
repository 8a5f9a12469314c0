"""What a person sees and does, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import HOSTILE, Visit, visiting

PAGES = ("/", "/sites", "/sites/springfield")
PHONE = {"viewport": {"width": 320, "height": 640}}


def test_finds_a_site_and_opens_it(visit: Visit) -> None:
    page = visit.go("/sites")
    page.get_by_label("Name contains").fill("spring")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="springfield").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("springfield")


def test_a_name_with_markup_stays_text(visit: Visit) -> None:
    page = visit.go("/sites")
    expect(page.get_by_text(HOSTILE)).to_be_visible()
    assert page.title() != "caught"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_both_schemes(browser: Browser, address: str, path: str, scheme: str) -> None:
    with visiting(browser, address, **PHONE, color_scheme=scheme) as visit:
        page = visit.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, "the page itself scrolls sideways"
