"""The text of a Word document (.docx), by python-docx. Runs in sandboxed processes only.

A page ends where Word recorded it when it saved the file, and at explicit page and section breaks. Headers come first,
each once. Deleted text is left out.
Limitation: the numbers of automatic lists, footers, footnotes and comments are not read.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docx
from docx.document import Document
from docx.oxml.ns import qn
from lxml import etree

from clerk.errors import NotAPdf, PdfBroken, PdfTooLarge
from clerk.ocr.text_lines import TextLines

_MAX_FILES = 10_000
_MAX_XML_BYTES = 64 << 20
_MAX_BYTES = 256 << 20
"""Of all files together. python-docx loads them all."""
_LEFT_OUT = frozenset((qn("w:moveFrom"), "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"))
_PARAGRAPH, _ROW, _CELL, _TEXT, _BREAK = map(qn, ("w:p", "w:tr", "w:tc", "w:t", "w:br"))
_VALUE, _TYPE = qn("w:val"), qn("w:type")
_PAGE_BREAK = qn("w:lastRenderedPageBreak")
_INLINE = {qn("w:tab"): " ", qn("w:noBreakHyphen"): "-"}
_HEADING_STYLES = ("Heading", "Title")


def docx_pages(file: Path) -> tuple[list[str], str]:
    """The texts of the pages, and the title in the document's properties."""
    document = _open(file)
    lines = TextLines()
    for header in _headers(document):
        _add(lines, header)
    _add(lines, document.element.body)
    return lines.pages(), document.core_properties.title


def _open(file: Path) -> Document:
    try:
        _check_size(file)
        return docx.Document(str(file))
    except (PdfTooLarge, MemoryError):
        raise
    except ValueError as error:  # of python-docx: the main part has another type
        raise NotAPdf("it is an Office file, but not a Word document") from error
    except Exception as error:
        raise PdfBroken(f"the Word document cannot be opened ({type(error).__name__}: {str(error)[:200]})") from error


def _check_size(file: Path) -> None:
    """Reject an archive that is much larger than its file. A member cannot be longer than its entry says: zipfile stops
    there."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
    if len(entries) > _MAX_FILES:
        raise PdfTooLarge(f"the Word document contains {len(entries):,} files; at most {_MAX_FILES:,} are read")
    xml = max((entry.file_size for entry in entries if entry.filename.endswith((".xml", ".rels"))), default=0)
    if xml > _MAX_XML_BYTES:
        raise PdfTooLarge(f"a part of the Word document has {xml:,} bytes; at most {_MAX_XML_BYTES:,} are read")
    if (total := sum(entry.file_size for entry in entries)) > _MAX_BYTES:
        raise PdfTooLarge(f"the Word document has {total:,} bytes when unpacked; at most {_MAX_BYTES:,} are read")


def _headers(document: Document) -> Iterator[Any]:
    """The headers of all sections, without repetitions."""
    seen: set[str] = set()
    for section in document.sections:
        kinds = [section.first_page_header] if section.different_first_page_header_footer else []
        for header in (*kinds, section.header):
            if not header.is_linked_to_previous:
                element = header._element
                text = "".join(element.itertext())
                if text not in seen:
                    seen.add(text)
                    yield element


def _add(lines: TextLines, root: Any) -> None:
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        tag, is_start = element.tag, event == "start"
        if tag in _LEFT_OUT:
            if is_start:
                walker.skip_subtree()
        elif tag == _PARAGRAPH:
            _start_paragraph(lines, element) if is_start else _end_paragraph(lines, element)
        elif tag == _ROW:
            (lines.start_row if is_start else lines.end_row)()
        elif tag == _CELL:
            (lines.start_cell if is_start else lines.end_cell)()
        elif is_start:
            _add_inline(lines, element)


def _add_inline(lines: TextLines, element: Any) -> None:
    tag = element.tag
    if tag == _TEXT:
        lines.text(element.text or "")
    elif tag == _PAGE_BREAK or (tag == _BREAK and element.get(_TYPE) == "page"):
        lines.break_page()
    elif tag in (_BREAK, qn("w:cr")):
        lines.end_line()
    elif tag in _INLINE:
        lines.text(_INLINE[tag])


def _start_paragraph(lines: TextLines, paragraph: Any) -> None:
    lines.end_line()
    properties = paragraph.find(qn("w:pPr"))
    if properties is None:
        return
    breaks = properties.find(qn("w:pageBreakBefore"))
    if breaks is not None and breaks.get(_VALUE) not in ("0", "false", "off"):
        lines.break_page()
    style = properties.find(qn("w:pStyle"))
    if style is not None and style.get(_VALUE, "").startswith(_HEADING_STYLES):
        lines.start_heading()


def _end_paragraph(lines: TextLines, paragraph: Any) -> None:
    lines.end_heading()
    section = paragraph.find(f"{qn('w:pPr')}/{qn('w:sectPr')}")
    if section is not None:
        kind = section.find(qn("w:type"))
        if kind is None or kind.get(_VALUE) != "continuous":
            lines.break_page()
