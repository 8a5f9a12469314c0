"""Archives of public meetings. Plugins import what `__all__` lists from here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clerk.documents.repository import DocumentRef
    from clerk.documents.word_boxes import Word
    from clerk.ocr.ocr_engine import OcrEngine
    from clerk.ocr.tesseract import OcrResult
    from clerk.plugins.hookspecs import hookimpl
    from clerk.sources.fetcher import Fetcher

__all__ = ["DocumentRef", "Fetcher", "OcrEngine", "OcrResult", "Word", "hookimpl"]

_MODULES = {
    "DocumentRef": "clerk.documents.repository",
    "Fetcher": "clerk.sources.fetcher",
    "OcrEngine": "clerk.ocr.ocr_engine",
    "OcrResult": "clerk.ocr.tesseract",
    "Word": "clerk.documents.word_boxes",
    "hookimpl": "clerk.plugins.hookspecs",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the HTTP client that `Fetcher` needs would slow down every command."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
