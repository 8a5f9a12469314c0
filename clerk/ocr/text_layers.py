"""Reads and classifies the text layers of a document's pages, in batches."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clerk.ocr import image as page_image
from clerk.ocr import poppler, quality
from clerk.ocr.cpu_limits import DocumentCpu
from clerk.ocr.inspection import Inspection
from clerk.ocr.ocr_engine import Engine
from clerk.ocr.protocol import MAX_CHARACTERS, Task
from clerk.ocr.quality import Classification, Verdict
from clerk.ocr.sandbox import ToolFailed
from clerk.ocr.word_list import WordList

_TEXT_SECONDS = 8.0
_IMAGE_SECONDS = 2.0
_THUMBNAIL_SECONDS = 8.0
_LARGE_IMAGE_COVERAGE = 0.5
_THUMBNAIL_SIDE = 200
_INK_PER_LETTER = 20.0
"""Square points. Letters of 12-point text need 14 on average, digits more."""
_INK_OF_SPECKS = 2.0
"""Square points. A single letter needs more."""


class TextLayers:
    def __init__(
        self, task: Task, engine: Engine, inspection: Inspection, words: WordList | None, cpu: DocumentCpu
    ) -> None:
        self.task = task
        self.engine = engine
        self.inspection = inspection
        self.words = words
        self.cpu = cpu

    def read(self, batch: Sequence[int]) -> dict[int, str]:
        """The text layers of these pages: with one call if the pages are consecutive and it succeeds, else per page."""
        first, last = batch[0], batch[-1]
        if last - first + 1 == len(batch) and len(batch) > 1:
            texts = self._text_layer(first, last)
            if texts is not None:
                return dict(zip(batch, texts, strict=True))
        return {page: (self._text_layer(page, page) or [""])[0] for page in batch}

    def _text_layer(self, first: int, last: int) -> list[str] | None:
        texts: list[str] | None
        if self.inspection.text_layers:
            texts = list(self.inspection.text_layers[first - 1 : last])
        else:
            try:
                with self.cpu.counting_failure(ToolFailed):
                    texts = self.engine.text_layer(first, last, min(_TEXT_SECONDS, self.cpu.remaining()))
            except ToolFailed:
                return None
        if texts is None or any(len(text) > MAX_CHARACTERS for text in texts):
            return None
        return [quality.normalize(text) for text in texts]

    def classify(self, batch: Sequence[int], layers: dict[int, str]) -> dict[int, Classification]:
        if self.task.force_ocr:
            return dict.fromkeys(batch, Classification(Verdict.REJECT, "OCR of every page was requested"))
        images = _BatchImages(self.engine, self.inspection, batch)
        result = {}
        for page in batch:
            result[page] = quality.classify(layers[page], self.words, functools.partial(images.is_scan, page))
        candidates = [page for page in batch if result[page].may_be_complete and images.has_none(page)]
        for page in self._complete_pages(candidates, layers):
            result[page] = replace(result[page], verdict=Verdict.USE_TEXT, reason="there is no more on the page")
        return result

    def _complete_pages(self, candidates: list[int], layers: dict[int, str]) -> Iterator[int]:
        """Those of the pages with little or no text and without images on which nothing else is drawn.

        They are rendered small and many at once. Text that is drawn as lines or curves needs ink too, so a page with
        more ink than the letters of its text layer need is not among them.
        """
        for first, last in _consecutive(candidates):
            seconds = min(_THUMBNAIL_SECONDS, self.cpu.remaining())
            try:
                with self.cpu.counting_failure(ToolFailed):
                    images, stderr = self.engine.thumbnails(first, last, _THUMBNAIL_SIDE, seconds)
            except ToolFailed:
                continue  # The pages are rendered one by one, which tells the failing one.
            if poppler.page_errors(stderr, self.inspection.document_messages):
                continue  # It is unknown which page they belong to.
            for page in range(first, last + 1):
                image, box = images.get(page), self.inspection.boxes[page]
                if image is None or page_image.size(image) is None:
                    continue
                letters = quality.count_letters(layers[page])
                if page_image.ink(image) * box.width * box.height <= _INK_PER_LETTER * letters + _INK_OF_SPECKS:
                    yield page


class _BatchImages:
    """The images on the pages of a batch. Determined with one call, and only if a page needs it."""

    def __init__(self, engine: Engine, inspection: Inspection, batch: Sequence[int]) -> None:
        self.engine = engine
        self.inspection = inspection
        self.batch = batch
        self.known: dict[int, float | None] = {}
        """The share of the page that images cover; None if unknown."""
        self.is_determined = False
        """One call for the whole batch was made."""

    def is_scan(self, page: int) -> bool:
        """Whether images cover most of the page. Also true if unknown, so that OCR is run."""
        coverage = self._coverage(page)
        return coverage is None or coverage >= _LARGE_IMAGE_COVERAGE

    def has_none(self, page: int) -> bool:
        return self._coverage(page) == 0

    def _coverage(self, page: int) -> float | None:
        if page not in self.known and self.inspection.has_no_images(page):
            self.known[page] = 0.0
            return 0.0
        if not self.is_determined and len(self.batch) > 1:
            self.is_determined = True
            self._determine(self.batch[0], self.batch[-1])
        if page not in self.known:
            self._determine(page, page)
        return self.known.get(page)

    def _determine(self, first: int, last: int) -> None:
        try:
            covered = self.engine.image_coverages(first, last, self.inspection.boxes, _IMAGE_SECONDS)
        except (ToolFailed, ValueError):
            # One page can be the cause, so the pages of a batch are tried one by one.
            if first == last:
                self.known[first] = None
            return
        for page in range(first, last + 1):
            self.known[page] = covered.get(page, 0.0) if page in self.inspection.boxes else None


def _consecutive(pages: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last page of each run of consecutive pages."""
    for _, group in itertools.groupby(enumerate(pages), key=lambda item: item[1] - item[0]):
        run = [page for _, page in group]
        yield run[0], run[-1]
