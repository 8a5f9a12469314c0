"""Votes: mover, seconder, result, tally and individual votes.

Each of these is a marker at a position in the text. Markers are combined in their order: a mover starts a vote, and
markers close behind it belong to that vote. A result or roll without a mover is a vote if it has numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from clerk.extraction.person_names import Person, Token
from clerk.extraction.vote_markers import TALLY, Marker, find_markers

_MAX_MARKER_DISTANCE = 1500
"""Characters between two markers of a vote."""
_MAX_RAW_TEXT = 1500
_MAX_VOTES = 300


@dataclass
class Vote:
    start: int
    end: int
    motion: str | None = None
    motion_by: Person | None = None
    seconded_by: Person | None = None
    result: str | None = None
    unanimous: bool = False
    tally: dict[str, int] = field(default_factory=dict)
    roll: list[tuple[Person, str]] = field(default_factory=list)
    counted_at: int = -1
    """Position of the tally, to tell it from the tally of the next vote."""

    @property
    def is_vote(self) -> bool:
        """Whether the markers are enough evidence of a vote."""
        decided = self.result is not None or self.unanimous
        counted = len(self.tally) > 1 or bool(self.roll) or (bool(self.tally) and decided)
        return counted or (self.motion_by is not None and (decided or self.seconded_by is not None))


def find_votes(text: str, words: list[Token], page_end: int) -> list[Vote]:
    """Return the votes that start before `page_end`. The text after it is the next page, where a vote may end."""
    votes: list[Vote] = []
    for marker in sorted(find_markers(text, words), key=lambda marker: (marker.start, marker.kind)):
        vote = votes[-1] if votes and marker.start - votes[-1].end <= _MAX_MARKER_DISTANCE else None
        if vote is None or _is_closed(vote, marker, text) or not _belongs_to(vote, marker):
            if marker.kind in ("voted", "unanimous"):
                continue
            if marker.start >= page_end or len(votes) >= _MAX_VOTES:
                break
            vote = Vote(marker.start, marker.end)
            votes.append(vote)
        _add(vote, marker)
        vote.end = max(vote.end, marker.end)
    votes = [vote for vote in votes if vote.is_vote]
    for vote in votes:
        _complete(vote, text)
    return votes


_NEXT_PARAGRAPH = re.compile(r"\n\n")
_NEXT_ITEM = re.compile(r"\n\(?(?:\d{1,2}|[A-Z])[.)] ")


def _is_closed(vote: Vote, marker: Marker, text: str) -> bool:
    """A decided vote ends with its paragraph; only a roll may follow in the next one."""
    if vote.result is None and not vote.unanimous:
        return False
    between = (vote.end, max(vote.end, marker.start))
    roll_follows = marker.kind in ("roll", "mover", "second", "unanimous") and marker.start - vote.end < 80
    return bool(_NEXT_ITEM.search(text, *between) or (not roll_follows and _NEXT_PARAGRAPH.search(text, *between)))


def _belongs_to(vote: Vote, marker: Marker) -> bool:
    match marker.kind:
        case "mover":
            near = 300 if vote.result is None else 80  # "RESULT: APPROVED", then "MOVER:"
            return vote.motion_by is None and not vote.tally and not vote.roll and marker.start - vote.end < near
        case "second":
            return (
                vote.seconded_by is None
                and not vote.roll
                and marker.start - vote.end < (900 if vote.result is None else 80)
            )
        case "result":
            if marker.value[1] and vote.tally and vote.motion_by is None:
                return False
            return vote.result is None and (
                marker.start - vote.end < 900 if vote.motion_by else marker.start - vote.end < 120
            )
        case "unanimous":
            return marker.start - vote.end < 400
        case "numbers":
            if vote.roll:
                return marker.start - vote.end < 120
            return (not vote.tally or marker.start - vote.counted_at < 160) and marker.start - vote.end < 600
        case "voted":
            return marker.start - vote.end < 400
        case _:  # a roll, which has one marker for each kind of vote
            repeated = any(kind == marker.value[0] for _, kind in vote.roll) and marker.value[1] != []
            return not repeated and marker.start - vote.end < (900 if vote.motion_by or vote.result else 250)


def _add(vote: Vote, marker: Marker) -> None:
    match marker.kind:
        case "mover":
            vote.motion_by = marker.value
        case "second":
            vote.seconded_by = marker.value
        case "result":
            vote.result = marker.value[0]
        case "unanimous":
            vote.unanimous = True
        case "voted":
            kind, people = marker.value
            named = {person.text for person, _ in vote.roll}
            vote.roll += [(person, kind) for person in people if person.text not in named]
        case "numbers":
            for key, number in marker.value.items():
                vote.tally.setdefault(key, number)
            vote.counted_at = marker.end
        case _:
            kind, people, number = marker.value
            vote.roll += [(person, kind) for person in people]
            vote.tally.setdefault(TALLY[kind], number or len(people))


def _complete(vote: Vote, text: str) -> None:
    ayes, nays = vote.tally.get("ayes"), vote.tally.get("nays")
    if vote.unanimous:
        vote.result = vote.result or "passed"
        if nays is None and not any(kind == "nay" for _, kind in vote.roll):
            vote.tally["nays"] = 0
    if vote.result is None and ayes is not None and nays is not None and vote.motion_by is not None:
        vote.result = "passed" if ayes > nays else "failed"
    if vote.motion_by is not None:
        vote.motion = _motion_text(text[vote.start : min(vote.end, vote.start + _MAX_RAW_TEXT)])


def as_dict(vote: Vote, text: str) -> dict[str, Any]:
    return {
        "motion": vote.motion,
        "motion_by": vote.motion_by.text if vote.motion_by else None,
        "seconded_by": vote.seconded_by.text if vote.seconded_by else None,
        "result": vote.result,
        "tally": {key: vote.tally.get(key) for key in ("ayes", "nays", "abstain", "absent")},
        "individual_votes": [{"name": person.text, "vote": kind} for person, kind in vote.roll],
        "raw_text": " ".join(text[vote.start : min(vote.end, vote.start + _MAX_RAW_TEXT)].split()),
    }


_MOTION_ENDS = re.compile(
    r"[.;](?= [A-Z]|$)|,? (?:and )?(?:seconded|second) (?:by|was)| (?:AYES|Ayes|Aye|YEAS|RESULT|MOVER)\b"
    r"| (?:[Tt]he )?[Mm]otion (?:was|carried|passed|failed)"
)
_PURPOSE = re.compile(r"\b(?:to|that|for) (?=[a-z])")


def _motion_text(text: str) -> str | None:
    """Return the part from `to approve …` to the end of the sentence."""
    flat = " ".join(text.split())
    match = _PURPOSE.search(flat)
    if match is None:
        return None
    rest = flat[match.start() :]
    end = _MOTION_ENDS.search(rest)
    motion = rest[: end.start() if end else 300].strip(" ,")
    return motion[:300] if len(motion) > 8 else None
