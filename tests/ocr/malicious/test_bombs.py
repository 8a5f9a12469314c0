"""PDF bombs are processed within the limits. Bombs and limits are scaled down to save time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clerk.ocr.process_document import Options
from tests.ocr.malicious import bombs
from tests.ocr.malicious.conftest import Outcome

SHORT_LIMITS = Options(page_seconds=3.0, failed_seconds=3.0, document_seconds=8.0)
"""For bombs that would use all of their 30 seconds."""


@pytest.fixture
def long(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--long"):
        pytest.skip("takes minutes: --long")


def test_an_image_of_30000_by_30000_pixels(outcome: Outcome) -> None:
    assert outcome(bombs.huge_image(30_000, 1)) == "processed"


def test_a_grey_image_with_little_memory(outcome: Outcome) -> None:
    assert outcome(bombs.huge_image(12_000, 8), replace(SHORT_LIMITS, memory=320 << 20)) in {
        "processed", "PdfMemory", "PdfTimeout", "PdfBroken"
    }  # fmt: skip


def test_a_huge_content_stream(outcome: Outcome) -> None:
    assert outcome(bombs.huge_content(40), SHORT_LIMITS) == "PdfTimeout"


def test_50000_pages(outcome: Outcome) -> None:
    assert outcome(bombs.many_pages(50_000)) == "PdfTooLarge"


def test_one_page_listed_a_million_times(outcome: Outcome) -> None:
    assert outcome(bombs.one_page_listed(1_000_000)) == "PdfTooLarge"


def test_one_page_listed_three_times_is_three_pages(outcome: Outcome) -> None:
    assert outcome(bombs.one_page_listed(3)) == "processed"


@pytest.mark.parametrize("make", [bombs.deep_nesting, bombs.deep_content])
def test_arrays_200000_deep(outcome: Outcome, make: bombs.Make) -> None:
    assert outcome(make(200_000)) in {"processed", "PdfBroken"}


def test_a_deep_page_tree(outcome: Outcome) -> None:
    assert outcome(bombs.deep_page_tree(5_000)) in {"processed", "PdfBroken"}


def test_an_object_stream_that_unpacks_to_100_megabytes(outcome: Outcome) -> None:
    assert outcome(bombs.object_stream_bomb(100)) in {"processed", "PdfBroken", "PdfMemory"}


def test_a_cyclic_page_tree(outcome: Outcome) -> None:
    assert outcome(bombs.cyclic_page_tree()) == "PdfBroken"


def test_nested_forms(outcome: Outcome) -> None:
    assert outcome(bombs.nested_forms(9), SHORT_LIMITS) == "PdfTimeout"


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    "make",
    [
        lambda: bombs.huge_image(30_000, 8),
        lambda: bombs.huge_content(1_000),
        lambda: bombs.object_stream_bomb(500),
        lambda: bombs.nested_forms(8),
    ],
    ids=["image", "content", "object stream", "forms"],
)
def test_full_size_bombs_with_the_default_limits(outcome: Outcome, make: bombs.MakePdf) -> None:
    assert outcome(make()) in {"processed", "PdfTimeout", "PdfMemory"}
