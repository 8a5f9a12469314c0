"""The process that has tesseract in it: looks at images for the reading child, one question after another.

Run as `python -m clerk.ocr.tesseract_server MODELS`. Reads a `Request` per line from stdin and writes a `Response`
on standard output (see `clerk.ocr.tesseract`). Limits are on it from outside; what one question may take in CPU time
it limits itself. It catches next to nothing: if something goes wrong it dies, and its last words say of what.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tesserocr

from clerk.ocr.sandbox import set_own_cpu_limit
from clerk.ocr.tesseract import OcrResult, Request, Response

_WORD = "5"
_LONG_ENOUGH = 2
"""Times as wide as high: a word, not an initial, a speck or a rule."""


class ModelsMissing(Exception):
    """Carries the languages that could not be loaded."""


class TesseractServer:
    def __init__(self, models: Path) -> None:
        self.models = models
        self.loaded: dict[tuple[str, int], tesserocr.PyTessBaseAPI] = {}
        self.laid_out: tuple[str, str] | None = None
        """Image and languages whose lines are found already."""

    def answer(self, question: Request) -> Any:
        if question.what == "word_height":
            return self._word_height(question)
        if question.what == "read":
            return asdict(self._read(question))
        return self._orientation(question)

    def _word_height(self, question: Request) -> float | None:
        place = self._looking_at(question).AnalyseLayout()
        self.laid_out = (question.image, question.languages)
        heights = []
        while place is not None:
            left, top, right, bottom = place.BoundingBox(tesserocr.RIL.WORD)
            if right - left > _LONG_ENOUGH * (bottom - top):
                heights.append(bottom - top)
            if not place.Next(tesserocr.RIL.WORD):
                break
        return statistics.median(heights) if heights else None

    def _read(self, question: Request) -> OcrResult:
        if self.laid_out == (question.image, question.languages):
            tesseract = self._loaded(question.languages, tesserocr.PSM.AUTO)
        else:
            tesseract = self._looking_at(question)
        self.laid_out = None
        return _reading(tesseract.GetUTF8Text(), tesseract.GetTSVText(0))

    def _orientation(self, question: Request) -> tuple[int, float]:
        found = self._looking_at(question, tesserocr.PSM.OSD_ONLY).DetectOrientationScript()
        return (-found["orient_deg"] % 360, found["orient_conf"]) if found else (0, 0.0)

    def _looking_at(self, question: Request, mode: int = tesserocr.PSM.AUTO) -> tesserocr.PyTessBaseAPI:
        self.laid_out = None
        tesseract = self._loaded(question.languages, mode)
        tesseract.SetImageFile(question.image)
        tesseract.SetSourceResolution(question.dpi)
        return tesseract

    def _loaded(self, languages: str, mode: int) -> tesserocr.PyTessBaseAPI:
        if (languages, mode) not in self.loaded:
            try:
                made = tesserocr.PyTessBaseAPI(path=f"{self.models}/", lang=languages, psm=mode)
            except RuntimeError as error:
                raise ModelsMissing(languages) from error
            self.loaded[languages, mode] = made
        return self.loaded[languages, mode]


def _reading(text: str, words: str) -> OcrResult:
    letters = 0
    sum_of_confidence = 0.0
    upright = lying = 0
    for line in words.splitlines():
        cells = line.split("\t")
        if len(cells) == 12 and cells[0] == _WORD:
            length = sum(character.isalnum() for character in cells[11])
            letters += length
            sum_of_confidence += length * float(cells[10])
            if length >= 4:
                width, height = int(cells[8]), int(cells[9])
                lying += width > height
                upright += height > width
    confidence = sum_of_confidence / letters if letters else None
    return OcrResult(text, confidence, letters, upright > lying)


def _used() -> tuple[float, int]:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    # Whatever a library may print must not pass for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    recognition = TesseractServer(Path(sys.argv[1]))
    for line in sys.stdin:
        question = Request(**json.loads(line))
        set_own_cpu_limit(_used()[0] + question.cpu_seconds)
        found, missing = None, None
        try:
            found = recognition.answer(question)
        except ModelsMissing as error:
            missing = str(error)
        answers.write(json.dumps(asdict(Response(found, missing, *_used()))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
