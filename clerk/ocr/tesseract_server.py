"""Tesseract process: handles OCR requests of the reader process, one after another.

Run as `python -m clerk.ocr.tesseract_server MODELS`. It reads one `Request` per line from standard input and writes
one `Response` per line to standard output (see `clerk.ocr.tesseract`). The sandbox limits the process; the process
itself limits the CPU time of each request. It does not handle errors: it exits, and its traceback names the cause.
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

_TSV_WORD_LEVEL = "5"
_MIN_WORD_ASPECT = 2
"""Words at least this many times as wide as high are measured; others may be initials, specks or lines."""


class ModelsMissing(Exception):
    """The message is the list of languages whose models could not be loaded."""


_preloaded: dict[tuple[Path, str, int], tesserocr.PyTessBaseAPI] = {}
"""Models that were loaded before this process was forked."""


def preload(models: Path, languages: str) -> None:
    """Load models in the fork server, so that the tesseract processes of all documents have them."""
    mode = tesserocr.PSM.AUTO
    _preloaded[models, languages, mode] = tesserocr.PyTessBaseAPI(path=f"{models}/", lang=languages, psm=mode)


class TesseractServer:
    def __init__(self, models: Path) -> None:
        self.models = models
        self.loaded = {(languages, mode): api for (path, languages, mode), api in _preloaded.items() if path == models}
        self.analysed: tuple[str, str] | None = None
        """The image and languages of the last layout analysis."""

    def handle(self, request: Request) -> Any:
        if request.operation == "word_height":
            return self._word_height(request)
        if request.operation == "recognize":
            return asdict(self._recognize(request))
        return self._orientation(request)

    def _word_height(self, request: Request) -> float | None:
        iterator = self._open_image(request).AnalyseLayout()
        self.analysed = (request.image, request.languages)
        heights = []
        while iterator is not None:
            left, top, right, bottom = iterator.BoundingBox(tesserocr.RIL.WORD)
            if right - left > _MIN_WORD_ASPECT * (bottom - top):
                heights.append(bottom - top)
            if not iterator.Next(tesserocr.RIL.WORD):
                break
        return statistics.median(heights) if heights else None

    def _recognize(self, request: Request) -> OcrResult:
        if self.analysed == (request.image, request.languages):
            tesseract = self._loaded(request.languages, tesserocr.PSM.AUTO)
        else:
            tesseract = self._open_image(request)
        self.analysed = None
        return _ocr_result(tesseract.GetUTF8Text(), tesseract.GetTSVText(0))

    def _orientation(self, request: Request) -> tuple[int, float]:
        detected = self._open_image(request, tesserocr.PSM.OSD_ONLY).DetectOrientationScript()
        return (-detected["orient_deg"] % 360, detected["orient_conf"]) if detected else (0, 0.0)

    def _open_image(self, request: Request, mode: int = tesserocr.PSM.AUTO) -> tesserocr.PyTessBaseAPI:
        self.analysed = None
        tesseract = self._loaded(request.languages, mode)
        tesseract.SetImageFile(request.image)
        tesseract.SetSourceResolution(request.dpi)
        return tesseract

    def _loaded(self, languages: str, mode: int) -> tesserocr.PyTessBaseAPI:
        if (languages, mode) not in self.loaded:
            try:
                api = tesserocr.PyTessBaseAPI(path=f"{self.models}/", lang=languages, psm=mode)
            except RuntimeError as error:
                raise ModelsMissing(languages) from error
            self.loaded[languages, mode] = api
        return self.loaded[languages, mode]


def _ocr_result(text: str, tsv: str) -> OcrResult:
    letters = 0
    sum_of_confidence = 0.0
    vertical = horizontal = 0
    for line in tsv.splitlines():
        cells = line.split("\t")
        if len(cells) == 12 and cells[0] == _TSV_WORD_LEVEL:
            length = sum(character.isalnum() for character in cells[11])
            letters += length
            sum_of_confidence += length * float(cells[10])
            if length >= 4:
                width, height = int(cells[8]), int(cells[9])
                horizontal += width > height
                vertical += height > width
    confidence = sum_of_confidence / letters if letters else None
    return OcrResult(text, confidence, letters, vertical > horizontal)


def _usage() -> tuple[float, int]:
    """CPU seconds and peak memory of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main(models: Path) -> None:
    # Output of libraries goes to standard error, so that it cannot be mistaken for a response.
    responses = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    server = TesseractServer(models)
    for line in sys.stdin:
        request = Request(**json.loads(line))
        set_own_cpu_limit(_usage()[0] + request.cpu_seconds)
        result, missing_languages = None, None
        try:
            result = server.handle(request)
        except ModelsMissing as error:
            missing_languages = str(error)
        responses.write(json.dumps(asdict(Response(result, missing_languages, *_usage()))) + "\n")
        responses.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
