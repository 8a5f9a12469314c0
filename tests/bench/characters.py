"""Character error rate of a text against a reference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence


def distance(left: str, right: str) -> int:
    """Edit distance, by Myers' bit-vector algorithm with Python integers as vectors."""
    if not left:
        return len(right)
    positions: dict[str, int] = {}
    for position, character in enumerate(left):
        positions[character] = positions.get(character, 0) | 1 << position
    last, mask = 1 << (len(left) - 1), (1 << len(left)) - 1
    up, down, edits = mask, 0, len(left)
    for character in right:
        same = positions.get(character, 0)
        vertical = same | down
        horizontal = (((same & up) + up) ^ up) | same
        plus, minus = down | ~(horizontal | up) & mask, up & horizontal
        edits += bool(plus & last) - bool(minus & last)
        plus, minus = (plus << 1 | 1) & mask, minus << 1 & mask
        up, down = minus | ~(vertical | plus) & mask, plus & vertical
    return edits


LEADERS = re.compile(r"(?:[._]\s*){3,}")
"""Lines of dots or underscores, such as in a table of contents or above a signature."""


def normalize(text: str) -> str:
    text = LEADERS.sub(" ", text)
    for shape, plain in {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "ﬁ": "fi", "ﬂ": "fl"}.items():  # noqa: RUF001
        text = text.replace(shape, plain)
    return " ".join(text.split())


def errors_in(truth: str, text: str) -> int:
    """Edits per word, in any word order: even two modes of pdftotext disagree about the order of columns."""
    expected, actual = Counter(normalize(truth).split()), Counter(normalize(text).split())
    missing, extra = list((expected - actual).elements()), list((actual - expected).elements())
    errors = 0
    for word in missing:
        best = min(extra, key=lambda candidate: distance(word, candidate), default="")
        cost = distance(word, best)
        if best and cost < len(word):
            extra.remove(best)
        errors += min(cost, len(word))
    return errors + sum(map(len, extra))


def error_rate(truth: Sequence[str], texts: Sequence[str]) -> float:
    errors = sum(errors_in(*pair) for pair in zip(truth, texts, strict=True))
    return 100 * errors / sum(len(normalize(text).replace(" ", "")) for text in truth)
