"""What a fetcher lists, checked. Each place that lists a source uses it, so that all accept and refuse the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import date

from clerk.documents.kinds import KINDS
from clerk.documents.repository import DocumentRef
from clerk.errors import InvalidPluginResult
from clerk.sources.fetcher import Fetcher

_TEXTS = ("url", "meeting", "kind", "key", "version", "name", "media_type")
_MAX_VALUE = 100


async def listed_documents(fetcher: Fetcher, lister: str) -> AsyncIterator[DocumentRef]:
    """Yield the documents of a listing. Raises InvalidPluginResult for anything else. `lister`: who lists, for the
    message, such as `plugin noticeboard`."""
    if type(fetcher).documents is Fetcher.documents:
        raise InvalidPluginResult(f"{lister}: the class {type(fetcher).__name__} has no method documents()")
    documents: object = fetcher.documents()
    if not isinstance(documents, AsyncIterator):
        if hasattr(documents, "close"):
            documents.close()  # a coroutine would warn that it was never awaited
        hint = "" if isinstance(documents, list) else "; `async def documents(self)` must contain `yield`"
        raise InvalidPluginResult(
            f"{lister}: documents() returned {type(documents).__name__}, not an async generator{hint}"
        )
    async for ref in documents:
        yield _check(ref, lister)


def _check(ref: object, lister: str) -> DocumentRef:
    if not isinstance(ref, DocumentRef):
        raise InvalidPluginResult(f"{lister} listed {_show(ref)}, which is not a DocumentRef")
    for name in _TEXTS:
        if not isinstance(value := getattr(ref, name), str):
            raise _invalid(ref, lister, f"{name} is {_show(value)}, not text")
    if ref.kind and ref.kind not in KINDS:
        raise _invalid(ref, lister, f"kind is {_show(ref.kind)}, not one of {', '.join(KINDS)}, or empty")
    if ref.date is not None and type(ref.date) is not date:
        raise _invalid(ref, lister, f"date is {_show(ref.date)}, not a datetime.date or None")
    return ref


def _invalid(ref: DocumentRef, lister: str, what: str) -> InvalidPluginResult:
    shown = str(ref.url or ref.meeting)[:_MAX_VALUE]
    return InvalidPluginResult(f"{lister} listed a document whose {what}: {shown}")


def _show(value: object) -> str:
    return repr(value)[:_MAX_VALUE]
