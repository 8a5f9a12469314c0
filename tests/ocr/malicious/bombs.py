"""Generates PDF bombs: small files that need much CPU time or memory."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from tests.ocr.pdfs import MINUTES, Pdf, lines_of_text

Make = Callable[[int], bytes]
MakePdf = Callable[[], bytes]


def one_page(pdf: Pdf, contents: int, resources: str = "", more: str = "") -> bytes:
    tree = len(pdf.objects) + 2
    page = pdf.add(
        f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 612 792] /Contents {contents} 0 R"
        f" /Resources << {resources} >> {more} >>"
    )
    pdf.add(f"<< /Type /Pages /Count 1 /Kids [{page} 0 R] >>")
    return pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>"))


def compressed_repeat(piece: bytes, times: int) -> bytes:
    """`piece` repeated, compressed piece by piece to save memory."""
    compressor = zlib.compressobj(1)
    pieces = [compressor.compress(piece) for _ in range(times)]
    return b"".join([*pieces, compressor.flush()])


def huge_image(side: int, bits: int) -> bytes:
    pdf = Pdf()
    row = bytes([0b10101010]) * (side * bits // 8)
    entries = f"/Type /XObject /Subtype /Image /Width {side} /Height {side} /ColorSpace /DeviceGray"
    image = pdf.stream(
        compressed_repeat(row, side), f"{entries} /BitsPerComponent {bits} /Filter /FlateDecode", compress=False
    )
    contents = pdf.stream(b"q 612 0 0 792 0 0 cm /Im Do Q")
    return one_page(pdf, contents, f"/XObject << /Im {image} 0 R >>")


def huge_content(megabytes: int) -> bytes:
    pdf = Pdf()
    piece = b"10 10 m 500 700 l S 20 600 m 400 90 l S\n" * (1_000_000 // 40)
    contents = pdf.stream(compressed_repeat(piece, megabytes), "/Filter /FlateDecode", compress=False)
    return one_page(pdf, contents)


def many_pages(count: int) -> bytes:
    pdf = Pdf()
    contents = pdf.stream(lines_of_text(MINUTES))
    tree = count + 2
    for _ in range(count):
        pdf.add(f"<< /Type /Page /Parent {tree} 0 R /MediaBox [0 0 612 792] /Contents {contents} 0 R >>")
    kids = " ".join(f"{number} 0 R" for number in range(2, count + 2))
    assert pdf.add(f"<< /Type /Pages /Count {count} /Kids [{kids}] >>") == tree
    return pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>"))


def one_page_listed(times: int) -> bytes:
    pdf = Pdf()
    contents = pdf.stream(lines_of_text(MINUTES))
    page = pdf.add(
        f"<< /Type /Page /Parent 3 0 R /MediaBox [0 0 612 792] /Contents {contents} 0 R"
        " /Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
    )
    tree = pdf.add(f"<< /Type /Pages /Count {times} /Kids [{f'{page} 0 R ' * times}] >>")
    return pdf.write(pdf.add(f"<< /Type /Catalog /Pages {tree} 0 R >>"))


def deep_nesting(levels: int) -> bytes:
    pdf = Pdf()
    contents = pdf.stream(b"0 0 m 99 99 l S")
    return one_page(pdf, contents, more=f"/Deep {'[' * levels}{']' * levels}")


def deep_content(levels: int) -> bytes:
    pdf = Pdf()
    return one_page(pdf, pdf.stream(b"[" * levels + b"]" * levels + b" TJ 0 0 m 99 99 l S"))


def deep_page_tree(levels: int) -> bytes:
    pdf = Pdf()
    for level in range(1, levels + 1):
        pdf.add(f"<< /Type /Pages /Count 1 /Kids [{level + 1} 0 R] >>")
    pdf.add(f"<< /Type /Page /Parent {levels} 0 R /MediaBox [0 0 612 792] >>")
    return pdf.write(pdf.add("<< /Type /Catalog /Pages 1 0 R >>"))


def object_stream_bomb(megabytes: int) -> bytes:
    """The catalog is in a compressed object stream, after megabytes of blanks."""
    pdf = Pdf()
    page = pdf.add("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] >>")
    pdf.add(f"<< /Type /Pages /Count 1 /Kids [{page} 0 R] >>")
    blanks = b" " * 1_000_000
    head = f"4 {megabytes * len(blanks)} ".encode().ljust(32)
    compressor = zlib.compressobj(1)
    content = compressor.compress(head) + b"".join(compressor.compress(blanks) for _ in range(megabytes))
    content += compressor.compress(b"<< /Type /Catalog /Pages 2 0 R >>") + compressor.flush()
    stream = pdf.stream(content, f"/Type /ObjStm /N 1 /First {len(head)} /Filter /FlateDecode", compress=False)
    assert stream == 3
    body = pdf.write(4)
    # A cross-reference stream replaces the table: only a stream can refer to an object stream.
    start = body.rindex(b"xref\n0 ", 0, body.rindex(b"trailer"))
    offsets = [int(line[:10]) for line in body[start:].split(b"\n")[3:6]]
    rows = [(0, 0, 65535), *((1, offset, 0) for offset in offsets), (2, 3, 0), (1, start, 0)]
    table = b"".join(kind.to_bytes(1, "big") + where.to_bytes(4, "big") + more.to_bytes(2, "big")
                     for kind, where, more in rows)  # fmt: skip
    return (
        body[:start]
        + f"5 0 obj\n<< /Type /XRef /Size 6 /Root 4 0 R /W [1 4 2] /Length {len(table)} >>\nstream\n".encode()
        + table
        + f"\nendstream\nendobj\nstartxref\n{start}\n%%EOF\n".encode()
    )


def cyclic_page_tree() -> bytes:
    pdf = Pdf()
    pdf.add("<< /Type /Pages /Count 2 /Kids [2 0 R] >>")
    pdf.add("<< /Type /Pages /Count 2 /Kids [1 0 R] /Parent 1 0 R >>")
    return pdf.write(pdf.add("<< /Type /Catalog /Pages 1 0 R >>"))


def nested_forms(levels: int, times: int = 10) -> bytes:
    """Nested form XObjects ("billion laughs"): `times` to the power of `levels` squares."""
    pdf = Pdf()
    form = pdf.stream(b"1 1 5 5 re f", "/Type /XObject /Subtype /Form /BBox [0 0 612 792]")
    for _ in range(levels):
        form = pdf.stream(
            b"/Fm Do " * times,
            f"/Type /XObject /Subtype /Form /BBox [0 0 612 792] /Resources << /XObject << /Fm {form} 0 R >> >>",
        )
    return one_page(pdf, pdf.stream(b"/Fm Do"), f"/XObject << /Fm {form} 0 R >>")
