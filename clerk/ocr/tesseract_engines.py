"""The engines `tesserocr` and `pytesseract`: poppler and tesseract, as a library or as a program."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

from clerk.errors import ToolMissing
from clerk.ocr.ocr_engine import OcrEngine, Tools
from clerk.ocr.tesseract import (
    PYTESSERACT_SERVER_MODULE,
    SERVER_MODULE,
    OcrResult,
    Tesseract,
    installed_languages,
    models,
)


class TesserocrEngine(OcrEngine):
    """Tesseract as a library, in a process that loads the model once per document."""

    server_module = SERVER_MODULE

    def __init__(self, tools: Tools) -> None:
        super().__init__(tools)
        self.tesseract = Tesseract(tools.start, tools.idle_memory, self.server_module)

    @classmethod
    def require_installed(cls) -> None:
        super().require_installed()
        models()
        if importlib.util.find_spec("tesserocr") is None:
            raise ToolMissing(
                "the Python package tesserocr is not installed; it has no wheel for every platform:"
                " set CLERK_OCR_ENGINE=pytesseract"
            )

    @classmethod
    def missing_languages(cls, languages: str) -> frozenset[str]:
        return frozenset(languages.split("+")) - installed_languages()

    @property
    def cpu_seconds(self) -> float:
        return self.tesseract.cpu_seconds

    def word_height(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> float | None:
        return self.tesseract.word_height(image, dpi, languages, cpu_seconds)

    def recognize(self, image: Path, dpi: float, languages: str, cpu_seconds: float) -> OcrResult:
        return self.tesseract.recognize(image, dpi, languages, cpu_seconds)

    def orientation(self, image: Path, dpi: float, cpu_seconds: float) -> tuple[int, float]:
        return self.tesseract.orientation(image, dpi, cpu_seconds)

    def close(self) -> None:
        self.tesseract.close()


class PytesseractEngine(TesserocrEngine):
    """The tesseract program, which loads the model for every page: slower, but available on every platform."""

    server_module = PYTESSERACT_SERVER_MODULE

    @classmethod
    def require_installed(cls) -> None:
        OcrEngine.require_installed()
        models()
        if shutil.which("tesseract") is None:
            raise ToolMissing("tesseract is not installed; on Debian: apt install tesseract-ocr")

    def render(self, page: int, dpi: float, image: Path, cpu_seconds: float) -> str:
        """pdf2image reports neither exit codes nor all messages of pdftoppm: without them a blank image may be an empty
        page or a failure, so pdftoppm is run again."""
        image.unlink(missing_ok=True)
        used_before = self.tesseract.cpu_seconds
        messages = self.tesseract.render(self.tools.pdf, page, dpi, image, cpu_seconds)
        if messages is not None:
            return messages
        used = max(self.tesseract.cpu_seconds - used_before, 0.0)
        return super().render(page, dpi, image, cpu_seconds - used)
