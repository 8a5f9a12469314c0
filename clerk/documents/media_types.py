"""The types of files that sources list, and which of them clerk reads."""

from __future__ import annotations

import re
from collections.abc import Mapping

PDF = "application/pdf"
HTML = "text/html"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PDF_OR_HTML = "application/pdf, text/html"
"""Of a listed document whose type only the answer of its address says."""
NAMES: Mapping[str, str] = {
    PDF: "a PDF",
    HTML: "a web page",
    DOCX: "a Word document",
    "application/msword": "a Word document of the older format",
    "application/rtf": "an RTF document",
    "text/plain": "a text file",
    "application/vnd.ms-excel": "a spreadsheet",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "a spreadsheet",
    "application/vnd.ms-powerpoint": "a presentation",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "a presentation",
    "application/zip": "a ZIP archive",
    "image/jpeg": "an image",
    "image/png": "an image",
    "image/tiff": "an image",
    "audio/mpeg": "an audio file",
    "video/mp4": "a video",
}
"""In words."""
STORED_EXTENSIONS: Mapping[str, str] = {PDF: "pdf", HTML: "html", DOCX: "docx"}
"""Extension of the file in storage, for each type that clerk reads."""
READABLE = frozenset(STORED_EXTENSIONS)
"""Documents of other types are listed as skipped."""
SIGNATURES: Mapping[bytes, str] = {
    b"PK\x03\x04": "a ZIP or Office file",
    b"\xd0\xcf\x11\xe0": "an older Office file",
    b"{\\rtf": "an RTF file",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"II*\x00": "a TIFF image",
    b"MM\x00*": "a TIFF image",
    b"%!PS": "a PostScript file",
    b"\x1f\x8b": "a gzip file",
}
"""First bytes of files that are neither PDFs nor web pages, in words."""
_ZIP = b"PK\x03\x04"
_PDF_OBJECT = re.compile(rb"\b\d+ \d+ obj\b")
_TAG = re.compile(rb"<[a-zA-Z!?/]")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_EXTENSIONS: Mapping[str, str] = {
    "pdf": PDF,
    "htm": HTML,
    "html": HTML,
    "docx": DOCX,
    "doc": "application/msword",
    "rtf": "application/rtf",
    "txt": "text/plain",
    "xls": "application/vnd.ms-excel",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "zip": "application/zip",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "png": "image/png",
    "tif": "image/tiff",
    "tiff": "image/tiff",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
}


def media_type_of(name: str, default: str = PDF) -> str:
    """The type that a file name, an extension or the path of a URL ends in."""
    _, _, extension = name.strip().rpartition(".")
    return _EXTENSIONS.get(extension.lower(), default)


def type_of_content(head: bytes) -> str | None:
    """PDF, HTML or DOCX by the first kilobyte of a file; None if it is none of them. A ZIP file may be a DOCX file.

    A PDF has its header, as PDF readers accept it, or an object of a PDF without one.
    """
    if b"%PDF" in head or _PDF_OBJECT.search(head):
        return PDF
    if head.startswith(_ZIP):
        return DOCX
    if head.startswith(tuple(SIGNATURES)):
        return None
    text = head.replace(b"\0", b"") if head.startswith(_UTF_16) else head
    return HTML if b"\0" not in text and _TAG.search(text) else None


def type_of_extension(extension: str) -> str:
    """The type of a file in storage."""
    return next(media_type for media_type, own in STORED_EXTENSIONS.items() if own == extension)
