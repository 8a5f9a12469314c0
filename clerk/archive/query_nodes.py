"""The nodes of a parsed search query."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass

from clerk.archive.terms import LANGUAGES, fold, stem

Phrase = tuple[str, ...]
"""Adjacent words of a column."""

_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"\d{1,4}")
_MAX_NUMBERS = 3
"""Numbers in a phrase of which other forms are searched: each doubles the alternatives."""


@dataclass(frozen=True)
class Term:
    """A word, a phrase or a prefix."""

    text: str
    """As the user wrote it, without quotes and without `*`."""
    tokens: Phrase
    """In lower case, with accents."""
    number_pairs: tuple[int, ...] = ()
    """Positions of the tokens that a hyphen or slash joins with the next one: `2017-88`."""
    is_quoted: bool = False
    is_prefix: bool = False

    @property
    def column(self) -> str:
        return "words" if self.is_quoted or self.is_prefix else "stems"

    def alternatives(self, column: str) -> tuple[Phrase, ...]:
        """The phrases to look for in a column. A page has stems of one language, so languages are not mixed."""
        by_language = (self.phrases(column, language) for language in LANGUAGES)
        return tuple(dict.fromkeys(itertools.chain.from_iterable(by_language)))

    def phrases(self, column: str, language: str) -> list[Phrase]:
        return [
            tuple(fold(word) if column == "words" else stem(word, language) for word in tokens)
            for tokens in self._number_forms()
        ]

    def _number_forms(self) -> list[Phrase]:
        """The tokens, and the tokens with the year of `2017-88` in the other place."""
        forms = [self.tokens]
        for at in [at for at in self.number_pairs if _has_one_year(*self.tokens[at : at + 2])][:_MAX_NUMBERS]:
            forms += [(*form[:at], form[at + 1], form[at], *form[at + 2 :]) for form in forms]
        return forms

    def text_alternatives(self) -> tuple[Phrase, ...]:
        """The phrases to look for in the text as it is: `320000` is also written `320,000` or `320.000`."""
        phrases: list[Phrase] = [tuple(map(fold, tokens)) for tokens in self._number_forms()]
        if any(_is_long_number(word) for word in self.tokens):
            phrases += [tuple(itertools.chain.from_iterable(map(_in_thousands, phrase))) for phrase in phrases]
        return tuple(dict.fromkeys(phrases))


@dataclass(frozen=True)
class Near:
    """Terms of which the first ends at most `distance` words before the last begins, in any order."""

    terms: tuple[Term, ...]
    distance: int

    @property
    def column(self) -> str:
        return "words" if any(term.column == "words" for term in self.terms) else "stems"

    def alternatives(self) -> tuple[tuple[Phrase, ...], ...]:
        """Each has one phrase per term."""
        by_language = (
            itertools.product(*(term.phrases(self.column, language) for term in self.terms)) for language in LANGUAGES
        )
        return tuple(dict.fromkeys(itertools.chain.from_iterable(by_language)))

    def text_alternatives(self) -> tuple[tuple[Phrase, ...], ...]:
        return tuple(itertools.product(*(term.text_alternatives() for term in self.terms)))


@dataclass(frozen=True)
class Or:
    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class And:
    required: tuple[Node, ...]
    excluded: tuple[Node, ...] = ()


Node = Term | Near | Or | And


def _has_one_year(first: str, second: str) -> bool:
    numbers = _NUMBER.fullmatch(first) and _NUMBER.fullmatch(second)
    return bool(numbers) and bool(_YEAR.fullmatch(first)) != bool(_YEAR.fullmatch(second))


def _is_long_number(word: str) -> bool:
    return len(word) > 3 and word.isascii() and word.isdigit()


def _in_thousands(word: str) -> Phrase:
    return tuple(f"{int(word):,}".split(",")) if _is_long_number(word) and len(word) < 20 else (word,)
