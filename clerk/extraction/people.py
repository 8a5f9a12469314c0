"""People on a page: by a title, a role after the name, a list of those present, or a given name and a surname."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence

from clerk.extraction.entities import Mention
from clerk.extraction.person_names import (
    AMBIGUOUS_GIVEN_NAMES,
    NAME_STOP_WORDS,
    SURNAMES,
    Person,
    is_given_name,
    is_initial,
    people_at,
    person_at,
)
from clerk.extraction.titles import HONORIFIC_MARK, ROLE_HEADS, is_honorific, is_role, title_at
from clerk.extraction.tokens import Token, fold, read_words

# Confidence of a mention, by how it was recognised.
VOTED = 0.9
_ROLE_AND_FULL_NAME, _NAME_THEN_ROLE, _ROLE_AND_SURNAME, _LISTED, _GIVEN_NAME, _HONORIFIC = (
    0.95,
    0.9,
    0.85,
    0.8,
    0.75,
    0.7,
)
_PRESENT = re.compile(
    r"\b(?:(?:council ?|board )?members? |commissioners? |trustees |directors |staff |others? )?"
    r"(?:present|absent|attending|in attendance|also present|excused|attendance|asistentes|asisten|excusan?)"
    r"(?: ?[:;]|- | ?\d{1,2} - )|\broll call ?:|\battendance ?;",
    re.IGNORECASE,
)
_ROLE_WORDS = read_words("role_words.txt")
_NOT_PEOPLE_AFTER = read_words("place_and_organisation_words.txt")
"""Words after a name that make it the name of a place or an organisation: `Martin Luther King Boulevard`."""
_LEGAL_FORMS = frozenset(
    {"inc", "inc.", "llc", "llc.", "corp", "corp.", "ltd", "ltd.", "llp", "co.", "company", "l.l.c.", "pllc", "p.c."}
)
_SAINTS = frozenset({"st.", "st", "saint", "san", "santa", "mt.", "mount", "fort", "ft.", "lake", "camp", "port"})


_NOUN_ENDINGS = (
    "ing",
    "tion",
    "ment",
    "ness",
    "ity",
    "ers",
    "ps",
    "ists",
    "ware",
    "tech",
    "ects",
    "ies",
    "tions",
    "ments",
    "care",
)


def find_people(text: str, words: Sequence[Token]) -> list[Mention]:
    mentions: list[Mention] = []
    at = 0
    while at < len(words):
        found, end = _titled(words, at)
        mentions += found
        if end > at:
            at = end
            continue
        mentions += _person_before_role(words, at)
        at += 1
    starts = [word.start for word in words]
    for match in _PRESENT.finditer(text):
        group, _ = people_at(words, bisect.bisect_left(starts, match.end()))
        mentions += [
            Mention(member.text, max(_LISTED, _confidence(member)), member.role)
            for member in group
            if _is_plausible(member)
        ]
    mentions += _given_names(words)
    return mentions


def _titled(words: Sequence[Token], at: int) -> tuple[list[Mention], int]:
    """Return the people after a title at a token, and the index after them; the index itself if there is none."""
    word = words[at]
    if not (word.text[0].isupper() or HONORIFIC_MARK in word.text) or (title := title_at(words, at)) is None:
        return [], at
    person = person_at(words, at)
    if person is None or (at > 0 and words[at - 1].lower == "of"):  # "Board of Trustees"
        return [], max(title[1] if person is not None else at + 1, at + 1)
    is_address = is_honorific(word.lower)
    if (
        word.lower in ("dr.", "dr")
        and at > 0
        and words[at - 1].text[0].isalnum()
        and not words[at - 1].text[0].islower()
    ):
        return [], at + 1  # "Elm Dr.": a street
    if is_address and person.role is None:
        if (
            word.lower in ("sr.",)
            and at > 0
            and words[at - 1].text[0].isupper()
            and not words[at - 1].text.endswith(".")
        ):
            return [], at + 1  # "John Smith Sr."
        return [Mention(person.text, _HONORIFIC)], person.end
    if not is_role(title[0]) and not person.is_full:
        return [], max(person.end, at + 1)  # "Members Approved"
    if not _is_plausible(person) or _is_place(words, person):
        return [], max(person.end, at + 1)
    group, end = people_at(words, at) if _is_plural(words, at, title[1]) else ([person], person.end)
    return [
        Mention(member.text, _ROLE_AND_FULL_NAME if member.is_full else _ROLE_AND_SURNAME, member.role)
        for member in group or [person]
    ], max(end, person.end)


def _is_plural(words: Sequence[Token], at: int, end: int) -> bool:
    return any(
        word.lower in ROLE_HEADS and word.lower.endswith(("s", "men", "women", "people")) for word in words[at:end]
    )


def _confidence(person: Person) -> float:
    return (_ROLE_AND_FULL_NAME if person.is_full else _ROLE_AND_SURNAME) if person.role else 0.0


def _is_plausible(person: Person) -> bool:
    return person.is_full or len(person.text) > 1


def _is_place(words: Sequence[Token], person: Person) -> bool:
    """Whether the name is part of the name of a place or an organisation."""
    end = person.end
    if end < len(words) and words[end - 1].text.endswith("."):
        return False
    for index in range(end, min(end + 3, len(words))):
        word = words[index]
        bare = word.lower.rstrip(".,")
        if word.text == "," and index == end and index + 1 < len(words) and words[index + 1].lower in _LEGAL_FORMS:
            return True
        if not word.text[0].isupper() and word.text not in ("&",):
            return False
        if bare in _NOT_PEOPLE_AFTER or word.lower in _LEGAL_FORMS:
            return True
    return False


def _person_before_role(words: Sequence[Token], at: int) -> list[Mention]:
    """Find a full name followed by a role: `Jane Smith, City Manager`, or with a dash."""
    word = words[at]
    if not word.text[0].isupper() or (
        at > 0
        and words[at - 1].text[0].isupper()
        and words[at - 1].lower not in ("and", "by")
        and words[at - 1].text[-1] != "."
    ):
        return []
    if not any(other.text in (",", "-") for other in words[at + 2 : at + 7]):
        return []
    person = person_at(words, at)
    if person is None or not person.is_full or person.titled or person.end + 1 >= len(words):
        return []
    if words[person.end].text not in (",", "-"):
        return []
    title = title_at(words, person.end + 1)
    if title is None or not is_role(title[0]) or words[person.end + 1].lower not in _ROLE_WORDS:
        return []
    after = words[title[1]].text if title[1] < len(words) else "\n"
    if after[0].isupper() and after.lower() not in ("and", "of"):
        return []
    return [Mention(person.text, _NAME_THEN_ROLE, title[0])]


def _given_names(words: Sequence[Token]) -> Iterator[Mention]:
    """Find full names that start with a common given name: `Harriet Lowenstein`."""
    at = 0
    while at < len(words):
        word = words[at]
        if not word.text[0].isupper() or not word.text[-1].isalpha() or _is_common_word(word.lower):
            at += 1
            continue
        folded = fold(word.text)
        is_common = is_given_name(word.text)
        if not is_common and folded not in AMBIGUOUS_GIVEN_NAMES:
            at += 1
            continue
        person = person_at(words, at)
        if person is None or person.titled or not person.is_full:
            at += 1
            continue
        at = person.end
        if _is_believable(words, person, is_common):
            yield Mention(person.text, _GIVEN_NAME)


def _is_common_word(lower: str) -> bool:
    return lower in NAME_STOP_WORDS and lower not in AMBIGUOUS_GIVEN_NAMES


def _is_believable(words: Sequence[Token], person: Person, is_common: bool) -> bool:
    before = words[person.start - 1].text if person.start else "\n"
    if before.lower() in _SAINTS or _is_place(words, person):
        return False
    parts = [part for part in person.text.split() if not is_initial(part)]
    if len(parts) < 2 or (words[person.start].text.isupper() and len(words[person.start].text) > 2):
        return False  # a heading in capitals
    surname = fold(parts[-1])
    is_known = any(piece in SURNAMES for piece in (surname, *surname.split("-"))) or surname.startswith(
        ("mc", "mac", "o'", "de")
    )
    if any(fold(part) in _NOT_PEOPLE_AFTER for part in parts[1:]):
        return False
    if before[0].isupper() and before.lower() not in NAME_STOP_WORDS and not before.endswith("."):
        # Part of a longer name whose beginning is no given name.
        return is_common and is_known and not is_given_name(before) and fold(before) not in SURNAMES
    return is_known or (is_common and surname not in NAME_STOP_WORDS and not surname.endswith(_NOUN_ENDINGS))
