"""Word lists from the models that are installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from clerk.ocr import tesseract, word_list
from clerk.ocr.word_list import WordCount, WordList


@pytest.fixture(scope="module")
def english() -> WordList:
    loaded = word_list.load(tesseract.models(), "eng")
    assert loaded is not None
    return loaded


@pytest.mark.parametrize(
    "word", ["the", "The", "COUNCIL", "ordinance", "Ordinance's", "well-known", "(minutes),", "a—the"]
)
def test_known_words(english: WordList, word: str) -> None:
    count = english.count(f"{word} council")
    assert count.known == count.total


@pytest.mark.parametrize("word", ["zuch", "tkough", "properry", "ORDINAI{CE", "RTVERGRO\\\\{EIS", "riskof"])
def test_unknown_words(english: WordList, word: str) -> None:
    assert english.count(word) == WordCount(0, 1)


@pytest.mark.parametrize(
    "token",
    [
        "2024",
        "62-98",
        "$1,234.50",
        "R-1B",
        "of",
        "a",
        "***",
        "clerk@example.org",
        "www.town.gov/x",
        "Городской",
        "佛山市柏年建材",
    ],
)
def test_numbers_codes_addresses_and_short_words_are_left_out(english: WordList, token: str) -> None:
    assert english.count(token) == WordCount(0, 0)


def test_only_a_sample_of_a_good_text_is_counted(english: WordList) -> None:
    good = "the council approved minutes from their previous regular meeting " * 187
    assert english.estimate(good).share == 1
    assert english.estimate(good).total < english.count(good).total / 10
    poor = good.replace("minutes", "rninutcs")
    assert english.estimate(poor) == english.count(poor)


def test_several_languages(tmp_path: Path) -> None:
    models = tesseract.models()
    both = word_list.load(models, "osd+eng")
    assert both is not None
    assert both.count("council").known == 1
    assert word_list.load(models, "osd") is None
    assert word_list.load(tmp_path, "eng") is None


def test_a_file_that_is_no_model_has_no_words(tmp_path: Path) -> None:
    (tmp_path / "eng.traineddata").write_bytes(b"\x01\x00\x00\x00" + bytes(100))
    assert word_list.load(tmp_path, "eng") is None
