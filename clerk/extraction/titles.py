"""Titles before names: `Mayor Pro Tem`, `Assistant Director of Public Works`, `Commissioner Precinct 3`.

A title is composed: words such as `Assistant` or `Finance`, then the noun of a role such as `Director`, then a part
such as `of Public Works` or a seat such as `Precinct 3`. A list of whole titles would never be complete.
"""

from __future__ import annotations

from collections.abc import Sequence

from clerk.extraction.tokens import Token, read_words

ROLE_HEADS = read_words("role_heads.txt")
"""Nouns that end a title."""
TITLE_WORDS = read_words("title_words.txt")
"""Words that may stand before the noun, or after its `of`."""
HONORIFICS = frozenset(
    {
        "mr", "mr.", "mrs", "mrs.", "ms", "ms.", "mx.", "miss", "dr", "dr.", "hon", "hon.", "honorable",
        "honourable", "rev",
        "rev.", "reverend", "prof.", "fr.", "messrs.", "sr.", "sra.", "srta.", "sres.", "sras.", "señor",
        "señora", "sir", "madam", "sir/madam",
    }
)  # fmt: skip
"""Forms of address. They are not a role."""
HONORIFIC_MARK = "\ue000"
"""Inserted by `rules.normalize` into forms of address that only Spanish texts have: in English, `D.` is an initial."""
_GENERIC_ROLES = frozenset({"member", "members", "resident", "speaker", "speakers"})
_ABBREVIATED = {
    "cm": "Council Member", "c/m": "Council Member", "clm.": "Council Member", "cncl.": "Council Member",
    "clr": "Councillor", "clr.": "Councillor", "cllr": "Councillor", "cllr.": "Councillor",
    "councilmem.": "Council Member",
    "ald.": "Alderman", "ald": "Alderman", "comm.": "Commissioner", "commr.": "Commissioner", "com.": "Commissioner",
    "supv.": "Supervisor", "supt.": "Superintendent", "tr.": "Trustee", "dir.": "Director", "pres.": "President",
    "treas.": "Treasurer", "atty.": "Attorney", "lt.": "Lieutenant", "sgt.": "Sergeant", "capt.": "Captain",
    "det.": "Detective",
    "ofc.": "Officer", "rep.": "Representative", "sen.": "Senator", "gov.": "Governor", "vp": "Vice President",
    "v.p.": "Vice President", "ceo": "CEO", "cfo": "CFO", "coo": "COO", "cio": "CIO",
}  # fmt: skip
_PLURALS = {
    "councilmen": "Councilman", "councilwomen": "Councilwoman", "aldermen": "Alderman", "alderwomen": "Alderwoman",
    "selectmen": "Selectman", "selectwomen": "Selectwoman", "councilpeople": "Councilperson",
    "councilmember": "Council Member", "councilmembers": "Council Member", "boardmember": "Board Member",
    "concejales": "Concejal", "regidores": "Regidor", "vocales": "Vocal",
}  # fmt: skip
_SEATS = frozenset(
    {"precinct", "pct.", "pct", "district", "ward", "place", "position", "seat", "post", "zone", "area", "no."}
)
_AFTER_HEAD = (
    ("pro", "tempore"),
    ("pro", "tem"),
    ("pro-tem",),
    ("pro", "tem."),
    ("elect",),
    ("emeritus",),
    ("at", "large"),
)
_MAX_WORDS = 7


