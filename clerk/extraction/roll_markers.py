"""Markers of individual votes: rolls ("Ayes: Lee, Ruiz"), ballots ("Lee - aye"), and voters in prose ("with Lee
voting no").

All patterns need linear time: repetitions are bounded and not nested.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence

from clerk.extraction.marker import KINDS, Marker, Page
from clerk.extraction.outcome_markers import NUMBER_WORDS
from clerk.extraction.person_names import Person, people_at, person_before
from clerk.extraction.tokens import Token

_AYE = (
    r"ayes?|yeas?|yeahs?|yes(?:es)?|(?:voting|voted) (?:aye|yes|yea|in favou?r|for|in the affirmative)|in favou?r"
    r"|affirmative|for"
)
_NAY = (
    r"nays?|noes?|nos?|(?:voting|voted) (?:nay|no|against|in opposition|in the negative)|opposed|against|dissenting"
    r"|negative"
    r"|opposing"
)
_ABSTAIN = r"abstain(?:ed|ing|s)?|abstentions?|recused?|recusals?|present"
_ABSENT = r"absent|excused|not voting|not present(?: at(?: the)?(?: time of)? vote| for(?: the)? vote)?|away|absences?"
_ROLL = re.compile(
    rf"(?<![\w-])(?:({_AYE})|({_NAY})|({_ABSTAIN})|({_ABSENT}))(?: votes?)?"
    r" ?(?:[(\[]\d{1,2}[)\]] ?)?(?:[:;=]|-(?= |[A-Z]|\d)|(?= ?\d{1,2} (?:- |(?-i:[A-Z][a-z])))|(?=[ \n][A-Z][a-z]))",
    re.IGNORECASE,
)
_STRONG_LABEL = re.compile(r"(?:ayes|yeas|yeahs?|nays|noes|abstain|abstentions|absent)$", re.IGNORECASE)
_AMBIGUOUS_LABELS = frozenset(
    {
        "yes", "no", "for", "against", "opposed", "in favor", "in favour", "present", "excused", "away", "absent",
        "absence",
        "absences", "not voting", "not present", "affirmative", "negative", "nos", "opposing",
    }
)  # fmt: skip
"""Labels with other meanings too. They count after another label, with a number, or as `yes` before a `no`."""
_NO_VOTERS = frozenset(
    {"none", "none.", "n/a", "0", "nobody", "zero", "nil", "-0-", "no", "0.", "none,", "no-one", "ninguno"}
)
_ALL_VOTERS = frozenset({"all", "all.", "unanimous", "unanimous.", "everyone", "all,", "all;"})
_OTHER_SIDE = re.compile(
    r"(?<![\w-])(?:no|nos|nays?|noes|against|opposed|absent|abstain(?:ed|ing)?)(?: ?\(\d{1,2}\))? ?[:;=-]",
    re.IGNORECASE,
)
_COUNTED = re.compile(r" ?\d{1,2} ?(?:-|\()")
_LABEL_DISTANCE = 160


def find_rolls(page: Page) -> Iterator[Marker]:
    ballots = list(_ballots(page))
    yield from ballots
    spans = [(ballot.start, ballot.end) for ballot in ballots]
    for marker in (*_labelled_rolls(page), *_numbered_rolls(page), *_bracketed_names(page), *_voters_in_prose(page)):
        index = bisect.bisect_right(spans, (marker.start, len(page.text) + 1)) - 1
        if index < 0 or marker.start >= spans[index][1]:
            yield marker


def _labelled_rolls(page: Page) -> Iterator[Marker]:
    text, words = page.text, page.words
    labels_until = -1
    for match in _ROLL.finditer(text):
        kind = next(kind for kind, group in zip(KINDS, match.groups(), strict=True) if group)
        label = next(group for group in match.groups() if group).lower()
        is_bare = match[0][-1].isalpha() or match[0][-1] in ")]"
        if is_bare and not (match[0][0].isupper() and _STRONG_LABEL.match(label)):
            continue
        needs_two = is_bare and not _starts_clause(text, match.start())
        follows_label = match.start() <= labels_until
        if is_bare and label == "absent" and not follows_label:
            continue
        counted = _COUNTED.match(text, match.end(), match.end() + 8) is not None and label != "present"
        if (
            label in _AMBIGUOUS_LABELS
            and not follows_label
            and not counted
            and not _opens_roll(label, text, match.end())
        ):
            continue
        if label == "present" and not follows_label:
            continue
        at, number, is_closed = _stated_number(page, page.index(match.end()))
        following = words[at].lower if at < len(words) else ""
        if following in _ALL_VOTERS and kind == "aye":
            labels_until = words[at].end + _LABEL_DISTANCE
            yield Marker(match.start(), words[at].end, "unanimous", True)
            continue
        is_empty = following in _NO_VOTERS and number is None
        people, end = ([], at + 1) if is_empty else ([], at) if is_closed else people_at(words, at, limit=number or 120)
        if is_bare and len(people) < 1 + needs_two:
            continue
        if not people and not is_empty and number is None:
            continue
        last = words[min(max(end, at, 1), len(words)) - 1].end
        if (
            number is None
            and not is_empty
            and end + 2 < len(words)
            and words[end].text == "("
            and words[end + 2].text == ")"
        ):
            number = (
                int(words[end + 1].text) if words[end + 1].text.isdecimal() and len(words[end + 1].text) < 3 else None
            )
        labels_until = last + _LABEL_DISTANCE
        yield Marker(match.start(), max(match.end(), last), "roll", (kind, people, 0 if is_empty else number))


def _stated_number(page: Page, at: int) -> tuple[int, int | None, bool]:
    """Return the token after a number such as `4 -`, `(4)` or `4 (`, the number, and whether no names can follow."""
    words, number = page.words, None
    start = at
    while at < len(words) and words[at].text in (":", ";", "\n", "-", "(", "[", "=") and at - start < 4:
        at += 1
    if at < len(words) and (bare := words[at].text.rstrip(".")).isdecimal() and len(bare) <= 2:
        ends = words[at].text.endswith(".")
        number = int(bare)
        at += 1
        while not ends and at < len(words) and words[at].text in ("-", ")", "]", ":", "("):
            at += 1
        if ends or number == 0:
            return at, number, True
        if at < len(words) and words[at].text == "\n" and at + 1 < len(words) and words[at + 1].text in ("(", "["):
            at += 2
    return at, number, False


def _starts_clause(text: str, at: int) -> bool:
    before = text[max(0, at - 2) : at].rstrip(" ")
    return not before or before[-1] in ".;:,([\n"


def _opens_roll(label: str, text: str, at: int) -> bool:
    """Whether a label starts a roll: `Yes:` and `For:` do only if `No:` or `Against:` follows."""
    return (
        label in ("yes", "for", "in favor", "in favour", "affirmative")
        and _OTHER_SIDE.search(text, at, at + 400) is not None
    )


_NUMBERED = re.compile(
    r"\b(\d{1,2}|" + "|".join(NUMBER_WORDS) + r")(?: \(\d{1,2}\))? (?:votes? )?"
    r"(?:(in favou?r|ayes?|yeas?|yes|for)|(opposed|against|nays?|noes|dissenting|no)|(abstain(?:ed|ing)?|abstentions?)"
    r"|(absent|excused))(?: votes?)? ?[(\[](?=[A-Z])",
    re.IGNORECASE,
)


_NAMES_BETWEEN = re.compile(
    r"\b(\d{1,2}|"
    + "|".join(NUMBER_WORDS)
    + r") \((?=[A-Z])([^()\n]{2,300})\) (?:(in favou?r|ayes?|yeas?|yes|for)|(opposed|against|nays?|noes|dissenting|no)"
    r"|(abstain(?:ed|ing)?|abstentions?)|(absent|excused))\b",
    re.IGNORECASE,
)


def _numbered_rolls(page: Page) -> Iterator[Marker]:
    """Find `13 in favor (Archer, Pham) and 1 opposed (Vance)`, also `2 (Archer, Pham) against`."""
    for match in _NAMES_BETWEEN.finditer(page.text):
        people, _ = people_at(page.words, page.index(match.start(2)), limit=120)
        if people:
            kind = next(kind for kind, group in zip(KINDS, match.groups()[2:], strict=True) if group)
            number = NUMBER_WORDS.get(match[1].lower())
            yield Marker(
                match.start(), match.end(), "roll", (kind, people, int(match[1]) if number is None else number)
            )
    for match in _NUMBERED.finditer(page.text):
        people, end = people_at(page.words, page.index(match.end()), limit=120)
        if people:
            kind = next(kind for kind, group in zip(KINDS, match.groups()[1:], strict=True) if group)
            number = NUMBER_WORDS.get(match[1].lower())
            stated = int(match[1]) if number is None else number
            yield Marker(match.start(), page.words[end - 1].end, "roll", (kind, people, stated))


_ALL_OF = re.compile(
    r"\bunanimous(?:ly)? ?(?:by |: ?|- ?)?[(\[](?=[A-Z])|\bY-(\d{1,2})[;, ]{1,3}N-(\d{1,2}) (?=[A-Z])", re.IGNORECASE
)


def _bracketed_names(page: Page) -> Iterator[Marker]:
    """Find `UNANIMOUSLY [Lee, Ruiz]` and `Y-4; N-1 Hartley`."""
    for match in _ALL_OF.finditer(page.text):
        people, end = people_at(page.words, page.index(match.end()), limit=120)
        if match[2]:
            if people and len(people) == int(match[2]):
                yield Marker(match.end(), page.words[end - 1].end, "voted", ("nay", people))
        elif people and end < len(page.words) and page.words[end].text in (")", "]"):
            yield Marker(match.start() + 9, page.words[end].end, "roll", ("aye", people, None))


_BALLOT = re.compile(
    r"^(?:(ayes?|yeas?|yes)|(nays?|no)|(abstain(?:ed|s)?|abstention|recused?)|(absent|excused))$", re.IGNORECASE
)
_LONG_BALLOT = re.compile(r"^(?:(favou?r|approve|support)|(opposed?|against)|(abstains)|(not present))$", re.IGNORECASE)
"""Words that are a vote only after a dash or colon: "Haskell - In favor"."""
_BETWEEN = frozenset({"-", ":", ",", "(", "…", "=", "*", "|", "["})
_VERBS = frozenset({"voted", "votes", "voting"})
_MAX_BALLOT_DISTANCE = 14


def _ballots(page: Page) -> Iterator[Marker]:
    """Find `Smith - aye; Jones - no` and `Smith yea, Jones nay`, in one line or a line each."""
    words = page.words
    run: list[tuple[Person, str, int, int, bool]] = []
    for at in range(1, len(words)):
        match = _BALLOT.match(words[at].text.rstrip(".,;"))
        before, separated = at, False
        if match is None:
            match = _LONG_BALLOT.match(words[at].text.rstrip(".,;"))
            before -= match is not None and words[at - 1].lower == "in"
            if match is None or before < 1 or words[before - 1].text not in ("-", ":"):
                continue
        while before > 0 and (
            words[before - 1].text in _BETWEEN
            or words[before - 1].lower in _VERBS
            or set(words[before - 1].text) <= {".", "_"}
        ):
            before -= 1
            separated = True
        if before == 0 or words[before - 1].text == "\n" or _is_label(page, before, at):
            continue
        person = person_before(words, before)
        if person is None or person.end != before or (separated and _ends_group(words, person)):
            continue
        kind = next(kind for kind, group in zip(KINDS, match.groups(), strict=True) if group)
        start = words[person.start].start
        if run and start - run[-1][3] > _MAX_BALLOT_DISTANCE:
            yield from _as_rolls(run)
            run = []
        run.append((person, kind, start, words[at].end, separated or words[at].text[0].isupper()))
    yield from _as_rolls(run)


def _ends_group(words: Sequence[Token], person: Person) -> bool:
    """Whether a verb has several subjects: `Boykin and Southwick voted aye` is for _voters_in_prose."""
    if words[person.end].lower not in _VERBS:
        return False
    at = person.start - 1
    while at >= 0 and words[at].lower in _GROUP_WORDS:
        at -= 1
    return (
        0 <= at < person.start - 1
        and words[at].text[0].isupper()
        and _BALLOT.match(words[at].text.rstrip(".,;")) is None
    )


def _is_label(page: Page, before: int, at: int) -> bool:
    """Whether a vote after a comma opens the next roll: `Nays; Baggett, Absent; Fitzgibbons`."""
    words = page.words
    is_labelled = at + 1 < len(words) and words[at + 1].text in (":", ";") and words[at].text[0].isupper()
    return is_labelled and all(word.text == "," for word in words[before:at])


def _as_rolls(run: list[tuple[Person, str, int, int, bool]]) -> Iterator[Marker]:
    if len(run) < 2 or (len(run) < 3 and not all(is_marked for *_, is_marked in run)):
        return
    for kind in KINDS:
        people = [person for person, voted, *_ in run if voted == kind][:200]
        if people:
            yield Marker(run[0][2], run[-1][3], "roll", (kind, people, None))


_VOTED = re.compile(
    r"\b(?:(?:voting|voted|votes) ['\"]?(?:(aye|yes|yea|in favou?r|for)|(nay|no|against|in opposition))"
    r"|(dissenting|dissented|opposed|opposing|in opposition|casting the (?:only )?(?:dissenting|nay|no) vote)"
    r"|(abstained|abstaining|abstain|recused|recusing|abstains)|(?:was |were )?(absent|excused|not present))\b",
    re.IGNORECASE,
)
_NO_IN_BRACKETS = re.compile(r"[(\[](?=[A-Z])[^()\[\]\n]{2,60} (no|nay)[)\]]")
_GROUP_WORDS = frozenset({"and", "&", ",", "\n"})


_BROKE_TIE = re.compile(
    r"\b(?:(?:broke|breaks|breaking) the tie|cast(?:ing|s)? the (?:deciding|tie-breaking"
    r"|tie breaking) vote)(?: vote)?,?(?: by| with| and)? (?:vot(?:ing|ed) |a |an )?['\"]?(?:(aye|yes"
    r"|yea|in favou?r)|(nay|no|against))\b",
    re.IGNORECASE,
)


def _voters_in_prose(page: Page) -> Iterator[Marker]:
    """Find `with Commissioners Lee and Ruiz voting aye and Commissioner Frost voting no`."""
    words = page.words
    for match in _VOTED.finditer(page.text):
        if match.end() < len(page.text) and page.text[match.end()] in ":;" and match[0][0].isupper():
            continue  # a label: "Nays; Baggett, Absent; Fitzgibbons"
        people = _group_before(page, page.index(match.start()))
        if people:
            groups = zip(KINDS, (match[1], match[2] or match[3], match[4], match[5]), strict=True)
            kind = next(kind for kind, group in groups if group)
            yield Marker(words[people[0].start].start, match.end(), "voted", (kind, people))
    for match in _BROKE_TIE.finditer(page.text):
        person = person_before(words, page.index(match.start()))
        if person is not None:
            yield Marker(words[person.start].start, match.end(), "voted", ("aye" if match[1] else "nay", [person]))
    for match in _NO_IN_BRACKETS.finditer(page.text):
        people, end = people_at(words, page.index(match.start() + 1))
        if people and end < len(words) and words[end].start == match.start(1):
            yield Marker(match.start() + 1, match.end(), "voted", ("nay", people))


def _group_before(page: Page, at: int) -> list[Person]:
    """Return the people named before a verb, back to a plural title or as far as names and commas go."""
    words = page.words
    person = person_before(words, at)
    if person is None:
        return []
    people, start = [person], person.start
    while start > 0 and len(people) < 40:
        before = start - 1
        while before >= 0 and words[before].lower in _GROUP_WORDS and start - before < 4:
            before -= 1
        if before == start - 1:
            break
        previous = person_before(words, before + 1)
        if previous is None or previous.end != before + 1:
            break
        people.insert(0, previous)
        start = previous.start
    introduction = words[start - 1].lower if start else "\n"
    if introduction == "," and start > 1 and words[start - 2].text[-1] in "0123456789)":
        introduction = ";"
    is_introduced = introduction in ("(", "[", "with", "except", ";", "\n", "but", "-", "and") or introduction.endswith(
        (".", ")")
    )
    is_grouped = people[0].titled
    return people if is_grouped or is_introduced or len(people) > 1 else []
