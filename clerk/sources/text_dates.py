"""Finds the date of a meeting in the text of a document's first page.

A page has many dates: when it was posted, which minutes it approves, when a law was adopted. A date counts only if
the page says that it is the document's own: after a label (`Meeting date:`), in a sentence about the meeting itself
(`Regular Meeting of January 12, 2021`), or alone on a line of a heading. If the page gives two such dates, the result
is a problem and no date: an archive without a document is corrected more easily than one with a wrong date.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from clerk.humanize import join_words

_ENGLISH = ("january", "february", "march", "april", "may", "june",
            "july", "august", "september", "october", "november", "december")  # fmt: skip
_SPANISH = ("enero", "febrero", "marzo", "abril", "mayo", "junio",
            "julio", "agosto", "septiembre", "octubre", "noviembre", "diciembre")  # fmt: skip
_MONTHS = {
    **{name: number for number, name in enumerate(_ENGLISH, 1)},
    **{name[:3]: number for number, name in enumerate(_ENGLISH, 1)},
    "sept": 9,
}
_SPANISH_MONTHS = {**{name: number for number, name in enumerate(_SPANISH, 1)}, "setiembre": 9}
_YEAR = r"(?P<year>(?:1[89]|20)\d\d)(?!\d)"
_DAY = r"(?P<day>\d{1,2})"
_MONTH = rf"(?P<month>{'|'.join(sorted(_MONTHS, key=len, reverse=True))})\b"
_SPANISH_MONTH = rf"(?P<month>{'|'.join(_SPANISH_MONTHS)})"
_WORD_DATES = (
    re.compile(rf"\b{_MONTH}\.? {{0,3}}{_DAY}(?:st|nd|rd|th)?(?: ,|[,.])? {{0,3}}{_YEAR}"),
    re.compile(rf"(?<![\d/.-]){_DAY}(?:st|nd|rd|th)? (?:day of )?{_MONTH}[.,]? {{0,3}}{_YEAR}"),
    re.compile(rf"(?<![\d/.-]){_DAY} (?:dias del mes )?de {_SPANISH_MONTH},? (?:de |del )?(?:ano )?{_YEAR}"),
)
_NUMERIC_DATE = re.compile(
    r"(?<![\d/.-])(?P<first>\d{1,2})([/.-])(?P<second>\d{1,2})\2(?P<year>(?:1[89]|20)?\d\d)(?![\d/-])"
)
_ISO_DATE = re.compile(r"(?<![\d/.-])(?P<year>(?:1[89]|20)\d\d)-(?P<month>\d\d)-(?P<day>\d\d)(?![\d/-])")

_BODY = (
    r"(?:council|board|commission|committee|trustees|supervisors|selectmen"
    r"|concejo|ayuntamiento|cabildo|pleno|junta|comision|comite)"
)
_MEETING = r"(?:meeting|session|hearing|workshop|retreat|sesion|reunion|audiencia|asamblea)"
_DOCUMENT = r"(?:minutes|agenda|packet|proceedings|acta|orden del dia|convocatoria)"
_WEEKDAY = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|tue|tues|wed|thu|thur|thurs|fri|sat|sun)\.?"
    r"|lunes|martes|miercoles|jueves|viernes|sabado|domingo)"
)
_MEETING_LABEL = re.compile(
    rf"(?:(?:{_MEETING}|agenda|council) date|date of (?:the )?{_MEETING}|{_BODY} agenda"
    rf"|for (?:the )?(?:{_BODY} )?{_MEETING} of|fecha de (?:la )?{_MEETING}) {{0,3}}[:-]? {{0,80}}$"
)
_DATE_LABEL = re.compile(r"(?:^| {2,})(?:date|fecha) {0,3}: {0,80}$")
_SENTENCE = re.compile(rf"\b(?:{_MEETING}|{_DOCUMENT})\b[^;:!?]{{0,160}}$")
_INSIDE_SENTENCE = re.compile(r"\b(?:on|at|in|to|for|by|during|this|en|para|por)(?: (?:the|this|an?|its|our|la|el))? $")
_CONTINUATION = re.compile(
    rf"^\W*(?:[a-z ,]{{0,60}}\b(?:held|celebrad[ao])\b[a-z ,]{{0,30}}|(?:el |del )?dia)?\W*(?:{_WEEKDAY}\W+)?$"
)
"""What may stand before a date whose sentence begins on a line above. `On …` begins a new sentence."""
_EDITION = re.compile(
    rf"\b(?:amended|revised|approved|adopted|published|posted|final|prepared) (?=(?:{_DOCUMENT}|{_MEETING}|{_BODY})\b)"
)
_SENTENCE_WORDS = re.compile(rf"\b(?:{_BODY}|{_MEETING}|{_DOCUMENT}|called to order|held|celebrad[ao])\b")
_OTHER_EVENT = re.compile(
    r"\b(?:approv\w*|adopt\w*|accept\w*|enact\w*|passed|repeal\w*|post(?:ed|ing)|publish\w*|publication|revis\w*|amended|"
    r"print\w*|receiv\w*|effective|next|previous|prior|last|continu\w*|postponed|rescheduled|cancel\w*|moved|issued|dated|"
    r"filed|prepared|generated|created|updated|expir\w*|due|deadline|through|thru|until|since|before|after|between|from|"
    r"beginning|starting|submitted|ratified|signed|order n|resolution n|ordinance n|correspondence|item|referral|"
    r"aprob\w*|adopt\w*|publicad\w*|proxim\w*|anterior\w*|modificad\w*|vigente|hasta|desde|firmad\w*|recibid\w*)"
)
_TIME = (
    r"(?:\d{1,2}(?:[:.]\d\d)?(?: {0,2}[ap]\.? ?m\.?)?|noon|midnight|mediodia)"
    r"(?: (?:p|e|c|m)[sd]?t)?(?: ?h(?:oras|rs?)?\.?)?"
)
_BEFORE_ON_HEADING = re.compile(rf"^\W*(?:{_WEEKDAY}\W+)?$")
_AFTER_ON_HEADING = re.compile(
    rf"^\W*(?:(?:at|a las?|beginning at|,|@)?\W*{_TIME}(?:\W+(?:to|a)?\W*{_TIME})?)?"
    r"(?:\W*\((?:draft|approved|unapproved|final)\))?\W*$"
)
_TOP_LINES = 30
_HEADING_LINES = 16
_MAX_LABEL_LINES = 400
_SPANISH_TEXT = re.compile(rf"\b(?:{'|'.join(_SPANISH)}|sesion|acta|orden del dia|ayuntamiento|concejo|junta)\b")
_MAX_AHEAD = timedelta(days=730)
"""Agendas are published weeks before a meeting. A date years ahead is an error of recognition."""


@dataclass(frozen=True)
class FoundDate:
    """The date of a document, or why there is none."""

    date: date | None
    problem: str = ""
    """The predicate of a sentence about the page, such as `gives no date of a meeting`."""


@dataclass(frozen=True)
class _Occurrence:
    date: date
    line: int
    start: int
    end: int
    is_numeric: bool
    is_ambiguous: bool
    """Day and month could be exchanged, and nothing says which comes first."""


def find_meeting_date(text: str, day_first: bool = False, today: date | None = None) -> FoundDate:
    """The date that the first page gives as the document's own. `text` keeps the layout of the page."""
    lines = [_normalize(line) for line in text.splitlines() if line.strip()][:_MAX_LABEL_LINES]
    if not lines:
        return FoundDate(None, "has no text")
    is_spanish = _SPANISH_TEXT.search(" ".join(lines[:_TOP_LINES])) is not None
    occurrences = [
        occurrence
        for number, line in enumerate(lines)
        for occurrence in _occurrences(line, number, day_first, is_spanish)
    ]
    latest = (today or date.today()) + _MAX_AHEAD
    occurrences = [occurrence for occurrence in occurrences if occurrence.date <= latest]
    labelled = [one for one in occurrences if _has_meeting_label(lines, one)]
    about_meeting = [one for one in occurrences if one.line < _HEADING_LINES and _is_about_meeting(lines, one)]
    headings = [one for one in occurrences if one.line < _HEADING_LINES and _is_heading(lines, one)]
    dated = [one for one in occurrences if one.line < _TOP_LINES and _has_date_label(lines, one)]
    if labelled:
        return _decide(labelled)
    if own := [*about_meeting, *headings]:
        return _decide([*own, *dated])
    if dated:
        return _decide([*dated, *_scheduled(lines, occurrences)])
    if _unread_label(lines):
        return FoundDate(None, "has a label for the date of the meeting, but no date that can be read beside it")
    return FoundDate(None, "gives no date of a meeting" if occurrences else "has no date")