def title_at(words: Sequence[Token], at: int) -> tuple[str, int] | None:
    """Return the title that starts at a token, and the index after it."""
    if at >= len(words):
        return None
    first = words[at]
    if HONORIFIC_MARK in first.text:
        return first.text, at + 1
    if not first.text[0].isupper():
        return None
    if first.lower in HONORIFICS:
        return first.text, at + 1
    index, parts = at, list[str]()
    while index < len(words) and index - at < _MAX_WORDS:
        word = words[index]
        lower = word.lower.rstrip(",") if word.text != "," else ","
        if lower in _ABBREVIATED:
            parts.append(_ABBREVIATED[lower])
            return _finish(words, index + 1, parts)
        if not word.text[0].isupper():
            if word.text in ("/", "&", "and") and parts and _continues(words, index + 1):
                parts.append(word.text)
                index += 1
                continue
            if word.text == "\n" and parts and _continues(words, index + 1):
                index += 1
                continue
            return None
        if _is_head(lower) and not _head_follows(words, index):
            parts.append(_PLURALS.get(lower) or _singular(word.text))
            return _finish(words, index + 1, parts)
        if lower not in TITLE_WORDS and not _is_head(lower):
            return None
        parts.append(word.text)
        index += 1
    return None


def _is_head(lower: str) -> bool:
    """Whether a word is the noun of a role, or two of them: `Alcalde-Presidente`."""
    return lower in ROLE_HEADS or ("-" in lower and all(part in ROLE_HEADS for part in lower.split("-")))


def _continues(words: Sequence[Token], at: int) -> bool:
    if at >= len(words):
        return False
    lower = words[at].lower
    return words[at].text[0].isupper() and (lower in TITLE_WORDS or lower in ROLE_HEADS)


def _head_follows(words: Sequence[Token], at: int) -> bool:
    """Whether the title goes on: `City Attorney` has one noun, `Chief Financial Officer` and `Vice President` two."""
    for index in range(at + 1, min(at + 5, len(words))):
        word = words[index]
        if word.text in ("/", "&", "and"):
            continue
        if not word.text[0].isupper():
            return False
        if word.lower.rstrip(".") in ROLE_HEADS or word.lower in _ABBREVIATED:
            # "Mayor Pro Tem, Director": a mark ends the title; "Student Director".
            return True
        if word.lower not in TITLE_WORDS:
            return False
    return False


def _finish(words: Sequence[Token], index: int, parts: list[str]) -> tuple[str, int]:
    for ending in _AFTER_HEAD:
        size = len(ending)
        if tuple(word.lower.rstrip(",") for word in words[index : index + size]) == ending:
            parts += [word.text for word in words[index : index + size]]
            index += size
            break
    index = _skip_seat(words, index)
    if index + 1 < len(words) and words[index].lower in ("of", "for"):
        end = _skip_part(words, index + 1)
        if end > index + 1:
            parts += [word.text for word in words[index:end] if word.text != "\n"]
            index = _skip_seat(words, end)
    return " ".join(part.title() if part.isupper() and len(part) > 3 else part for part in parts), index


def _skip_seat(words: Sequence[Token], index: int) -> int:
    if index + 1 < len(words) and words[index].lower in _SEATS:
        number = words[index + 1].text.strip("#,.")
        if number.isdecimal() or (number.isupper() and len(number) <= 3):
            return index + 2
    return index


def _skip_part(words: Sequence[Token], index: int) -> int:
    """Return the index after `Public Works`, `the City Council` or `Management and Budget`."""
    start = index
    while index < len(words) and index - start < 8:
        word = words[index]
        if word.lower in ("the", "and", "&", "of", "\n") or (
            word.text[0].isupper() and (word.lower in TITLE_WORDS or word.lower in ROLE_HEADS)
        ):
            index += 1
        else:
            break
    while index > start and words[index - 1].lower in ("the", "and", "&", "of", "\n"):
        index -= 1
    return index


def _singular(text: str) -> str:
    lower = text.lower()
    if lower.endswith("s") and not lower.endswith("ss") and lower[:-1] in ROLE_HEADS:
        text = text[:-1]
    return text.title() if text.isupper() and len(text) > 3 else text


def is_honorific(lower: str) -> bool:
    return lower in HONORIFICS or HONORIFIC_MARK in lower


def is_role(title: str) -> bool:
    """Whether a title is a role, not a form of address or a mere membership."""
    return not is_honorific(title.lower()) and title.lower() not in _GENERIC_ROLES
