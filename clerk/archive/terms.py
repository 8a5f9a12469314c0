"""The search terms of a page: its words, joined, folded and stemmed.

- A word that is hyphenated at the end of a line is joined: `ordi-⏎nance` is `ordinance`. Its two parts are added
  after the last word of the page, so that `bike-⏎lane` is also found as `bike lane`.
- Case and accents are folded: `Reunión` is `reunion`.
- Separators of thousands and a fraction of zero are dropped: `$320,000.00` and `320.000` are `320000`.
- Stems are those of the page's language, English or Spanish, which is the one with more function words on the page.

`words` and `stems` of a page have the same length, so that a phrase has the same positions in both.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from dataclasses import dataclass
from typing import NamedTuple

import Stemmer

VERSION = 1
"""Recorded in the schema of an archive: another version builds the archive's search index again."""
LANGUAGES = ("english", "spanish")

_WORD = r"[^\W_](?:[^\W_]|[\u0300-\u036f]|\u00ad(?=[^\W_]))*"
_TOKEN = re.compile(
    rf"(?P<grouped>(?<![^\W_])\d{{1,3}}(?:(?:,\d{{3}})+|(?:\.\d{{3}})+)(?![^\W_]|[.,]\d{{3}}(?!\d)))|(?P<word>{_WORD})"
)
_ZERO_FRACTION = re.compile(r"[.,]00?(?![^\W_]|[.,]\d)")
_SEPARATOR = re.compile("[.,]")
HYPHENS = "-\u2010\u00ad\u00ac"
_LINE_END = re.compile(r"\s*\n\s*")
_FUNCTION_WORDS = {
    "english": frozenset(re.findall(r"\w+", "the of and to in is that for on by be was with as at or from this")),
    "spanish": frozenset(re.findall(r"\w+", "de la que el en y los del se las por un para con una su al lo")),
}
_CACHED_WORDS = 200_000


class Token(NamedTuple):
    """A word of a text. `text` is in lower case, with its accents."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class PageTerms:
    """The terms of a text, in the order in which they are indexed."""

    tokens: tuple[Token, ...]
    words: tuple[str, ...]
    stems: tuple[str, ...]
    language: str

    @classmethod
    def of(cls, text: str) -> PageTerms:
        tokens = tuple(tokenize(text))
        words = tuple([fold(word) for word, _, _ in tokens])
        language = detect_language(words)
        return cls(tokens, words, tuple([stem(word, language) for word, _, _ in tokens]), language)


def tokenize(text: str) -> list[Token]:
    """The words of a text. The parts of words that are hyphenated at the end of a line follow the last word."""
    tokens: list[Token] = []
    parts: list[Token] = []
    last_end = 0
    lower = text.lower()
    if len(lower) != len(text):  # a letter such as İ has two in lower case, which would move all positions
        lower = "".join(letter if len(letter.lower()) > 1 else letter.lower() for letter in text)
    for match in _TOKEN.finditer(text):
        start, end = match.span()
        if start < last_end:  # a fraction of zero
            continue
        word = lower[start:end]
        if word[0].isdigit() and (match.lastgroup == "grouped" or word.isdigit()):
            fraction = _ZERO_FRACTION.match(text, end)
            word, end = _SEPARATOR.sub("", word), fraction.end() if fraction else end
        elif start - last_end > 1 and tokens and _is_continuation(text, tokens[-1], start, end):
            first = tokens.pop()
            parts += (first, Token(word, start, end))
            word, start = first.text + word, first.start
        tokens.append(Token(word, start, end))
        last_end = end
    return tokens + parts


def _is_continuation(text: str, first: Token, start: int, end: int) -> bool:
    """Whether a hyphen at the end of a line is before `start`, and both parts look like one word."""
    if text[first.end] not in HYPHENS or not _LINE_END.fullmatch(text, first.end + 1, start):
        return False
    before, after = text[first.start : first.end], text[start:end]
    if not (before.isalpha() and after.isalpha()):
        return False
    return after[0].islower() or (before.isupper() and after.isupper() and len(before) > 1)


@functools.lru_cache(_CACHED_WORDS)
def fold(word: str) -> str:
    """In lower case, without accents, ligatures and soft hyphens."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(character for character in decomposed if unicodedata.category(character) not in ("Mn", "Cf"))


@functools.lru_cache(_CACHED_WORDS)
def stem(word: str, language: str) -> str:
    """The folded stem of a word in lower case. Accents matter to the Spanish stemmer, so they are folded after it."""
    word = unicodedata.normalize("NFC", word)
    return fold(_stemmer(language).stemWord(word)) or fold(word)


@functools.cache
def _stemmer(language: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(language)


def detect_language(words: tuple[str, ...]) -> str:
    counts = {language: sum(map(known.__contains__, words)) for language, known in _FUNCTION_WORDS.items()}
    return max(LANGUAGES, key=lambda language: counts[language])
