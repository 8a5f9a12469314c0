from __future__ import annotations

import pytest

from clerk.ocr.quality import Verdict, classify, normalize, ocr_is_better
from tests.ocr.pdfs import MINUTES

PROSE = "\n".join(MINUTES) + "\n"


def test_the_text_layer_of_a_page_of_prose_is_used() -> None:
    assert classify(PROSE, has_large_image=False) is Verdict.USE_TEXT


def test_the_text_layer_of_a_full_page_is_used_despite_a_large_image() -> None:
    assert classify(PROSE * 4, has_large_image=True) is Verdict.USE_TEXT


def test_little_text_on_a_large_image_is_compared_with_ocr() -> None:
    assert classify(PROSE, has_large_image=True) is Verdict.COMPARE


def test_very_little_text_is_compared_with_ocr() -> None:
    assert classify("Page 3 of 7", has_large_image=False) is Verdict.COMPARE


@pytest.mark.parametrize(
    "invalid",
    [
        "",
        " \n\n ",
        "\ufffd\ufffd\ufffd the \ufffd\ufffd\ufffd",
        "\ue001\ue002\ue003\ue004 \ue005",
        "T h e t o w n c o u n c i l m e t i n t h e l i b r a r y",
        "!#$%&'()*+,/:;<>?@[]^`{}~" * 8,
    ],
)
def test_invalid_text_is_rejected(invalid: str) -> None:
    assert classify(invalid, has_large_image=False) is Verdict.REJECT


def test_dotted_lines_of_a_table_of_contents_are_text() -> None:
    contents = "".join(f"Chapter {chapter} {'.' * 60} {chapter}\n" for chapter in range(1, 20))
    assert classify(contents, has_large_image=False) is Verdict.USE_TEXT


def test_other_scripts_are_text() -> None:
    assert (
        classify("Городской совет собрался в библиотеке в семь часов вечера. " * 3, has_large_image=False)
        is Verdict.USE_TEXT
    )


def test_normalize_removes_invisible_characters() -> None:
    assert normalize("\n\n a\x00b \r\n\n\n\n\nc\f") == " ab\n\nc\n"
    assert normalize(" \n\f") == ""


def test_ocr_is_better_only_with_clearly_more_text() -> None:
    assert ocr_is_better(PROSE, 90.0, "Page 3 of 7")
    assert not ocr_is_better(PROSE, 30.0, "Page 3 of 7")
    assert not ocr_is_better("Page 3 of 7 ~~", 90.0, "Page 3 of 7")
    assert not ocr_is_better("", None, "Page 3 of 7")
