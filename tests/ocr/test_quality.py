from __future__ import annotations

import pytest

from clerk.ocr.quality import Verdict, classify, normalize, reads_better
from tests.ocr.pdfs import MINUTES

PROSE = "\n".join(MINUTES) + "\n"


def test_a_page_of_prose_is_taken() -> None:
    assert classify(PROSE, has_large_image=False) is Verdict.TAKE


def test_a_page_full_of_text_is_taken_whatever_pictures_it_has() -> None:
    assert classify(PROSE * 4, has_large_image=True) is Verdict.TAKE


def test_little_text_over_a_large_image_is_looked_at() -> None:
    assert classify(PROSE, has_large_image=True) is Verdict.LOOK


def test_a_stamp_is_looked_at() -> None:
    assert classify("Page 3 of 7", has_large_image=False) is Verdict.LOOK


@pytest.mark.parametrize(
    "rubbish",
    [
        "",
        " \n\n ",
        "\ufffd\ufffd\ufffd the \ufffd\ufffd\ufffd",
        "\ue001\ue002\ue003\ue004 \ue005",
        "T h e t o w n c o u n c i l m e t i n t h e l i b r a r y",
        "!#$%&'()*+,/:;<>?@[]^`{}~" * 8,
    ],
)
def test_what_is_no_text_is_distrusted(rubbish: str) -> None:
    assert classify(rubbish, has_large_image=False) is Verdict.DISTRUST


def test_dotted_lines_of_a_table_of_contents_are_text() -> None:
    contents = "".join(f"Chapter {chapter} {'.' * 60} {chapter}\n" for chapter in range(1, 20))
    assert classify(contents, has_large_image=False) is Verdict.TAKE


def test_other_scripts_are_text() -> None:
    assert (
        classify("Городской совет собрался в библиотеке в семь часов вечера. " * 3, has_large_image=False)
        is Verdict.TAKE
    )


def test_tidy_removes_what_nobody_sees() -> None:
    assert normalize("\n\n a\x00b \r\n\n\n\n\nc\f") == " ab\n\nc\n"
    assert normalize(" \n\f") == ""


def test_the_layer_stands_unless_looking_says_clearly_more() -> None:
    assert reads_better(PROSE, 90.0, "Page 3 of 7")
    assert not reads_better(PROSE, 30.0, "Page 3 of 7")
    assert not reads_better("Page 3 of 7 ~~", 90.0, "Page 3 of 7")
    assert not reads_better("", None, "Page 3 of 7")
