"""Built-in OCR engines."""

from __future__ import annotations

from collections.abc import Mapping

from clerk.ocr.ocr_engine import OcrEngine
from clerk.ocr.tesseract_engines import PytesseractEngine, TesserocrEngine
from clerk.plugins.hookspecs import hookimpl


@hookimpl
def ocr_engines() -> Mapping[str, type[OcrEngine]]:
    return {"tesserocr": TesserocrEngine, "pytesseract": PytesseractEngine}
