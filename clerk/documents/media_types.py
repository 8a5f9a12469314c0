"""The types of files that sources list, and which of them clerk reads."""

from __future__ import annotations

from collections.abc import Mapping

PDF = "application/pdf"
HTML = "text/html"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
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
READABLE = frozenset({PDF})
"""Documents of other types are listed as skipped."""
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
