"""Decides for each page whether to use the PDF's text layer or OCR.

USE_TEXT: the text layer is good. COMPARE: run OCR and use the better text. REJECT: run OCR and ignore the text layer.
Signs of a bad text layer: words that are not in the word list of the site's languages, little text on a page that is
mostly an image, unmapped glyphs, private-use characters, letters separated by spaces.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from clerk.ocr.word_list import WordCount, WordList

FULL_PAGE_LETTERS = 1000
"""A page with at least this many letters and digits is a text page, even if it has large images."""
MIN_LETTERS = 60
"""OCR is run for a page with fewer: a scan with a stamp, a drawing with a page number."""
MIN_WORDS = 10
"""With fewer words their share in the word list says nothing."""
_GOOD_SHARE_OF_SCAN = 0.93
"""Text layers of scans come from OCR. Of good ones 95 to 100 % of the words are known, of unusable ones 65 to 90 %."""
_GOOD_SHARE = 0.6
"""Other text layers come from the program that wrote the text. Pages full of names can have 80 %."""
_BETTER_BY = 0.02
_MIN_OCR_SHARE = 0.5
"""With fewer known words, OCR was run for the wrong language."""
_MAX_LOSS = 0.1
"""OCR may have this much fewer known words than the text layer and still be better: not every word is printed text."""
_MIN_CONFIDENCE = 50
_MAX_INVALID_SHARE = 0.05
_INVALID_CATEGORIES = ("Co", "Cc", "Cn")
_NO_TEXT = "no text layer"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]|[\ud800-\udfff]")
_LEADERS = "._-—–…·•*=|"  # noqa: RUF001


class Verdict(Enum):
    USE_TEXT = "use_text"
    COMPARE = "compare"
    REJECT = "reject"


@dataclass(frozen=True)
class Classification:
    """The verdict about a text layer, and the reason in words for the manifest."""

    verdict: Verdict
    reason: str
    letters: int = 0
    words: WordCount | None = None
    """None if the languages have no word list, or the text has too few words."""

    @property
    def may_be_complete(self) -> bool:
        """There is little or no text, but nothing is wrong with it: perhaps there is no more on the page."""
        return self.letters < MIN_LETTERS and (self.verdict is Verdict.COMPARE or self.reason == _NO_TEXT)

    @property
    def is_doubtful(self) -> bool:
        """OCR is compared because of unknown words."""
        return self.verdict is Verdict.COMPARE and self.words is not None and self.words.share < _GOOD_SHARE_OF_SCAN


def normalize(text: str) -> str:
    """Remove control characters, trailing spaces, and empty lines at the start and end."""
    text = _CONTROL.sub("", text.replace("\f", "\n"))
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(map(str.rstrip, text.split("\n")))).strip("\n")
    return f"{body}\n" if body.strip() else ""


def count_letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def classify(text: str, words: WordList | None, is_scan: Callable[[], bool]) -> Classification:
    """Classify a text layer. `is_scan`, whether images cover most of the page, is called only if that matters."""
    if problem := find_problem(text):
        return Classification(Verdict.REJECT, problem)
    letters = count_letters(text)
    if letters < MIN_LETTERS:
        return Classification(Verdict.COMPARE, f"the text layer has only {letters} letters", letters)
    count = None if words is None else words.estimate(text)
    if count is not None and count.total < MIN_WORDS:
        count = None
    known = "a good text layer" if count is None else f"{_percent(count)} of the text layer's words are known"
    if count is not None and count.share < _GOOD_SHARE_OF_SCAN and (count.share < _GOOD_SHARE or is_scan()):
        return Classification(Verdict.COMPARE, f"only {known}", letters, count)
    if letters < FULL_PAGE_LETTERS and is_scan():
        return Classification(Verdict.COMPARE, f"a scan with only {letters} letters of text layer", letters, count)
    return Classification(Verdict.USE_TEXT, known, letters, count)


def find_problem(text: str) -> str | None:
    """Why the text cannot be meant for reading, judged by its characters; None if it can."""
    visible = "".join(text.split())
    if not visible:
        return _NO_TEXT
    if not visible.isascii():
        invalid = sum(visible.count(character) for character in set(visible) if _is_invalid(character))
        if invalid > _MAX_INVALID_SHARE * len(visible):
            return "the text layer has characters without meaning"
    count = count_letters(visible)
    if count < 0.4 * len(visible) and len(visible) > MIN_LETTERS:
        # Dotted lines in forms and tables of contents are valid text.
        leaders = sum(map(visible.count, _LEADERS))
        if count < 0.6 * (len(visible) - leaders):
            return "the text layer consists of symbols"
    words = text.split()
    single_letters = sum(len(word) == 1 and word.isalpha() for word in words)
    if len(words) >= 20 and single_letters >= 0.6 * len(words):
        return "the text layer has spaces between the letters"
    return None


def _is_invalid(character: str) -> bool:
    return character == "\ufffd" or unicodedata.category(character) in _INVALID_CATEGORIES


def compare(ocr_text: str, confidence: float | None, layer: str, words: WordList | None) -> tuple[bool, str]:
    """Whether OCR is better than the text layer, and the reason. In doubt the text layer is used."""
    if confidence is None or confidence < _MIN_CONFIDENCE:
        return False, "OCR recognized nothing better than the text layer"
    if count_letters(ocr_text) > 1.5 * count_letters(layer) + 20:
        return True, "OCR found much more text than the text layer has"
    if words is not None:
        ocr, text = words.count(ocr_text), words.count(layer)
        if min(ocr.total, text.total) >= MIN_WORDS:
            shares = f"{_percent(ocr)} of the words by OCR are known, {_percent(text)} of the text layer's"
            is_better = ocr.share > max(text.share + _BETTER_BY, _MIN_OCR_SHARE)
            return is_better and ocr.known >= (1 - _MAX_LOSS) * text.known, shares
    return False, "OCR found no more text than the text layer has"


def _percent(count: WordCount) -> str:
    return f"{100 * count.share:.0f} %"
