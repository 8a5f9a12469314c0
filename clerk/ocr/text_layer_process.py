"""Child process of `clerk.ocr.searchable_pdf`: adds invisible text to the pages of a PDF with pikepdf.

Run as `python -m clerk.ocr.text_layer_process PDF SCRATCH`. SCRATCH has a file `{n}.words` for each page that gets
text. Such a page is rotated and deskewed as it was for OCR. Invisible text that it has already is removed: OCR was run
because it is unusable.
Limitation: invisible text inside a form that the page draws stays.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pikepdf
from pikepdf import Array, Dictionary, Matrix, Name
from pikepdf.canvas import ContentStreamBuilder

from clerk.documents import word_boxes
from clerk.documents.word_boxes import Word, WordBoxes
from clerk.ocr.limited_child import run_limited
from clerk.ocr.sandbox import Limits, ToolFailed
from clerk.ocr.searchable_pdf import OUTPUT

_MEMORY = 1 << 30
_CPU_SECONDS = 20.0
_CPU_SECONDS_PER_PAGE = 2.0
_INVISIBLE = 3
"""Text rendering mode."""
_GLYPH_WIDTH = 0.5
"""Of every character, as a share of the font size."""
_CHARACTERS_PER_FONT = 255
_MAX_BASELINE_DEVIATION = 0.6
"""Of the height of a line: a word that is further away is not on the line's baseline."""
_SHOW_TEXT = frozenset(("Tj", "TJ", "'", '"'))


class InvisibleFonts:
    """Fonts without glyphs, for any characters. A font has 255 codes, so there may be several.

    Type 3, since such a font needs no font file: all its characters are an empty drawing.
    """

    def __init__(self, pdf: pikepdf.Pdf) -> None:
        self.pdf = pdf
        self.codes: dict[str, int] = {}
        """Character → 255 times the number of its font, plus its code, minus 1."""
        self.fonts: list[pikepdf.Object] = []

    def encode(self, text: str) -> list[tuple[pikepdf.Object, bytes]]:
        """The fonts and codes of a text: usually one."""
        runs: list[tuple[int, bytearray]] = []
        for character in text:
            font, code = divmod(self.codes.setdefault(character, len(self.codes)), _CHARACTERS_PER_FONT)
            if font == len(self.fonts):
                self.fonts.append(self.pdf.make_indirect(Dictionary()))
            if not runs or runs[-1][0] != font:
                runs.append((font, bytearray()))
            runs[-1][1].append(code + 1)
        return [(self.fonts[font], bytes(codes)) for font, codes in runs]

    def write(self) -> None:
        """Fill in the fonts, when all characters are known."""
        characters = list(self.codes)
        width = round(_GLYPH_WIDTH * 1000)
        glyph = self.pdf.make_stream(f"{width} 0 d0".encode())
        for number, font in enumerate(self.fonts):
            part = characters[number * _CHARACTERS_PER_FONT :][:_CHARACTERS_PER_FONT]
            values = Dictionary(
                Type=Name.Font,
                Subtype=Name.Type3,
                FontBBox=Array([0, -250, width, 750]),
                FontMatrix=Array([0.001, 0, 0, 0.001, 0, 0]),
                CharProcs=Dictionary(blank=glyph),
                Encoding=Dictionary(Type=Name.Encoding, Differences=Array([1, *[Name.blank] * len(part)])),
                FirstChar=1,
                LastChar=len(part),
                Widths=Array([width] * len(part)),
                Resources=Dictionary(),
                ToUnicode=self.pdf.make_stream(_to_unicode(part)),
            )
            for key in values.keys():  # noqa: SIM118 (a pikepdf dictionary)
                font[key] = values[key]


