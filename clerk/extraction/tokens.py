"""Words and marks of a text with their positions, and the word lists of the extractor."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from importlib import resources

BALLOT = "(?:aye|yea|yes|nay|no|abstain(?:ed)?|absent|excused)"
_MARKS = r",;:()\[\]{}|•·<>*_=\"/"
# A dash between a name and a vote ("Smith-Aye") is a token; a dash inside a name is not.
_TOKEN = re.compile(rf"(?:(?!-{BALLOT}\b)[^\s{_MARKS}])+|[{_MARKS}]|-|\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    text: str
    start: int
    end: int
    lower: str
    """The text in lower case."""


def tokenize(text: str, start: int = 0) -> list[Token]:
    """Split a text, from `start` on, into words and marks.

    A line break is a token, because lists in minutes may have no other mark.
    """
    return [Token(match[0], match.start(), match.end(), match[0].lower()) for match in _TOKEN.finditer(text, start)]


def read_lines(name: str) -> list[str]:
    return resources.files("clerk.extraction").joinpath("word_lists", name).read_text(encoding="utf-8").splitlines()


def read_words(name: str) -> frozenset[str]:
    return frozenset(word for line in read_lines(name) for word in line.split())


def fold(word: str) -> str:
    """Return a word in lower case without accents."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFD", word.lower())
    return "".join(character for character in decomposed if not unicodedata.combining(character))
