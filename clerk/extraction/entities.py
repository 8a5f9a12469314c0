"""Organisations and places on a page, and mentions of all kinds. The confidence of a rule is roughly its precision.

| confidence | rule |
| --- | --- |
| 0.95 | person: a role and a full name, `Mayor Jane Smith`; place: an address with number and kind of street |
| 0.9  | person: mover, seconder or voter; name and role, `Jane Smith, City Manager`; place: town and state |
| 0.85 | person: a role and a surname; place: `City of X`, `X County` |
| 0.8  | person: in a list of those present; organisation: `Planning Commission`, `X, Inc.`; place: a street |
| 0.75 | person: a given name and a surname, without other context |
| 0.7  | person: Mr., Ms. or Dr. and a name; organisation by its kind: `X Foundation`, `Office of X` |
| less 0.05 | person: a full name that a rule found elsewhere in the document |

docs/extraction.md explains these numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from clerk.extraction.person_names import NAME_STOP_WORDS
from clerk.extraction.tokens import Token, read_lines, read_words

_REPEATED_PENALTY = 0.05
_BODY, _FIRM, _BY_KIND = 0.8, 0.8, 0.7
_ADDRESS_GIVEN, _WITH_STATE, _TOWN, _STREET_ONLY = 0.95, 0.9, 0.85, 0.8
_BODIES = frozenset(
    {"Commission", "Committee", "Council", "Board", "Authority", "District", "Department", "Subcommittee"}
)
_KINDS = read_words("organisation_types.txt")
_HEAD_WORDS = read_words("organisation_head_words.txt")
"""Words after which `of …` is part of the name."""
_LEGAL_FORMS = frozenset(
    {"inc", "llc", "l.l.c", "corp", "ltd", "llp", "l.p", "lp", "pllc", "p.c", "co", "incorporated"}
)
_ORGANISATION_STOP_WORDS = read_words("organisation_stop_words.txt")
_LAND_DISTRICT_TYPES = read_words("land_district_types.txt")
_STREET = (
    "Street|Avenue|Boulevard|Road|Drive|Lane|Court|Place|Way|Parkway|Highway|Circle|Terrace|Trail|Square|Alley"
    "|Expressway|Turnpike|Freeway"
)
_STREET_SHORT = "St|Ave|Blvd|Rd|Dr|Ln|Ct|Pl|Pkwy|Hwy|Cir|Ter|Sq|Expy"
_STREET_WORD = r"(?:[A-ZÀ-Þ][a-zà-ÿ']{1,20}|\d{1,3}(?:st|nd|rd|th)|[NSEW]\.?|MLK)"
_ADDRESS = re.compile(
    rf"\b\d{{1,5}}(?:-\d{{1,5}})? (?:{_STREET_WORD} ){{1,4}}(?:{_STREET}|{_STREET_SHORT})\b\.?"
    r"(?: (?:N|S|E|W|NE|NW|SE|SW)\b)?"
)
_STREET_NAME = re.compile(rf"(?<!\d )\b(?:{_STREET_WORD} ){{1,3}}(?:{_STREET})\b")
_STATES = "|".join(read_lines("states.txt"))
_PLACE_WORD = r"[A-ZÀ-Þ][a-zà-ÿ'-]{1,20}"
_CITY_STATE = re.compile(rf"\b((?:{_PLACE_WORD} ){{0,2}}{_PLACE_WORD}), ({_STATES})\b\.?(?: \d{{5}}(?:-\d{{4}})?)?")
_CITY_OF = re.compile(rf"\b(?:City|Town|Village|County|Township|Borough) of ({_PLACE_WORD}(?: {_PLACE_WORD}){{0,2}})")
_COUNTY = re.compile(rf"\b((?:{_PLACE_WORD} ){{1,2}})(County|Township|Parish)\b")
_COURTS = frozenset({"municipal", "circuit", "supreme", "district", "probate", "superior", "county", "appeals"})
_AMBIGUOUS_PLACE_WORDS = read_words("ambiguous_place_words.txt")
"""Common words that are also part of names of streets and counties."""
_GENERIC_WORDS = NAME_STOP_WORDS | {"st", "said", "honorable", "adjacent", "street", "avenue", "road"}
_PLACE_STOP_WORDS = read_words("place_stop_words.txt")


@dataclass(frozen=True)
class Mention:
    text: str
    confidence: float
    role: str | None = None


def find_organisations(words: list[Token]) -> list[Mention]:
    """Find organisations by a word such as `Board` or `Inc.`, reading backwards from it."""
    mentions: list[Mention] = []
    for at, word in enumerate(words):
        bare = word.text.rstrip(".")
        if bare.lower() in _LEGAL_FORMS and word.text[0].isupper():
            if name := _name_before(words, at, commas=True):
                mentions.append(
                    Mention(f"{name} {word.text if at + 1 < len(words) and word.text.endswith('.') else bare}", _FIRM)
                )
        elif bare in _BODIES or bare in _KINDS:
            name = _name_before(words, at)
            full = " ".join(part for part in (name, bare, "" if bare != word.text else _of_after(words, at)) if part)
            if " " in full and not (bare == "District" and _is_land_district(name.split())):
                mentions.append(Mention(full, _BODY if bare in _BODIES else _BY_KIND))
        elif (
            word.text in _HEAD_WORDS
            and (rest := _of_after(words, at))
            and (at == 0 or not words[at - 1].text[0].isupper())
        ):
            mentions.append(Mention(f"{word.text} {rest}", _BY_KIND))
    return [mention for mention in mentions if 4 < len(mention.text) <= 100]


def _name_before(words: list[Token], at: int, *, commas: bool = False) -> str:
    parts: list[str] = []
    index = at - 1
    if commas and index >= 0 and words[index].text == ",":
        index -= 1
    while index >= 0 and len(parts) < 7:
        text = words[index].text
        if (
            (
                text in ("and", "&")
                and parts
                and index > 0
                and words[index - 1].text[0].isupper()
                and words[index - 1].lower not in _ORGANISATION_STOP_WORDS
            )
            or (text in ("of", "of the", "on", "for") and parts and index > 0 and words[index - 1].text in _HEAD_WORDS)
            or (text[0].isupper() and _is_part(text))
        ):
            parts.insert(0, text)
        else:
            break
        index -= 1
    while parts and (parts[0].lower().rstrip(".,") in _ORGANISATION_STOP_WORDS or parts[0] == "&"):
        parts.pop(0)
    return " ".join(parts)


def _is_land_district(words: list[str]) -> bool:
    """Whether a district is an area, as in `Zoning District`, or has no name, as in `School District`."""
    return words == ["School"] or words[-1].lower() in _LAND_DISTRICT_TYPES


def _is_part(text: str) -> bool:
    if "." in text.rstrip(".")[3:] or (text.endswith(".") and len(text) > 3 and text.count(".") == 1):
        return False  # a file name, a web address or the end of a sentence
    return (
        len(text) <= 30
        and all(character.isalnum() or character in "&'.-" for character in text)
        and any(map(str.isalpha, text))
    )


def _of_after(words: list[Token], at: int) -> str:
    """Return `of Public Works` or `of the City Clerk` after a head word, else an empty text."""
    if at + 2 >= len(words) or words[at].text not in _HEAD_WORDS or words[at + 1].text != "of":
        return ""
    parts, index = ["of"], at + 2
    if words[index].text == "the":
        parts.append("the")
        index += 1
    real = 0
    while index < len(words) and real < 4:
        text = words[index].text
        clean = text.rstrip(".")
        if text in ("and", "&") and real and index + 1 < len(words) and words[index + 1].text[0].isupper():
            parts.append(text)
        elif (
            text[0].isupper()
            and _is_part(clean)
            and (clean.lower() not in _ORGANISATION_STOP_WORDS or clean in ("Clerk", "Director", "Mayor"))
        ):
            parts.append(clean)
            real += 1
            if clean != text:
                break
        else:
            break
        index += 1
    while parts and parts[-1] in ("and", "&"):
        parts.pop()
    return " ".join(parts) if real else ""


def find_places(text: str) -> list[Mention]:
    mentions = [
        Mention(match[0].rstrip(". "), _ADDRESS_GIVEN)
        for match in _ADDRESS.finditer(text)
        if not (match[0].endswith("Court") and match[0].split()[-2].lower() in _COURTS)
    ]
    for match in _CITY_OF.finditer(text):
        words = _before_generic_word(match[1].split())
        if words:
            mentions.append(Mention(f"{match[0].split()[0]} of {' '.join(words)}", _TOWN))
    for match in _COUNTY.finditer(text):
        words = [word for word in match[1].split() if word.lower() not in _PLACE_STOP_WORDS]
        if words and not any(word.lower() in _GENERIC_WORDS - _AMBIGUOUS_PLACE_WORDS for word in words):
            mentions.append(Mention(f"{' '.join(words)} {match[2]}", _TOWN))
    for match in _CITY_STATE.finditer(text):
        if not any(word.lower() in _GENERIC_WORDS for word in match[1].split()[-1:]):
            words = match[1].split()
            while words and (
                words[0].lower() in _GENERIC_WORDS or words[0] in _STREET.split("|") + _STREET_SHORT.split("|")
            ):
                words.pop(0)
            if words:
                mentions.append(Mention(f"{' '.join(words)}, {match[2]}", _WITH_STATE))
    for match in _STREET_NAME.finditer(text):
        words = match[0].split()
        while len(words) > 1 and words[0].lower() in _GENERIC_WORDS - _AMBIGUOUS_PLACE_WORDS:
            words.pop(0)
        if words[-1] == "Court" and words[-2:-1] and words[-2].lower() in _COURTS:
            continue
        if len(words) > 1 and not all(word.lower() in _GENERIC_WORDS for word in words):
            mentions.append(Mention(" ".join(words), _STREET_ONLY))
    return mentions


def _before_generic_word(words: list[str]) -> list[str]:
    """Return the words before the first generic one: `San José` of `San José Enacting an`."""
    result: list[str] = []
    for word in words:
        if word.lower() in _GENERIC_WORDS - _AMBIGUOUS_PLACE_WORDS or (result and word.endswith("ing")):
            break
        result.append(word.removesuffix("'s"))
        if result[-1] != word:
            break
    return result


def merge(mentions: Iterable[Mention]) -> list[Mention]:
    """Return one mention per name, with its highest confidence, in order of first occurrence."""
    best: dict[str, Mention] = {}
    for mention in mentions:
        known = best.setdefault(mention.text, mention)
        first = known if known.confidence >= mention.confidence else mention
        best[mention.text] = Mention(mention.text, first.confidence, first.role or known.role or mention.role)
    return list(best.values())


def repeated_mentions(text: str, known: Iterable[Mention]) -> list[Mention]:
    """Find known full names in a text, with a lower confidence."""
    return [
        Mention(person.text, round(person.confidence - _REPEATED_PENALTY, 3), person.role)
        for person in known
        if " " in person.text and person.text in text
    ]
