"""Files that are small on disk and large in every other way. The limits are scaled with the bombs, to save time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clerk.ocr.process_document import Options
from tests.ocr.malicious import bombs
from tests.ocr.malicious.conftest import Outcome

HASTY = Options(page_seconds=3.0, wasted_seconds=3.0, document_seconds=8.0)
"""For what would otherwise use up all of its 30 seconds."""


@pytest.fixture
def long(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--long"):
        pytest.skip("takes minutes: --long")


def test_an_image_of_30000_by_30000_pixels(outcome: Outcome) -> None:
    assert outcome(bombs.huge_image(30_000, 1)) == "processed"


def test_the_same_in_grey_with_little_memory(outcome: Outcome) -> None:
    assert outcome(bombs.huge_image(12_000, 8), replace(HASTY, memory=320 << 20)) in {
        "processed", "PdfMemory", "PdfTimeout", "PdfBroken"
    }  # fmt: skip


def test_a_huge_content_stream(outcome: Outcome) -> None:
    assert outcome(bombs.huge_content(40), HASTY) == "PdfTimeout"


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


def test_a_page_tree_in_a_circle(outcome: Outcome) -> None:
    assert outcome(bombs.loop_of_pages()) == "PdfBroken"


def test_forms_that_draw_forms(outcome: Outcome) -> None:
    assert outcome(bombs.laughing_forms(9), HASTY) == "PdfTimeout"


@pytest.mark.usefixtures("long")
@pytest.mark.parametrize(
    "make",
    [
        lambda: bombs.huge_image(30_000, 8),
        lambda: bombs.huge_content(1_000),
        lambda: bombs.object_stream_bomb(500),
        lambda: bombs.laughing_forms(8),
    ],
    ids=["image", "content", "object stream", "forms"],
)
def test_at_full_size_and_with_the_usual_limits(outcome: Outcome, make: bombs.MakeOne) -> None:
    assert outcome(make()) in {"processed", "PdfTimeout", "PdfMemory"}
