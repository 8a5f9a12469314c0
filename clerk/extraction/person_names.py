"""Names of people in minutes, parsed token by token in linear time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources


def read_lines(name: str) -> list[str]:
    return resources.files("clerk.extraction").joinpath("word_lists", name).read_text(encoding="utf-8").splitlines()


def read_words(name: str) -> frozenset[str]:
    return frozenset(word for line in read_lines(name) for word in line.split())


TITLES = frozenset(read_lines("titles.txt"))
HONORIFICS = frozenset(
    {"hon.", "honorable", "dr.", "mr.", "mrs.", "ms.", "miss", "rev.", "reverend", "members", "member"}
)
"""Titles that are not a role."""
BALLOT = "(?:aye|yea|yes|nay|no|abstain(?:ed)?|absent|excused)"
_ABBREVIATED = {
    "cm": "Council Member", "c/m": "Council Member", "clr.": "Councillor", "cllr": "Councillor", "cllr.": "Councillor",
    "councilmem.": "Council Member", "ald.": "Alderman", "comm.": "Commissioner", "supv.": "Supervisor",
    "mr": "Mr.", "mrs": "Mrs.", "ms": "Ms.", "dr": "Dr.", "rev": "Rev.",
}  # fmt: skip
_PARTICLES = frozenset(
    {"de", "la", "del", "van", "von", "der", "den", "di", "da", "dos", "st.", "las", "los", "el", "bin", "al"}
)
_SUFFIXES = frozenset({"jr", "jr.", "sr", "sr.", "ii", "iii", "iv", "esq.", "m.d.", "phd", "ph.d."})
NAME_STOP_WORDS = read_words("name_stop_words.txt")
"""Words that are capitalised in minutes but are not names."""
AMBIGUOUS_SURNAMES = read_words("ambiguous_surnames.txt")
"""Common words that are surnames after a title or in a list of names."""
_MARKS = r",;:()\[\]{}|•·<>*_=\"/"
# A dash between a name and a vote ("Smith-Aye") is a token; a dash inside a name is not.
_TOKEN = re.compile(rf"(?:(?!-{BALLOT}\b)[^\s{_MARKS}])+|[{_MARKS}]|-|\n", re.IGNORECASE)
_TITLE_STARTS = frozenset(title.split()[0] for title in TITLES)
_MAX_TITLE_WORDS = max(len(title.split()) for title in TITLES)


@dataclass(frozen=True)
class Token:
    text: str
    start: int
    end: int

    @property
    def lower(self) -> str:
        return self.text.lower()


@dataclass(frozen=True)
class Person:
    text: str
    role: str | None
    start: int
    end: int
    """Index of the token after the name."""
    titled: bool

    @property
    def is_full(self) -> bool:
        return len([word for word in self.text.split() if word.lower() not in _SUFFIXES]) > 1


def tokenize(text: str) -> list[Token]:
    """Split a text into words and marks. A line break is a token, because lists in minutes may have no other mark."""
    return [Token(match[0], match.start(), match.end()) for match in _TOKEN.finditer(text)]


def title_at(words: list[Token], at: int) -> tuple[str, int] | None:
    """Return the longest title that starts at a token, and the index after it."""
    if at >= len(words):
        return None
    first = words[at].lower
    if first in _ABBREVIATED and words[at].text[0].isupper():
        return _ABBREVIATED[first], at + 1
    if first not in _TITLE_STARTS or not words[at].text[0].isupper():
        return None
    for length in range(_MAX_TITLE_WORDS, 0, -1):
        parts: list[str] = []
        index = at
        while index < len(words) and len(parts) < length:
            if words[index].text != "\n" or not parts:
                parts.append(words[index].lower)
            index += 1
        if " ".join(parts) in TITLES:
            return _role_name(" ".join(parts)), index
    return None


def _role_name(title: str) -> str:
    """Return a title in singular and title case."""
    singular = {
        "councilmen": "Councilman", "councilwomen": "Councilwoman", "aldermen": "Alderman", "selectmen": "Selectman",
        "councilmember": "Council Member", "councilmembers": "Council Member",
    }.get(title)  # fmt: skip
    if singular:
        return singular
    return (title if title == "miss" else title.removesuffix("s")).title()


def person_at(words: list[Token], at: int, *, listed: bool = False) -> Person | None:
    """Return the person whose title or name starts at a token. `listed`: in a list, where `Hall` may be a surname."""
    start, role, titled, is_upper_case = at, None, False, False
    if (title := title_at(words, at)) is not None:
        is_upper_case = words[at].text.isupper() and len(words[at].text) > 2
        role, at = title
        titled = True
        if role.lower() in HONORIFICS:
            role = None
            if (second := title_at(words, at)) is not None:  # "Hon. Mayor Smith"
                role, at = second
    parts: list[str] = []
    names = 0
    while at < len(words) and len(parts) < 6:
        word = words[at]
        text = word.text
        if text == "," and at + 1 < len(words) and words[at + 1].lower in _SUFFIXES and names:
            at += 1
            continue
        ends = (
            len(text) > 2 and text.endswith(".") and word.lower not in _SUFFIXES | _PARTICLES and not _is_initial(text)
        )
        clean = _possessive(text.rstrip(".") if ends else text)
        if word.lower in _SUFFIXES and names:
            parts.append(text)
            at += 1
            break
        if (
            text in _PARTICLES
            and at + 1 < len(words)
            and (_is_name(words[at + 1].text) or words[at + 1].text in _PARTICLES)
        ) or _is_initial(text):
            parts.append(text)
        elif text == '"' and names and at + 2 < len(words) and words[at + 2].text == '"':
            at += 3  # a nickname
            continue
        elif _is_name(clean) and (
            clean.lower() not in NAME_STOP_WORDS
            or (clean.lower() in AMBIGUOUS_SURNAMES and _is_surname(words, at, names, titled or listed))
        ):
            if names == 4:
                break
            parts.append(clean)
            names += 1
        else:
            break
        at += 1
        if ends or clean != text:
            break
    while parts and (_is_initial(parts[-1]) or parts[-1] in _PARTICLES) and names and len(parts) > names:
        parts.pop()
    if not names or (names == 1 and not titled and len(parts[0]) < 2):
        return None
    if is_upper_case or all(part.isupper() for part in parts):
        parts = [_title_case(part) for part in parts]
    return Person(" ".join(parts), role, start, at, titled)


def _is_surname(words: list[Token], at: int, names: int, expected: bool) -> bool:
    """Whether a common word is a surname: a name is expected, and no capitalised word follows as in `Hall Street`."""
    following = words[at + 1].text if at + 1 < len(words) else "\n"
    return (expected or names == 1) and names < 2 and not following[0].isupper()


def _is_initial(text: str) -> bool:
    return (
        len(text) <= 4
        and text[0].isupper()
        and (text.endswith(".") or len(text) == 1)
        and text.replace(".", "").isupper()
        and len(text.replace(".", "")) <= 2
    )


def _is_name(text: str) -> bool:
    if len(text) < 2 or not text[0].isupper() or len(text) > 30:
        return False
    return all(character.isalpha() or character in "'-" for character in text) and text[-1] not in "'-"


def _possessive(text: str) -> str:
    return text[:-2] if text.endswith(("'s", "'S")) and len(text) > 4 else text


def _title_case(part: str) -> str:
    return part if _is_initial(part) or part.lower() in ("ii", "iii", "iv") else part.title().replace("'S", "'s")


def people_at(words: list[Token], at: int, *, limit: int = 40) -> tuple[list[Person], int]:
    """Parse a list of names, such as `Smith, Jones and Council Member Lee`. Returns the people and the end index."""
    people: list[Person] = []
    role: str | None = None
    end = at
    breaks = 0
    while at < len(words) and len(people) < limit:
        word = words[at]
        if word.text == "\n":
            breaks += 1
            if breaks > 1 and people:
                break
            at += 1
            continue
        if word.text in (",", ";", "•", "·", "*", "/", "|") or word.lower in ("and", "&", "-"):
            breaks = 0
            at += 1
            continue
        if word.text == "(":  # a remark: "(via Zoom)", "(arrived at 7:05)"
            closing = next((i for i in range(at, min(at + 12, len(words))) if words[i].text == ")"), None)
            if closing is None:
                break
            at = closing + 1
            continue
        if (
            people and (title := title_at(words, at)) is not None and person_at(words, at) is None
        ):  # "Jane Smith, Mayor"
            if people[-1].role is None:
                last = people[-1]
                people[-1] = Person(last.text, title[0], last.start, last.end, titled=True)
            at = end = title[1]
            continue
        person = person_at(words, at, listed=True)
        if person is None:
            break
        following = words[person.end].text if person.end < len(words) else "\n"
        if following == ":":
            break  # the next label
        if person.titled and person.role:
            role = person.role
        people.append(
            person if person.role or role is None else Person(person.text, role, person.start, person.end, False)
        )
        at = end = person.end
        breaks = 0
        if (
            words[at - 1].text.endswith(".")
            and not _is_initial(words[at - 1].text)
            and words[at - 1].lower not in _SUFFIXES
        ):
            break
    return people, end
