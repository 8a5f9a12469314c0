"""The text of a motion: from "to approve …" to the end of its sentence, without what follows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clerk.extraction.marker import Marker

if TYPE_CHECKING:
    from clerk.extraction.vote import Vote

_MAX_LENGTH = 2000
_START = re.compile(
    r"\b(?:to (?=[a-z$])|TO (?=[A-Z])|that\b|THAT\b|That\b|for (?=(?:approval|adoption|the|a|an|council|passage)\b)"
    r"|(?:the )?(?:approval|adoption|acceptance|passage|tabling|denial|reconsideration|ratification|suspension|introduction|amendment)"
    r" (?:of|to)\b|adjournment\b|recess\b|de (?=(?:aprobar|aceptar|\w{3,12}r\b))|para (?=\w{3,14}r\b)|que (?=(?:se|el|la)\b))",
)
_PERSON_PHRASE = re.compile(
    r"^(?:[,;:\s]|and\b|then\b|was\b|duly\b|a\b|the\b|motion\b|made\b|by\b|MOTION\b)*"
    r"(?:(?:[Ss]econd(?:ed|er)?|SECOND(?:ED)?|2nd|[Ss]upported)\b(?: the motion)?(?: was)?(?: made)?(?: by| from)?:? ?)?"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:No|Nos|Inc|Co|Corp|Ltd|St|Ave|Rd|Dr|Mr|Mrs|Ms|Jr|Sr|Hon|Rev|Res|Ord|Sec|Art|Ch|Dept|Lt|Sgt|Capt|vs|v|approx|est|etc|Bldg|Blvd|Twp"
    r"|Tr|Pct|Comm|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec|Ft|Mt|Exh|Fig|pp|p|a|Ph|U\.S|D|Sra)|\b[A-Z]|[ap]\.m)$"
)
_SENTENCE_END = re.compile(r"[.;](?=\s|$|[\"')\]])|\n\n")
_FOLLOWS = re.compile(
    r"[,;.]? (?:and |with (?:a |the )?)?(?:it was )?(?:the motion was )?(?:seconded|second(?:ed)? by|a? ?second (?:by|from|was)|2nd by|supported by"
    r"|SECONDED|Seconded|Second by|secundad[oa])\b"
    r"|[,;.]? (?:and )?(?:the )?(?:[Mm]otion|MOTION)\b (?:was|is|carried|passed|failed|CARRIED|PASSED|FAILED|APPROVED|approved|received|made|duly)"
    r"|,? (?:which|and) (?:was )?(?:duly |unanimously )?(?:carried|passed|approved unanimously|adopted unanimously|failed)\b"
    r"| (?:received|passed|carried|failed|prevailed)(?: unanimously| by| on| with| a\b|$|[.,;])| was (?:made|offered|seconded|approved|adopted|passed|carried)\b"
    r"|\s(?:AYES?|Ayes?|YEAS?|Yeas?|NAYS?|RESULTS?|MOVER|Mover|VOTE|Vote|Roll [Cc]all|ROLL CALL|Voice vote|All in favou?r|ALL AYES|Unanimous\w*|UNANIMOUS\w*"
    r"|Carried|CARRIED|Passed|PASSED|Failed|FAILED|DEFEATED|Approved|APPROVED|Recorded vote|In Favou?r|For|Yes|Moved by|MOVED BY|Seconded by)(?= ?[:;(\[.\d,-]|$| \w)"
    r"|\s[(\[]?\d{1,2} ?- ?\d{1,2}(?: ?- ?\d)?[)\]]?(?=[.\s]|$)(?= ?\.?$)",
)
_BOUNDARY_CASE = re.compile(r"^\s(?:For|Yes|Vote|Approved|Passed|Failed|Carried|Unanimous\w*)$")
_MINIMUM = 6


def find_motion(text: str, vote: Vote) -> str | None:
    """Return the text of the motion of a vote, or None."""
    if vote.resumed is not None and (found := find_motion(text, vote.resumed)):
        return found
    decided = next((marker.start for marker in vote.markers if marker.kind in _DECISIVE), vote.end)
    mover = next((marker for marker in vote.markers if marker.kind == "mover" and marker.value is not None), None)
    second = next((marker for marker in vote.markers if marker.kind == "second"), None)
    anonymous = next((marker for marker in vote.markers if marker.kind == "mover" and marker.value is None), None)
    if mover is not None and (found := _after_mover(text, mover, second, decided) or _before_mover(text, mover)):
        return found
    if anonymous is not None and (found := _after(text, anonymous.end, max(decided, anonymous.end))):
        return found
    if mover is None and second is not None and (found := _before_mover(text, second)):
        return found
    subject = _MOTION_TO.search(text, vote.start, vote.end)
    if subject is not None and (found := clean_motion(text[subject.start(1) : vote.end + 60])):
        return found
    return _title_before(text, vote.start)


def _after_mover(text: str, mover: Marker, second: Marker | None, decided: int) -> str | None:
    position = mover.end
    if second is not None and 0 <= second.start - mover.end <= 14:
        position = second.end
    end = max(decided, position)
    found = _after(text, position, end)
    if found is None and second is not None and second.end > position:
        found = _after(text, second.end, max(decided, second.end))
    return found


_BODY = re.compile(r"[,; ]*(?:(?:and )?(?:duly |unanimously )?(?:carried|passed|approved)[^,]{0,40}, )?((?:the )?(?:Board|Council|Commission|Committee|Court|Trustees|City)\b)")
_OBJECT = re.compile(r"[ ,:]*((?:the |approval |adoption |acceptance )?[A-Z#][^\n]{5,})")
_MOTION_TO = re.compile(r"\bmotion ((?:to|that|for) [^.\n]{4,})", re.IGNORECASE)
_ITEM_TITLE = re.compile(r"(?:^|\n)((?:\(?[\dA-Za-z]{1,6}[-.)\d]{0,8} )?[A-Z][^\n]{14,600})$")
_DECISIVE = ("result", "unanimous", "numbers", "roll", "call")
_SKIP = re.compile(r"(?:[,;:.\s)\]-]|and\b|the motion\b|motion\b|MOTION\b|it was\b|VOTED\b|voted\b|RESOLVED\b|resolved\b|so moved\b|moved\b)*")


def _after(text: str, position: int, end: int) -> str | None:
    """Return the motion that starts within the sentence after a position."""
    start = _SKIP.match(text, position, min(len(text), position + 40))
    position = start.end() if start else position
    limit = min(max(end, position), position + _MAX_LENGTH)
    rest = text[position:limit]
    if limit == end and end < len(text):
        rest = rest.rstrip()
    match = _START.search(rest, 0, 200)
    if match is not None and _SENTENCE_END.search(rest, 0, match.start()) is None:
        return clean_motion(rest[match.start() :])
    if (body := _BODY.match(rest)) is not None:
        return clean_motion(text[position + body.start(1) : position + body.start(1) + _MAX_LENGTH])
    if _OBJECT.match(rest) is not None:
        return clean_motion(rest)
    return None


def _before_mover(text: str, mover: Marker) -> str | None:
    """Return the motion of "a motion to approve the bills was made by Lee"."""
    before = text[max(0, mover.start - 800) : mover.start]
    before = before[before.rfind("\n\n") + 1 :]
    found = list(_MOTION_TO.finditer(before))
    if not found:
        return None
    return clean_motion(f"{before[found[-1].start(1) :].rstrip()} was made") if found else None


def _title_before(text: str, start: int) -> str | None:
    """Return the title of the item before a vote that has no other text."""
    before = text[max(0, start - 700) : start].rstrip(" \n:([")
    match = _ITEM_TITLE.search(before)
    return clean_motion(match[1].strip()) if match is not None else None


def clean_motion(rest: str) -> str | None:
    """Return the text up to the end of its sentence or the first words that do not belong to the motion."""
    rest = rest[:_MAX_LENGTH]
    end = _sentence_end(rest)
    follows = _first_follow(rest[:end] + ("." if end < len(rest) else ""))
    motion = " ".join(rest[: min(end, follows)].split()).strip(" ,;:-")
    return motion if len(motion) >= _MINIMUM else None


def _sentence_end(text: str) -> int:
    for match in _SENTENCE_END.finditer(text):
        if match[0] == "." and _ABBREVIATION.search(text, max(0, match.start() - 8), match.start()):
            following = text[match.end() : match.end() + 2].strip()
            if following and not (text[max(0, match.start() - 3) : match.start()].endswith(".m") and following[0].isupper()):
                continue
        return match.start()
    return len(text)


def _first_follow(text: str) -> int:
    for match in _FOLLOWS.finditer(text):
        word = match[0].strip(" ,;.\n")
        before = text[: match.start()]
        # "Approved plans for the park" may be part of the motion; a list of votes is not.
        if word in ("For", "Yes", "Vote", "Approved", "Passed", "Failed", "Carried") and not before.rstrip().endswith((".", "\n")):
            after = text[match.end() : match.end() + 2].strip()
            if "\n" not in match[0] and not after.startswith((":", ";", "(", "[", "-")) and not after[:1].isdigit():
                continue
        return match.start()
    return len(text)
