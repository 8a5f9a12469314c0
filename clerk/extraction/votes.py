"""Votes: motion, mover, seconder, result, tally and individual votes.

The markers of a page are read in their order. A mover opens a motion; an outcome, numbers or a roll decide it. A
motion that nothing decides is not a vote. A motion that waits for the vote on its amendment is resumed afterwards.
"""

from __future__ import annotations

import re
from typing import Any

from clerk.extraction.marker import TALLY, Marker, Result
from clerk.extraction.motion_text import ABBREVIATION, find_motion
from clerk.extraction.titles import HONORIFIC_MARK
from clerk.extraction.tokens import Token
from clerk.extraction.vote import Vote, complete
from clerk.extraction.vote_markers import find_markers

_MAX_RAW_TEXT = 1500
_MAX_VOTES = 300
_MAX_PENDING = 8
_ITEM = re.compile(
    r"\n\(?(?:\d{1,3}|[A-Z]|[ivxIVX]{1,4})[.)](?:\d{0,3}\.?)? ?[A-Z\n]|\n(?:ASUNTO|PUNTO|ITEM|Item|Agenda Item"
    r"|Resolution|RESOLUTION|Article|ARTICLE)(?: NO\.?| No\.?)? ?[#\dIVX]"
    r"|\n\d{1,2}[ºª°]?\.?-|\n\d{2,4}(?:[-/]\d{1,4})? [A-Z]|\n\d{1,2}[A-Z]\. "
)
_END_OF_PAGE = re.compile(r"[^\n]{0,40}(?:\n[^\n]{0,120}){0,3}\s*$")
"""A footer at most."""
_SENTENCE = re.compile(r"[.!?](?= |\n|$)|\n")
_REFERENCE = re.compile(r"\b\d[\d-]{1,12}\b")
_MAIN_MOTION = re.compile(r"\b(?:main|original|primary|underlying) (?:motion|question)\b|\bas amended\b", re.IGNORECASE)
_AMENDING = re.compile(r"\bamend", re.IGNORECASE)


def find_votes(text: str, words: list[Token], page_end: int, skip: int = 0) -> tuple[list[Vote], int]:
    """Return the votes that start before `page_end`, and where the last of them ends.

    The text after `page_end` is the next page, where a vote may end. The text before `skip` belongs to a vote of the
    previous page.
    """
    assembly = _Assembly(text, page_end)
    markers = [marker for marker in find_markers(text, words) if marker.start >= skip]
    for index, marker in enumerate(markers):
        following = _following(markers, index)
        if not assembly.add(marker, following):
            break
    last = assembly.current
    if last is not None and last.calls and not last.is_void and _END_OF_PAGE.match(text, last.end):
        last.is_cut_off = True
    votes = [vote for vote in assembly.votes if vote.is_vote]
    previous_end = skip
    for vote in votes:
        complete(vote, text[max(0, vote.start - 100) : vote.end + 200])
        vote.motion = find_motion(text, vote, previous_end)
        previous_end = vote.end
    return votes, max((vote.end for vote in votes), default=0)


def _following(markers: list[Marker], index: int) -> Marker | None:
    """Return the next marker that is not another form of the same outcome."""
    marker = markers[index]
    for other in markers[index + 1 : index + 6]:
        if other.kind not in ("result", "unanimous") or other.start > marker.end + 3:
            return other
    return None


