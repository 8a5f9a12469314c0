"""Turns the pages of one document into text: by their text layer or by OCR. Runs in the reader process.

An error in a page fails that page. CPU time is limited per page, per document, and over all failed pages.
"""

from __future__ import annotations

import math
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clerk.documents.manifest import EMPTY, FAILED, OCR, TEXT_LAYER
from clerk.errors import PdfTimeout, ToolMissing
from clerk.ocr import image as page_image
from clerk.ocr import poppler, quality
from clerk.ocr.inspection import Inspection
from clerk.ocr.ocr_engine import Engine
from clerk.ocr.protocol import MAX_CHARACTERS, PageResult, Task
from clerk.ocr.sandbox import OutOfMemory, OutOfTime, OutputTooLarge, ToolFailed
from clerk.ocr.tesseract import OcrResult

_TEXT_SECONDS = 8.0
_IMAGE_SECONDS = 2.0
_LARGE_IMAGE_COVERAGE = 0.5
_TEXT_BATCH_PAGES = 50
_HIGH_DPI = 300.0
_MIN_DPI = 50.0
_MAX_PIXELS = 36_000_000
_POOR_CONFIDENCE = 70.0
"""If the mean confidence is lower, OCR is repeated on a rotated, deskewed or larger image."""
_MIN_SKEW = 0.5
_SMALL_WORD_HEIGHT = 13
"""Pixels. Words below this height are recognized better at a higher resolution. Newspaper columns have 10 at 150 dpi,
usual documents 15 and more. Confidence does not show it: tesseract reports 90 and more for them."""
_NORMAL_WORD_HEIGHT = 15
"""Pixels. A higher resolution than this needs costs time without improving the result."""


