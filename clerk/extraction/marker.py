"""A statement about a vote at a position of a text."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clerk.extraction.tokens import Token

KINDS = ("aye", "nay", "abstain", "absent")
TALLY = {"aye": "ayes", "nay": "nays", "abstain": "abstain", "absent": "absent"}


@dataclass(frozen=True, slots=True)
class Marker:
    start: int
    end: int
    kind: str
    value: Any


@dataclass(frozen=True, slots=True)
class Result:
    """An outcome that the text states."""

    value: str
    """passed, failed or tabled"""
    creates: bool
    """Whether the statement shows a vote by itself. Others only complete a vote whose motion is known."""
    adjacent: bool = False
    """Whether it counts only right after the seconder's name: "seconded by Lee and carried"."""
    is_tentative: bool = False
    """Whether the word may describe the motion instead ("denied 5-0"): it counts only if the tally agrees."""
    is_label: bool = False
    """Whether it opens a table: "RESULT: ADOPTED", then mover and seconder."""


@dataclass(frozen=True, slots=True)
class Page:
    """A text with its tokens."""

    text: str
    words: Sequence[Token]
    starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "starts", [word.start for word in self.words])

    def index(self, position: int) -> int:
        """Return the index of the first token that starts at or after a position."""
        return bisect.bisect_left(self.starts, position)
