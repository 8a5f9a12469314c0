"""The reading child: where an untrusted PDF is read, and nowhere else. One document, one child, one thread.

How it is spoken to is in `clerk.ocr.protocol`. What fails for a page fails that page; what fails for the
document ends it. Everything it writes lies in its scratch folder, and the worker decides what becomes of it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from clerk.documents.manifest import EMPTY, FAILED, OCR, TEXT_LAYER
from clerk.errors import PdfError, PdfTimeout, ToolMissing
from clerk.ocr import image as page_image
from clerk.ocr import poppler, quality
from clerk.ocr.inspection import Inspection, inspect
from clerk.ocr.ocr_engine import Engine, PopplerAndTesseract, limited_runner, limited_server
from clerk.ocr.protocol import PageResult, Task
from clerk.ocr.sandbox import (
    Limits,
    OutOfMemory,
    OutOfTime,
    OutputTooLarge,
    ParentGone,
    ToolFailed,
    set_own_cpu_limit,
    set_own_limits,
)
from clerk.ocr.tesseract import OcrResult, Tesseract

_INSPECTION_SECONDS = 8.0
_TEXT_SECONDS = 8.0
_IMAGE_SECONDS = 2.0
_MOSTLY = 0.5
_PAGES_PER_LAYER_RUN = 50
_OWN_SHARE_OF_MEMORY = 0.3
_RESTING_SHARE_OF_MEMORY = 0.15
"""For the process with tesseract in it, while another program works; the rest is for whichever works."""
_FINE_DPI = 300.0
_LOWEST_DPI = 50.0
_MOST_PIXELS = 36_000_000
_MOST_CHARACTERS = 1_000_000
_POOR = 70.0
"""Mean confidence below which a page is looked at again: turned, straightened, larger."""
_WORTH_STRAIGHTENING = 0.5
_SMALL_PRINT = 13
"""Pixels of a word's height below which a finer image is read better: 10 in newspaper columns at 150 dpi, where usual
documents have 15 and more. Tesseract is sure of itself there (90 and more), so confidence does not tell."""
_USUAL_PRINT = 15
"""As high as words should be: finer than that costs time, and gains nothing."""


class PageFailed(Exception):
    """This page cannot be read. Carries the class that the document would fail with, if all pages were like this."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")


@dataclass(frozen=True)
class OcrAttempt:
    """A page that was rendered and read."""

    reading: OcrResult
    image: Path
    rotation: int


