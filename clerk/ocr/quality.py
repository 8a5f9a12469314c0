"""Decides for each page whether to use the PDF's text layer or OCR.

USE_TEXT: the text layer is good. COMPARE: run OCR and use whichever has more text. REJECT: run OCR and ignore the text
layer. Signs of a bad text layer: little text on a page that is mostly an image, unmapped glyphs, private-use
characters, letters separated by spaces.
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

FULL_PAGE_LETTERS = 1000
"""A page with at least this many letters and digits is a text page, even if it has large images."""
MIN_LETTERS = 60
"""OCR is run for a page with fewer: a scan with a stamp, a drawing with a page number."""
_MAX_INVALID_SHARE = 0.05
_INVALID_CATEGORIES = ("Co", "Cc", "Cn")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]|[\ud800-\udfff]")


class Verdict(Enum):
    USE_TEXT = "use_text"
    COMPARE = "compare"
    REJECT = "reject"


def normalize(text: str) -> str:
    """Remove control characters, trailing spaces, and empty lines at the start and end."""
    lines = (_CONTROL.sub("", line).rstrip() for line in text.replace("\f", "\n").split("\n"))
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return f"{body}\n" if body.strip() else ""


def count_letters(text: str) -> int:
    return sum(character.isalnum() for character in text)


def classify(text: str, has_large_image: bool) -> Verdict:
    if not is_plausible(text):
        return Verdict.REJECT
    count = count_letters(text)
    if count < MIN_LETTERS or (count < FULL_PAGE_LETTERS and has_large_image):
        return Verdict.COMPARE
    return Verdict.USE_TEXT


def is_plausible(text: str) -> bool:
    visible = [character for character in text if not character.isspace()]
    if not visible:
        return False
    invalid = sum(
        character == "\ufffd" or unicodedata.category(character) in _INVALID_CATEGORIES for character in visible
    )
    if invalid > _MAX_INVALID_SHARE * len(visible):
        return False
    count = sum(character.isalnum() for character in visible)
    if count < 0.4 * len(visible) and len(visible) > MIN_LETTERS:
        # Dotted lines in forms and tables of contents are valid text.
        without_leaders = [character for character in visible if character not in "._-—–…·•*=|"]  # noqa: RUF001
        if count < 0.6 * len(without_leaders):
            return False
    words = text.split()
    single_letters = sum(len(word) == 1 and word.isalpha() for word in words)
    return len(words) < 20 or single_letters < 0.6 * len(words)


def ocr_is_better(ocr_text: str, confidence: float | None, layer: str) -> bool:
    """Whether OCR has clearly more text than the text layer. In doubt the text layer is used: it has no OCR errors."""
    return confidence is not None and confidence >= 50 and count_letters(ocr_text) > 1.5 * count_letters(layer) + 20
