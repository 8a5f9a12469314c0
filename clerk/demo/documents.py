"""Generates the documents of the demo: deterministic, without external fonts or files.

Digital pages have text. Scanned pages are images at 150 to 200 dpi, slightly rotated, with noise and without a text
layer. HIDDEN_WORD occurs in one scanned page only.
"""

from __future__ import annotations

import io
import random
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFilter, ImageFont
from pypdf import PdfReader, PdfWriter

from clerk.documents.storage import write

if TYPE_CHECKING:
    from fpdf import FPDF

SEED = 1787
HIDDEN_WORD = "velodrome"
_LETTER_INCHES = (8.5, 11.0)
_Font = ImageFont.FreeTypeFont
_PEOPLE = ("Ana Ruiz", "Thomas Becker", "Grace Okafor", "Linda Chow", "Samuel Ortiz", "Priya Nair")
_TOPICS = (
    "the bike lanes on Main Street",
    "the budget of the public library",
    "repairs to the water tower",
    "the lease of the old firehouse",
    "a grant for the food bank",
    "parking fees near the hospital",
    "the contract for snow removal",
    "trees along the river walk",
)
_SPANISH = (
    "la reparación de la calle principal",
    "el presupuesto de la biblioteca",
    "el contrato de recogida de basura",
    "los árboles del parque municipal",
)


@dataclass(frozen=True)
class Town:
    subdomain: str
    name: str
    state: str
    kind: str
    languages: str
    outcome: str
    """Outcome of its first run."""
    failures: int
    """Number of documents that fail on purpose."""


TOWNS = (
    Town("springfield", "Springfield", "IL", "city", "eng", "succeeded", 0),
    Town("riverton", "Riverton", "OR", "city", "eng", "succeeded", 0),
    Town("villanueva", "Villanueva", "NM", "village", "spa+eng", "succeeded", 0),
    Town("lakeside", "Lakeside", "MN", "county", "eng", "succeeded", 0),
    Town("brokenbow", "Broken Bow", "NE", "school board", "eng", "partial", 9),
)


def make_all(folder: Path, progress: Callable[[int, int], object] = lambda done, of: None) -> int:
    """Write missing documents below `folder`, one folder per town; returns the total number."""
    documents = _documents()
    for number, (path, content) in enumerate(documents, 1):
        if not (folder / path).exists():
            write(folder / path, content())
        progress(number, len(documents))
    return len(documents)


def _documents() -> list[tuple[str, Callable[[], bytes]]]:
    documents: list[tuple[str, Callable[[], bytes]]] = []

    def add(town: str, meeting: str, day: date, make: Callable[[random.Random], bytes], agenda: bool = False) -> None:
        name = f"{town}/{'_agendas/' if agenda else ''}{meeting}/{day.isoformat()}.pdf"
        # One generator per document, so that an additional document does not change the others.
        documents.append((name, lambda: make(random.Random(f"{SEED} {name}"))))  # noqa: S311 (not for cryptography)

    start = date(2024, 1, 9)
    for number in range(8):
        day = start + timedelta(days=14 * number)
        add("springfield", "City Council", day, lambda r, d=day: digital(r, "Springfield", d, 3))  # type: ignore[misc]
        add("springfield", "City Council", day, lambda r, d=day: digital(r, "Springfield", d, 1), agenda=True)  # type: ignore[misc]
    for number in range(8):
        day = start + timedelta(days=28 * number)
        word = HIDDEN_WORD if number == 5 else None
        add("riverton", "Planning Commission", day, lambda r, d=day, w=word: scanned(r, "Riverton", d, 2, w))  # type: ignore[misc]
    add("riverton", "City Council", date(2024, 6, 4), lambda r: digital(r, "Riverton", date(2024, 6, 4), 40))
    for number in range(4):
        day = start + timedelta(days=30 * number)
        add("villanueva", "Consejo Municipal", day, lambda r, d=day: digital(r, "Villanueva", d, 2, spanish=True))  # type: ignore[misc]
        add("villanueva", "Junta Escolar", day, lambda r, d=day: scanned(r, "Villanueva", d, 1, spanish=True))  # type: ignore[misc]
    for number in range(7):
        day = start + timedelta(days=21 * number)
        add("lakeside", "County Board", day, lambda r, d=day: columns(r, "Lakeside", d))  # type: ignore[misc]
        add("lakeside", "Zoning Appeals", day, lambda r, d=day: mixed(r, "Lakeside", d))  # type: ignore[misc]
    for number in range(3):
        day = start + timedelta(days=30 * number)
        add("brokenbow", "School Board", day, lambda r, d=day: digital(r, "Broken Bow", d, 2))  # type: ignore[misc]
    for number, broken in enumerate(_BROKEN * 3):
        add("brokenbow", "Finance Committee", start + timedelta(days=7 * number), broken)
    return documents[:-3]


