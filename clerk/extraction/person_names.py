"""Names of people in minutes, parsed token by token in linear time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from clerk.extraction.titles import ROLE_HEADS, TITLE_WORDS, is_honorific, is_role, title_at
from clerk.extraction.tokens import Token, fold, read_words

_PARTICLES = frozenset(
    {
        "de", "la", "del", "van", "von", "der", "den", "di", "da", "dos", "das", "du", "le", "ter", "ten", "st.",
        "las", "los",
        "el", "bin", "al", "y", "san", "santa", "mac", "ibn",
    }
)  # fmt: skip
_DEGREES = frozenset(
    {"esq.", "esq", "m.d.", "phd", "ph.d.", "ed.d.", "p.e.", "cpa", "aicp", "j.d.", "d.d.s.", "ph.d", "md", "pe"}
)
SUFFIXES = frozenset({"jr", "jr.", "sr", "sr.", "ii", "iii", "iv"}) | _DEGREES
NAME_STOP_WORDS = read_words("name_stop_words.txt")
"""Words that are capitalised in minutes but are not names."""
AMBIGUOUS_SURNAMES = read_words("ambiguous_surnames.txt")
"""Common words that are surnames after a title or in a list of names."""
GIVEN_NAMES = read_words("given_names.txt")
AMBIGUOUS_GIVEN_NAMES = read_words("ambiguous_given_names.txt")
SURNAMES = read_words("surnames.txt")
_CAMEL_CASE = re.compile(r"(?:de|del|di|du|da|la|le|van|von|mc|mac|o'|d')[A-Z]")
_SURNAMES_LIKE_ROLES = frozenset(
    {
        "dean",
        "judge",
        "warden",
        "marshal",
        "chaplain",
        "ranger",
        "forester",
        "constable",
        "coach",
        "justice",
        "reeve",
        "pastor",
        "deputy",
    }
)
_ROMAN_NUMERALS = frozenset({"II", "III", "IV", "VI", "VII", "VIII", "IX", "XI", "XII", "XIII", "XIV", "XV"})
_NOT_IN_NAMES = frozenset({"y"})


@dataclass(frozen=True, slots=True)
class Person:
    text: str
    role: str | None
    start: int
    end: int
    """Index of the token after the name."""
    titled: bool

    @property
    def is_full(self) -> bool:
        return len([word for word in self.text.split() if word.lower() not in SUFFIXES and word not in _PARTICLES]) > 1


def person_at(words: Sequence[Token], at: int, *, listed: bool = False) -> Person | None:
    """Return the person whose title or name starts at a token. `listed`: in a list, where `Hall` may be a surname."""
    start, role, is_upper_case = at, None, False
    titles, is_wrapped = 0, False
    while titles < 3 and (title := title_at(words, at)) is not None:
        if titles and not _is_title_again(words, at, title[1]):
            break
        is_upper_case = is_upper_case or (words[at].text.isupper() and len(words[at].text) > 2)
        if is_role(title[0]):
            role = role or title[0]
        at = title[1]
        titles += 1
        if at + 1 < len(words) and words[at].text in ("/", "-", "\n") and title_at(words, at + 1) is not None:
            at += 1
    if titles and at < len(words) and words[at].text == "\n" and at + 1 < len(words):
        # A title at the end of a line, the name on the next. An empty line separates them.
        at += 1
        is_wrapped = True
    parts, names, end = _name_at(words, at, expected=bool(titles) or listed)
    if not names and listed and words[start].lower.rstrip(".") in _SURNAMES_LIKE_ROLES:
        clean = words[start].text.rstrip(".")
        return Person(clean, None, start, start + 1, titled=False)
    if not names or (names == 1 and not titles and len(parts[0]) < 2):
        return None
    if is_wrapped and end < len(words) and words[end].text == ":":
        return None  # the label of the next line
    if is_upper_case or all(part.isupper() or part in _PARTICLES for part in parts):
        parts = [_title_case(part) for part in parts]
    return Person(" ".join(parts), role, start, end, bool(titles))


def _is_title_again(words: Sequence[Token], at: int, end: int) -> bool:
    """Whether a second title follows the first: `Hon. Mayor Smith`, but not `Director Park` for one named Park."""
    if end >= len(words) or words[at].lower in AMBIGUOUS_SURNAMES:
        return False
    return _is_name(words[end].text) or is_honorific(words[end].lower)


def _name_at(words: Sequence[Token], at: int, *, expected: bool) -> tuple[list[str], int, int]:
    """Return the words of a name, how many of them are names rather than initials, and the index after it."""
    parts: list[str] = []
    names = 0
    is_upper = at < len(words) and len(words[at].text) > 2 and words[at].text.isupper()
    while at < len(words) and len(parts) < 6:
        word = words[at]
        text = word.text
        if text == "," and at + 1 < len(words) and words[at + 1].lower in SUFFIXES and names:
            at += 1
            continue
        if names and not is_upper and text.isupper() and len(text) > 3 and word.lower not in SUFFIXES:
            break  # the heading after a name: "Czarnik VOICE VOTE"
        if parts and is_honorific(word.lower) and word.lower not in SUFFIXES:
            break  # the next person
        ends = len(text) > 2 and text.endswith(".") and word.lower not in SUFFIXES | _PARTICLES and not is_initial(text)
        clean = _without_possessive(text.rstrip(".") if ends else text)
        if word.lower in _DEGREES and names:
            at += 1
            continue
        if word.lower in SUFFIXES and names:
            parts.append(text)
            at += 1
            break
        particle = text.lower() if text.isupper() and is_upper else text
        if (
            particle in _PARTICLES
            and (text not in _NOT_IN_NAMES or names > 1)
            and at + 1 < len(words)
            and (_is_name(words[at + 1].text.rstrip(".")) or words[at + 1].text in _PARTICLES)
        ) or (is_initial(text) and not is_honorific(text.lower())):
            parts.append(particle)
        elif text in ('"', "(") and names and at + 2 < len(words) and words[at + 2].text in ('"', ")"):
            if (
                not words[at + 1].text[0].isupper()
                or words[at + 1].lower in NAME_STOP_WORDS
                or not _name_follows(words, at + 3)
            ):
                break
            at += 3  # a nickname
            continue
        elif _is_name(clean) and (
            (clean.lower() not in NAME_STOP_WORDS and (names or not _is_title_word(clean)))
            or (not names and clean.lower() in AMBIGUOUS_GIVEN_NAMES and _surname_follows(words, at + 1))
            or (clean.lower() in AMBIGUOUS_SURNAMES and _is_surname(words, at, names, expected))
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
    while parts and (is_initial(parts[-1]) or parts[-1] in _PARTICLES) and names and len(parts) > names:
        parts.pop()
        at -= 1
    return parts, names, at


def _is_title_word(word: str) -> bool:
    """Whether a word belongs to titles and is no surname: `Records`."""
    lower = word.lower()
    return lower in TITLE_WORDS and lower not in AMBIGUOUS_SURNAMES and fold(lower) not in SURNAMES


def _surname_follows(words: Sequence[Token], at: int) -> bool:
    return _name_follows(words, at) and fold(words[at].text.rstrip(".")) in SURNAMES


def _name_follows(words: Sequence[Token], at: int) -> bool:
    return at < len(words) and _is_name(words[at].text) and words[at].lower not in NAME_STOP_WORDS


def _is_surname(words: Sequence[Token], at: int, names: int, expected: bool) -> bool:
    """Whether a common word is a surname: a name is expected, and no capitalised word follows as in `Hall Street`."""
    following = words[at + 1].text if at + 1 < len(words) else "\n"
    if following[0].isdigit():
        return False  # "May 21"
    return (
        (expected or names == 1)
        and names < 2
        and not (
            following[0].isupper() and following.lower() in NAME_STOP_WORDS and following.lower() not in _AFTER_NAMES
        )
    )


_AFTER_NAMES = frozenset(
    {"aye", "yes", "no", "nay", "yea", "abstain", "absent", "excused", "motion", "moved", "seconded", "jr"}
)


def is_initial(text: str) -> bool:
    return (
        len(text) <= 4
        and text[0].isupper()
        and (text.endswith(".") or len(text) == 1)
        and text.replace(".", "").isupper()
        and len(text.replace(".", "")) <= 2
    )


def _is_name(text: str) -> bool:
    if len(text) < 2 or len(text) > 30 or text[-1] in "'-":
        return False
    if text in _ROMAN_NUMERALS:
        return False
    if not text[0].isupper() and not _CAMEL_CASE.match(text):
        return False
    return all(character.isalpha() or character in "'-" for character in text)


def is_given_name(word: str) -> bool:
    folded = fold(word)
    return folded in GIVEN_NAMES or ("-" in folded and folded.split("-")[0] in GIVEN_NAMES)


def _without_possessive(text: str) -> str:
    return text[:-2] if text.endswith(("'s", "'S")) and len(text) > 4 else text


def _title_case(part: str) -> str:
    if is_initial(part) or part.lower() in ("ii", "iii", "iv") or part in _PARTICLES:
        return part
    titled = part.title().replace("'S", "'s")
    return f"Mc{titled[2:].capitalize()}" if titled.startswith("Mc") and len(titled) > 3 else titled


def person_before(words: Sequence[Token], at: int) -> Person | None:
    """Return the person whose name ends before a token: `Council Member Jane Smith` moved."""
    while at > 0 and (words[at - 1].text in ("\n", ",", "(") or words[at - 1].lower in _BEFORE_VERBS):
        at -= 1
    best = None
    for start in range(max(0, at - 9), at):
        if words[start].text in ("\n", ",") or words[start].lower in ("and", "by"):
            continue
        person = person_at(words, start, listed=start == at - 1)
        if person is not None and person.end == at:
            best = None if _ends_sentence(words[at - 1]) else person
            break
    # A single short word before "moved" may be anything: "It moved".
    return best if best is not None and (best.titled or best.is_full or len(best.text) > 2) else None


def _ends_sentence(word: Token) -> bool:
    return len(word.text) > 2 and word.text.endswith(".") and not is_initial(word.text) and word.lower not in SUFFIXES


_BEFORE_VERBS = frozenset({"then", "also", "who", "has", "so", "again", "subsequently", "thereupon"})
_SEPARATORS = frozenset({",", ";", "•", "·", "*", "/", "|"})


def people_at(words: Sequence[Token], at: int, *, limit: int = 40) -> tuple[list[Person], int]:
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
        if word.text in _SEPARATORS or word.lower in ("and", "&", "-", "y", "e", "also"):
            breaks = 0
            at += 1
            continue
        if word.text == "(":  # a remark: "(via Zoom)", "(arrived at 7:05)"
            closing = next((i for i in range(at, min(at + 12, len(words))) if words[i].text == ")"), None)
            if closing is None:
                break
            at = closing + 1
            continue
        if people and word.text[0].islower() and words[at - 1].text == "," and _is_role_word(word.lower):
            # "Zima Creason, clerk": a role in lower case, up to the end of the entry.
            while at < len(words) and words[at].text not in ("\n", ";", ","):
                at += 1
            end = at
            continue
        if (
            people and (title := title_at(words, at)) is not None and person_at(words, at) is None
        ):  # "Jane Smith, Mayor"
            if people[-1].role is None and is_role(title[0]):
                last = people[-1]
                people[-1] = Person(last.text, title[0], last.start, last.end, titled=True)
            at = end = title[1]
            continue
        person = person_at(words, at, listed=True)
        if person is None:
            break
        following = words[person.end].text if person.end < len(words) else "\n"
        if following == ":" or _is_label(words, person):
            break  # the next label
        if person.titled and person.role:
            role = person.role
        people.append(
            person if person.role or role is None else Person(person.text, role, person.start, person.end, False)
        )
        at = end = person.end
        breaks = 0
        last_word = words[at - 1]
        if last_word.text.endswith(".") and not is_initial(last_word.text) and last_word.lower not in SUFFIXES:
            break
    return people, end


def _is_role_word(lower: str) -> bool:
    return lower in ROLE_HEADS or lower in TITLE_WORDS


_LABEL_WORDS = frozenset(
    {"moved", "motion", "seconded", "carried", "passed", "vote", "result", "mover", "seconder", "ayes", "nays"}
)


def _is_label(words: Sequence[Token], person: Person) -> bool:
    return any(word.lower in _LABEL_WORDS for word in words[person.start : person.end])
