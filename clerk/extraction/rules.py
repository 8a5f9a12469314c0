"""Extractor `rules`: patterns for the English of American minutes and agendas, without a model.

Limitation: people are recognised by their context (a title, a roll call, a motion), so a resident who speaks without
"Mr." or "Ms." is not found. A roll that OCR or columns have torn apart is found in part.
The time is linear in the length of the text, also for hostile texts; pages are cut at 100,000 characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clerk.extraction import entities, people, votes
from clerk.extraction.entities import Mention
from clerk.extraction.person_names import is_given_name
from clerk.extraction.roll_tables import rewrite_roll_tables
from clerk.extraction.spanish_markers import is_spanish
from clerk.extraction.titles import HONORIFIC_MARK
from clerk.extraction.tokens import tokenize

VERSION = "3"
_MAX_PAGE_LENGTH = 100_000
_OVERLAP = 1500
"""Characters of the next page that are searched for the end of a vote."""
_GENERATIONS = frozenset({"jr", "sr", "ii", "iii", "iv"})
_MAX_MENTIONS = 500
_MAX_KNOWN_PEOPLE = 300
_ASCII_MARKS = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\f": "\n", "\r": "\n"}
)
"""The patterns use ASCII quotation marks and dashes only."""
_INVISIBLE = re.compile("[\u200b\u200c\u200d\u2060\ufeff\ue000]")
_SPACE_RUN = re.compile(r"[^\S\n]+")
_EMPTY_LINES = re.compile(r" ?\n[ \n]*\n")
_LINE_EDGES = re.compile(r" ?\n ?")
_WRAPPED_LINE = re.compile(
    r"(?<=[^\n]{45})(?<![.:;])\n(?=[^\W\d_(])(?![A-Z][A-Za-z ]{1,25}:)(?!(?:[IVX]{1,4}|[A-Z])[.)] )"
    r"(?![A-Z][\w'-]{1,20} (?:moved|motioned|seconded|made)\b)"
)
"""A line break within prose. Short lines are lists, headings and tables."""
_HYPHENATED = re.compile(r"([a-zà-ÿ])[-\u00ad]\n([a-zà-ÿ])")
_HYPHENATED_NAME = re.compile(r"([a-zà-ÿ])-\n(?=[A-ZÀ-Þ][a-zà-ÿ])")
_SPANISH_HONORIFIC = re.compile(
    r"\b(D)(\.ª|º\.?|ª\.?|ña\.?|ñª\.?|a\.|\.)\s?(?=[A-ZÁÉÍÓÚÑ][A-ZÁÉÍÓÚÑa-zà-ÿ])|\b([Dd])(on|oña) (?=[A-ZÁÉÍÓÚÑ])"
)


class Rules:
    version = VERSION

    def extract(self, pages: Sequence[tuple[int, str]]) -> dict[int, dict[str, Any]]:
        texts = {number: normalize(text) for number, text in pages}
        numbers = list(texts)
        findings: dict[int, _Page] = {}
        skip = 0
        for index, number in enumerate(numbers):
            following = texts[numbers[index + 1]][:_OVERLAP] if index + 1 < len(numbers) else ""
            findings[number], skip = _extract_page(texts[number], following, skip)
        full_names = (person for page in findings.values() for person in page.persons if " " in person.text)
        known = entities.merge(full_names)[:_MAX_KNOWN_PEOPLE]
        return {number: page.as_dict(texts[number], known) for number, page in findings.items()}


def normalize(text: str) -> str:
    """Return a text with ASCII marks, single spaces, at most one empty line in a row, and hyphenated words joined."""
    text = rewrite_roll_tables(_INVISIBLE.sub("", text[:_MAX_PAGE_LENGTH]).translate(_ASCII_MARKS))
    text = _SPACE_RUN.sub(" ", text)
    text = _HYPHENATED.sub(r"\1\2", _LINE_EDGES.sub("\n", _EMPTY_LINES.sub("\n\n", text))).strip()
    text = _WRAPPED_LINE.sub(" ", _HYPHENATED_NAME.sub(r"\1-", text))
    if is_spanish(text):
        text = _SPANISH_HONORIFIC.sub(_mark_honorific, text)
    return text


def _mark_honorific(match: re.Match[str]) -> str:
    return f"{match[1] or match[3]}{HONORIFIC_MARK}{match[2] or match[4]} "


class _Page:
    def __init__(self) -> None:
        self.persons: list[Mention] = []
        self.orgs: list[Mention] = []
        self.locations: list[Mention] = []
        self.votes: list[dict[str, Any]] = []

    def as_dict(self, text: str, known: Sequence[Mention]) -> dict[str, Any]:
        persons = entities.merge([*self.persons, *entities.repeated_mentions(text.replace("\n", " "), known)])
        persons = _without_surnames(persons)
        return {
            "persons": _as_json(persons),
            "orgs": _as_json(self.orgs),
            "locations": _as_json(self.locations),
            "votes": self.votes,
        }


def _extract_page(text: str, following: str, skip: int) -> tuple[_Page, int]:
    """Return the findings on a page, and how much of the next page belongs to its last vote."""
    page = _Page()
    words = tokenize(text)
    extended = f"{text}\n{following}"
    extended_words = [*words, *tokenize(extended, len(text))] if following else words
    found, end = votes.find_votes(extended, extended_words, len(text), skip)
    for vote in found:
        page.votes.append(votes.as_dict(vote, extended))
        voters = [*(person for person, _ in vote.roll), vote.motion_by, vote.seconded_by]
        page.persons += [Mention(person.text, people.VOTED, person.role) for person in voters if person]
    page.persons = entities.merge([*page.persons, *people.find_people(text, words)])
    page.orgs = entities.merge(entities.find_organisations(words))
    page.locations = entities.merge(entities.find_places(text))
    return page, max(0, end - len(text) - 1)


def _without_surnames(persons: Sequence[Mention]) -> list[Mention]:
    """Drop surnames with which the full name of another person ends, and given names with which it starts."""
    endings = set[str]()
    for person in persons:
        parts = person.text.split()
        if len(parts) > 1 and parts[-1].lower().rstrip(".") in _GENERATIONS:
            parts.pop()
        endings.update(" ".join(parts[start:]) for start in range(1, len(parts)))
        if len(parts) > 1 and is_given_name(parts[0]):
            endings.add(parts[0])
    return [person for person in persons if person.text not in endings]


def _as_json(mentions: Sequence[Mention]) -> list[dict[str, Any]]:
    return [
        {"text": mention.text, "confidence": mention.confidence} | ({"role": mention.role} if mention.role else {})
        for mention in mentions[:_MAX_MENTIONS]
    ]
