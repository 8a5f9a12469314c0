"""Markers of motions: who moved, who seconded, and motions that were withdrawn.

All patterns need linear time: repetitions are bounded and not nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clerk.extraction.marker import Marker, Page, Result
from clerk.extraction.person_names import Person, person_at, person_before
from clerk.extraction.titles import title_at

_MOVED_BY = re.compile(
    r"\b(?:(?:motion(?:ed)?|moved|move)(?: was| is| has been)?(?: duly)?(?: made| offered| introduced"
    r"| presented)?(?: and)?"
    r"(?: by| from)|motions? of|mover|moved|motion|1st(?: by)?|first(?= ?:)(?: by)?)\b ?([:-]?)|\nby ?:",
    re.IGNORECASE,
)
_MOTION_BY = re.compile(r"\bmotion (?:to|for|that) [^.\n]{4,200}?,? by (?=[A-Z])", re.IGNORECASE)
"""Motion to approve the report, by Jim."""
_OTHER_BY = re.compile(r"(?:second(?:ed)?|2nd|support(?:ed)?|made|offered|moved|was) by $", re.IGNORECASE)
_MADE_BY = re.compile(r"\b(?:made|offered|put forth|put forward|initiated) by\b ?:?", re.IGNORECASE)
_MOVES = re.compile(
    r"\b(?:so moved|moved|motioned|moves|(?:made|makes|offered|put forth|presented) (?:a|the) (?:[a-z]{1,12} )?motion"
    r"|made motion|called for a motion|introduced a motion)\b",
    re.IGNORECASE,
)
_OFFERED_BY = re.compile(r"\b(?:offered|introduced|presented|sponsored) by\b ?:?", re.IGNORECASE)
_OFFERED = re.compile(
    r"\b(?:offered|introduced|presented|read|submitted)\b[^.;\n]{0,120}?\band (?:moved|made a motion|motioned)\b",
    re.IGNORECASE,
)
_SECONDED_BY = re.compile(
    r"\b(?:(?:second(?:ed|s)?|2nd|support(?:ed)?)(?: was)?(?: made| provided| given| offered)?(?: to the motion)?"
    r"(?: offered)? (?:by|from)|seconder|seconded|second|2nd|supported)\b ?:?-?(?=[ \n])",
    re.IGNORECASE,
)
_SECONDS = re.compile(
    r"\b(?:seconded|seconds|second(?:ed)? the motion|(?:provided|made|gave|offered) (?:the|a) second|2nd"
    r"|second(?=[.,;\n]| and\b)"
    r"|supported(?: the motion)?(?=[.,;\n]| (?:the|and)\b))(?! ?(?:by\b|:|from\b))",
    re.IGNORECASE,
)
_ANONYMOUS = re.compile(
    r"\b(?:moved(?: and|,)? (?:duly )?seconded|motion (?:was |being |having been )?(?:duly |properly )?(?:made|moved)"
    r"|(?:up)?on (?:a )?motion,? (?:duly )?(?:made|seconded|carried|to)|(?:there was|was there|a) motion (?:to|that)"
    r"|motion and second|properly moved)\b"
    r"|(?:^|\n|[.:;] )(?:motion|MOTION)(?: (?:to|that|for)\b|: ?(?=[A-Z]))",
    re.IGNORECASE,
)
_PAIR = re.compile(
    r"(?:\bM ?/ ?S ?(?:/ ?[CPUF])?|\bMS[CPU]\b|\bmotion ?/ ?second"
    r"|\bmoved? ?/ ?second(?:ed)?)(?: ?\([CPUF]\))? ?[:-]? ?[(\[]?"
    r"(?=[A-Z])",
    re.IGNORECASE,
)
_CARRIED_IN_PAIR = re.compile(r"M ?/ ?S ?/ ?[CPUF]|MS[CPUF]", re.IGNORECASE)
_VOID = re.compile(
    r"\b(?:(?:died|dies|die|failed|fails|lost) (?:for|due to|because of|from|on|by) (?:a |the )?(?:lack"
    r"|want) of(?: a)? second"
    r"|(?:lack|want) of (?:a )?second|no second|(?:did not|failed to) receive a second"
    r"|withdr(?:ew|awn|aws)(?: (?:the|his|her|their|that) (?:motion|second))?|motion (?:was|is) (?:not seconded"
    r"|rescinded)"
    r"|without (?:a |any |taking a )?vote|no vote was (?:taken|held)|no action was taken|was ruled out of order)\b",
    re.IGNORECASE,
)
_MAX_PAIRS = 200
_BARE = frozenset({"motion", "moved", "second", "move", "seconded", "first", "1st", "2nd", "supported"})
_BY_LOOK_BACK = 400
_MOTION_BEFORE = re.compile(r"\bmotion\b", re.IGNORECASE)
_SECOND_BEFORE = re.compile(r"\bsecond\w*(?: was)? $", re.IGNORECASE)
_NAME_AND_SECOND = re.compile(
    r"[,;/ ]{0,3}(?:and )?(?:\n)?(?:a )?(?:2nd|second(?:ed)?|support(?:ed)?)\b", re.IGNORECASE
)


def find_motions(page: Page) -> Iterator[Marker]:
    pairs = list(_find_pairs(page))
    yield from pairs
    named: set[int] = set()
    for start, end in ((marker.start, marker.end) for marker in pairs):
        named.update(range(start // 8, end // 8 + 1))
    for marker in _find_named(page):
        if any(pair.start <= marker.start <= pair.end for pair in pairs[:_MAX_PAIRS]):
            continue
        named.update(range(marker.start // 8, marker.end // 8 + 1))
        yield marker
    for match in _ANONYMOUS.finditer(page.text):
        if match.start() // 8 not in named and match.end() // 8 not in named:
            yield Marker(match.start(), match.end(), "mover", None)
    for match in _VOID.finditer(page.text):
        yield Marker(match.start(), match.end(), "void", None)


def _find_named(page: Page) -> Iterator[Marker]:
    for match in _MOVED_BY.finditer(page.text):
        if (person := _person_after(page, match, is_bare=_is_bare(match), needs_second=True)) is not None:
            yield _marker(page, match.start(), person, "mover")
    for match in _MADE_BY.finditer(page.text):
        before = page.text[max(0, match.start() - _BY_LOOK_BACK) : match.start()]
        before = before[max(before.rfind(". "), before.rfind("\n\n")) + 1 :]
        if _SECOND_BEFORE.search(before):
            continue
        if _MOTION_BEFORE.search(before) and (person := _person_after(page, match, is_bare=False)) is not None:
            yield _marker(page, match.start(), person, "mover")
    for match in _MOTION_BY.finditer(page.text):
        if _OTHER_BY.search(match[0]):
            continue
        person = _person_after(page, match, is_bare=False)
        if person is not None and (page.words[person.end - 1].text.endswith(".") or _is_seconded(page, person)):
            yield _marker(page, match.end() - 3, person, "mover")
    for match in _MOVES.finditer(page.text):
        if (found := _person_of_verb(page, match, "mover")) is not None:
            yield Marker(page.words[found.start].start, match.end(), "mover", found)
    for match in _OFFERED_BY.finditer(page.text):
        person = _person_after(page, match, is_bare=False)
        if person is not None and _is_seconded(page, person):
            yield _marker(page, match.start(), person, "mover")
    for match in _OFFERED.finditer(page.text):
        if (found := person_before(page.words, page.index(match.start()))) is not None:
            yield Marker(page.words[found.start].start, match.end(), "mover", found)
    for match in _SECONDED_BY.finditer(page.text):
        if (person := _person_after(page, match, is_bare=_is_bare(match))) is not None:
            yield _marker(page, match.start(), person, "second")
    for match in _SECONDS.finditer(page.text):
        if (found := _person_of_verb(page, match, "second")) is not None:
            yield Marker(page.words[found.start].start, match.end(), "second", found)


def _marker(page: Page, start: int, person: Person, kind: str) -> Marker:
    return Marker(start, page.words[person.end - 1].end, kind, person)


def _is_bare(match: re.Match[str]) -> bool:
    return match[0].lower().strip(" :-") in _BARE and ":" not in match[0]


def _person_after(page: Page, match: re.Match[str], *, is_bare: bool, needs_second: bool = False) -> Person | None:
    words, at = page.words, page.index(match.end())
    while (at < len(words) and words[at].text in (":", "\n", "-", "(")) or (
        at < len(words) and words[at].lower in ("by", "the")
    ):
        at += 1
    if at >= len(words) or words[at].start - match.end() > 6:
        return None
    person = _person_at(page, at)
    if person is None:
        return None
    if is_bare and title_at(words, at) is None:
        # "Motion Hale, second Boone": a second name follows. "Second Boone" follows a mover.
        if needs_second and not _is_seconded(page, person):
            return None
        if not needs_second and words[at].start - match.end() > 1:
            return None
    return person


def _is_seconded(page: Page, person: Person) -> bool:
    """Whether the seconder follows the person's name."""
    end = page.words[person.end - 1].end
    return _NAME_AND_SECOND.match(page.text, end, end + 20) is not None


