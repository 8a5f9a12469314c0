"""Markers of votes in Spanish minutes: "por unanimidad", "siete votos a favor", "queda rechazada".

All patterns need linear time: repetitions are bounded and not nested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from clerk.extraction.marker import TALLY, Marker, Page, Result
from clerk.extraction.person_names import Person, people_at, person_at, person_before

_SPANISH = re.compile(
    r"\b(?:votos?|votación|unanimidad|acuerda[n]?|acuerdos?|sesión|moción|concejal\w{0,3}|ayuntamiento|aprueba|aprobad[oa]|abstención"
    r"|abstenciones|alcald\w{1,3}|secundad[oa]|regidor\w{0,3}|cabildo|pleno)\b",
    re.IGNORECASE,
)
_MIN_WORDS = 3
_WORDS = {
    "cero": 0, "ningún": 0, "ninguno": 0, "ninguna": 0, "ningun": 0, "un": 1, "uno": 1, "una": 1, "dos": 2, "tres": 3,
    "cuatro": 4, "cinco": 5, "seis": 6, "siete": 7, "ocho": 8, "nueve": 9, "diez": 10, "once": 11, "doce": 12,
    "trece": 13, "catorce": 14, "quince": 15, "dieciséis": 16, "diecisiete": 17, "dieciocho": 18, "diecinueve": 19,
    "veinte": 20, "veintiuno": 21, "veintiún": 21, "veintidós": 22, "veintitrés": 23, "veinticuatro": 24,
    "veinticinco": 25, "veintiséis": 26, "veintisiete": 27,
}  # fmt: skip
_NUMBER = r"(\d{1,3}|" + "|".join(_WORDS) + r")(?: ?\(\d{1,2}\))?"
_FAVOR = r"a favor|afirmativos?|favorables?|positivos?"
_CONTRA = r"en contra|negativos?|contrarios?|desfavorables?"
_COUNT = re.compile(
    rf"\b{_NUMBER}(?: de los)? (?:votos? )?(?:({_FAVOR})|({_CONTRA})|(abstenciones|abstención|abstencion)|(ausentes?"
    rf"|ausencias?))\b",
    re.IGNORECASE,
)
_LABEL = re.compile(
    rf"\b(?:votos? )?(?:({_FAVOR})|({_CONTRA})|(abstenciones|abstención|abstencion|se abstienen)|(ausentes?"
    rf"|ausencias?))"
    rf"(?: de votos?)? ?(?:[:=.,-]|\()+ ?(?:votos? )?(?:{_NUMBER}\b(?! ?de (?:enero|febrero|marzo|abril|mayo)))?",
    re.IGNORECASE,
)
_NUMBER_BEFORE = re.compile(r"\b(?:\d{1,3}|" + "|".join(_WORDS) + r")(?: ?\(\d{1,2}\))? (?:votos? )?$", re.IGNORECASE)
_PASSED = re.compile(
    r"\b(?:se|queda(?:n|ndo)?|resulta(?:n|ndo)?|es|son|fue(?:ron)?|ha sido|siendo|son) ?(?:\w{3,16}mente )?"
    r"(?:aprueban?|aprobad[oa]s?|aprobó|aprobaron|adoptad[oa]s?|adopta|adoptó|acuerda|acordó|ratifica|ratificad[oa]|estimad[oa]|acord[oó]|acordad[oa])\b"
    r"|\baprob[áa]ndose\b|\badopt[áa]ndose\b|\b(?:pleno|corporación|ayuntamiento|asamblea|cabildo|junta|concejo|comisión)\b[^.\n]{0,140}?"
    r"\b(?:acuerdan?|acordó|aprueban?|aprobó|adopta|adoptó)\b|\bmoción (?:fue )?aprobada\b",
    re.IGNORECASE,
)
_FAILED = re.compile(
    r"\b(?:se|queda(?:n|ndo)?|resulta(?:n|ndo)?|es|son|fue(?:ron)?|ha sido|siendo) (?:rechazan?|rechazad[oa]s?"
    r"|desestiman?"
    r"|desestimad[oa]s?|denegad[oa]s?|derrotad[oa]s?)\b|\bno (?:se aprueba|prospera(?:ndo)?|prosperó"
    r"|queda aprobad[oa]|fue aprobad[oa])\b"
    r"|\bmoción (?:fue )?(?:rechazada|derrotada)\b|\brechaz[áa]ndose\b",
    re.IGNORECASE,
)
_UNANIMOUS = re.compile(
    r"\bunanimidad\b|\bun[áa]nimemente\b|\bpor asentimiento\b|\bvoto un[áa]nime\b|\bvotación un[áa]nime\b",
    re.IGNORECASE,
)
_GROUP = re.compile(
    r"\b(?:votos? (a favor|favorables?|afirmativos?)|votos? (en contra|negativos?|contrarios?)|(abstenci(?:ón"
    r"|ones))) (?:de|del)\b",
    re.IGNORECASE,
)
_GROUP_END = re.compile(r"[.;:]\s")
_GROUP_NUMBER = re.compile(r"\((\d{1,2})\)")
_DECIDES = re.compile(
    r"\b(?:aprueban?|aprob(?:ó|aron|ar|ad[oa]s?|ándose)|acuerdan?|acord(?:ó|aron|ad[oa]|ar|ándose)|adopt(?:a|ó|ad[oa]|ar|ándose)|votaci[óo]n|ratific\w{1,4}"
    r"|declar(?:a|ó|ar|ad[oa])|ACUERDAN?|favorable|dictamin\w{1,4})\b",
    re.IGNORECASE,
)
_CALL = re.compile(
    r"\bsomet(?:id[oa]s?|e|iéndose|er)\b[^.\n]{0,80}?\bvotaci[óo]n\b|\bse procede a (?:la )?votaci[óo]n\b"
    r"|\bvotaci[óo]n (?:arroja|ordinaria|nominal)\b"
    r"|\bresultado de la votaci[óo]n\b|\bse (?:vota|pasa a votar)\b",
    re.IGNORECASE,
)
_NO_VOTE = re.compile(r"\bno se somet\w{1,4}\b[^.\n]{0,40}?\bvotaci[óo]n\b|\bsin votaci[óo]n\b", re.IGNORECASE)
_MOVED_BY = re.compile(
    r"\bmoción(?: (?:fue |es )?(?:presentada|hecha|formulada|realizada))? (?:por|del?)(?: (?:el|la|los|las))?\b"
    r"|\bpropuest[oa] por (?:el|la) (?=(?:concejal|regidor|sr|sra))",
    re.IGNORECASE,
)
_MOVES = re.compile(
    r"\b(?:hizo|hace|presentó|presenta) (?:la|una) moción\b|\bmocionó\b|\bpropuso\b|\bmociona\b", re.IGNORECASE
)
_SECONDED_BY = re.compile(r"\bsecundad[oa](?: la moción)? por(?: (?:el|la))?\b", re.IGNORECASE)
_SECONDS = re.compile(r"\b(?:secundó|secunda)\b", re.IGNORECASE)


def is_spanish(text: str) -> bool:
    return any(number >= _MIN_WORDS for number, _ in enumerate(_SPANISH.finditer(text), 1))


def find_markers(page: Page) -> Iterator[Marker]:
    text = page.text
    for match in _COUNT.finditer(text):
        kind = next(key for key, group in zip(TALLY.values(), match.groups()[1:], strict=True) if group)
        yield Marker(match.start(), match.end(), "numbers", {kind: _number(match[1])})
    yield from _find_labels(page)
    yield from _find_groups(text)
    for match in _PASSED.finditer(text):
        creates = _is_counted(text, match)
        yield Marker(match.start(), match.end(), "result", Result("passed", creates=creates))
    for match in _FAILED.finditer(text):
        yield Marker(match.start(), match.end(), "result", Result("failed", creates=False))
    for match in _UNANIMOUS.finditer(text):
        yield Marker(match.start(), match.end(), "unanimous", True)
        if _states_decision(text, match):
            yield Marker(match.start(), match.end(), "result", Result("passed", creates=True))
    for match in _CALL.finditer(text):
        if not re.search(r"\bno (?:se )?$", text[max(0, match.start() - 6) : match.start()], re.IGNORECASE):
            yield Marker(match.start(), match.end(), "call", None)
    for match in _NO_VOTE.finditer(text):
        yield Marker(match.start(), match.end(), "void", None)
    yield from _find_people(page)


def _find_groups(text: str) -> Iterator[Marker]:
    """Find `con los votos favorables del Grupo Socialista (6) e IU (2)`: the numbers of the groups are added."""
    for match in _GROUP.finditer(text):
        rest = text[match.end() : match.end() + 160]
        ends = [found.start() for pattern in (_GROUP, _GROUP_END) if (found := pattern.search(rest)) is not None]
        numbers = [int(number) for number in _GROUP_NUMBER.findall(rest[: min(ends, default=len(rest))])]
        if numbers:
            kind = next(key for key, group in zip(TALLY.values(), match.groups(), strict=False) if group)
            yield Marker(match.start(), match.end(), "numbers", {kind: sum(numbers)})


def _is_counted(text: str, match: re.Match[str]) -> bool:
    """Whether the sentence also has the numbers of the vote."""
    before, after = text[max(0, match.start() - 260) : match.start()], text[match.end() : match.end() + 200]
    sentence = (
        before[max(before.rfind(". "), before.rfind("\n\n")) + 1 :] + match[0] + after[: after.find(". ") + 1 or None]
    )
    return _COUNT.search(sentence) is not None or _GROUP.search(sentence) is not None


def _states_decision(text: str, match: re.Match[str]) -> bool:
    """Whether the sentence of `por unanimidad` also has a verb of deciding."""
    before = text[max(0, match.start() - 200) : match.start()]
    before = before[max(before.rfind(". "), before.rfind("\n\n")) + 1 :]
    after = text[match.end() : match.end() + 160]
    after = after[: after.find(". ") + 1 or None]
    return _DECIDES.search(f"{before} {after}") is not None


def _number(word: str) -> int:
    return int(word) if word.isdecimal() else _WORDS[word.lower()]


def _find_labels(page: Page) -> Iterator[Marker]:
    kinds = tuple(TALLY.items())
    for match in _LABEL.finditer(page.text):
        kind, key = next(pair for pair, group in zip(kinds, match.groups(), strict=False) if group)
        if _NUMBER_BEFORE.search(page.text, max(0, match.start() - 20), match.start()):
            continue  # "5 votos a favor, 7 votos en contra": the number after the comma belongs to what follows
        if match[5]:
            yield Marker(match.start(), match.end(), "numbers", {key: _number(match[5])})
            continue
        people, end = people_at(page.words, page.index(match.end()))
        if people and ":" in match[0]:
            yield Marker(match.start(), page.words[end - 1].end, "roll", (kind, people, None))


def _find_people(page: Page) -> Iterator[Marker]:
    words = page.words
    for pattern, kind in ((_MOVED_BY, "mover"), (_SECONDED_BY, "second")):
        for match in pattern.finditer(page.text):
            at = page.index(match.end())
            while at < len(words) and words[at].text[0].islower() and at - page.index(match.end()) < 3:
                at += 1
            person = person_at(words, at, listed=True)
            if person is not None and words[at].start - match.end() < 30:
                yield Marker(match.start(), words[person.end - 1].end, kind, person)
    for pattern, kind in ((_MOVES, "mover"), (_SECONDS, "second")):
        for match in pattern.finditer(page.text):
            found: Person | None = person_before(words, page.index(match.start()))
            if found is not None:
                yield Marker(words[found.start].start, match.end(), kind, found)
