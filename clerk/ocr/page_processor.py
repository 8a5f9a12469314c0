"""Turns the pages of one document into text: by their text layer or by OCR. Runs in the reader process.

An error in a page fails that page. CPU time is limited per page, per document, and over all failed pages.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from clerk.documents import word_boxes
from clerk.documents.manifest import EMPTY, FAILED, OCR, TEXT_LAYER
from clerk.documents.word_boxes import SCALE, Word, WordBoxes, make_word
from clerk.errors import ToolMissing
from clerk.ocr import columns, poppler, quality, word_list
from clerk.ocr import image as page_image
from clerk.ocr.cpu_limits import DocumentCpu, PageCpu
from clerk.ocr.inspection import Inspection
from clerk.ocr.ocr_engine import Engine
from clerk.ocr.protocol import MAX_CHARACTERS, PageResult, Task
from clerk.ocr.quality import Classification, Verdict
from clerk.ocr.sandbox import OutOfMemory, OutOfTime, OutputTooLarge, ToolFailed
from clerk.ocr.tesseract import OcrResult, models
from clerk.ocr.text_layers import TextLayers
from clerk.ocr.word_list import WordList

_TEXT_BATCH_PAGES = 50
_MAX_TEXT_BATCH_PAGES = 400
_FAST_BATCH_SECONDS = 1.0
_HIGH_DPI = 300.0
_MIN_DPI = 50.0
_MAX_PIXELS = 36_000_000
_POOR_CONFIDENCE = 70.0
"""If the mean confidence is lower, OCR is repeated on a rotated, deskewed or larger image."""
_SAMPLE_PAGES = 3
"""If OCR was not better on this many pages with unknown words, further pages like them are not compared."""
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
    """Degrees clockwise by which the page was rotated."""
    skew: float
    """Degrees counter-clockwise by which the page was deskewed."""


class PageProcessor:
    def __init__(self, task: Task, engine: Engine, inspection: Inspection) -> None:
        self.task = task
        self.engine = engine
        self.inspection = inspection
        self.scratch = Path(task.scratch)
        self.words = _load_words(task.languages)
        self.unknown_words_accepted: list[float] = []
        """Shares of known words of text layers that were doubtful, but not worse than OCR, since one was worse."""
        self.cpu = DocumentCpu(task, inspection, lambda: engine.cpu_seconds)
        self.text_layers = TextLayers(task, engine, inspection, self.words, self.cpu)

    def pages(self, todo: Sequence[int]) -> Iterator[list[PageResult]]:
        """Yield results as they are finished: pages that need no OCR in batches, others one by one."""
        size = _TEXT_BATCH_PAGES
        while todo:
            batch, todo = todo[:size], todo[size:]
            started, used = time.monotonic(), self.cpu.used()
            layers = self.text_layers.read(batch)
            classified = self.text_layers.classify(batch, layers)
            # Programs walk through all pages before the first of a batch, so long documents need large batches.
            is_fast = self.cpu.used() - used < _FAST_BATCH_SECONDS
            size = min(2 * size, _MAX_TEXT_BATCH_PAGES) if is_fast else _TEXT_BATCH_PAGES
            per_page = round((time.monotonic() - started) * 1000 / len(batch))
            finished = [
                PageResult(page, TEXT_LAYER if layers[page] else EMPTY, layers[page], reason=result.reason)
                for page, result in classified.items()
                if result.verdict is Verdict.USE_TEXT
            ]
            if finished:
                yield [self._with_image(replace(result, milliseconds=per_page)) for result in finished]
            for page, result in classified.items():
                if result.verdict is not Verdict.USE_TEXT:
                    yield [self._ocr_page(page, layers[page], result)]

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

    def _ocr_page(self, page: int, layer: str, classified: Classification) -> PageResult:
        if self._is_trusted(classified):
            reason = f"{classified.reason}, but OCR was not better on {_SAMPLE_PAGES} pages like this"
            return self._with_image(PageResult(page, TEXT_LAYER, layer, reason=reason))
        started = time.monotonic()
        budget = PageCpu(self.task.page_seconds, self.cpu)
        try:
            with self.cpu.counting_failure(PageFailed, ToolFailed):
                result = self._render_and_recognize(page, layer, classified, budget)
        except (PageFailed, ToolFailed) as error:
            message = str(error) if isinstance(error, PageFailed) else error_text(error)
            if quality.find_problem(layer) is None:
                result = PageResult(page, TEXT_LAYER, layer, reason=f"OCR failed ({message})")
            else:
                result = PageResult(page, FAILED, error=message)
        self._delete_temp_images(result)
        return replace(result, milliseconds=round((time.monotonic() - started) * 1000))

    def _is_trusted(self, classified: Classification) -> bool:
        """Whether OCR was not better on enough pages of the document with as many unknown words."""
        samples = self.unknown_words_accepted
        return (
            classified.is_doubtful
            and len(samples) >= _SAMPLE_PAGES
            and classified.words is not None
            and classified.words.share >= min(samples)
        )

    def _render_and_recognize(self, page: int, layer: str, classified: Classification, budget: PageCpu) -> PageResult:
        layer = layer if classified.verdict is Verdict.COMPARE else ""
        rendered, dpi = self._render(page, self.task.dpi, budget.remaining())
        if page_image.is_blank(rendered):
            saved, reason = self._save_image(page, rendered), "nothing is visible on the page"
            return PageResult(page, TEXT_LAYER if layer else EMPTY, layer, image=saved, reason=reason)
        image, dpi, skew = self._prepare(page, rendered, dpi, budget)
        attempt = self._recognize(page, image, dpi, skew, budget)
        text = quality.normalize(attempt.result.text)
        if len(text) > MAX_CHARACTERS:
            raise PageFailed("PdfTooLarge", f"more than {MAX_CHARACTERS} characters on a page")
        confidence, reason = attempt.result.confidence, classified.reason
        if layer:
            is_better, reason = quality.compare(text, confidence, layer, self.words)
            if classified.is_doubtful and classified.words is not None:
                self.unknown_words_accepted = (
                    [] if is_better else [*self.unknown_words_accepted, classified.words.share]
                )
            if not is_better:
                # The image as the PDF shows it, like the boxes of the text layer's words.
                return PageResult(page, TEXT_LAYER, layer, image=self._save_image(page, rendered), reason=reason)
        saved = self._save_image(page, attempt.image)
        if not text:
            return PageResult(page, EMPTY, image=saved, reason="OCR found no text")
        return PageResult(
            page,
            OCR,
            text,
            confidence=None if confidence is None else round(confidence, 1),
            rotation=attempt.rotation,
            image=saved,
            reason=reason,
            words=_dump_words(attempt),
        )

    def _render(self, page: int, wanted_dpi: float, seconds: float) -> tuple[Path, float]:
        """Render the page and check the image: poppler's exit code does not show whether it is complete."""
        box = self.inspection.boxes.get(page)
        if box is None:
            raise PageFailed("PdfBroken", "the file lists the page, but it cannot be found")
        dpi = _limited_dpi(box, wanted_dpi)
        image = self.scratch / f"{page}-{dpi:.0f}.pgm"
        stderr = self.engine.render(page, dpi, image, seconds)
        size = page_image.size(image)
        errors = poppler.page_errors(stderr, self.inspection.document_messages)
        message = poppler.describe_message((errors or ["no message"])[-1])
        if size is None:
            raise PageFailed("PdfBroken", f"the page cannot be displayed ({message})")
        expected = box.width * dpi / 72, box.height * dpi / 72
        if any(abs(got - want) > 2 for got, want in zip(size, expected, strict=True)):
            raise PageFailed(
                "PdfBroken", f"its image has {size[0]} x {size[1]} pixels, which is not the size of the page"
            )
        if errors and page_image.is_blank(image):
            raise PageFailed("PdfBroken", f"the page was displayed blank ({message})")
        return image, dpi

    def _prepare(self, page: int, image: Path, dpi: float, budget: PageCpu) -> tuple[Path, float, float]:
        """Deskew the image, and render small print with a higher resolution. Before OCR, which is expensive.

        Returns the image, its resolution and the angle by which it was rotated.
        """
        skew = page_image.skew(image)
        image = _deskew(image, skew)
        height = self.engine.word_height(image, dpi, self.task.languages, budget.remaining())
        if height is None or height >= _SMALL_WORD_HEIGHT:
            return image, dpi, skew
        wanted = min(dpi * _NORMAL_WORD_HEIGHT / height, _HIGH_DPI)
        if _limited_dpi(self.inspection.boxes[page], wanted) <= dpi:
            return image, dpi, skew
        try:
            larger, high_dpi = self._render(page, wanted, budget.remaining())
        except (ToolFailed, PageFailed):
            # Rendering with a higher resolution failed: use the image that exists.
            return image, dpi, skew
        return _deskew(larger, skew), high_dpi, skew

    def _recognize(self, page: int, image: Path, dpi: float, skew: float, budget: PageCpu) -> OcrAttempt:
        """Run OCR, and repeat it on improved images only if the result is poor: each repetition costs as much again."""
        best = OcrAttempt(self._read(image, dpi, budget), image, 0, skew)
        try:
            if _is_poor(best.result) or best.result.is_sideways:
                best = self._rotated(best, dpi, budget)
            if _is_poor(best.result) and best.rotation:
                best = self._deskewed(best, dpi, budget)
            if _is_poor(best.result) and not best.rotation:
                best = self._higher_dpi(best, page, dpi, budget)
        except (ToolFailed, PageFailed):
            # An attempt to improve the result failed: keep the best one so far.
            return best
        return best

    def _read(self, image: Path, dpi: float, budget: PageCpu) -> OcrResult:
        """OCR of an image, column by column."""
        regions = columns.find_regions(image, dpi)
        size = page_image.size(image)
        if len(regions) == 1 or size is None:
            return self.engine.recognize(image, dpi, self.task.languages, budget.remaining())
        results = []
        for number, region in enumerate(regions):
            part = image.with_suffix(f".region{number}.pgm")
            page_image.crop(image, region, part)
            result = self.engine.recognize(part, dpi, self.task.languages, budget.remaining())
            results.append(replace(result, lines=place_words(result.lines, region, size)))
        return join_results(results)

    def _rotated(self, best: OcrAttempt, dpi: float, budget: PageCpu) -> OcrAttempt:
        degrees, confidence = self.engine.orientation(best.image, dpi, budget.remaining())
        if degrees not in (90, 180, 270) or confidence < 0.5:
            return best
        image = best.image.with_suffix(f".rotated{degrees}.pgm")
        page_image.rotate(best.image, degrees, image)
        result = self._read(image, dpi, budget)
        rotated = OcrAttempt(result, image, degrees, best.skew)
        if best.result.is_sideways and result.score > 0.9 * best.result.score:
            return rotated
        return max(best, rotated, key=lambda attempt: attempt.result.score)

    def _deskewed(self, best: OcrAttempt, dpi: float, budget: PageCpu) -> OcrAttempt:
        """Deskew again: on the lines of a page that lay on its side the angle could not be measured."""
        skew = page_image.skew(best.image)
        if not skew:
            return best
        image = _deskew(best.image, skew)
        result = self._read(image, dpi, budget)
        deskewed = OcrAttempt(result, image, best.rotation, best.skew + skew)
        return max(best, deskewed, key=lambda attempt: attempt.result.score)

    def _higher_dpi(self, best: OcrAttempt, page: int, dpi: float, budget: PageCpu) -> OcrAttempt:
        """The better of two results: for tables in small print a higher resolution can be worse."""
        box = self.inspection.boxes[page]
        if _limited_dpi(box, _HIGH_DPI) < 1.2 * dpi:
            return best
        image, high_dpi = self._render(page, _HIGH_DPI, budget.remaining())
        result = self._read(_deskew(image, best.skew), high_dpi, budget)
        return max(best, replace(best, result=result), key=lambda attempt: attempt.result.score)

    # --- scratch files

    def _save_image(self, page: int, image: Path) -> str | None:
        if self.task.images == "none":
            return None
        saved = self.scratch / f"{page}.png"
        page_image.save_png(image, saved)
        return saved.name

    def _delete_temp_images(self, result: PageResult) -> None:
        for path in self.scratch.glob(f"{result.page}-*"):
            path.unlink()