def _person_at(page: Page, at: int) -> Person | None:
    """Return the person at a token, after at most two words that belong to a title ("SJWD Director Costa")."""
    words = page.words
    for skipped in range(3):
        if skipped and (at + skipped >= len(words) or not words[at + skipped - 1].text[0].isupper()):
            break
        if skipped == 0 or title_at(words, at + skipped) is not None:
            person = person_at(words, at + skipped, listed=True)
            if person is not None and (skipped or not _title_follows(page, person)):
                return person
    return person_at(words, at, listed=True)


def _title_follows(page: Page, person: Person) -> bool:
    return person.end < len(page.words) and not person.titled and title_at(page.words, person.end) is not None


def _person_of_verb(page: Page, match: re.Match[str], kind: str) -> Person | None:
    words = page.words
    person = person_before(words, page.index(match.start()))
    if person is None or person.start < 1:
        return person
    # "Price, seconded by Cutler, moved": the mover is Price.
    if (
        words[person.start - 1].lower == "by"
        and person.start > 1
        and words[person.start - 2].lower in ("seconded", "second")
    ):
        if kind == "second":
            return None
        return person_before(words, person.start - 2)
    if words[person.start - 1].lower == "by":
        return None
    return person


def _find_pairs(page: Page) -> Iterator[Marker]:
    """Find `M/S/C (Hollis/Abara)`."""
    words = page.words
    for match in _PAIR.finditer(page.text):
        at = page.index(match.end())
        mover = person_at(words, at, listed=True)
        if mover is None or mover.end >= len(words) or words[mover.end].text not in ("/", ",", ";", "-", "and"):
            continue
        seconder = person_at(words, mover.end + 1, listed=True)
        if seconder is None:
            continue
        yield Marker(match.start(), words[mover.end - 1].end, "mover", mover)
        end = words[seconder.end - 1].end
        yield Marker(words[seconder.start].start, end, "second", seconder)
        if (carried := _CARRIED_IN_PAIR.match(match[0])) is not None:
            value = "failed" if carried[0][-1] in "Ff" else "passed"
            yield Marker(end, end, "result", Result(value, creates=False))