def digital(r: random.Random, town: str, day: date, pages: int, spanish: bool = False) -> bytes:
    """A digital document, as exported by a word processor."""
    pdf = _new_pdf(day)
    for number in range(1, pages + 1):
        pdf.add_page()
        pdf.set_font("Helvetica", "B", 16)
        pdf.multi_cell(0, 10, _title(town, day, number, spanish), new_x="LMARGIN", new_y="NEXT")
        pdf.set_font("Helvetica", size=11)
        for paragraph in _minutes(r, spanish):
            pdf.multi_cell(0, 6, paragraph, new_x="LMARGIN", new_y="NEXT")
            pdf.ln(2)
    return bytes(pdf.output())


def scanned(
    r: random.Random, town: str, day: date, pages: int, word: str | None = None, spanish: bool = False
) -> bytes:
    """Page images, as made by a scanner."""
    pdf = _new_pdf(day)
    for number in range(1, pages + 1):
        lines = [_title(town, day, number, spanish), "", *_wrap(_minutes(r, spanish), 78)]
        if word is not None and number == pages:
            lines += ["", f"Public comment: a resident asked for a {word} at the fairground."]
        _add_image(pdf, _scan(r, lines, r.choice((150, 175, 200))))
    return bytes(pdf.output())


def columns(r: random.Random, town: str, day: date) -> bytes:
    """A page with two columns."""
    pdf = _new_pdf(day)
    pdf.add_page()
    pdf.set_font("Times", "B", 15)
    pdf.multi_cell(0, 9, _title(town, day, 1, False), new_x="LMARGIN", new_y="NEXT")
    pdf.set_font("Times", size=10)
    with pdf.text_columns(ncols=2, gutter=6, balance=True) as text:
        for paragraph in [*_minutes(r, False), *_minutes(r, False), *_minutes(r, False)]:
            text.write(paragraph + "\n\n")
    return bytes(pdf.output())


def mixed(r: random.Random, town: str, day: date) -> bytes:
    """A digital page followed by a scanned one."""
    writer = PdfWriter()
    writer.append(io.BytesIO(digital(r, town, day, 1)))
    writer.append(io.BytesIO(scanned(r, town, day, 1)))
    return _to_bytes(writer)


def _empty(_: random.Random) -> bytes:
    return b""


def _truncated(r: random.Random) -> bytes:
    complete = digital(r, "Broken Bow", date(2024, 2, 1), 3)
    return complete[: len(complete) // 3]


def _encrypted(r: random.Random) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(digital(r, "Broken Bow", date(2024, 2, 2), 1))))
    writer.encrypt("not for you", algorithm="RC4-128")
    return _to_bytes(writer)


def _html(_: random.Random) -> bytes:
    return b"<!DOCTYPE html><html><body><h1>404</h1><p>The page you asked for has moved.</p></body></html>\n"


_BROKEN = (_empty, _truncated, _encrypted, _html)


def _new_pdf(day: date) -> FPDF:
    # Imported on use: fpdf is slow to import and an optional dependency.
    from fpdf import FPDF

    pdf = FPDF(unit="mm", format="letter")
    pdf.set_auto_page_break(True, margin=18)
    # Otherwise the current time would be in the file, and every run would detect a revision.
    pdf.creation_date = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return pdf