def find_date_in_title(title: str, day_first: bool = False) -> date | None:
    """The only date in a title, such as that of a PDF's metadata. None if there is none, or two."""
    line = _normalize(title)
    found = list(_occurrences(line, 0, day_first, _SPANISH_TEXT.search(line) is not None))
    if len({one.date for one in found}) != 1 or any(one.is_ambiguous for one in found):
        return None
    return None if _is_other_event(line) else found[0].date


def _decide(group: list[_Occurrence]) -> FoundDate:
    if any(one.is_ambiguous for one in group):
        return FoundDate(None, f"gives a date in which day and month may be exchanged ({group[0].date})")
    dates = sorted({one.date for one in group})
    if len(dates) > 1:
        return FoundDate(None, f"gives several dates ({join_words([str(day) for day in dates[:4]])})")
    return FoundDate(dates[0])


def _normalize(line: str) -> str:
    """Lower case without accents. Letters become letters, so that positions stay comparable within the line."""
    decomposed = unicodedata.normalize(
        "NFKD", line.replace("\u00a0", " ").replace("\u2013", "-").replace("\u2014", "-").expandtabs(8)
    )
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter)).lower().rstrip()


def _occurrences(line: str, number: int, day_first: bool, is_spanish: bool) -> Iterator[_Occurrence]:
    for pattern in _WORD_DATES:
        for match in pattern.finditer(line):
            month = {**_MONTHS, **_SPANISH_MONTHS}[match["month"]]
            if (day := _date(int(match["year"]), month, int(match["day"]))) is not None:
                yield _Occurrence(day, number, match.start(), match.end(), False, False)
    for match in _ISO_DATE.finditer(line):
        if (day := _date(int(match["year"]), int(match["month"]), int(match["day"]))) is not None:
            yield _Occurrence(day, number, match.start(), match.end(), True, False)
    for match in _NUMERIC_DATE.finditer(line):
        first, second, year = int(match["first"]), int(match["second"]), int(match["year"])
        year += 0 if year > 99 else 2000 if year < 70 else 1900
        month, day_of_month = (second, first) if day_first else (first, second)
        if (day := _date(year, month, day_of_month)) is None and is_spanish:
            day = _date(year, second, first)
        if day is not None:
            is_ambiguous = is_spanish and not day_first and first <= 12 and second <= 12 and first != second
            yield _Occurrence(day, number, match.start(), match.end(), True, is_ambiguous)


