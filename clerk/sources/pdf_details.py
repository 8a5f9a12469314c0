"""Date, meeting and kind of a document, from the first page of its PDF and the metadata.

They are looked for if the listing of the source has no date or no kind. What the listing says about the others stays,
except the name that was left over from a file name without a date: the page names the body better.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from clerk.documents.media_types import PDF
from clerk.documents.repository import DocumentRef, TrackedDocument
from clerk.ocr.first_page import FirstPage, FirstPageUnreadable, read_first_page
from clerk.sources.parse import find_kind
from clerk.sources.text_dates import FoundDate, find_date_in_title, find_meeting_date

DETECTION = 2
"""Version of the rules, here and in text_dates. A new version reads PDFs again in which an older one found no date."""
UNDATED = ("skip", "created", "modified")
"""Values of `undated` in a site's extra: what to do with a document that gives no date."""
UNDATED_HELP = (
    "documents without a date in the listing, the first page and the title: `skip` (default), or use the day on which"
    " the PDF was `created` or the file was `modified`"
)
_ON_REQUEST = ("created", "modified")
_WEAK = ("name", "default")
"""Origins of a meeting's name that a body named on the first page replaces."""
_HEADING_LINES = 12
_MAX_HEADING_LENGTH = 90
_MAX_TITLE_WORDS = 12
_REPORT_TITLE = re.compile(r"^memo(?:randum)?\b|\bmemorandum\b|\breport$|\bstaff report\b|^informe\b", re.IGNORECASE)
_NOT_A_TITLE = re.compile(
    r"^\W*(?:\d+|[ivx]+|[a-z])[.)]\s|\bagenda(?: date| item)?\s*(?::|no\b|#)|^(?:subject|re|title)\s*:"
    r"|\b(?:approv(?:e|al|ing)|adopt(?:ion|ing)|accept\w*|next|previous|prior|aprobaci[oó]n|anterior)\b",
    re.IGNORECASE,
)
_LABEL = re.compile(r"(?:^|\s{2,})(to|from)\s*:", re.IGNORECASE)
BODY = re.compile(
    r"\b(?:(?:city|town|village|county|borough|township|common|municipal|parish) (?:council|board|commission)"
    r"|board of (?:trustees|supervisors|selectmen|education|commissioners|directors|aldermen|health|appeals|adjustment"
    r"|county commissioners|zoning appeals|estimate)"
    r"|(?:planning|zoning|school|select|library|water|parks|conservation|historic(?:al)?|finance)"
    r"(?: (?:and|&) \w+)? (?:commission|board|committee)|zoning board of appeals"
    r"|ayuntamiento pleno|concejo municipal|junta de gobierno(?: local)?|junta municipal)\b",
    re.IGNORECASE,
)
"""Names of bodies that are known without their town."""


class Undated(Exception):
    """No date was found. The message is the second half of a sentence: `FILE has no date in its name, …`."""

    def __init__(self, code: str, problem: str, *, is_final: bool) -> None:
        super().__init__(problem)
        self.code = code
        self.is_final = is_final
        """The same content gives the same result, so it need not be read again."""


def check_undated(extra: Mapping[str, Any]) -> None:
    """Raise ValueError if `extra` has an invalid `undated`."""
    if extra.get("undated", "skip") not in UNDATED:
        raise ValueError(f"extra 'undated' must be one of {', '.join(UNDATED)}")


def fill_from_tracked(ref: DocumentRef, tracked: TrackedDocument, undated: str) -> DocumentRef:
    """Use the details that an earlier fetch found in the PDF, as long as its content has not changed."""
    if not ref.kind:
        ref = replace(ref, kind=tracked.kind, kind_origin=tracked.kind_origin or "default")
    if ref.date is not None or (tracked.date_origin in _ON_REQUEST and tracked.date_origin != undated):
        return ref  # it has a date, or the site no longer asks for such dates
    ref = replace(ref, date=tracked.date, date_origin=tracked.date_origin or "source")
    if ref.meeting_origin in _WEAK:
        ref = replace(ref, meeting=tracked.meeting, meeting_origin=tracked.meeting_origin or ref.meeting_origin)
    return ref


def with_kind(ref: DocumentRef) -> DocumentRef:
    """A document of which neither the listing nor the PDF says the kind counts as minutes."""
    return ref if ref.kind else replace(ref, kind="minutes", kind_origin="default")