def _to_bytes(writer: PdfWriter) -> bytes:
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _title(town: str, day: date, page: int, spanish: bool) -> str:
    if spanish:
        return f"{town}: acta de la sesión del {day.day}/{day.month}/{day.year}, página {page}"
    return f"{town}: minutes of {day:%B} {day.day}, {day.year}, page {page}"


def _minutes(r: random.Random, spanish: bool) -> list[str]:
    mover, seconder, *others = r.sample(_PEOPLE, 5)
    ayes = r.randint(3, 5)
    if spanish:
        topic = r.choice(_SPANISH)
        return [
            f"Se abrió la sesión a las {r.randint(5, 8)}:00 de la tarde con la asistencia de {', '.join(others)}.",
            f"El concejal {mover} presentó una moción sobre {topic}. La moción fue secundada por {seconder}.",
            f"La moción fue aprobada por {ayes} votos a favor y {5 - ayes} en contra.",
        ]
    topic, second = r.sample(_TOPICS, 2)
    return [
        f"The meeting was called to order at {r.randint(5, 8)}:00 p.m. Present: {', '.join(others)}.",
        f"Motion by {mover}, seconded by {seconder}, to approve {topic}. Motion carried {ayes}-{5 - ayes}.",
        f"The board discussed {second} at length, with an estimate not to exceed ${r.randint(5, 90)},000.",
        f"{r.choice(others)} asked staff to report back in {r.randint(2, 6)} weeks.",
        f"There being no further business, the meeting was adjourned at {r.randint(9, 11)}:{r.randint(10, 59)} p.m.",
    ]


def _wrap(paragraphs: list[str], width: int) -> list[str]:
    lines: list[str] = []
    for paragraph in paragraphs:
        line = ""
        for word in paragraph.split():
            if len(line) + len(word) + 1 > width:
                lines.append(line)
                line = word
            else:
                line = f"{line} {word}".strip()
        lines += [line, ""]
    return lines


def _scan(r: random.Random, lines: list[str], dpi: int) -> Image.Image:
    page = Image.new("L", (round(_LETTER_INCHES[0] * dpi), round(_LETTER_INCHES[1] * dpi)), 252)
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=dpi / 6.2)
    assert isinstance(font, _Font)
    for number, line in enumerate(lines):
        _write_line(draw, dpi * 0.9, dpi * 0.9 + number * dpi * 0.24, line, r.randint(10, 50), font)
    for _ in range(dpi * 6):
        position = (r.randrange(page.width), r.randrange(page.height))
        page.putpixel(position, r.randint(90, 200))
    page = page.rotate(r.uniform(-1.2, 1.2), resample=Image.Resampling.BICUBIC, fillcolor=250)
    return page.filter(ImageFilter.GaussianBlur(0.4))


def _write_line(draw: ImageDraw.ImageDraw, x: float, y: float, line: str, ink: int, font: _Font) -> None:
    """Pillow's built-in font has no accents, so acute accents are drawn as lines."""
    plain = "".join(unicodedata.normalize("NFD", character)[0] for character in line)
    draw.text((x, y), plain, fill=ink, font=font)
    height = font.size
    for index, character in enumerate(line):
        if character != plain[index]:
            middle = x + font.getlength(plain[:index]) + font.getlength(plain[index]) / 2
            top = y + height * (0.08 if character.isupper() else 0.2)
            draw.line(
                (middle - height * 0.02, top + height * 0.12, middle + height * 0.1, top), ink, round(height / 14)
            )


def _add_image(pdf: FPDF, image: Image.Image) -> None:
    jpeg = io.BytesIO()
    image.save(jpeg, "JPEG", quality=80)
    jpeg.seek(0)
    pdf.add_page()
    pdf.image(jpeg, x=0, y=0, w=pdf.w, h=pdf.h)
