"""The built-in extractor: rules for the English of American minutes and agendas. No model, nothing to download.

Its weakness: it knows people by what stands around them (a title, a roll, a motion), so a resident who speaks without
"Mr." or "Ms." is not found; and where a scan or a layout of several columns tore a roll apart, it sees what is left.
Time taken grows with the length of the text only, whatever the text is; pages are cut at a size that no page has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from clerk.extraction import entities, votes
from clerk.extraction.entities import Mention
from clerk.extraction.person_names import tokens

VERSION = "1"
_LARGEST_PAGE = 100_000
_OVERLAP = 1500
"""Characters of the next page that are looked at for the end of a vote."""
_MOST = 500
_MOST_KNOWN = 300
_PLAIN = str.maketrans(
    {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u2013": "-", "\u2014": "-", "\f": "\n", "\r": "\n"}
)
"""Quotation marks and dashes of typesetters; the rules know plain ones only."""
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n[ \n]*\n")
_EDGES = re.compile(r" ?\n ?")
_WRAPPED = re.compile(r"(?<=[^\n]{45})(?<![.:;])\n(?=[^\W\d_(])(?![A-Z][A-Za-z ]{1,25}:)")
"""The end of a line of prose: what follows goes on with it. Short lines are lists, headings and tables."""
_HYPHENS = re.compile(r"([a-zà-ÿ])[-\u00ad]\n([a-zà-ÿ])")


class Rules:
    version = VERSION

    def extract(self, pages: Sequence[tuple[int, str]]) -> dict[int, dict[str, Any]]:
        texts = {number: readable(text) for number, text in pages}
        numbers = list(texts)
        found: dict[int, _Page] = {}
        for place, number in enumerate(numbers):
            following = texts[numbers[place + 1]][:_OVERLAP] if place + 1 < len(numbers) else ""
            found[number] = _page(texts[number], following)
        known = entities.merged(one for page in found.values() for one in page.persons if " " in one.text)[:_MOST_KNOWN]
        return {number: page.as_dict(texts[number], known) for number, page in found.items()}


def readable(text: str) -> str:
    """Plain marks, single spaces, at most one empty line, words put together again that were split at a line's end."""
    text = _SPACES.sub(" ", text[:_LARGEST_PAGE].translate(_PLAIN))
    text = _HYPHENS.sub(r"\1\2", _EDGES.sub("\n", _LINES.sub("\n\n", text))).strip()
    return _WRAPPED.sub(" ", text)


class _Page:
    def __init__(self) -> None:
        self.persons: list[Mention] = []
        self.orgs: list[Mention] = []
        self.locations: list[Mention] = []
        self.votes: list[dict[str, Any]] = []

    def as_dict(self, text: str, known: Sequence[Mention]) -> dict[str, Any]:
        persons = entities.merged([*self.persons, *entities.repeated_mentions(text.replace("\n", " "), known)])
        full = {one.text.split()[-1] for one in persons if " " in one.text}
        persons = [one for one in persons if " " in one.text or one.text not in full]
        # What is the tail of a longer one says nothing of its own.
        return {
            "persons": _as_json(persons),
            "orgs": _as_json(self.orgs),
            "locations": _as_json(self.locations),
            "votes": self.votes,
        }


def _page(text: str, following: str) -> _Page:
    page = _Page()
    words = tokens(text)
    together = f"{text}\n{following}"
    for vote in votes.find(together, tokens(together), len(text)):
        page.votes.append(votes.as_dict(vote, together))
        named = [person for person, _ in vote.roll] + [one for one in (vote.motion_by, vote.seconded_by) if one]
        page.persons += [Mention(one.text, entities.VOTED, one.role) for one in named]
    page.persons = entities.merged([*page.persons, *entities.people(text, words)])
    page.orgs = entities.merged(entities.organisations(words))
    page.locations = entities.merged(entities.places(text))
    return page


def _as_json(mentions: Sequence[Mention]) -> list[dict[str, Any]]:
    return [
        {"text": one.text, "confidence": one.confidence} | ({"role": one.role} if one.role else {})
        for one in mentions[:_MOST]
    ]
