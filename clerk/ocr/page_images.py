"""Finds pages without images with pypdf, so that pdfimages need not run for them. Used for undamaged files only."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pypdf

_INLINE_IMAGE = re.compile(rb"(?:^|\s)BI\s")
_MAX_DEPTH = 5
_MAX_CONTENT_BYTES = 5_000_000


class PageImages:
    """The images on the pages of one document. Opens the file at the first question."""

    def __init__(self, pdf: Path) -> None:
        self.pdf = pdf
        self._reader: pypdf.PdfReader | None = None

    def has_none(self, page: int) -> bool:
        """Whether the page has certainly no image: none among its resources, none in its content, no pattern."""
        try:
            if self._reader is None:
                self._reader = pypdf.PdfReader(self.pdf)
                if self._reader.is_encrypted:
                    self._reader.decrypt("")
            found = self._reader.pages[page - 1]
            if _may_draw_images(found.get("/Resources"), 0):
                return False
            contents = found.get_contents()
            data = b"" if contents is None else contents.get_data()
        except Exception:  # noqa: BLE001 (pypdf raises any exception for damaged files; pdfimages then decides)
            return False
        return len(data) <= _MAX_CONTENT_BYTES and not _INLINE_IMAGE.search(data)


def _may_draw_images(resources: Any, depth: int) -> bool:
    if resources is None:
        return False
    resources = resources.get_object()
    if depth > _MAX_DEPTH or resources.get("/Pattern"):
        return True
    objects = resources.get("/XObject")
    for reference in () if objects is None else objects.get_object().values():
        drawn = reference.get_object()
        if drawn.get("/Subtype") != "/Form" or _may_draw_images(drawn.get("/Resources"), depth + 1):
            return True
        if _INLINE_IMAGE.search(drawn.get_data()):
            return True
    return False