class PageFailed(Exception):
    """The page cannot be processed. `code` is the error code of the document if too many pages fail like this."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")


@dataclass(frozen=True)
class OcrAttempt:
    """One OCR result of a page, with the image it was made from."""

    result: OcrResult
    image: Path
    rotation: int


class PageProcessor:
    def __init__(self, task: Task, engine: Engine, inspection: Inspection) -> None:
        self.task = task
        self.engine = engine
        self.inspection = inspection
        self.scratch = Path(task.scratch)
        self.failed_cpu = 0.0
        self.cpu_limit = document_cpu_limit(task, inspection)

    def pages(self, todo: Sequence[int]) -> Iterator[list[PageResult]]:
        """Yield results as they are finished: pages with a good text layer in batches, others one by one."""
        for start in range(0, len(todo), _TEXT_BATCH_PAGES):
            batch = todo[start : start + _TEXT_BATCH_PAGES]
            started = time.monotonic()
            layers = self._text_layers(batch)
            per_page = round((time.monotonic() - started) * 1000 / len(batch))
            verdicts = {page: self._classify(page, layers[page]) for page in batch}
            usable = [page for page in batch if verdicts[page] is quality.Verdict.USE_TEXT]
            if usable:
                results = [PageResult(page, TEXT_LAYER, layers[page], milliseconds=per_page) for page in usable]
                yield [self._with_image(result) for result in results]
            for page in batch:
                if verdicts[page] is not quality.Verdict.USE_TEXT:
                    yield [self._ocr_page(page, layers[page], verdicts[page])]

    # --- text layer

    def _text_layers(self, batch: Sequence[int]) -> dict[int, str]:
        """The text layers of these pages: with one call if the pages are consecutive and it succeeds, else per page."""
        first, last = batch[0], batch[-1]
        if last - first + 1 == len(batch) and len(batch) > 1:
            texts = self._text_layer(first, last)
            if texts is not None:
                return dict(zip(batch, texts, strict=True))
        return {page: (self._text_layer(page, page) or [""])[0] for page in batch}

    def _text_layer(self, first: int, last: int) -> list[str] | None:
        seconds = min(_TEXT_SECONDS, self._remaining_cpu())
        before = self._cpu()
        try:
            if self.inspection.text_layers:
                texts: list[str] | None = list(self.inspection.text_layers[first - 1 : last])
            else:
                texts = self.engine.text_layer(first, last, seconds)
        except ToolFailed:
            self.failed_cpu += self._cpu() - before
            return None
        if texts is None or any(len(text) > MAX_CHARACTERS for text in texts):
            return None
        return [quality.normalize(text) for text in texts]

    def _classify(self, page: int, layer: str) -> quality.Verdict:
        """Classify the text layer. The image coverage is determined last: a page full of text does not need it."""
        verdict = quality.classify(layer, has_large_image=False)
        if verdict is quality.Verdict.USE_TEXT and quality.count_letters(layer) < quality.FULL_PAGE_LETTERS:
            return quality.classify(layer, self._is_mostly_image(page))
        return verdict

    def _is_mostly_image(self, page: int) -> bool:
        """Whether images cover most of the page. Also true if unknown, so that OCR is run."""
        if self.inspection.has_no_images(page):
            return False
        box = self.inspection.boxes.get(page)
        try:
            return box is None or self.engine.image_coverage(page, box, _IMAGE_SECONDS) >= _LARGE_IMAGE_COVERAGE
        except (ToolFailed, ValueError):
            return True

    def _with_image(self, result: PageResult) -> PageResult:
        """Add an image of a page that needs no OCR, if images of all pages are wanted. Without one if that fails."""
        if self.task.images != "all":
            return result
        try:
            rendered, _ = self._render(result.page, self.task.dpi, self.task.page_seconds)
        except (PageFailed, ToolFailed, ToolMissing):
            return result
        return replace(result, image=self._save_image(result.page, rendered))

    # --- OCR

    def _ocr_page(self, page: int, layer: str, verdict: quality.Verdict) -> PageResult:
        started, before = time.monotonic(), self._cpu()
        budget = CpuBudget(min(self.task.page_seconds, self._remaining_cpu()), self._cpu)
        usable = layer if verdict is quality.Verdict.COMPARE else ""
        try:
            result = self._render_and_recognize(page, usable, budget)
        except (PageFailed, ToolFailed) as error:
            self.failed_cpu += self._cpu() - before
            if usable:
                result = PageResult(page, TEXT_LAYER, usable)
            else:
                result = PageResult(
                    page, FAILED, error=str(error) if isinstance(error, PageFailed) else error_text(error)
                )
        self._delete_temp_images(result)
        return replace(result, milliseconds=round((time.monotonic() - started) * 1000))

    def _render_and_recognize(self, page: int, layer: str, budget: CpuBudget) -> PageResult:
        image, dpi = self._render(page, self.task.dpi, budget.remaining())
        if page_image.is_blank(image):
            return PageResult(page, TEXT_LAYER if layer else EMPTY, layer, image=self._save_image(page, image))
        image, dpi = self._ensure_resolution(page, image, dpi, budget)
        attempt = self._recognize(page, image, dpi, budget)
        saved = self._save_image(page, attempt.image)
        text = quality.normalize(attempt.result.text)
        if len(text) > MAX_CHARACTERS:
            raise PageFailed("PdfTooLarge", f"more than {MAX_CHARACTERS} characters on a page")
        confidence = attempt.result.confidence
        if layer and not quality.ocr_is_better(text, confidence, layer):
            return PageResult(page, TEXT_LAYER, layer, image=saved)
        if not text:
            return PageResult(page, EMPTY, image=saved)
        return PageResult(
            page,
            OCR,
            text,
            confidence=None if confidence is None else round(confidence, 1),
            rotation=attempt.rotation,
            image=saved,
        )

    def _render(self, page: int, wanted_dpi: float, seconds: float) -> tuple[Path, float]:
        """Render the page and check the image: poppler's exit code does not show whether it is complete."""
        box = self.inspection.boxes.get(page)
        if box is None:
            raise PageFailed("PdfBroken", "poppler cannot find the page")
        dpi = _limited_dpi(box, wanted_dpi)
        image = self.scratch / f"{page}-{dpi:.0f}.pgm"
        stderr = self.engine.render(page, dpi, image, seconds)
        size = page_image.size(image)
        errors = poppler.page_errors(stderr, self.inspection.document_messages)
        message = (errors or ["no message"])[-1][:200]
        if size is None:
            raise PageFailed("PdfBroken", f"it was not rendered ({message})")
        expected = box.width * dpi / 72, box.height * dpi / 72
        if any(abs(got - want) > 2 for got, want in zip(size, expected, strict=True)):
            raise PageFailed(
                "PdfBroken", f"its image has {size[0]} x {size[1]} pixels, which its page box does not allow"
            )
        if errors and page_image.is_blank(image):
            raise PageFailed("PdfBroken", f"it was rendered blank ({message})")
        return image, dpi

    def _ensure_resolution(self, page: int, image: Path, dpi: float, budget: CpuBudget) -> tuple[Path, float]:
        """The same image, or one with a higher resolution for small print. Decided before OCR, which is expensive."""
        height = self.engine.word_height(image, dpi, self.task.languages, budget.remaining())
        if height is None or height >= _SMALL_WORD_HEIGHT:
            return image, dpi
        wanted = min(dpi * _NORMAL_WORD_HEIGHT / height, _HIGH_DPI)
        if _limited_dpi(self.inspection.boxes[page], wanted) <= dpi:
            return image, dpi
        try:
            return self._render(page, wanted, budget.remaining())
        except (ToolFailed, PageFailed):
            # Rendering with a higher resolution failed: use the image that exists.
            return image, dpi

    def _recognize(self, page: int, image: Path, dpi: float, budget: CpuBudget) -> OcrAttempt:
        """Run OCR, and repeat it on improved images only if the result is poor: each repetition costs as much again."""
        result = self.engine.recognize(image, dpi, self.task.languages, budget.remaining())
        best = OcrAttempt(result, image, 0)
        try:
            if _is_poor(best.result) or best.result.is_sideways:
                best = self._rotated(best, dpi, budget)
            if _is_poor(best.result):
                best = self._deskewed(best, dpi, budget)
            if _is_poor(best.result) and not best.rotation:
                best = self._higher_dpi(best, page, dpi, budget)
        except (ToolFailed, PageFailed):
            # An attempt to improve the result failed: keep the best one so far.
            return best
        return best

    def _rotated(self, best: OcrAttempt, dpi: float, budget: CpuBudget) -> OcrAttempt:
        degrees, confidence = self.engine.orientation(best.image, dpi, budget.remaining())
        if degrees not in (90, 180, 270) or confidence < 0.5:
            return best
        image = best.image.with_suffix(f".rotated{degrees}.pgm")
        page_image.rotate(best.image, degrees, image)
        result = self.engine.recognize(image, dpi, self.task.languages, budget.remaining())
        rotated = OcrAttempt(result, image, degrees)
        if best.result.is_sideways and result.score > 0.9 * best.result.score:
            return rotated
        return max(best, rotated, key=lambda attempt: attempt.result.score)

    def _deskewed(self, best: OcrAttempt, dpi: float, budget: CpuBudget) -> OcrAttempt:
        angle = page_image.skew(best.image)
        if abs(angle) < _MIN_SKEW:
            return best
        image = best.image.with_suffix(".deskewed.pgm")
        page_image.deskew(best.image, angle, image)
        result = self.engine.recognize(image, dpi, self.task.languages, budget.remaining())
        return max(best, OcrAttempt(result, image, best.rotation), key=lambda attempt: attempt.result.score)

    def _higher_dpi(self, best: OcrAttempt, page: int, dpi: float, budget: CpuBudget) -> OcrAttempt:
        """The better of two results: for tables in small print a higher resolution can be worse."""
        box = self.inspection.boxes[page]
        if _limited_dpi(box, _HIGH_DPI) < 1.2 * dpi:
            return best
        image, high_dpi = self._render(page, _HIGH_DPI, budget.remaining())
        result = self.engine.recognize(image, high_dpi, self.task.languages, budget.remaining())
        return max(best, replace(best, result=result), key=lambda attempt: attempt.result.score)

    # --- CPU time and scratch files

    def _remaining_cpu(self) -> float:
        """CPU seconds until the document's limit, and until the limit for failed pages, whichever is less."""
        used = self._cpu()
        if used >= self.cpu_limit:
            raise PdfTimeout(f"OCR used more than {self.cpu_limit:.0f} s of CPU time")
        if self.failed_cpu >= self.task.failed_seconds:
            raise PdfTimeout(f"failed pages used more than {self.task.failed_seconds:.0f} s of CPU time")
        return min(self.cpu_limit - used, self.task.failed_seconds - self.failed_cpu)

    def _cpu(self) -> float:
        """CPU seconds of this process, of its ended children, and of the engine's running processes."""
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime + self.engine.cpu_seconds

    def _save_image(self, page: int, image: Path) -> str | None:
        if self.task.images == "none":
            return None
        saved = self.scratch / f"{page}.png"
        page_image.save_png(image, saved)
        return saved.name

    def _delete_temp_images(self, result: PageResult) -> None:
        for path in self.scratch.glob(f"{result.page}-*"):
            path.unlink()


