"""Is a page's text layer good enough to be taken, or must the page be looked at?

Three answers: take it, look (and take whichever of the two says more), or distrust it. What counts is what a
reader would notice: too little text for a page that is mostly picture, and text that is no text (glyphs without a
mapping, private characters, letters that stand apart).
"""

from __future__ import annotations

import re
import unicodedata
from enum import Enum

FULL_PAGE = 1000
"""Letters and digits from which on a page is text, whatever pictures it has."""
HARDLY_ANY = 60
"""Below this a page is looked at: a stamp on a scan, a page number under a drawing."""
_TOLERATED_RUBBISH = 0.05
_NO_TEXT = ("Co", "Cc", "Cn")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff]|[\ud800-\udfff]")


class Verdict(Enum):
    TAKE = "take"
    LOOK = "look"
    DISTRUST = "distrust"


def normalize(text: str) -> str:
    """Without what no reader sees: control characters, spaces at line ends, empty lines at the edges."""
    lines = (_CONTROL.sub("", line).rstrip() for line in text.replace("\f", "\n").split("\n"))
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")
    return f"{body}\n" if body.strip() else ""


def letters(text: str) -> int:
    return sum(character.isalnum() for character in text)


def classify(text: str, has_large_image: bool) -> Verdict:
    if not is_plausible(text):
        return Verdict.DISTRUST
    count = letters(text)
    if count < HARDLY_ANY or (count < FULL_PAGE and has_large_image):
        return Verdict.LOOK
    return Verdict.TAKE


def is_plausible(text: str) -> bool:
    visible = [character for character in text if not character.isspace()]
    if not visible:
        return False
    rubbish = sum(character == "\ufffd" or unicodedata.category(character) in _NO_TEXT for character in visible)
    if rubbish > _TOLERATED_RUBBISH * len(visible):
        return False
    count = sum(character.isalnum() for character in visible)
    if count < 0.4 * len(visible) and len(visible) > HARDLY_ANY:
        # Dotted lines of forms and contents are text all right.
        without_leaders = [character for character in visible if character not in "._-—–…·•*=|"]  # noqa: RUF001
        if count < 0.6 * len(without_leaders):
            return False
    words = text.split()
    alone = sum(len(word) == 1 and word.isalpha() for word in words)
    return len(words) < 20 or alone < 0.6 * len(words)


def reads_better(recognised: str, confidence: float | None, layer: str) -> bool:
    """Does the recognised text say clearly more than the layer does? In doubt the layer: it has no misreadings."""
    return confidence is not None and confidence >= 50 and letters(recognised) > 1.5 * letters(layer) + 20
