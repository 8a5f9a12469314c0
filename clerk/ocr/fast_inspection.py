"""Inspection of an undamaged file without pdfinfo: pypdf counts the pages, pdftotext reads all text layers at once.

A file counts as undamaged if it has a header and an end mark, pdftotext reports nothing, and both programs find as many
pages. Every other file gets the full inspection (`clerk.ocr.inspection`), which names what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from clerk.errors import HostError
from clerk.ocr import poppler
from clerk.ocr.inspection import Inspection, head_and_tail, run_with_cpu_limit, walk_page_tree
from clerk.ocr.page_images import PageImages
from clerk.ocr.poppler import Box

_MAX_PAGES = 500
"""The texts are held in memory. For longer documents the time of pdfinfo does not matter."""
_MAX_TEXT_BYTES = 20_000_000


def inspect_undamaged(
    run: poppler.ToolRunner, pdf: Path, scratch: Path, max_pages: int, cpu_seconds: float
) -> Inspection | None:
    """Inspect the file; None if it may be damaged, or is so long that the full inspection is as good."""
    head, tail = head_and_tail(pdf)
    if not head.startswith(b"%PDF-") or b"%%EOF" not in tail:
        return None
    output = scratch / "layers.txt"
    try:
        count = run_with_cpu_limit(cpu_seconds, lambda: walk_page_tree(pdf, max_pages, max_pages).pages)
        if not 0 < count <= _MAX_PAGES:
            return None
        # Without -q, which hides messages about damage.
        completed = run("pdftotext", "-enc", "UTF-8", "-eol", "unix", pdf, output, cpu_seconds=cpu_seconds)
    except HostError:
        raise
    except Exception:  # noqa: BLE001 (pypdf raises any exception for damaged files; the full inspection reports them)
        return None
    if completed.code != 0 or completed.stderr or output.stat().st_size > _MAX_TEXT_BYTES:
        return None
    *texts, rest = output.read_text(encoding="utf-8", errors="replace").split("\f")
    if len(texts) != count or rest:
        return None
    boxes = _LazyBoxes(run, pdf, scratch / "info", max_pages, cpu_seconds)
    images = PageImages(pdf)
    return Inspection(count, boxes, frozenset(), text_layers=texts, has_no_images=images.has_none)


class _LazyBoxes(Mapping[int, Box]):
    """The boxes of the pages. Pages with a good text layer do not need theirs, so pdfinfo runs at the first access."""

    def __init__(self, run: poppler.ToolRunner, pdf: Path, output: Path, max_pages: int, cpu_seconds: float) -> None:
        self._arguments = (run, pdf, output, max_pages, cpu_seconds)
        self._boxes: dict[int, Box] | None = None

    def _read(self) -> dict[int, Box]:
        if self._boxes is None:
            try:
                self._boxes = poppler.pdf_info(*self._arguments).boxes
            except poppler.Unreadable:
                self._boxes = {}  # as in the full inspection: each page that needs its box fails
        return self._boxes

    def __getitem__(self, page: int) -> Box:
        return self._read()[page]

    def __iter__(self) -> Iterator[int]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())