def fill_from_pdf(
    ref: DocumentRef,
    pdf: Path,
    undated: str,
    day_first: bool,
    modified: date | None,
    recognize: Callable[[Path], str] | None = None,
) -> DocumentRef:
    """Read the first page and complete `ref`, or raise Undated. Starts a process and waits for it.

    `recognize` returns the text of a scanned page by OCR, or raises FirstPageUnreadable. It is used for a date only:
    it takes seconds, and the kind of a dated document can be assumed.
    """
    page, unreadable = FirstPage(""), ""
    try:
        page = read_first_page(pdf, ref.media_type)
        is_scan = ref.media_type == PDF and not page.text.strip()
        if recognize is not None and is_scan and ref.date is None and _find_date(page, day_first)[0].date is None:
            page = replace(page, text=recognize(pdf))
    except FirstPageUnreadable as error:
        unreadable = str(error)
    if ref.date is not None:
        return _fill_kind(ref, page)
    found, origin = _find_date(page, day_first)
    if found.date is None and undated in _ON_REQUEST:
        day = page.created_date if undated == "created" else modified
        found, origin = FoundDate(day, found.problem), undated
    if found.date is None:
        if unreadable:
            raise Undated("FirstPageUnreadable", f"and its first page cannot be read ({unreadable})", is_final=False)
        is_ambiguous = "several" in found.problem or "exchanged" in found.problem
        code = "AmbiguousDate" if is_ambiguous else "NoDate"
        # Another value of day_first can decide an ambiguous date.
        raise Undated(code, f"and its first page {found.problem}", is_final=not is_ambiguous)
    return _fill_kind(_fill_meeting(replace(ref, date=found.date, date_origin=origin), page), page)


def _find_date(page: FirstPage, day_first: bool) -> tuple[FoundDate, str]:
    in_text = find_meeting_date(page.text, day_first)
    in_titles = {day for line in page.title.splitlines() if (day := find_date_in_title(line, day_first)) is not None}
    if in_text.date is None:
        # A page that contradicts itself is not decided by its title.
        if len(in_titles) == 1 and "several" not in in_text.problem:
            return FoundDate(in_titles.pop()), "metadata"
        return in_text, ""
    if in_titles - {in_text.date}:
        days = sorted({in_text.date, *in_titles})
        return FoundDate(None, f"and its title give several dates ({' and '.join(map(str, days))})"), ""
    return in_text, "text"


def _fill_kind(ref: DocumentRef, page: FirstPage) -> DocumentRef:
    kind = None if ref.kind else find_kind_in_heading(_heading(page))
    return ref if kind is None else replace(ref, kind=kind, kind_origin="text")


def _fill_meeting(ref: DocumentRef, page: FirstPage) -> DocumentRef:
    body = _find_body(_heading(page)) if ref.meeting_origin in _WEAK else None
    return ref if body is None else replace(ref, meeting=body, meeting_origin="text")


def _heading(page: FirstPage) -> list[str]:
    return [line.strip() for line in page.text.splitlines() if line.strip()][:_HEADING_LINES]


def find_kind_in_heading(heading: list[str]) -> str | None:
    """The only kind that the lines of a heading name. Items of an agenda, such as `2. Approval of the minutes`, do not
    count, and `COUNCIL AGENDA: 8/24/2021` says where a report belongs to."""
    kinds = set()
    for line in heading:
        if not _is_title(line) or _NOT_A_TITLE.search(line):
            continue
        kind = "report" if _REPORT_TITLE.search(line) else find_kind(line)
        if kind is not None and (kind != "report" or _REPORT_TITLE.search(line)):
            kinds.add(kind)
    labels = {match[1].lower() for line in heading for match in _LABEL.finditer(line)}
    if not kinds and labels >= {"to", "from"}:
        return "report"  # a memorandum, whose title may be an image
    if kinds == {"agenda", "notice"}:
        return "agenda"  # an agenda is published as a notice
    return kinds.pop() if len(kinds) == 1 else None


def _is_title(line: str) -> bool:
    """A title has few words, most of them with a capital letter."""
    words = [word for word in line.split() if word[:1].isalpha()]
    capitals = sum(word[0].isupper() for word in words)
    return len(words) <= _MAX_TITLE_WORDS and 2 * capitals >= len(words)


def _find_body(heading: list[str]) -> str | None:
    """The only body that a heading names."""
    bodies = {match[0].title().replace(" Of ", " of ").replace(" And ", " and ")
              for line in heading if len(line) <= _MAX_HEADING_LENGTH for match in BODY.finditer(line)}  # fmt: skip
    return bodies.pop() if len(bodies) == 1 else None
