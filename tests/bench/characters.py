"""Character error rate of a text against a reference."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence


def distance(one: str, other: str) -> int:
    """Edit distance, by Myers' bit-vector algorithm with Python integers as vectors."""
    if not one:
        return len(other)
    places: dict[str, int] = {}
    for place, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << place
    last, everything = 1 << (len(one) - 1), (1 << len(one)) - 1
    up, down, edits = everything, 0, len(one)
    for character in other:
        same = places.get(character, 0)
        vertical = same | down
        horizontal = (((same & up) + up) ^ up) | same
        plus, minus = down | ~(horizontal | up) & everything, up & horizontal
        edits += bool(plus & last) - bool(minus & last)
        plus, minus = (plus << 1 | 1) & everything, minus << 1 & everything
        up, down = minus | ~(vertical | plus) & everything, plus & vertical
    return edits


LEADERS = re.compile(r"(?:[._]\s*){3,}")
"""Lines of dots or underscores, such as in a table of contents or above a signature."""


def normal(text: str) -> str:
    text = LEADERS.sub(" ", text)
    for shape, plain in {"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "ﬁ": "fi", "ﬂ": "fl"}.items():  # noqa: RUF001
        text = text.replace(shape, plain)
    return " ".join(text.split())


def errors_in(truth: str, found: str) -> int:
    """Edits per word, in any word order: even two modes of pdftotext disagree about the order of columns."""
    wanted, got = Counter(normal(truth).split()), Counter(normal(found).split())
    missing, extra = list((wanted - got).elements()), list((got - wanted).elements())
    errors = 0
    for word in missing:
        best = min(extra, key=lambda other: distance(word, other), default="")
        cost = distance(word, best)
        if best and cost < len(word):
            extra.remove(best)
        errors += min(cost, len(word))
    return errors + sum(map(len, extra))


def error_rate(truth: Sequence[str], found: Sequence[str]) -> float:
    errors = sum(errors_in(*pair) for pair in zip(truth, found, strict=True))
    return 100 * errors / sum(len(normal(text).replace(" ", "")) for text in truth)