def _date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _before(lines: list[str], one: _Occurrence, previous: int) -> str:
    """The text before a date: of its line, and of up to `previous` lines above."""
    return " ".join(
        [*(line.strip() for line in lines[max(0, one.line - previous) : one.line]), lines[one.line][: one.start]]
    )


def _has_meeting_label(lines: list[str], one: _Occurrence) -> bool:
    own = lines[one.line][: one.start]
    if _MEETING_LABEL.search(own):
        return True
    # A label alone on its line, with the date on the next one.
    return not own.strip() and one.line > 0 and _MEETING_LABEL.search(lines[one.line - 1]) is not None


def _has_date_label(lines: list[str], one: _Occurrence) -> bool:
    own = lines[one.line][: one.start]
    if _DATE_LABEL.search(own):
        return True
    return not own.strip() and one.line > 0 and _DATE_LABEL.search(lines[one.line - 1]) is not None


def _is_about_meeting(lines: list[str], one: _Occurrence) -> bool:
    """A sentence or heading such as `Regular Meeting of January 12, 2021`, also if it begins on a line above."""
    own = lines[one.line][: one.start]
    if not _SENTENCE.search(own) and (one.is_numeric or not _CONTINUATION.match(own)):
        return False
    before = _before(lines, one, 3)
    match = _SENTENCE.search(before)
    if match is None or _INSIDE_SENTENCE.search(before[: match.start()]):
        return False
    # Neither the sentence nor the words just before it may be about another event, or give another year.
    return not _is_other_event(before[max(0, match.start() - 60) :]) and not re.search(
        r"\d{4}", before[match.start() :]
    )


def _is_other_event(text: str) -> bool:
    return _OTHER_EVENT.search(_EDITION.sub("", text)) is not None


def _is_heading(lines: list[str], one: _Occurrence) -> bool:
    """The date is alone on its line, with a weekday or a time at most, and the heading around it names a meeting."""
    if one.is_numeric:
        return False
    line = lines[one.line]
    if not _BEFORE_ON_HEADING.match(line[: one.start]) or not _AFTER_ON_HEADING.match(line[one.end :]):
        return False
    above = lines[one.line - 1] if one.line else ""
    # `Posted` above a date belongs to it, unless it has a date of its own.
    if _is_other_event(above) and not re.search(r"\d{4}", above):
        return False
    around = " ".join(lines[max(0, one.line - 8) : one.line + 4])
    return _SENTENCE_WORDS.search(around) is not None


def _scheduled(lines: list[str], occurrences: list[_Occurrence]) -> list[_Occurrence]:
    """Dates of which the page says anywhere that a meeting is on them: `for the meeting of the council on …`."""
    found = []
    for one in occurrences:
        match = re.search(rf"\b{_MEETING}\b[^.;:]{{0,80}}$", _before(lines, one, 1))
        if match is not None and not _is_other_event(match[0]):
            found.append(one)
    return found


def _unread_label(lines: list[str]) -> bool:
    return any(re.match(rf"^ *(?:{_MEETING}|agenda|{_BODY} agenda)(?: date)? ?:$", line) for line in lines[:_TOP_LINES])