def _to_unicode(characters: Sequence[str]) -> bytes:
    lines = [f"<{code:02x}> <{character.encode('utf-16-be').hex()}>" for code, character in enumerate(characters, 1)]
    # A section has at most 100 lines.
    sections = (lines[start : start + 100] for start in range(0, len(lines), 100))
    mappings = "".join(f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar\n" for part in sections)
    return (
        "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n"
        "/CMapName /clerk def\n/CMapType 2 def\n1 begincodespacerange\n<00> <ff>\nendcodespacerange\n"
        f"{mappings}endcmap\nend\nend\n"
    ).encode()


def add_text(page: pikepdf.Page, boxes: WordBoxes, fonts: InvisibleFonts) -> None:
    """Add the words to a page, and rotate and deskew it as it was for OCR."""
    _remove_invisible_text(fonts.pdf, page)
    page.contents_add(ContentStreamBuilder().push().cm(_deskew(page, boxes.skew)).build(), prepend=True)
    page.contents_add(ContentStreamBuilder().pop().build())
    boxes = replace(boxes, skew=0.0)
    text = ContentStreamBuilder().push().begin_text().set_text_rendering(_INVISIBLE)
    names: dict[tuple[int, int], Name] = {}
    for line in boxes.lines:
        baseline = statistics.median(word.bottom for word in line)
        height = statistics.median(word.bottom - word.top for word in line)
        for word in line:
            own = abs(word.bottom - baseline) > _MAX_BASELINE_DEVIATION * height
            _add_word(text, page, boxes, word, word.bottom if own else baseline, height, fonts, names)
    text.end_text().pop()
    page.contents_add(text.build())
    page.rotate(boxes.rotation, relative=True)


def _add_word(
    text: ContentStreamBuilder,
    page: pikepdf.Page,
    boxes: WordBoxes,
    word: Word,
    baseline: float,
    height: float,
    fonts: InvisibleFonts,
    names: dict[tuple[int, int], Name],
) -> None:
    start = _user_space(page, *word_boxes.page_point(boxes, word.left, baseline))
    end = _user_space(page, *word_boxes.page_point(boxes, word.right, baseline))
    above = _user_space(page, *word_boxes.page_point(boxes, word.left, baseline - height))
    width, size = math.dist(start, end), math.dist(start, above)
    if width <= 0 or size <= 0:
        return
    across, up = (end[0] - start[0]) / width, (end[1] - start[1]) / width
    text.set_text_matrix(Matrix(across, up, -up, across, *start))
    # A space after the word, without which the words of a line would be one.
    text.set_text_horizontal_scaling(100 * width / (_GLYPH_WIDTH * size * len(word.text)))
    for font, codes in fonts.encode(word.text + " "):
        if font.objgen not in names:
            names[font.objgen] = page.add_resource(font, Name.Font)
        text.set_text_font(names[font.objgen], size)
        text.show_text(codes)


def _deskew(page: pikepdf.Page, degrees: float) -> Matrix:
    """Rotates the content counter-clockwise about the centre of the page."""
    left, bottom, right, top = _shown_box(page)
    x, y = (left + right) / 2, (bottom + top) / 2
    return Matrix().translated(x, y).rotated(degrees).translated(-x, -y)


def _user_space(page: pikepdf.Page, across: float, down: float) -> tuple[float, float]:
    """A point of the page as it is shown, in shares of its size, in the coordinates of its content."""
    rotation = int(page.obj.get(Name.Rotate, 0)) % 360
    turned = {90: (down, 1 - across), 180: (1 - across, 1 - down), 270: (1 - down, across)}
    across, down = turned.get(rotation, (across, down))
    left, bottom, right, top = _shown_box(page)
    return left + across * (right - left), top - down * (top - bottom)


def _shown_box(page: pikepdf.Page) -> tuple[float, float, float, float]:
    """The part of the crop box that is within the media box, like poppler."""
    crop, media = (_sorted_box(box) for box in (page.cropbox, page.mediabox))
    box = max(crop[0], media[0]), max(crop[1], media[1]), min(crop[2], media[2]), min(crop[3], media[3])
    return box if box[0] < box[2] and box[1] < box[3] else media


def _sorted_box(box: Array) -> tuple[float, float, float, float]:
    x1, y1, x2, y2 = (float(value) for value in box)
    return min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)


def _remove_invisible_text(pdf: pikepdf.Pdf, page: pikepdf.Page) -> None:
    kept = []
    mode, saved = 0, [0]
    for instruction in pikepdf.parse_content_stream(page):
        operator = str(instruction.operator)
        if operator == "q":
            saved.append(mode)
        elif operator == "Q" and len(saved) > 1:
            mode = saved.pop()
        elif operator == "Tr":
            mode = int(instruction.operands[0])
        elif operator in _SHOW_TEXT and mode == _INVISIBLE:
            continue
        kept.append(instruction)
    page.Contents = pdf.make_stream(pikepdf.unparse_content_stream(kept))


def _export(pdf: Path, scratch: Path, _parent_pipe: int) -> None:
    try:
        with pikepdf.open(pdf) as opened:
            fonts = InvisibleFonts(opened)
            for file in sorted(scratch.glob("*.words")):
                number = int(file.stem)
                if number > len(opened.pages):
                    raise ToolFailed(f"page {number} was not found in the PDF")
                add_text(opened.pages[number - 1], word_boxes.loads(file.read_text()), fonts)
            fonts.write()
            opened.save(scratch / OUTPUT)
    except pikepdf.PasswordError as error:
        raise ToolFailed("the document opens only with a password") from error
    except pikepdf.PdfError as error:
        raise ToolFailed(f"the PDF is damaged: {error}") from error


def main() -> None:
    pdf, scratch = Path(sys.argv[1]), Path(sys.argv[2])
    size, pages = pdf.stat().st_size, len(list(scratch.glob("*.words")))
    limits = Limits(_MEMORY + 2 * size, file_size=2 * size + (64 << 20))
    run_limited(partial(_export, pdf, scratch), pdf, scratch, limits, _CPU_SECONDS + _CPU_SECONDS_PER_PAGE * pages)


if __name__ == "__main__":
    main()