def join_results(results: Sequence[OcrResult]) -> OcrResult:
    """The result of a page from those of its regions."""
    letters = sum(result.letters for result in results)
    confidence = sum((result.confidence or 0.0) * result.letters for result in results)
    sideways = sum(result.letters for result in results if result.is_sideways)
    text = "\n".join(result.text.strip("\n") + "\n" for result in results if result.text.strip())
    lines = [line for result in results for line in result.lines]
    return OcrResult(text, confidence / letters if letters else None, letters, sideways > letters / 2, lines)


def place_words(
    lines: Sequence[Sequence[Word]], region: columns.Region, size: tuple[int, int]
) -> Sequence[Sequence[Word]]:
    """Word boxes on the image of this size, from those on a region of it."""
    width, height = region.right - region.left, region.bottom - region.top

    def place(word: Word) -> Word:
        return make_word(
            word.text,
            region.left + word.left * width / SCALE,
            region.top + word.top * height / SCALE,
            region.left + word.right * width / SCALE,
            region.top + word.bottom * height / SCALE,
            *size,
        )

    return [[place(word) for word in line] for line in lines]


def _load_words(languages: str) -> WordList | None:
    try:
        return word_list.load(models(), languages)
    except ToolMissing:
        # An engine that is a plugin may need no models. Text layers are then judged by their characters only.
        return None


def _deskew(image: Path, angle: float) -> Path:
    if not angle:
        return image
    deskewed = image.with_suffix(".deskewed.pgm")
    page_image.deskew(image, angle, deskewed)
    return deskewed


def _is_poor(result: OcrResult) -> bool:
    return result.confidence is None or result.confidence < _POOR_CONFIDENCE


def _dump_words(attempt: OcrAttempt) -> str | None:
    size = page_image.size(attempt.image)
    if size is None or not attempt.result.lines:
        return None
    boxes = WordBoxes(attempt.result.lines, attempt.rotation, attempt.skew, size[1] / size[0])
    return word_boxes.dumps(boxes)


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
