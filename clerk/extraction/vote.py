"""A vote while its markers are collected, and the rules for its result."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from clerk.extraction.marker import TALLY, Marker, Result
from clerk.extraction.person_names import Person

_SUPERMAJORITY = re.compile(
    r"\b(?:two[- ]thirds|suspen\w{1,5} (?:of )?the rules|three[- ](?:fifths|fourths|quarters)|four[- ]fifths"
    r"|super[- ]?majority|2/3|3/4|3/5|4/5"
    r"|affirmative votes? (?:is|are|were)"
    r"|votes? (?:needed|required|necessary)|mayoría cualificada)\b",
    re.IGNORECASE,
)


@dataclass
class Vote:
    start: int
    end: int
    motion: str | None = None
    motion_by: Person | None = None
    seconded_by: Person | None = None
    is_anonymous: bool = False
    """Whether there is a motion without a named mover."""
    calls: bool = False
    result: str | None = None
    tentative: str | None = None
    """An outcome that counts only if the tally agrees."""
    is_stated: bool = False
    """Whether a statement shows the vote by itself."""
    is_table: bool = False
    unanimous: bool = False
    has_exceptions: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    """Numbers that the text states."""
    has_pair: bool = False
    """Whether ayes and nays were stated together, as in "4-1"."""
    counts: dict[str, int] = field(default_factory=dict)
    """Numbers of the names in rolls."""
    is_cut_off: bool = False
    """Whether the text ends after the roll call was announced."""
    roll: list[tuple[Person, str]] = field(default_factory=list)
    roll_kinds: list[str] = field(default_factory=list)
    is_void: bool = False
    is_contradictory: bool = False
    resumed: Vote | None = None
    markers: list[Marker] = field(default_factory=list)

    @property
    def has_motion(self) -> bool:
        return self.motion_by is not None or self.seconded_by is not None or self.is_anonymous

    @property
    def is_decided(self) -> bool:
        return bool(self.result or self.tentative or self.unanimous or self.numbers or self.roll_kinds)

    @property
    def tally(self) -> dict[str, int]:
        """Numbers in the text take precedence over counted names."""
        return self.counts | self.numbers

    def counted_after(self, kind: str) -> bool:
        """Whether another kind of vote follows the roll of this kind."""
        return bool(self.roll_kinds) and self.roll_kinds[-1] != kind

    @property
    def is_vote(self) -> bool:
        """Whether the markers are enough evidence of a vote. A motion that nothing decides is not a vote."""
        if self.is_void and not self.result:
            return False
        counted = len(self.tally) > 1 or ("ayes" in self.tally and self.tally["ayes"] > 0)
        decided = bool(
            self.result or self.unanimous or self.has_exceptions or counted or (self.tentative and self.tally)
        )
        if self.has_motion and self.is_cut_off:
            return True
        if self.has_motion:
            return decided or "nays" in self.tally
        if self.is_stated:
            return True
        if self.roll_kinds and not self.numbers and not self.result and not self.calls and len(self.roll) < 3:
            return False  # "In favor: Womack. Opposed: Castellano": residents
        if self.roll_kinds:
            return "aye" in self.roll_kinds and (len(self.roll) > 1 or len(self.tally) > 1 or bool(self.result))
        if self.calls:
            return decided
        return {"ayes", "nays"} <= set(self.numbers) or ("ayes" in self.numbers and bool(self.result))

    def add(self, marker: Marker) -> None:
        self.markers.append(marker)
        match marker.kind:
            case "mover":
                if marker.value is None:
                    self.is_anonymous = True
                else:
                    self.motion_by = self.motion_by or marker.value
            case "second":
                self.seconded_by = self.seconded_by or marker.value
            case "call":
                self.calls = True
            case "result":
                self._add_result(marker.value)
            case "unanimous":
                if marker.value:
                    self.unanimous = True
                else:
                    self.has_exceptions = True
                    self.tentative = self.tentative or "passed"
            case "numbers":
                is_pair = len(marker.value) > 1
                for key, number in marker.value.items():
                    if is_pair and not self.has_pair:
                        self.numbers[key] = number
                    self.numbers.setdefault(key, number)
                self.has_pair = self.has_pair or is_pair
            case "roll":
                self._add_roll(*marker.value)
            case "voted":
                kind, people = marker.value
                self._add_people(kind, people)
            case _:
                self.is_void = True

    def _add_result(self, result: Result) -> None:
        if result.is_tentative:
            self.tentative = self.tentative or result.value
        else:
            self.result = self.result or result.value
        self.is_stated = self.is_stated or result.creates
        self.is_table = self.is_table or result.is_label

    def _add_roll(self, kind: str, people: list[Person], number: int | None) -> None:
        self._add_people(kind, people)
        self.roll_kinds.append(kind)
        if number is not None:
            self.numbers.setdefault(TALLY[kind], number)
        self.counts[TALLY[kind]] = self.counts.get(TALLY[kind], 0) + len(people)

    def _add_people(self, kind: str, people: list[Person]) -> None:
        named = {person.text for person, _ in self.roll}
        self.roll += [(person, kind) for person in people if person.text not in named]


def complete(vote: Vote, context: str) -> None:
    """Derive the result from the tally where the text states none, and mark contradictions.

    In doubt the result stays empty: a tie, abstentions that may count against the motion, a qualified majority.
    """
    tally = vote.tally
    ayes, nays = tally.get("ayes"), tally.get("nays")
    others = tally.get("abstain") or 0
    named_against = any(kind == "nay" for _, kind in vote.roll)
    needs_more = _SUPERMAJORITY.search(context) is not None
    leading = ayes is not None and ayes > (nays or 0)
    losing = nays is not None and nays > 0 and (ayes or 0) <= nays
    if vote.result is None and vote.tentative is not None:
        if vote.has_exceptions and not losing:
            vote.result = vote.tentative
        elif vote.tentative == "failed" and losing and ayes != nays:
            vote.result = "failed"
    if vote.result is None and vote.unanimous and not losing and not named_against:
        vote.result = "passed"
    if vote.result is None and ayes is not None and vote.tentative is None:
        if losing and ayes < (nays or 0) and nays is not None:
            vote.result = "failed"
        elif leading and ayes > (nays or 0) + others and not needs_more:
            vote.result = "passed"
    if vote.unanimous and nays is None and not named_against:
        vote.numbers["nays"] = 0
    if vote.result == "passed":
        vote.is_contradictory = losing or (vote.unanimous and bool(nays) and vote.is_stated)
    elif vote.result == "failed" and ayes is not None and (nays is not None or vote.roll_kinds):
        outvoted = ayes > (nays or 0) + others + (tally.get("absent") or 0)
        vote.is_contradictory = outvoted and not needs_more