class _Assembly:
    """Combines markers into votes."""

    def __init__(self, text: str, page_end: int) -> None:
        self.text = text
        self.page_end = page_end
        self.votes: list[Vote] = []
        self.pending: list[Vote] = []
        self.current: Vote | None = None

    def add(self, marker: Marker, following: Marker | None) -> bool:
        """Add a marker. False if a vote would start on the next page."""
        vote = self.current
        if vote is not None and self._join(vote, marker, following):
            vote.end = max(vote.end, marker.end)
            return True
        if not self._starts_vote(marker, following):
            return True
        if marker.start >= self.page_end or len(self.votes) >= _MAX_VOTES:
            return False
        if vote is not None and not vote.is_decided and not vote.is_void and vote.has_motion:
            self.pending = [*self.pending[1 - _MAX_PENDING :], vote]
        new = Vote(marker.start, marker.end)
        if marker.kind not in ("mover", "second"):
            new.start = self._sentence_start(marker, vote.end if vote is not None else 0)
            self._resume(new, marker, vote)
        self._put(new, marker)
        self.votes.append(new)
        self.current = new
        return True

    def _starts_vote(self, marker: Marker, following: Marker | None) -> bool:
        if marker.kind == "result":
            # "Failed. Yeas 12, Nays 9": a bare word states the outcome of the numbers after it.
            is_counted = (
                following is not None and following.kind in ("numbers", "roll") and following.start - marker.end < 40
            )
            return bool(marker.value.creates or marker.value.is_label or (is_counted and not marker.value.adjacent))
        if marker.kind == "call":
            return marker.value is not None
        return marker.kind in ("mover", "second", "roll", "numbers")

    def _join(self, vote: Vote, marker: Marker, following: Marker | None) -> bool:
        """Add the marker to the vote if it belongs to it."""
        gap = marker.start - vote.end
        is_apart = gap > 0 and _ITEM.search(self.text, max(0, vote.end - 1), marker.start + 1) is not None
        belongs = {
            "mover": self._joins_mover,
            "second": self._joins_second,
            "call": self._joins_call,
            "result": self._joins_result,
            "unanimous": self._joins_unanimous,
            "numbers": self._joins_numbers,
            "roll": self._joins_roll,
            "voted": self._joins_voted,
            "void": self._joins_void,
        }[marker.kind](vote, marker, gap, is_apart, following)
        if belongs:
            self._put(vote, marker)
        return belongs

    def _joins_mover(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        if vote.is_void:
            return False
        if vote.is_decided:
            return vote.is_table and vote.motion_by is None and gap < 120 and not is_apart
        if marker.value is None:
            return vote.has_motion and gap < 400 and not is_apart
        if vote.motion_by is None:
            return gap < 400 and not is_apart
        return vote.motion_by.text == marker.value.text and vote.seconded_by is None and gap < 300

    def _joins_second(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        if vote.is_void:
            return False
        if vote.is_decided:
            return vote.seconded_by is None and vote.is_table and gap < 120 and not is_apart
        return gap < 1500

    def _joins_call(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        if vote.is_void:
            return False
        if not vote.is_decided:
            return gap < 6000 and not (is_apart and not vote.has_motion)
        return not marker.value and gap < 60 and not is_apart

    def _joins_result(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, following: Marker | None) -> bool:
        result: Result = marker.value
        if vote.is_void:
            return False
        if result.adjacent:
            return not vote.is_decided and vote.has_motion and 0 <= gap <= 3
        if not vote.is_decided:
            if vote.has_motion:
                return gap < (6000 if result.creates else 1500 if result.is_label else 900)
            return gap < 600 and not is_apart
        if vote.result is None:
            return gap < 400 and not is_apart
        if result.value != vote.result:
            return gap < 100 and not result.creates and not is_apart
        if is_apart or gap > 400 or (result.is_label and gap > 2):
            return False
        # A restated outcome, unless its own roll follows: "Carried. Ayes: … Carried. Ayes: …".
        has_own_roll = (
            following is not None and following.kind in ("roll", "numbers") and following.start - marker.end < 60
        )
        return not (has_own_roll and (vote.roll or vote.numbers) and gap > 2)

    def _joins_unanimous(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        if vote.is_void or is_apart:
            return False
        return gap < (900 if vote.has_motion and not vote.is_decided else 250)

    def _joins_numbers(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        values: dict[str, int] = marker.value
        if vote.is_void:
            return False
        if not vote.is_decided:
            return gap < (2500 if vote.has_motion or vote.calls else 300) and not (is_apart and gap > 900)
        if all(vote.tally.get(key) == number for key, number in values.items()) and (len(values) > 1 or vote.has_pair):
            return gap < 250 and not is_apart
        counted = {key: vote.tally[key] for key in values if key in vote.counts}
        if (
            counted
            and (len(values) == 1 or gap > 120)
            and any(values[key] != number for key, number in counted.items())
        ):
            return False
        if vote.has_pair or (vote.numbers and not vote.roll):
            return not set(values) & set(vote.numbers) and gap < 200 and not is_apart
        if vote.roll and gap > 120:
            return False
        return gap < 250 and not is_apart

    def _joins_roll(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        kind, people, number = marker.value
        if vote.is_void:
            return False
        if kind in vote.roll_kinds:
            is_same_list = bool(people) and gap < 30 and not vote.counted_after(kind)
            return is_same_list and not is_apart
        stated = vote.numbers.get(TALLY[kind])
        if stated is not None and (number if number is not None else len(people)) != stated and gap > 60 and vote.roll:
            return False
        if not vote.is_decided:
            return gap < (2500 if vote.has_motion or vote.calls else 250)
        return gap < (400 if not vote.roll else 250) and not is_apart

    def _joins_voted(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        if vote.is_void or is_apart:
            return False
        kind, _people = marker.value
        if "\n\n" in self.text[max(0, vote.end - 1) : marker.start]:
            return False
        near = 150 if kind == "absent" else 300
        return (vote.is_decided or (kind != "absent" and vote.has_motion)) and gap < near

    def _joins_void(self, vote: Vote, marker: Marker, gap: int, is_apart: bool, _: Marker | None) -> bool:
        return not vote.is_decided and gap < 1500

    def _put(self, vote: Vote, marker: Marker) -> None:
        vote.add(marker)

    def _resume(self, new: Vote, marker: Marker, previous: Vote | None) -> None:
        """Give a vote without mover the motion that waited for it, if the text refers to it."""
        if not self.pending:
            return
        sentence = self.text[new.start : marker.end + 60]
        references = set(_REFERENCE.findall(sentence))
        was_amendment = previous is not None and _AMENDING.search(self.text, previous.start, previous.end) is not None
        for vote in reversed(self.pending):
            own = self.text[vote.start : min(vote.end + 300, marker.start)]
            if (
                (references & set(_REFERENCE.findall(own)))
                or _MAIN_MOTION.search(sentence)
                or (was_amendment and "motion" in sentence.lower())
            ):
                new.motion_by, new.seconded_by, new.resumed = vote.motion_by, vote.seconded_by, vote
                self.pending.remove(vote)
                return

    def _sentence_start(self, marker: Marker, after: int) -> int:
        start = max(after, marker.start - 250)
        ends = [
            match.end()
            for match in _SENTENCE.finditer(self.text, start, marker.start)
            if not ABBREVIATION.search(self.text, max(0, match.start() - 8), match.start())
        ]
        start = ends[-1] if ends else start
        while start < marker.start and not self.text[start].isalnum() and self.text[start] not in "([":
            start += 1
        return start


def as_dict(vote: Vote, text: str) -> dict[str, Any]:
    found = {
        "motion": vote.motion.replace(HONORIFIC_MARK, "") if vote.motion else None,
        "motion_by": vote.motion_by.text if vote.motion_by else None,
        "seconded_by": vote.seconded_by.text if vote.seconded_by else None,
        "result": vote.result or "",
        "tally": {key: vote.tally.get(key) for key in ("ayes", "nays", "abstain", "absent")},
        "individual_votes": [{"name": person.text, "vote": kind} for person, kind in vote.roll],
        "raw_text": " ".join(
            text[vote.start : min(vote.end, vote.start + _MAX_RAW_TEXT)].replace(HONORIFIC_MARK, "").split()
        ),
    }
    return found | ({"contradictory": True} if vote.is_contradictory else {})