class PageProcessor:
    def __init__(self, task: Task, engine: Engine, inspection: Inspection) -> None:
        self.task = task
        self.engine = engine
        self.inspection = inspection
        self.scratch = Path(task.scratch)
        self.failed_cpu = 0.0
        self.all_of_it = _seconds_for_all(task, inspection)

    def pages(self) -> Iterator[list[PageResult]]:
        """Results in the order in which they come: text layers of a stretch of pages together, others one by one."""
        done = set(self.task.done)
        todo = [page for page in range(1, self.inspection.page_count + 1) if page not in done]
        for start in range(0, len(todo), _PAGES_PER_LAYER_RUN):
            stretch = todo[start : start + _PAGES_PER_LAYER_RUN]
            began = time.monotonic()
            layers = self._layers(stretch)
            each = round((time.monotonic() - began) * 1000 / len(stretch))
            verdicts = {page: self._judge(page, layers[page]) for page in stretch}
            taken = [page for page in stretch if verdicts[page] is quality.Verdict.TAKE]
            if taken:
                results = [PageResult(page, TEXT_LAYER, layers[page], milliseconds=each) for page in taken]
                yield [self._with_image(result) for result in results]
            for page in stretch:
                if verdicts[page] is not quality.Verdict.TAKE:
                    yield [self._look(page, layers[page], verdicts[page])]

    # --- the text layer

    def _layers(self, stretch: list[int]) -> dict[int, str]:
        """Of all these pages at once if they follow each other and nothing goes wrong, else one by one."""
        first, last = stretch[0], stretch[-1]
        if last - first + 1 == len(stretch) and len(stretch) > 1:
            texts = self._layer(first, last)
            if texts is not None:
                return dict(zip(stretch, texts, strict=True))
        return {page: (self._layer(page, page) or [""])[0] for page in stretch}

    def _layer(self, first: int, last: int) -> list[str] | None:
        seconds = min(_TEXT_SECONDS, self._left())
        before = self._cpu()
        try:
            texts = self.engine.text_layer(first, last, seconds)
        except ToolFailed:
            self.failed_cpu += self._cpu() - before
            return None
        if texts is None or any(len(text) > _MOST_CHARACTERS for text in texts):
            return None
        return [quality.normalize(text) for text in texts]

    def _judge(self, page: int, layer: str) -> quality.Verdict:
        """Whether there is a large image is asked last: a page full of text is taken either way."""
        verdict = quality.classify(layer, has_large_image=False)
        if verdict is quality.Verdict.TAKE and quality.letters(layer) < quality.FULL_PAGE:
            return quality.classify(layer, self._is_mostly_image(page))
        return verdict

    def _is_mostly_image(self, page: int) -> bool:
        """Also if that cannot be told: then the page is looked at."""
        box = self.inspection.boxes.get(page)
        try:
            return box is None or self.engine.share_of_images(page, box, _IMAGE_SECONDS) >= _MOSTLY
        except (ToolFailed, ValueError):
            return True

    def _with_image(self, result: PageResult) -> PageResult:
        """Readers may want to see pages that need no looking at. If that fails, the text is still good."""
        if self.task.images != "all":
            return result
        try:
            rendered, _ = self._render(result.page, self.task.dpi, self.task.page_seconds)
        except (PageFailed, ToolFailed, ToolMissing):
            return result
        return replace(result, image=self._keep(result.page, rendered))

    # --- looking at the page

    def _look(self, page: int, layer: str, verdict: quality.Verdict) -> PageResult:
        began, before = time.monotonic(), self._cpu()
        budget = CpuBudget(min(self.task.page_seconds, self._left()), self._cpu)
        usable = layer if verdict is quality.Verdict.LOOK else ""
        try:
            result = self._looked(page, usable, budget)
        except (PageFailed, ToolFailed) as error:
            self.failed_cpu += self._cpu() - before
            if usable:
                result = PageResult(page, TEXT_LAYER, usable)
            else:
                result = PageResult(page, FAILED, error=str(error) if isinstance(error, PageFailed) else _kind(error))
        self._tidy_scratch(result)
        return replace(result, milliseconds=round((time.monotonic() - began) * 1000))

    def _looked(self, page: int, layer: str, budget: CpuBudget) -> PageResult:
        image, dpi = self._render(page, self.task.dpi, budget.left())
        if page_image.is_blank(image):
            return PageResult(page, TEXT_LAYER if layer else EMPTY, layer, image=self._keep(page, image))
        image, dpi = self._fine_enough(page, image, dpi, budget)
        looked = self._read(page, image, dpi, budget)
        kept = self._keep(page, looked.image)
        text = quality.normalize(looked.reading.text)
        if len(text) > _MOST_CHARACTERS:
            raise PageFailed("PdfTooLarge", f"more than {_MOST_CHARACTERS} characters on a page")
        confidence = looked.reading.confidence
        if layer and not quality.reads_better(text, confidence, layer):
            return PageResult(page, TEXT_LAYER, layer, image=kept)
        if not text:
            return PageResult(page, EMPTY, image=kept)
        return PageResult(
            page,
            OCR,
            text,
            confidence=None if confidence is None else round(confidence, 1),
            rotation=looked.rotation,
            image=kept,
        )

    def _render(self, page: int, wanted_dpi: float, seconds: float) -> tuple[Path, float]:
        """An image that is certainly of this page, whole: poppler's word alone is not taken for it."""
        box = self.inspection.boxes.get(page)
        if box is None:
            raise PageFailed("PdfBroken", "poppler does not find the page")
        dpi = _fitting(box, wanted_dpi)
        image = self.scratch / f"{page}-{dpi:.0f}.pgm"
        complaints = self.engine.render(page, dpi, image, seconds)
        size = page_image.size(image)
        errors = poppler.errors(complaints, self.inspection.complaints)
        complaint = (errors or ["no message"])[-1][:200]
        if size is None:
            raise PageFailed("PdfBroken", f"it was not rendered ({complaint})")
        expected = box.width * dpi / 72, box.height * dpi / 72
        if any(abs(got - want) > 2 for got, want in zip(size, expected, strict=True)):
            raise PageFailed("PdfBroken", f"it was rendered as {size[0]} x {size[1]} pixels, not as its box says")
        if errors and page_image.is_blank(image):
            raise PageFailed("PdfBroken", f"it was rendered blank ({complaint})")
        return image, dpi

    def _fine_enough(self, page: int, image: Path, dpi: float, budget: CpuBudget) -> tuple[Path, float]:
        """The same, or finer for small print. Found out beforehand: reading it twice would cost twice."""
        height = self.engine.word_height(image, dpi, self.task.languages, budget.left())
        if height is None or height >= _SMALL_PRINT:
            return image, dpi
        wanted = min(dpi * _USUAL_PRINT / height, _FINE_DPI)
        if _fitting(self.inspection.boxes[page], wanted) <= dpi:
            return image, dpi
        try:
            return self._render(page, wanted, budget.left())
        except (ToolFailed, PageFailed):
            # The image that we have stands: what failed was an attempt to do better.
            return image, dpi

    def _read(self, page: int, image: Path, dpi: float, budget: CpuBudget) -> OcrAttempt:
        """Read it; if the reading is poor, look for the reason. Each remedy costs as much as reading: only then."""
        read = self.engine.read
        best = OcrAttempt(read(image, dpi, self.task.languages, budget.left()), image, 0)
        try:
            if _is_poor(best.reading) or best.reading.is_sideways:
                best = self._rotated(best, dpi, budget)
            if _is_poor(best.reading):
                best = self._deskewed(best, dpi, budget)
            if _is_poor(best.reading) and not best.rotation:
                best = self._higher_dpi(best, page, dpi, budget)
        except (ToolFailed, PageFailed):
            # The first reading stands: what fails here is an attempt to do better.
            return best
        return best

    def _rotated(self, best: OcrAttempt, dpi: float, budget: CpuBudget) -> OcrAttempt:
        degrees, sure = self.engine.orientation(best.image, dpi, budget.left())
        if degrees not in (90, 180, 270) or sure < 0.5:
            return best
        image = best.image.with_suffix(f".turned{degrees}.pgm")
        page_image.rotate(best.image, degrees, image)
        reading = self.engine.read(image, dpi, self.task.languages, budget.left())
        turned = OcrAttempt(reading, image, degrees)
        if best.reading.is_sideways and reading.score > 0.9 * best.reading.score:
            return turned
        return max(best, turned, key=lambda looked: looked.reading.score)

    def _deskewed(self, best: OcrAttempt, dpi: float, budget: CpuBudget) -> OcrAttempt:
        angle = page_image.skew(best.image)
        if abs(angle) < _WORTH_STRAIGHTENING:
            return best
        image = best.image.with_suffix(".straight.pgm")
        page_image.deskew(best.image, angle, image)
        reading = self.engine.read(image, dpi, self.task.languages, budget.left())
        return max(best, OcrAttempt(reading, image, best.rotation), key=lambda looked: looked.reading.score)

    def _higher_dpi(self, best: OcrAttempt, page: int, dpi: float, budget: CpuBudget) -> OcrAttempt:
        """The better of the two: of tables in small print a finer image can be read worse."""
        box = self.inspection.boxes[page]
        if _fitting(box, _FINE_DPI) < 1.2 * dpi:
            return best
        image, fine_dpi = self._render(page, _FINE_DPI, budget.left())
        reading = self.engine.read(image, fine_dpi, self.task.languages, budget.left())
        return max(best, replace(best, reading=reading), key=lambda looked: looked.reading.score)

    # --- time and scratch

    def _left(self) -> float:
        """CPU seconds that the next thing may take without breaking the document's limits."""
        used = self._cpu()
        if used >= self.all_of_it:
            raise PdfTimeout(f"reading it took more than {self.all_of_it:.0f} s of CPU time")
        if self.failed_cpu >= self.task.wasted_seconds:
            raise PdfTimeout(f"more than {self.task.wasted_seconds:.0f} s of CPU time went into pages that fail")
        return min(self.all_of_it - used, self.task.wasted_seconds - self.failed_cpu)

    def _cpu(self) -> float:
        """CPU seconds of this child, of all that it ran, and of what the engine still runs."""
        own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime + self.engine.cpu_seconds

    def _keep(self, page: int, image: Path) -> str | None:
        if self.task.images == "none":
            return None
        kept = self.scratch / f"{page}.png"
        page_image.save_png(image, kept)
        return kept.name

    def _tidy_scratch(self, result: PageResult) -> None:
        for path in self.scratch.glob(f"{result.page}-*"):
            path.unlink()


