"""Extractor `rules`: patterns for the English of American minutes and agendas, without a model.

Limitation: people are recognised by their context (a title, a roll call, a motion), so a resident who speaks without
"Mr." or "Ms." is not found. A roll that OCR or columns have torn apart is found in part.
The time is linear in the length of the text, also for hostile texts; pages are cut at 100,000 characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clerk.extraction import entities, votes
from clerk.extraction.entities import Mention
from clerk.extraction.person_names import tokenize

VERSION = "2"
_MAX_PAGE_LENGTH = 100_000
_OVERLAP = 1500
"""Characters of the next page that are searched for the end of a vote."""
_MAX_MENTIONS = 500
_MAX_KNOWN_PEOPLE = 300
_ASCII_MARKS = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\f": "\n", "\r": "\n"}
)
"""The patterns use ASCII quotation marks and dashes only."""
_SPACE_RUN = re.compile(r"[^\S\n]+")
_EMPTY_LINES = re.compile(r" ?\n[ \n]*\n")
_LINE_EDGES = re.compile(r" ?\n ?")
_WRAPPED_LINE = re.compile(r"(?<=[^\n]{45})(?<![.:;])\n(?=[^\W\d_(])(?![A-Z][A-Za-z ]{1,25}:)")
"""A line break within prose. Short lines are lists, headings and tables."""
_HYPHENATED = re.compile(r"([a-zà-ÿ])[-\u00ad]\n([a-zà-ÿ])")


class Rules:
    version = VERSION

    def extract(self, pages: Sequence[tuple[int, str]]) -> dict[int, dict[str, Any]]:
        texts = {number: normalize(text) for number, text in pages}
        numbers = list(texts)
        findings: dict[int, _Page] = {}
        for index, number in enumerate(numbers):
            following = texts[numbers[index + 1]][:_OVERLAP] if index + 1 < len(numbers) else ""
            findings[number] = _extract_page(texts[number], following)
        full_names = (person for page in findings.values() for person in page.persons if " " in person.text)
        known = entities.merge(full_names)[:_MAX_KNOWN_PEOPLE]
        return {number: page.as_dict(texts[number], known) for number, page in findings.items()}


def normalize(text: str) -> str:
    """Return a text with ASCII marks, single spaces, at most one empty line in a row, and hyphenated words joined."""
    text = _SPACE_RUN.sub(" ", text[:_MAX_PAGE_LENGTH].translate(_ASCII_MARKS))
    text = _HYPHENATED.sub(r"\1\2", _LINE_EDGES.sub("\n", _EMPTY_LINES.sub("\n\n", text))).strip()
    return _WRAPPED_LINE.sub(" ", text)


class _Page:
    def __init__(self) -> None:
        self.persons: list[Mention] = []
        self.orgs: list[Mention] = []
        self.locations: list[Mention] = []
        self.votes: list[dict[str, Any]] = []

    def as_dict(self, text: str, known: Sequence[Mention]) -> dict[str, Any]:
        persons = entities.merge([*self.persons, *entities.repeated_mentions(text.replace("\n", " "), known)])
        # A surname adds nothing to a full name that ends with it.
        surnames = {person.text.split()[-1] for person in persons if " " in person.text}
        persons = [person for person in persons if " " in person.text or person.text not in surnames]
        return {
            "persons": _as_json(persons),
            "orgs": _as_json(self.orgs),
            "locations": _as_json(self.locations),
            "votes": self.votes,
        }


def _extract_page(text: str, following: str) -> _Page:
    page = _Page()
    words = tokenize(text)
    extended = f"{text}\n{following}"
    for vote in votes.find_votes(extended, tokenize(extended), len(text)):
        page.votes.append(votes.as_dict(vote, extended))
        people = [*(person for person, _ in vote.roll), vote.motion_by, vote.seconded_by]
        page.persons += [Mention(person.text, entities.VOTED, person.role) for person in people if person]
    page.persons = entities.merge([*page.persons, *entities.find_people(text, words)])
    page.orgs = entities.merge(entities.find_organisations(words))
    page.locations = entities.merge(entities.find_places(text))
    return page


def _as_json(mentions: Sequence[Mention]) -> list[dict[str, Any]]:
    return [
        {"text": mention.text, "confidence": mention.confidence} | ({"role": mention.role} if mention.role else {})
        for mention in mentions[:_MAX_MENTIONS]
    ]
