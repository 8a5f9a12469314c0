"""Tesseract process: handles OCR requests of the reader process, one after another, with the tesseract library.

Run as `python -m clerk.ocr.tesseract_server MODELS`. See `clerk.ocr.ocr_server` for the requests.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tesserocr

from clerk.ocr.ocr_server import ModelsMissing, serve
from clerk.ocr.tesseract import OcrResult, Request
from clerk.ocr.tsv import median_height, ocr_result

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
            return vars(self._recognize(request))
        return self._orientation(request)

    def _word_height(self, request: Request) -> float | None:
        iterator = self._open_image(request).AnalyseLayout()
        self.analysed = (request.image, request.languages)
        return median_height(_word_sizes(iterator))

    def _recognize(self, request: Request) -> OcrResult:
        if self.analysed == (request.image, request.languages):
            tesseract = self._loaded(request.languages, tesserocr.PSM.AUTO)
        else:
            tesseract = self._open_image(request)
        self.analysed = None
        text = tesseract.GetUTF8Text()  # first: the TSV of a layout that is only analysed crashes
        return ocr_result(tesseract.GetTSVText(0), text)

    def _orientation(self, request: Request) -> tuple[int, float]:
        detected = self._open_image(request, tesserocr.PSM.OSD_ONLY).DetectOrientationScript()
        return (-detected["orient_deg"] % 360, detected["orient_conf"]) if detected else (0, 0.0)

    def _open_image(self, request: Request, mode: int = tesserocr.PSM.AUTO) -> tesserocr.PyTessBaseAPI:
        self.analysed = None
        tesseract = self._loaded(request.languages, mode)
        tesseract.SetImageFile(request.image)
        tesseract.SetSourceResolution(round(request.dpi))
        return tesseract

    def _loaded(self, languages: str, mode: int) -> tesserocr.PyTessBaseAPI:
        if (languages, mode) not in self.loaded:
            try:
                api = tesserocr.PyTessBaseAPI(path=f"{self.models}/", lang=languages, psm=mode)
            except RuntimeError as error:
                raise ModelsMissing(languages) from error
            self.loaded[languages, mode] = api
        return self.loaded[languages, mode]


def _word_sizes(iterator: tesserocr.PyPageIterator | None) -> Iterator[tuple[int, int]]:
    while iterator is not None:
        left, top, right, bottom = iterator.BoundingBox(tesserocr.RIL.WORD)
        yield right - left, bottom - top
        if not iterator.Next(tesserocr.RIL.WORD):
            return


def main(models: Path) -> None:
    serve(TesseractServer(models).handle)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
