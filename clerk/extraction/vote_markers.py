"""Markers of a vote in the text of minutes: mover, seconder, result, numbers, roll.

All patterns need linear time: repetitions are bounded and not nested.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from clerk.extraction.person_names import Person, Token, people_at, person_at, title_at

_MOVER = re.compile(
    r"\b(?:(?:motion(?:ed)?|moved)(?: was)?(?: made| offered)?(?: and)? by|motion of|mover|moved|motion)\b ?(:?)",
    re.IGNORECASE,
)
_MOVES = re.compile(
    r"\b(?:so )?(?:moved|motioned|made (?:a|the) motion|made motion|makes a motion|offered a motion)\b", re.IGNORECASE
)
_SECOND = re.compile(
    r"\b(?:second(?:ed)?(?: was)?(?: made)?(?: to the motion)?(?: offered)? by|seconder|seconded|second) ?:?(?= |\n)",
    re.IGNORECASE,
)
_SECONDS = re.compile(
    r"\b(?:seconded|seconds|second the motion|provided the second|made the second)\b(?! ?(?:by\b|:))", re.IGNORECASE
)
_RESULTS = {
    "passed": "passed", "carried": "passed", "approved": "passed", "adopted": "passed", "carries": "passed",
    "passes": "passed", "failed": "failed", "defeated": "failed", "fails": "failed", "denied": "failed",
    "lost": "failed", "rejected": "failed", "tabled": "tabled", "postponed": "tabled",
}  # fmt: skip
_RESULT = re.compile(
    r"\b(?:(?:motion|amendment|resolution|ordinance|question|item|vote|results?)"
    r"(?: [a-z0-9.-]{1,14}){0,3}?(?: was| is| were| has| be)? ?:? ?"
    r"(passed|carried|approved|adopted|failed|defeated|denied|carries|passes|fails|tabled|rejected|lost|postponed)"
    r"|(?:all|council|board|commission|committee|members|unanimously) (?:voted|approved|adopted|passed)"
    r"|(passed|carried|approved|adopted|failed|defeated)"
    r" (?:unanimously|by (?:a |the )?(?:unanimous|following|voice|roll|vote)|on a|[(\[]?\d)"
    r"|(passed|adopted|approved|failed|defeated|lost)\. (?=yeas|ayes))",
    re.IGNORECASE,
)
_UNANIMOUS = re.compile(
    r"\bunanimous(?:ly)?\b|\ball (?:in favou?r|ayes|present voted|members voted|voted (?:aye|yes|in favou?r))\b",
    re.IGNORECASE,
)
_NUMBERS = re.compile(
    r"\b(?:carried|passed|approved|adopted|failed|defeated|denied|vote[ds]?|motion|unanimous(?:ly)?|yeas?|tally)\b"
    r"([^.\n\d]{0,30}[ (\[:])(\d{1,2}) ?(?:-to-|to|-) ?(\d{1,2})(?: ?(?:-to-|to|-) ?(\d{1,2}))?(?![\d/-]|[.:]\d)",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\b(?:(ayes?|yeas?|yes|in favou?r)|(nays?|noes|no|opposed|against)"
    r"|(abstain(?:ed|ing|s)?|abstentions?)|(absent|excused))"
    r"(?: votes?)? ?[:=-]? ?\(?(\d{1,2})\)?(?![\d/:-])",
    re.IGNORECASE,
)
_COUNTED_BEFORE = re.compile(
    r"\b(\d{1,2}|one|two|three|four|five|six|seven|eight|nine|ten|zero|no) "
    r"(?:(ayes?|yeas?|in favou?r|for|yes)|(nays?|noes|opposed|against)"
    r"|(abstain(?:ed|ing)?|abstentions?)|(absent|excused))\b",
    re.IGNORECASE,
)
_NUMBER_WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS_BY_WORD = {word: number for number, word in enumerate(_NUMBER_WORDS)} | {"no": 0}
_ROLL = re.compile(
    r"(?<!\w)(?:(ayes?|yeas?|voting (?:aye|yes|yea|in favou?r)|in favou?r|yes|for)"
    r"|(nays?|noes?|voting (?:nay|no)|opposed|against|no|dissenting)"
    r"|(abstain(?:ed|ing|s)?|abstentions?|recused|recuse|present)|(absent|excused|not voting|away))"
    r" ?(?:\(\d{1,2}\) ?)?(?::|- |(?= ?\d{1,2} - ))",
    re.IGNORECASE,
)
_AMBIGUOUS_LABELS = frozenset(
    {
        "yes",
        "no",
        "for",
        "against",
        "opposed",
        "in favor",
        "in favour",
        "present",
        "excused",
        "away",
        "absent",
        "not voting",
    }
)
"""Labels with other meanings too. They count after an unambiguous label, with a number, or as `yes` before a `no`."""
_BALLOT = re.compile(r"^(?:(ayes?|yeas?|yes)|(nays?|no)|(abstain(?:ed|s)?|recused?)|(absent|excused))$", re.IGNORECASE)
_MAX_VOTERS = 200
_KINDS = ("aye", "nay", "abstain", "absent")
TALLY = {"aye": "ayes", "nay": "nays", "abstain": "abstain", "absent": "absent"}
_NO_VOTERS = frozenset({"none", "none.", "n/a", "0", "nobody", "zero", "nil"})
_REFERENCE_BEFORE_NUMBER = re.compile(
    r"\b(?:ordinance|resolution|bill|item|section|case|file|no|number|res|ord|chapter|page|agenda|lot|phase|pm|am|at"
    r"|ward|district|zone|on|from)\W*$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Marker:
    """A statement about a vote, and its position."""

    start: int
    end: int
    kind: str
    value: Any


def find_markers(text: str, words: list[Token]) -> Iterator[Marker]:
    starts = [word.start for word in words]

    def index(position: int) -> int:
        return bisect.bisect_left(starts, position)

    yield from _find_people(text, words, index, _MOVER, _MOVES, "mover")
    yield from _find_people(text, words, index, _SECOND, _SECONDS, "second")
    for match in _RESULT.finditer(text):
        word = (match[1] or match[2] or match[3] or "passed").lower()
        # "Passed. Yeas 21": the numbers after the result belong to it, those before it to another vote.
        yield Marker(match.start(), match.end(), "result", (_RESULTS[word], match[3] is not None))
    for match in _UNANIMOUS.finditer(text):
        yield Marker(match.start(), match.end(), "unanimous", True)
    for match in _NUMBERS.finditer(text):
        if not _REFERENCE_BEFORE_NUMBER.search(match[1]):
            values = {"ayes": int(match[2]), "nays": int(match[3])} | ({"abstain": int(match[4])} if match[4] else {})
            yield Marker(match.start(2), match.end(), "numbers", values)
    yield from _find_counts(text)
    yield from _find_rolls(text, words, index)
    yield from _find_ballots(words)
    yield from _voters_in_prose(text, words, index)


def _find_people(
    text: str, words: list[Token], index: Callable[[int], int], label: re.Pattern[str], verb: re.Pattern[str], kind: str
) -> Iterator[Marker]:
    for match in label.finditer(text):
        at = index(match.end())
        while at < len(words) and words[at].text in (":", "\n"):
            at += 1
        if at < len(words) and words[at].start - match.end() > 4:
            continue
        bare = match[0].lower().strip(" :") in ("motion", "moved", "second") and ":" not in match[0]
        if bare and title_at(words, at) is None:
            continue
        person = person_at(words, at)
        if person is not None:
            yield Marker(match.start(), words[person.end - 1].end, kind, person)
    for match in verb.finditer(text):
        at = index(match.start())
        person = _person_before(words, at)
        # "Price, seconded by Cutler, moved": the mover is Price.
        if (
            person is not None
            and person.start > 1
            and words[person.start - 1].lower == "by"
            and words[person.start - 2].lower == "seconded"
        ):
            person = _person_before(words, person.start - 2) if kind == "mover" else None
        if person is not None:
            yield Marker(words[person.start].start, match.end(), kind, person)


def _person_before(words: list[Token], at: int) -> Person | None:
    """Return the person whose name ends before a token: `Council Member Jane Smith` moved."""
    while at > 0 and (words[at - 1].text in ("\n", ",") or words[at - 1].lower in ("then", "also", "who", "has", "so")):
        at -= 1
    best = None
    for start in range(max(0, at - 7), at):
        if words[start].text in ("\n", ",") or words[start].lower in ("and", "by"):
            continue
        person = person_at(words, start)
        if person is not None and person.end == at:
            best = person
            break
    # A single short word before "moved" may be anything: "It moved".
    return best if best is not None and (best.titled or best.is_full or len(best.text) > 2) else None


def _find_counts(text: str) -> Iterator[Marker]:
    for pattern, groups, number in ((_COUNTED, (1, 2, 3, 4), 5), (_COUNTED_BEFORE, (2, 3, 4, 5), 1)):
        for match in pattern.finditer(text):
            kind = next(kind for kind, group in zip(_KINDS, groups, strict=True) if match[group])
            label = match[groups[_KINDS.index(kind)]].lower()
            if label in ("no", "for", "yes", "against", "absent", "excused") and pattern is _COUNTED:
                continue
            count = _NUMBERS_BY_WORD.get(match[number].lower())
            yield Marker(
                match.start(), match.end(), "numbers", {TALLY[kind]: int(match[number]) if count is None else count}
            )


def _find_rolls(text: str, words: list[Token], index: Callable[[int], int]) -> Iterator[Marker]:
    labels_until = -1
    for match in _ROLL.finditer(text):
        kind = next(kind for kind, group in zip(_KINDS, match.groups(), strict=True) if group)
        label = next(group for group in match.groups() if group).lower()
        counted = re.match(r" ?\d{1,2} - ", text[match.end() : match.end() + 8]) is not None and label != "present"
        if (
            label in _AMBIGUOUS_LABELS
            and match.start() > labels_until
            and not counted
            and not _opens_roll(label, text, match.end())
        ):
            continue
        at = index(match.end())
        number = None
        while at < len(words) and words[at].text in (":", "\n", "-", "("):
            at += 1
        if at < len(words) and words[at].text.isdecimal() and len(words[at].text) <= 2:
            number = int(words[at].text)
            at += 1
            while at < len(words) and words[at].text in ("-", ")", ":"):
                at += 1
        is_empty = at < len(words) and words[at].lower in _NO_VOTERS
        people, end = ([], at + 1) if is_empty else people_at(words, at)
        if not people and not is_empty and number is None:
            continue
        labels_until = words[min(end, len(words)) - 1].end + 120 if words else match.end()
        yield Marker(match.start(), words[min(end, len(words)) - 1].end, "roll", (kind, people, number))


_OTHER_SIDE = re.compile(r"\b(?:no|against|opposed) ?:", re.IGNORECASE)


def _opens_roll(label: str, text: str, at: int) -> bool:
    """Whether a label starts a roll: `Yes:` and `For:` do only if `No:` or `Against:` follows."""
    return label in ("yes", "for", "in favor", "in favour") and _OTHER_SIDE.search(text, at, at + 400) is not None


_VOTED = re.compile(
    r"\b(?:(?:voting|voted) ['\"]?(?:(aye|yes|yea|in favou?r)|(nay|no|against|in opposition))"
    r"|(dissenting|dissented|opposed)|(abstained|abstaining|recused))\b",
    re.IGNORECASE,
)


def _voters_in_prose(text: str, words: list[Token], index: Callable[[int], int]) -> Iterator[Marker]:
    """Find `with Commissioners Lee and Ruiz voting aye and Commissioner Frost voting no`."""
    for match in _VOTED.finditer(text):
        at = index(match.start())
        people = _group_before(words, at)
        if people:
            kind = "aye" if match[1] else "nay" if match[2] or match[3] else "abstain"
            yield Marker(words[people[0].start].start, match.end(), "voted", (kind, people))


def _group_before(words: list[Token], at: int) -> list[Person]:
    for start in range(at - 1, max(-1, at - 60), -1):
        if words[start].lower in (
            "commissioners",
            "councilmembers",
            "councilmen",
            "supervisors",
            "trustees",
            "members",
            "aldermen",
        ):
            if start and words[start - 1].lower in ("council", "board", "committee"):
                start -= 1
            people, end = people_at(words, start)
            if end == at:
                return people
            break
        if words[start].text == "\n" or words[start].text.endswith("."):
            break
    person = _person_before(words, at)
    return [person] if person is not None and person.titled else []


def _find_ballots(words: list[Token]) -> Iterator[Marker]:
    """Find `Smith - aye; Jones - no`, in one line or a line each, with at least three names."""
    at = 0
    run: list[tuple[Person, str, int, int]] = []
    last_end = -1
    while at < len(words):
        match = _BALLOT.match(words[at].text.rstrip(".,;"))
        if match is None or at == 0:
            at += 1
            continue
        before = at
        while (before > 0 and words[before - 1].text in ("-", ":", ",", "(", "…")) or (
            before > 0 and set(words[before - 1].text) <= {".", "_", "-"}
        ):
            before -= 1
        voted = words[before:at] != [] or words[at].text[0].isupper()
        person = _person_before(words, before) if voted else None
        if person is None or (before and words[before - 1].text == "\n"):
            at += 1
            continue
        kind = next(kind for kind, group in zip(_KINDS, match.groups(), strict=True) if group)
        if run and words[person.start].start - last_end > 12:
            yield from _as_rolls(run)
            run = []
        run.append((person, kind, words[person.start].start, words[at].end))
        last_end = words[at].end
        at += 1
    yield from _as_rolls(run)


def _as_rolls(run: list[tuple[Person, str, int, int]]) -> Iterator[Marker]:
    if len(run) < 3:
        return
    for kind in _KINDS:
        people = [person for person, voted, _, _ in run if voted == kind][:_MAX_VOTERS]
        if people:
            yield Marker(run[0][2], run[-1][3], "roll", (kind, people, None))
