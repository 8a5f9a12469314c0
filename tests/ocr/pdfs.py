"""Generates small PDFs: digital ones from raw objects, scanned ones from drawn images."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence

from PIL import Image, ImageDraw, ImageFont

MINUTES = (
    "MINUTES OF THE REGULAR MEETING",
    "The town council met in the library at seven in the evening.",
    "Present were Mayor Eleanor Whitfield and members Ortega, Blum and Castellano.",
    "Member Ortega moved to approve the budget of the water department.",
    "Member Blum seconded. The motion carried with four ayes and no nays.",
    "The clerk read a letter about the bridge over Miller Creek.",
    "Member Castellano asked for a report on the repair of the school roof.",
    "There being no further business the meeting was adjourned at nine.",
)


class Pdf:
    """PDF objects, written with a cross-reference table."""

    def __init__(self) -> None:
        self.objects: list[bytes] = []

    def add(self, body: bytes | str) -> int:
        self.objects.append(body.encode("latin-1") if isinstance(body, str) else body)
        return len(self.objects)

    def stream(self, content: bytes, entries: str = "", compress: bool = True) -> int:
        filtered = ""
        if compress:
            content, filtered = zlib.compress(content, 9), "/Filter /FlateDecode"
        return self.add(
            f"<< {entries} {filtered} /Length {len(content)} >>\nstream\n".encode() + content + b"\nendstream"
        )

    def write(self, root: int, trailer: str = "") -> bytes:
        out = io.BytesIO()
        out.write(b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n")
        offsets = []
        for number, body in enumerate(self.objects, 1):
            offsets.append(out.tell())
            out.write(b"%d 0 obj\n" % number + body + b"\nendobj\n")
        start = out.tell()
        out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(offsets) + 1))
        out.writelines(b"%010d 00000 n \n" % offset for offset in offsets)
        out.write(f"trailer\n<< /Size {len(offsets) + 1} /Root {root} 0 R {trailer} >>\n".encode())
        out.write(b"startxref\n%d\n%%%%EOF\n" % start)
        return out.getvalue()


def document(pages: Sequence[tuple[bytes, str]], box: str = "0 0 612 792", more: str = "") -> bytes:
    """A PDF with one page for each (content stream, additional resources)."""
    pdf = Pdf()
    font = pdf.add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    parent = len(pages) * 2 + 2
    kids = []
    for content, resources in pages:
        contents = pdf.stream(content)
        kids.append(
            pdf.add(
                f"<< /Type /Page /Parent {parent} 0 R /MediaBox [{box}] /Contents {contents} 0 R {more}"
                f" /Resources << /Font << /F1 {font} 0 R >> {resources} >> >>"
            )
        )
    tree = pdf.add(f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(f'{kid} 0 R' for kid in kids)}] >>")
    assert tree == parent
    return pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>"))


def lines_of_text(lines: Sequence[str], size: int = 12) -> bytes:
    shown = "".join(f"({_escaped(line)}) Tj T*\n" for line in lines)
    return f"BT /F1 {size} Tf {size * 1.4:.1f} TL 60 720 Td\n{shown}ET".encode("latin-1")


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")


def digital(pages: int = 1, lines: Sequence[str] = MINUTES) -> bytes:
    return document([(lines_of_text([f"Page {page}", *lines]), "") for page in range(1, pages + 1)])


def page_image(lines: Sequence[str] = MINUTES, dpi: int = 150, skew: float = 0.0, turned: int = 0) -> Image.Image:
    """An image of a letter page, rotated clockwise by `turned` degrees (a multiple of 90)."""
    image = Image.new("L", (round(8.5 * dpi), 11 * dpi), 255)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=dpi * 11 / 72)
    for number, line in enumerate(lines):
        draw.text((dpi * 0.7, dpi * (0.9 + number * 0.3)), line, fill=20, font=font)
    if skew:
        image = image.rotate(skew, resample=Image.Resampling.BICUBIC, fillcolor=255)
    return image.rotate(-turned, expand=True) if turned else image


def dense_page() -> Image.Image:
    """A page with four times as much text, in half the size, on which OCR takes seconds."""
    page = page_image(MINUTES * 4)
    tile = page.resize((page.width // 2, page.height // 2))
    for left in (0, tile.width):
        for top in (0, tile.height):
            page.paste(tile, (left, top))
    return page


def scanned(images: Sequence[Image.Image], dpi: int = 150) -> bytes:
    out = io.BytesIO()
    images[0].save(out, format="PDF", resolution=dpi, save_all=True, append_images=images[1:])
    return out.getvalue()


def numbered(pages: int) -> bytes:
    """Scanned pages for which OCR is fast: three lines each, the first with the page number."""
    lines = ("The clerk read a letter about the bridge.", "The motion carried.")
    return scanned([page_image((f"This is page number {page}", *lines), dpi=100) for page in range(1, pages + 1)], 100)


def with_layer(scan: Image.Image, layer: Sequence[str], dpi: int = 150) -> bytes:
    """A scan whose text layer, drawn invisibly over the image, consists of these lines."""
    pdf = Pdf()
    image = pdf.stream(
        scan.tobytes(),
        f"/Type /XObject /Subtype /Image /Width {scan.width} /Height {scan.height}"
        " /ColorSpace /DeviceGray /BitsPerComponent 8",
    )
    font = pdf.add("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    width, height = scan.width * 72 / dpi, scan.height * 72 / dpi
    contents = pdf.stream(f"q {width} 0 0 {height} 0 0 cm /Im Do Q 3 Tr ".encode() + lines_of_text(layer, 8))
    page = pdf.add(
        f"<< /Type /Page /Parent 5 0 R /MediaBox [0 0 {width} {height}] /Contents {contents} 0 R"
        f" /Resources << /Font << /F1 {font} 0 R >> /XObject << /Im {image} 0 R >> >> >>"
    )
    tree = pdf.add(f"<< /Type /Pages /Count 1 /Kids [{page} 0 R] >>")
    assert tree == 5
    return pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>"))


def blocks_image(blocks: Sequence[tuple[float, float, Sequence[str]]], dpi: int = 150, size: float = 9) -> Image.Image:
    """A letter page with lines of text at (left, top) in inches. The lines are a sixth of an inch apart."""
    image = Image.new("L", (round(8.5 * dpi), 11 * dpi), 255)
    draw = ImageDraw.Draw(image)
    font = ImageFont.load_default(size=dpi * size / 72)
    for left, top, lines in blocks:
        for number, line in enumerate(lines):
            draw.text((left * dpi, (top + number / 6) * dpi), line, fill=0, font=font)
    return image


LEFT_COLUMN = (
    "The town council met in the library at seven in the",
    "evening. Present were the mayor and four members of",
    "the council. The clerk read a letter about the bridge",
    "over the creek, which the county closed after the flood",
    "of last spring. Member Ortega asked when the work on",
    "the bridge would begin. The engineer answered that the",
    "state must first approve the drawings, and that nobody",
    "should expect the work to begin before the next summer.",
    "Member Blum moved to write a letter to the governor and",
    "to ask for help. The motion carried with four ayes and",
    "no nays. The mayor will sign the letter this week, and",
    "the clerk will send copies of it to the newspapers.",
)
RIGHT_COLUMN = (
    "The council then turned to the budget of the water",
    "department. The treasurer explained that the pumps",
    "are thirty years old and that the cost of repairs has",
    "doubled since the last budget was adopted. Member",
    "Castellano proposed to buy two new pumps in place of",
    "three, and to pay for them with the money that was",
    "meant for the roof of the garage. The treasurer said",
    "that the roof could wait for another year if the snow",
    "is removed in time. After a long discussion the",
    "proposal was adopted with three ayes and one nay, and",
    "the meeting was adjourned at nine in the evening by",
    "the mayor, who thanked the members for their patience.",
)
TWO_COLUMNS = ((0.7, 1.0, LEFT_COLUMN), (4.42, 1.03, RIGHT_COLUMN))
"""The gutter is narrow, and the lines of the columns are not quite level: tesseract joins them."""
