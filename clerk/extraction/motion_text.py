"""The text of a motion: from "to approve …" to the end of its sentence, without what follows it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from clerk.extraction.marker import Marker
from clerk.extraction.titles import HONORIFIC_MARK

if TYPE_CHECKING:
    from clerk.extraction.vote import Vote

_MAX_LENGTH = 2000
_MINIMUM = 6
_DECISIVE = ("result", "unanimous", "numbers", "roll", "call")
_START = re.compile(
    r"\b(?:to (?=[a-z$])|TO (?=[A-Z])|To (?=[a-z])|that\b|THAT\b|That\b|for (?=(?:approval|adoption|the|a|an|council"
    r"|passage)\b)"
    r"|(?:the |its )?(?:approval|adoption|acceptance|passage|tabling|denial|reconsideration|ratification|suspension"
    r"|introduction|amendment)"
    r" (?:of|to)\b|adjournment\b|recess\b|de (?=\w{3,14}[aei]r\b)|para (?=\w{3,14}[aei]r\b)|que (?=(?:se|el|la)\b))",
)
_OBJECT = re.compile(
    r"(?:[A-Z#](?!otion|econd|oice|oll)|(?:the|staff|its|an?|approval|adoption|acceptance|adjournment)\b)[^\n]{5,}"
)
"""What a member moved without "to": "moved Council Bill 118", "moves staff recommendation"."""
_BODY = re.compile(
    r"[,; ]*(?:(?:and )?(?:it was )?(?:duly |unanimously )?(?:carried|passed|approved)[^,.]{0,40}, "
    r"|with [^.]{5,80}?, )?"
    r"((?:the )?(?:Board|Council|Commission|Committee|Court|Trustees|City|Authority|Town|Village)\b(?! Member))"
)
_SKIP = re.compile(
    r"(?:[,;:.\s)\]-]|and\b|the motion\b|motion\b|MOTION\b|it was\b|VOTED\b|voted\b|RESOLVED\b|resolved\b|so moved\b"
    r"|moved\b|I move\b)*"
)
_ADJACENT = re.compile(r"(?:[\s,;./()-]|and\b|then\b|was\b|with\b|a\b)*")
_MOVED = re.compile(r"\b(?:moved|moves|motioned)$", re.IGNORECASE)
_MOTION_TO = re.compile(r"\bmotion ((?:to|that|for) [^.\n]{4,})", re.IGNORECASE)
_SENTENCE_END = re.compile(r"[.;](?=\s|$|[\"')\]])|\n\n")
ABBREVIATION = re.compile(
    r"(?:\b(?:[Nn]o|NO|[Nn]os|Inc|Co|Corp|Ltd|St|Ave|Rd|Dr|Mr|Mrs|Ms|Jr|Sr|Hon|Rev|Res|Ord|Sec|Art|Ch|Dept|Lt|Sgt|Capt|vs|v|approx|est|etc"
    r"|Bldg|Blvd|Twp|Tr|Pct|Comm|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec|Ft|Mt|Exh|Fig|pp|p|a|Ph|D|Sra)|\b[A-Z]|[ap]\.m|"
    + HONORIFIC_MARK
    + r"\S{0,3})$"
)
_FOLLOWS = re.compile(
    r"[,;.]? (?:and |with (?:a |the )?)?(?:it was )?(?:the motion was )?(?:seconded|second(?:ed)? by|a? ?second (?:by"
    r"|from|was)|2nd by"
    r"|supported by|SECONDED|Seconded|Second by|secundad[oa])\b"
    r"|[,;.]? (?:and )?(?:the )?(?:[Mm]otion|MOTION)\b (?:was|is|carried|passed|failed|CARRIED|PASSED|FAILED|APPROVED"
    r"|approved|received|made|duly)"
    r"|, which (?:was|is)\b|,? (?:which|and) (?:was )?(?:duly |unanimously )?(?:carried|passed|approved|adopted"
    r"|failed)(?: unanimously| by a| on a|,)"
    r"|(?<! and)(?<! be) (?:received|passed|carried|failed|prevailed)(?: unanimously| by| on| with| a\b|$|[.,;])"
    r"| was (?:made|offered"
    r"|seconded)\b"
    r"|\s(?:AYES?|Ayes?|YEAS?|Yeas?|NAYS?|RESULTS?|MOVER|Mover|VOTE|Roll [Cc]all|ROLL CALL|Voice vote|All in favou?r"
    r"|ALL AYES"
    r"|CARRIED|PASSED|FAILED|DEFEATED|Recorded vote|In Favou?r|Moved by|MOVED BY|Seconded by)(?= ?[:;(\[.\d,-]|$| \w)"
    r"|\s(?:Vote|For|Yes)(?= ?[:;])",
)
_ITEM_START = re.compile(
    r"(?:^|\n|(?<=\. ))(?=[#*(]{0,2}(?:(?<!\. )\d{1,4}[-.)\dA-Za-z]{0,8} ?[.):-]? ?[A-Z\"]|[A-Z][.)] [A-Z]"
    r"|[IVX]{1,4}[.)] |(?:Agenda )?Item\b|ITEM\b|Ordinance\b"
    r"|ORDINANCE\b|Resolution\b|RESOLUTION\b|Article\b|ARTICLE\b|Council Bill\b|Bill\b|Action:|Res\.|Ord\.|ASUNTO\b"
    r"|PUNTO\b))"
)
_OUTCOME = re.compile(
    r" (?:Passed|Adopted|Approved|Carried|Failed|Defeated|PASSED|ADOPTED|APPROVED|CARRIED|FAILED)\.?$"
)
_TRAILING = re.compile(r",? (?:with|by|on|and|which|upon)$")
_MAX_TITLE = 400
_MIN_TITLE = 16


def find_motion(text: str, vote: Vote, after: int = 0) -> str | None:
    """Return the text of the motion of a vote, or None. `after`: where the vote before it ends."""
    if vote.resumed is not None and (found := find_motion(text, vote.resumed, after)):
        return found
    mover = next((marker for marker in vote.markers if marker.kind == "mover" and marker.value is not None), None)
    second = next((marker for marker in vote.markers if marker.kind == "second"), None)
    anonymous = next((marker for marker in vote.markers if marker.kind == "mover" and marker.value is None), None)
    if mover is not None and (found := _after_mover(text, vote, mover, second) or _before_mover(text, mover)):
        return found
    if anonymous is not None and (found := _after(text, anonymous.end, _decided(text, vote, anonymous.end))):
        return found
    if mover is None and second is not None and (found := _before_mover(text, second)):
        return found
    subject = _MOTION_TO.search(text, vote.start, vote.end)
    if subject is not None and (found := clean_motion(text[subject.start(1) : vote.end + 60])):
        return found
    return _title_before(text, vote.start, after) or _title_before(text, vote.markers[0].start, after)


def _decided(text: str, vote: Vote, position: int) -> int:
    """Return where the outcome starts, which the motion cannot reach. "M/S/C" states it before the motion."""
    for marker in vote.markers:
        states_it_before = marker.kind == "result" and (marker.value.adjacent or marker.start == marker.end)
        if (
            marker.kind in _DECISIVE
            and marker.start >= position
            and not (states_it_before and marker.start - position < 4)
        ):
            return marker.start
    return len(text)


def _after_mover(text: str, vote: Vote, mover: Marker, second: Marker | None) -> str | None:
    position, end = mover.end, _decided(text, vote, mover.end)
    is_verb = _MOVED.search(text, max(mover.start, mover.end - 12), mover.end) is not None
    counted = next(
        (marker.start for marker in vote.markers if marker.kind in ("numbers", "roll") and marker.start > mover.end), 0
    )
    if second is not None and second.start >= mover.end:
        if (
            _ADJACENT.fullmatch(text, mover.end, min(second.start, mover.end + 40)) is not None
            and second.start - mover.end < 40
        ):
            position = second.end
            end = _decided(text, vote, position)
        elif found := _after(text, position, min(end, second.start), counted, is_verb=is_verb):
            return found
        else:
            position = second.end
            end = _decided(text, vote, position)
    return _after(text, position, end, counted, is_verb=is_verb)


def _after(text: str, position: int, end: int, counted: int = 0, *, is_verb: bool = True) -> str | None:
    """Return the motion that starts within the sentence after a position.

    `counted`: where numbers or names of voters start. `is_verb`: whether what was moved may follow without "to".
    """
    start = _SKIP.match(text, position, min(len(text), position + 40))
    position = start.end() if start else position
    rest = text[position : min(max(end, position), position + _MAX_LENGTH)]
    match = _START.search(rest, 0, 200)
    if match is not None and _SENTENCE_END.search(rest, 0, match.start()) is None:
        return clean_motion(rest[match.start() :])
    if (body := _BODY.match(text, position, position + 200)) is not None:
        begin = body.start(1)
        return clean_motion(text[begin : counted if counted > begin else begin + _MAX_LENGTH])
    if is_verb and _OBJECT.match(rest) is not None:
        return clean_motion(rest)
    return None


def _before_mover(text: str, mover: Marker) -> str | None:
    """Return the motion of "a motion to approve the bills was made by Lee"."""
    before = text[max(0, mover.start - 800) : mover.start]
    before = before[max(before.rfind("\n\n"), before.rfind(". ")) + 1 :].rstrip()
    found = list(_MOTION_TO.finditer(before))
    if not found:
        return None
    motion = before[found[-1].start(1) :].removesuffix(" was").removesuffix(" were")
    return clean_motion(motion)


def _title_before(text: str, start: int, after: int) -> str | None:
    """Return the title of the agenda item before a vote that has no other text."""
    before = text[max(after, start - _MAX_TITLE, 0) : start].rstrip(" \n:([")
    starts = [match.end() for match in _ITEM_START.finditer(before)]
    if not starts:
        return None
    title = _OUTCOME.sub("", " ".join(before[starts[-1] :].split())).strip(" ,;:-(")
    return title if _MIN_TITLE <= len(title) <= _MAX_TITLE else None


def clean_motion(rest: str) -> str | None:
    """Return the text up to the end of its sentence or the first words that do not belong to the motion."""
    rest = rest[:_MAX_LENGTH]
    end = _sentence_end(rest)
    # A word such as "carried" ends the motion only before a mark, so the mark is searched too.
    follows = _FOLLOWS.search(rest[:end] + ("." if end < len(rest) else ""))
    motion = " ".join(rest[: min(end, follows.start() if follows else end)].split()).strip(" ,;:-([")
    motion = _TRAILING.sub("", motion)
    if motion.endswith(("a.m", "p.m")):
        motion += "."
    return motion if len(motion) >= _MINIMUM else None


def _sentence_end(text: str) -> int:
    depth_checked = 0
    for match in _SENTENCE_END.finditer(text):
        if match[0] == "." and ABBREVIATION.search(text, max(0, match.start() - 8), match.start()):
            following = text[match.end() : match.end() + 2].strip()
            is_hour = text[max(0, match.start() - 3) : match.start()].endswith(".m")
            if following and not (is_hour and following[0].isupper()):
                continue
        if match[0] == ";" and depth_checked < 20:
            depth_checked += 1
            if text.count("(", 0, match.start()) > text.count(")", 0, match.start()):
                continue  # within brackets
        return match.start()
    return len(text)
