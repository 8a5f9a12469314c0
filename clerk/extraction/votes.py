"""Votes: who moved, who seconded, what became of it, how many and who.

Minutes say it in a few ways, and each way is a *sign* at a place in the text: a mover, a seconder, a result, a tally, a
roll. Signs are collected in one pass and put together in their order: a mover begins a vote, what follows within
reach belongs to it, and a result or roll without a mover is a vote of its own if it has numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from clerk.extraction.person_names import Person, Token
from clerk.extraction.vote_markers import TALLY, Marker, find_markers

_REACH = 1500
"""Characters from one sign to the next of the same vote."""
_LONGEST_RAW = 1500
_MOST = 300


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
    """Where the numbers stand; those of the next vote stand elsewhere."""

    @property
    def is_one(self) -> bool:
        decided = self.result is not None or self.unanimous
        counted = len(self.tally) > 1 or bool(self.roll) or (bool(self.tally) and decided)
        return counted or (self.motion_by is not None and (decided or self.seconded_by is not None))


def find(text: str, words: list[Token], page_end: int) -> list[Vote]:
    """Votes that begin before `page_end`; what follows is the head of the next page, where some of them end."""
    votes: list[Vote] = []
    for sign in sorted(find_markers(text, words), key=lambda one: (one.start, one.kind)):
        vote = votes[-1] if votes and sign.start - votes[-1].end <= _REACH else None
        if vote is None or _is_closed(vote, sign, text) or not _belongs(vote, sign):
            if sign.kind in ("told", "unanimous"):
                continue
            if sign.start >= page_end or len(votes) >= _MOST:
                break
            vote = Vote(sign.start, sign.end)
            votes.append(vote)
        _add(vote, sign)
        vote.end = max(vote.end, sign.end)
    found = [vote for vote in votes if vote.is_one]
    for vote in found:
        _complete(vote, text)
    return found


_NEXT_PARAGRAPH = re.compile(r"\n\n")
_NEXT_ITEM = re.compile(r"\n\(?(?:\d{1,2}|[A-Z])[.)] ")


def _is_closed(vote: Vote, sign: Marker, text: str) -> bool:
    """What was decided in one paragraph is over with it; only a roll may follow in the next."""
    if vote.result is None and not vote.unanimous:
        return False
    between = (vote.end, max(vote.end, sign.start))
    roll_follows = sign.kind in ("roll", "mover", "second", "unanimous") and sign.start - vote.end < 80
    return bool(_NEXT_ITEM.search(text, *between) or (not roll_follows and _NEXT_PARAGRAPH.search(text, *between)))


def _belongs(vote: Vote, sign: Marker) -> bool:
    match sign.kind:
        case "mover":
            near = 300 if vote.result is None else 80  # "RESULT: APPROVED", then "MOVER:"
            return vote.motion_by is None and not vote.tally and not vote.roll and sign.start - vote.end < near
        case "second":
            return (
                vote.seconded_by is None
                and not vote.roll
                and sign.start - vote.end < (900 if vote.result is None else 80)
            )
        case "result":
            if sign.value[1] and vote.tally and vote.motion_by is None:
                return False
            return vote.result is None and (
                sign.start - vote.end < 900 if vote.motion_by else sign.start - vote.end < 120
            )
        case "unanimous":
            return sign.start - vote.end < 400
        case "numbers":
            if vote.roll:
                return sign.start - vote.end < 120
            return (not vote.tally or sign.start - vote.counted_at < 160) and sign.start - vote.end < 600
        case "told":
            return sign.start - vote.end < 400
        case _:  # a roll: its kinds come one after the other
            repeated = any(kind == sign.value[0] for _, kind in vote.roll) and sign.value[1] != []
            return not repeated and sign.start - vote.end < (900 if vote.motion_by or vote.result else 250)


def _add(vote: Vote, sign: Marker) -> None:
    match sign.kind:
        case "mover":
            vote.motion_by = sign.value
        case "second":
            vote.seconded_by = sign.value
        case "result":
            vote.result = sign.value[0]
        case "unanimous":
            vote.unanimous = True
        case "told":
            kind, people = sign.value
            named = {person.text for person, _ in vote.roll}
            vote.roll += [(person, kind) for person in people if person.text not in named]
        case "numbers":
            for key, number in sign.value.items():
                vote.tally.setdefault(key, number)
            vote.counted_at = sign.end
        case _:
            kind, people, number = sign.value
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
        vote.motion = _motion(text[vote.start : min(vote.end, vote.start + _LONGEST_RAW)])


def as_dict(vote: Vote, text: str) -> dict[str, Any]:
    return {
        "motion": vote.motion,
        "motion_by": vote.motion_by.text if vote.motion_by else None,
        "seconded_by": vote.seconded_by.text if vote.seconded_by else None,
        "result": vote.result,
        "tally": {key: vote.tally.get(key) for key in ("ayes", "nays", "abstain", "absent")},
        "individual_votes": [{"name": person.text, "vote": kind} for person, kind in vote.roll],
        "raw_text": " ".join(text[vote.start : min(vote.end, vote.start + _LONGEST_RAW)].split()),
    }


_MOTION_ENDS = re.compile(
    r"[.;](?= [A-Z]|$)|,? (?:and )?(?:seconded|second) (?:by|was)| (?:AYES|Ayes|Aye|YEAS|RESULT|MOVER)\b"
    r"| (?:[Tt]he )?[Mm]otion (?:was|carried|passed|failed)"
)
_PURPOSE = re.compile(r"\b(?:to|that|for) (?=[a-z])")


def _motion(said: str) -> str | None:
    """From `to approve …` to the end of that sentence."""
    flat = " ".join(said.split())
    match = _PURPOSE.search(flat)
    if match is None:
        return None
    rest = flat[match.start() :]
    end = _MOTION_ENDS.search(rest)
    motion = rest[: end.start() if end else 300].strip(" ,")
    return motion[:300] if len(motion) > 8 else None
