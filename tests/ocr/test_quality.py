from __future__ import annotations

import pytest

from clerk.ocr import tesseract, word_list
from clerk.ocr.quality import Classification, Verdict, classify, compare, normalize
from clerk.ocr.word_list import WordList
from tests.ocr.pdfs import MINUTES

PROSE = "\n".join(MINUTES) + "\n"
UNUSABLE = """ORDINAI{CE NO. 62.98 A}{ ORDINAI{CE AMENDING ORDINA}.ICE T1fi, CITY OF RTVERGRO\\{EIS FLOOD DAMAGE
PREI/ENTION ORDINANCE, AND ATTACHMENT TO ORDhIANCE NO. 54.89, lhe ciry ofRivergrove adoptcd tkough zuch properry
fuvergrove Prevenrion riskof tloodplain dweloprnent ordinancc requires rninor clarification ofthe WFIEREAS thc Citv"""
"""As OCR of the nineties wrote it."""


@pytest.fixture(scope="module")
def words() -> WordList:
    loaded = word_list.load(tesseract.models(), "eng")
    assert loaded is not None
    return loaded


def classified(text: str, words: WordList | None, *, is_scan: bool = False) -> Classification:
    return classify(text, words, lambda: is_scan)


def test_the_text_layer_of_a_page_of_prose_is_used(words: WordList) -> None:
    result = classified(PROSE, words)
    assert result.verdict is Verdict.USE_TEXT
    assert result.reason.endswith(" % of the text layer's words are known")


def test_the_text_layer_of_a_full_page_is_used_despite_a_large_image(words: WordList) -> None:
    assert classified(PROSE * 4, words, is_scan=True).verdict is Verdict.USE_TEXT


def test_little_text_on_a_large_image_is_compared_with_ocr(words: WordList) -> None:
    result = classified(PROSE, words, is_scan=True)
    assert result.verdict is Verdict.COMPARE
    assert not result.is_doubtful


def test_very_little_text_is_compared_with_ocr(words: WordList) -> None:
    assert classified("Page 3 of 7", words).verdict is Verdict.COMPARE


def test_an_unusable_text_layer_of_a_scan_is_compared_with_ocr(words: WordList) -> None:
    result = classified(UNUSABLE * 4, words, is_scan=True)
    assert result.verdict is Verdict.COMPARE
    assert result.is_doubtful
    assert classified(UNUSABLE * 4, None, is_scan=True).verdict is Verdict.USE_TEXT, "the word list decides"


def test_a_page_of_names_is_used_unless_it_is_a_scan(words: WordList) -> None:
    """An image is needed to doubt a text layer that is mostly known."""
    names = (
        "Present: Whitfield, Xylander, Qualtrough, Wzorek, members of the council of the town and of the school\n" * 4
    )
    assert classified(names, words).verdict is Verdict.USE_TEXT
    assert classified(names, words, is_scan=True).is_doubtful


def test_text_with_a_wrong_encoding_is_compared_with_ocr(words: WordList) -> None:
    """The font has no mapping to Unicode: every letter is shifted."""
    shifted = "".join(chr(ord(letter) + 1) if letter.isalpha() else letter for letter in PROSE)
    assert classified(shifted, words).is_doubtful


@pytest.mark.parametrize(
    ("invalid", "reason"),
    [
        ("", "no text layer"),
        (" \n\n ", "no text layer"),
        ("\ufffd\ufffd\ufffd the \ufffd\ufffd\ufffd", "without meaning"),
        ("\ue001\ue002\ue003\ue004 \ue005", "without meaning"),
        ("T h e t o w n c o u n c i l m e t i n t h e l i b r a r y", "spaces between the letters"),
        ("!#$%&'()*+,/:;<>?@[]^`{}~" * 8, "symbols"),
    ],
)
def test_invalid_text_is_rejected(invalid: str, reason: str, words: WordList) -> None:
    result = classified(invalid, words)
    assert result.verdict is Verdict.REJECT
    assert reason in result.reason


def test_dotted_lines_of_a_table_of_contents_are_text(words: WordList) -> None:
    contents = "".join(f"Chapter {chapter} {'.' * 60} {chapter}\n" for chapter in range(1, 20))
    assert classified(contents, words).verdict is Verdict.USE_TEXT


def test_other_scripts_are_text_without_a_word_list() -> None:
    text = "Городской совет собрался в библиотеке в семь часов вечера. " * 3
    assert classified(text, None).verdict is Verdict.USE_TEXT


def test_normalize_removes_invisible_characters() -> None:
    assert normalize("\n\n a\x00b \r\n\n\n\n\nc\f") == " ab\n\nc\n"
    assert normalize(" \n\f") == ""


def test_ocr_is_better_with_clearly_more_text(words: WordList) -> None:
    assert compare(PROSE, 90.0, "Page 3 of 7", words)[0]
    assert not compare(PROSE, 30.0, "Page 3 of 7", words)[0]
    assert not compare("Page 3 of 7 ~~", 90.0, "Page 3 of 7", words)[0]
    assert not compare("", None, "Page 3 of 7", words)[0]


def test_ocr_is_better_with_more_known_words(words: WordList) -> None:
    wrong = PROSE.replace("e", "c").replace("m", "rn")
    assert compare(PROSE, 90.0, wrong, words)[0]
    assert not compare(wrong, 90.0, PROSE, words)[0]
    assert not compare(PROSE, 90.0, PROSE, words)[0]
    assert not compare("\n".join(MINUTES[:6]), 90.0, PROSE, words)[0], "it has less text"
    assert not compare("the OOGQ UOOd OQOOU dOOQ " * 9, 90.0, "Zxq vbw OOGQ qqzx UOOd " * 9, words)[0], "still wrong"
    _, reason = compare(PROSE, 90.0, wrong, words)
    assert "of the words by OCR are known" in reason