class CpuBudget:
    """CPU seconds for one page, over all that is done to it."""

    def __init__(self, seconds: float, used: Callable[[], float]) -> None:
        self.used = used
        self.until = used() + seconds

    def left(self) -> float:
        left = self.until - self.used()
        if left <= 0:
            raise OutOfTime("the page took more CPU time than a page may")
        return left


def _is_poor(reading: OcrResult) -> bool:
    return reading.confidence is None or reading.confidence < _POOR


def _fitting(box: poppler.Box, dpi: float) -> float:
    """As fine as asked for, or as the largest image that is allowed permits."""
    if box.pixels(dpi) <= _MOST_PIXELS:
        return dpi
    fitting = dpi * math.sqrt(_MOST_PIXELS / box.pixels(dpi))
    if fitting < _LOWEST_DPI:
        raise PageFailed("PdfTooLarge", f"a page of {box.width:.0f} x {box.height:.0f} points")
    return fitting


def _kind(error: ToolFailed) -> str:
    kinds = {OutOfTime: "PdfTimeout", OutOfMemory: "PdfMemory", OutputTooLarge: "PdfTooLarge"}
    return f"{kinds.get(type(error), 'PdfBroken')}: {error}"


def _seconds_for_all(task: Task, inspection: Inspection) -> float:
    return task.document_seconds + task.further_page_seconds * (inspection.page_count - 1)


