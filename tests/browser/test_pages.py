"""The pages in a real browser."""

from __future__ import annotations

import io

import pytest
from PIL import Image, ImageColor
from playwright.sync_api import Browser, Locator, expect

from clerk.demo.documents import HIDDEN_WORD
from tests.browser.conftest import HOSTILE, PHONE, Window, open_window

PAGES = ("/", "/sites", "/sites/springfield", "/failures", "/queues", "/log", f"/search?q={HIDDEN_WORD}")


def wait_until_loaded(image: Locator) -> None:
    expect(image).to_be_visible()
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("image => image.naturalWidth") > 500


def test_filter_sites_and_open_one(window: Window) -> None:
    page = window.open("/sites")
    page.get_by_label("Name contains").fill("spring")
    page.keyboard.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    page.get_by_role("link", name="springfield").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Springfield")
    expect(page.locator(".explanation")).to_contain_text("1 failed document")


def test_the_failure_table_links_to_documents(window: Window) -> None:
    page = window.open("/failures")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="NotAPdf"))
    row.get_by_role("link").first.click()
    page.get_by_role("link", name="City Council").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("City Council, 2024-03-19")
    expect(page.get_by_role("region", name="Stages")).to_contain_text("What to do: ")


def test_search_finds_text_of_a_scanned_page(window: Window) -> None:
    page = window.open("/")
    page.get_by_label("Search all archives").fill(HIDDEN_WORD)
    page.keyboard.press("Enter")
    expect(page.locator("mark")).to_have_text([HIDDEN_WORD])
    page.get_by_role("link", name="City Council, 2024-03-12").click()
    expect(page.get_by_role("region", name="Text of page 1").locator("mark")).to_have_text([HIDDEN_WORD])
    image = page.get_by_alt_text("Image of page 1")
    wait_until_loaded(image)
    left, right = image.bounding_box(), page.locator("pre.page").bounding_box()
    assert left
    assert right
    assert left["x"] + left["width"] <= right["x"], "the text is not beside the image"
    expect(page.locator("img.matches")).to_have_js_property("complete", True)
    figure = page.locator(".page-view figure")
    # Both at once: the page may still be scrolling.
    boxes = figure.evaluate("it => [...it.querySelectorAll('img')].map(img => img.getBoundingClientRect().toJSON())")
    assert boxes[1] == pytest.approx(boxes[0], abs=2)
    assert _has_colour(figure.screenshot(), "#ffd24d"), "the match is not highlighted"


def _has_colour(png: bytes, colour: str) -> bool:
    with Image.open(io.BytesIO(png)) as image:
        wanted = ImageColor.getrgb(colour)
        return any(found == wanted for _, found in image.convert("RGB").getcolors(1 << 24) or [])


def test_a_digital_document_has_an_image_and_a_pdf(window: Window) -> None:
    page = window.open("/sites/springfield")
    page.get_by_role("row").filter(has_text="2024-03-05").get_by_role("link").click()
    wait_until_loaded(page.get_by_alt_text("Image of page 1"))
    with page.expect_download() as download:
        page.get_by_role("link", name="PDF", exact=True).click()
    assert download.value.suggested_filename == "springfield CityCouncil 2024-03-05.pdf"


def test_an_image_that_cannot_be_loaded_is_reported(window: Window) -> None:
    window.page.route("**/pages/*.png", lambda route: route.fulfill(status=503, body="no"))
    page = window.open("/sites/springfield")
    page.get_by_role("row").filter(has_text="2024-03-05").get_by_role("link").click()
    expect(page.get_by_text("This page could not be rendered.")).to_be_visible()
    expect(page.get_by_alt_text("Image of page 1")).to_be_hidden()
    # The browser logs the failed request, as expected here.
    assert len(window.errors) == 1
    window.errors.clear()


def test_arrow_keys_open_the_next_page(window: Window) -> None:
    page = window.open("/sites/springfield")
    page.get_by_role("row").filter(has_text="2024-03-05").get_by_role("link").click()
    page.get_by_text("Page 1 of 2").wait_for()
    page.wait_for_load_state()
    page.keyboard.press("ArrowRight")
    page.get_by_text("Page 2 of 2").wait_for()


def test_all_columns_of_the_stages_are_visible(browser: Browser, base_url: str) -> None:
    with open_window(browser, base_url, viewport={"width": 1280, "height": 800}) as window:
        page = window.open("/sites/springfield")
        page.get_by_role("row").filter(has_text="2024-03-05").get_by_role("link").click()
        region = page.get_by_role("region", name="Stages")
        expect(region.get_by_role("columnheader", name="Attempts")).to_be_visible()
        # As long as for a web page whose job has a high number.
        region.locator("tbody tr td:nth-child(2)").evaluate_all(
            "cells => cells.forEach(cell => cell.insertAdjacentHTML('beforeend', ' <small>without OCR</small>"
            " <small><a>job 123456789</a></small>'))"
        )
        assert region.evaluate("each => each.scrollWidth - each.clientWidth") <= 0, "a column is cut"


def test_markup_in_texts_and_names_is_escaped(window: Window) -> None:
    page = window.open("/search?q=executed")
    expect(page.locator("blockquote")).to_contain_text("<script>")
    page.get_by_role("link", name="City Council, 2024-03-26").click()
    expect(page.locator("pre.page")).to_contain_text(HOSTILE)
    assert page.title() == "City Council, 2024-03-26 · clerk"
    expect(window.open("/sites").get_by_text(HOSTILE)).to_be_visible()


def test_keyboard_focus_is_visible(window: Window) -> None:
    page = window.open("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("main :focus")).to_have_count(1)
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline != "none", "the focused element has no outline"


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone_in_both_colour_schemes(browser: Browser, base_url: str, path: str, scheme: str) -> None:
    with open_window(browser, base_url, **PHONE, color_scheme=scheme) as window:
        page = window.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 320, "the page scrolls sideways"


def test_site_names_are_not_broken_on_a_phone(browser: Browser, base_url: str) -> None:
    with open_window(browser, base_url, **PHONE) as window:
        link = window.open("/sites").get_by_role("link", name="springfield")
        assert link.evaluate("link => link.getClientRects().length") == 1, "the name is on two lines"


@pytest.mark.parametrize("path", PAGES)
def test_pages_work_without_javascript(browser: Browser, base_url: str, path: str) -> None:
    with open_window(browser, base_url, java_script_enabled=False) as window:
        expect(window.open(path).get_by_role("heading", level=1)).to_be_visible()
