"""What a person sees and does, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from clerk.demo.documents import HIDDEN_WORD
from tests.browser.conftest import HOSTILE, Visit, visiting

PAGES = ("/", "/sites", "/sites/springfield", "/failures", "/queues", "/log", f"/search?q={HIDDEN_WORD}")
PHONE = {"viewport": {"width": 320, "height": 640}}


def test_finds_a_site_and_opens_it(visit: Visit) -> None:
    page = visit.go("/sites")
    page.get_by_label("Name contains").fill("spring")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="springfield").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Springfield")
    expect(page.locator(".why")).to_contain_text("1 failed document")


def test_the_failure_grid_leads_to_a_document(visit: Visit) -> None:
    page = visit.go("/failures")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="NotAPdf"))
    row.get_by_role("link").first.click()
    page.get_by_role("link", name="City Council").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("City Council, 2024-03-19")
    expect(page.get_by_role("region", name="Stages")).to_contain_text("What to do: ")


def test_search_finds_a_word_that_is_only_in_a_picture_and_shows_both(visit: Visit) -> None:
    page = visit.go("/")
    page.get_by_label("Search all archives").fill(HIDDEN_WORD)
    page.keyboard.press("Enter")
    expect(page.locator("mark")).to_have_text([HIDDEN_WORD])
    page.get_by_role("link", name="City Council, 2024-03-12").click()
    expect(page.get_by_role("region", name="Text of page 1").locator("mark")).to_have_text([HIDDEN_WORD])
    picture = page.get_by_alt_text("Page 1 as it looks on paper")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 500
    left, right = picture.bounding_box(), page.locator("pre.page").bounding_box()
    assert left
    assert right
    assert left["x"] + left["width"] <= right["x"], "the text is not beside the picture"


def test_a_digital_document_has_its_picture_too(visit: Visit) -> None:
    page = visit.go("/sites/springfield")
    page.get_by_role("row").filter(has_text="2024-03-05").get_by_role("link").click()
    picture = page.get_by_alt_text("Page 1 as it looks on paper")
    expect(picture).to_be_visible()
    page.wait_for_load_state()
    assert picture.evaluate("image => image.complete && image.naturalWidth") > 500
    with page.expect_download() as download:
        page.get_by_role("link", name="The PDF").click()
    assert download.value.suggested_filename == "springfield CityCouncil 2024-03-05.pdf"


def test_a_picture_that_does_not_come_is_told(visit: Visit) -> None:
    visit.page.route("**/pages/*.png", lambda route: route.fulfill(status=503, body="no"))
    page = visit.go("/sites/springfield")
    page.get_by_role("row").filter(has_text="2024-03-05").get_by_role("link").click()
    expect(page.get_by_text("This page could not be drawn.")).to_be_visible()
    expect(page.get_by_alt_text("Page 1 as it looks on paper")).to_be_hidden()
    # The browser complains of the answer, which is what this is about.
    assert len(visit.complaints) == 1
    visit.complaints.clear()


def test_arrow_keys_leaf_through_a_document(visit: Visit) -> None:
    page = visit.go("/sites/springfield")
    page.get_by_role("row").filter(has_text="2024-03-05").get_by_role("link").click()
    page.get_by_text("Page 1 of 2").wait_for()
    page.wait_for_load_state()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Page 2 of 2").wait_for()


def test_a_page_text_with_markup_stays_text(visit: Visit) -> None:
    page = visit.go("/search?q=caught")
    expect(page.locator("blockquote")).to_contain_text("<script>")
    page.get_by_role("link", name="City Council, 2024-03-26").click()
    expect(page.locator("pre.page")).to_contain_text(HOSTILE)
    assert page.title() == "City Council, 2024-03-26 · clerk"
    expect(visit.go("/sites").get_by_text(HOSTILE)).to_be_visible()


def test_whole_way_by_keyboard(visit: Visit) -> None:
    page = visit.go("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "nobody can see where the keyboard is"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_a_phone_in_both_schemes(browser: Browser, address: str, path: str, scheme: str) -> None:
    with visiting(browser, address, **PHONE, color_scheme=scheme) as visit:
        page = visit.go(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, "the page itself scrolls sideways"


def test_names_stay_whole_on_a_phone(browser: Browser, address: str) -> None:
    with visiting(browser, address, **PHONE) as visit:
        name = visit.go("/sites").get_by_role("link", name="springfield")
        assert name.evaluate("link => link.getClientRects().length") == 1, "it is broken in the middle"


@pytest.mark.parametrize("path", PAGES)
def test_works_without_scripts(browser: Browser, address: str, path: str) -> None:
    with visiting(browser, address, java_script_enabled=False) as visit:
        expect(visit.go(path).get_by_role("heading", level=1)).to_be_visible()