class CpuBudget:
    """The CPU limit of one page, over all programs that are run for it."""

    def __init__(self, seconds: float, used: Callable[[], float]) -> None:
        self.used = used
        self.limit = used() + seconds

    def remaining(self) -> float:
        remaining = self.limit - self.used()
        if remaining <= 0:
            raise OutOfTime("the page used more CPU time than a page may use")
        return remaining


def _is_poor(result: OcrResult) -> bool:
    return result.confidence is None or result.confidence < _POOR_CONFIDENCE


def _limited_dpi(box: poppler.Box, dpi: float) -> float:
    """The given resolution, reduced if the image would have too many pixels."""
    if box.pixels(dpi) <= _MAX_PIXELS:
        return dpi
    reduced = dpi * math.sqrt(_MAX_PIXELS / box.pixels(dpi))
    if reduced < _MIN_DPI:
        raise PageFailed("PdfTooLarge", f"a page of {box.width:.0f} x {box.height:.0f} points")
    return reduced


def error_text(error: ToolFailed) -> str:
    codes = {OutOfTime: "PdfTimeout", OutOfMemory: "PdfMemory", OutputTooLarge: "PdfTooLarge"}
    return f"{codes.get(type(error), 'PdfBroken')}: {error}"


def document_cpu_limit(task: Task, inspection: Inspection) -> float:
    return task.cpu_limit(inspection.page_count)