def read_document(task: Task, lifeline: int | None = None) -> Iterator[dict[str, Any]]:
    """The document's events. Limits are on before the first byte of it is read."""
    scratch = Path(task.scratch)
    own = int(task.memory * _OWN_SHARE_OF_MEMORY)
    resting = int(task.memory * _RESTING_SHARE_OF_MEMORY)
    limits = Limits(task.memory - own - resting)
    set_own_limits(Limits(own), task.memory - own, 3 * _INSPECTION_SECONDS)
    run = limited_runner(limits, scratch, lifeline)
    try:
        inspection = inspect(run, Path(task.pdf), scratch, task.most_pages, _INSPECTION_SECONDS)
        set_own_cpu_limit(3 * _INSPECTION_SECONDS + task.further_page_seconds * inspection.page_count)
        yield {
            "event": "inspected",
            "page_count": inspection.page_count,
            "ends_early": inspection.ends_early,
            "remarks": inspection.remarks,
        }
        start = limited_server(limits, _seconds_for_all(task, inspection), scratch, lifeline)
        engine = PopplerAndTesseract(Path(task.pdf), run, Tesseract(start, resting), scratch)
        with contextlib.closing(engine):
            for results in PageProcessor(task, engine, inspection).pages():
                yield {"event": "pages", "pages": [asdict(result) for result in results]}
    except (PdfError, ToolMissing) as error:
        yield {"event": "failed", "error": error.code, "message": str(error)}
    except ToolFailed as error:
        name, _, message = _kind(error).partition(": ")
        yield {"event": "failed", "error": name, "message": message}
    except MemoryError:
        yield {"event": "failed", "error": "PdfMemory", "message": "the reading process ran out of memory"}
    else:
        yield {"event": "done"}


def main() -> None:
    logging.disable()  # pypdf warns about everything; what matters is in the result
    lifeline = sys.stdin.fileno()
    task = Task(**json.loads(_first_line(lifeline)))
    try:
        for event in read_document(task, lifeline):
            sys.stdout.write(json.dumps(event) + "\n")
            sys.stdout.flush()
    except (ParentGone, BrokenPipeError):
        shutil.rmtree(task.scratch, ignore_errors=True)
        os.killpg(0, signal.SIGKILL)


def _first_line(descriptor: int) -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(descriptor, 65536)
        if not piece:
            sys.exit(1)
        line += piece
    return line


if __name__ == "__main__":
    main()
