"""Markers of votes in a text, of all kinds and languages, in the order of the text.

| kind | value |
| --- | --- |
| mover, second | Person, or None where the text names nobody ("it was moved and seconded") |
| call | a vote begins ("roll call vote:"): True if not of the vote before, None if it may be attendance |
| result | Result |
| unanimous | True, or the vote of the exceptions ("all in favor except …"): False |
| numbers | {"ayes": 5, …} |
| roll | (vote, people, stated number or None) |
| voted | (vote, people): prose such as "with Lee voting no" |
| void | None: the motion was withdrawn or had no second |
"""

from __future__ import annotations

from clerk.extraction import motion_markers, outcome_markers, roll_markers, spanish_markers
from clerk.extraction.marker import Marker, Page
from clerk.extraction.tokens import Token

_ORDER = ("void", "mover", "second", "call", "result", "unanimous", "numbers", "roll", "voted")


def find_markers(text: str, words: list[Token]) -> list[Marker]:
    page = Page(text, words)
    markers = [
        *motion_markers.find_motions(page),
        *outcome_markers.find_outcomes(page),
        *outcome_markers.find_numbers(page),
        *roll_markers.find_rolls(page),
    ]
    if spanish_markers.is_spanish(text):
        markers += spanish_markers.find_markers(page)
    return sorted(markers, key=lambda marker: (marker.start, _ORDER.index(marker.kind)))
