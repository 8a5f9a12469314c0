"""Archives of public meetings. What `__all__` lists is the public API of plugins: docs/how-to/plugin-author.md."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clerk.documents.repository import DocumentRef, TrackedDocument
    from clerk.documents.word_boxes import Word
    from clerk.errors import SourceUnreadable
    from clerk.ocr.ocr_engine import OcrEngine
    from clerk.ocr.tesseract import OcrResult
    from clerk.plugins.hookspecs import hookimpl
    from clerk.sources.fetcher import Fetcher, Site, check_since
    from clerk.sources.http.body import Sink
    from clerk.sources.http.client import FetchResult, HttpResponse, Validators
    from clerk.sources.link_parser import Link, LinkPage
    from clerk.sources.parse import find_date, find_kind
    from clerk.sources.rows import Cell, Row, RowLink, RowPage

API_VERSION = 1
"""Version of the public API. It increases when something is added, so that a plugin can require what it uses; what is
removed or changed is announced in CHANGELOG.md one version ahead."""

__all__ = [
    "API_VERSION",
    "Cell",
    "DocumentRef",
    "FetchResult",
    "Fetcher",
    "HttpResponse",
    "Link",
    "LinkPage",
    "OcrEngine",
    "OcrResult",
    "Row",
    "RowLink",
    "RowPage",
    "Sink",
    "Site",
    "SourceUnreadable",
    "TrackedDocument",
    "Validators",
    "Word",
    "check_since",
    "find_date",
    "find_kind",
    "hookimpl",
]

_MODULES = {
    "Cell": "clerk.sources.rows",
    "DocumentRef": "clerk.documents.repository",
    "FetchResult": "clerk.sources.http.client",
    "Fetcher": "clerk.sources.fetcher",
    "HttpResponse": "clerk.sources.http.client",
    "Link": "clerk.sources.link_parser",
    "LinkPage": "clerk.sources.link_parser",
    "OcrEngine": "clerk.ocr.ocr_engine",
    "OcrResult": "clerk.ocr.tesseract",
    "Row": "clerk.sources.rows",
    "RowLink": "clerk.sources.rows",
    "RowPage": "clerk.sources.rows",
    "Sink": "clerk.sources.http.body",
    "Site": "clerk.sources.fetcher",
    "SourceUnreadable": "clerk.errors",
    "TrackedDocument": "clerk.documents.repository",
    "Validators": "clerk.sources.http.client",
    "Word": "clerk.documents.word_boxes",
    "check_since": "clerk.sources.fetcher",
    "find_date": "clerk.sources.parse",
    "find_kind": "clerk.sources.parse",
    "hookimpl": "clerk.plugins.hookspecs",
}


def __getattr__(name: str) -> Any:
    """Import on first use: the HTTP client that `Fetcher` needs would slow down every command."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
