"""Tesseract process of the engine `pytesseract`: runs the programs tesseract and pdftoppm for the reader process.

Run as `python -m clerk.ocr.pytesseract_server MODELS`. See `clerk.ocr.ocr_server` for the requests. Each program has
the limits of this process, and its process group, which the worker kills.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytesseract
from pdf2image import convert_from_path
from pdf2image.exceptions import PDFPageCountError, PDFPopplerTimeoutError, PDFSyntaxError

from clerk.ocr import image as page_image
from clerk.ocr.ocr_server import ModelsMissing, serve
from clerk.ocr.tesseract import Request
from clerk.ocr.tsv import ocr_result, word_height

_TIMEOUT_SHARE = 0.9
"""Of the time after which this process is killed: a program must not survive it."""
_TOO_FEW_CHARACTERS = "Too few characters"


class PytesseractServer:
    def __init__(self, models: Path) -> None:
        self.models = models
        self.recognized: tuple[Request, str] | None = None
        """The last request to measure words, and the TSV, which is also the result of OCR."""

    def handle(self, request: Request) -> Any:
        if request.operation == "render":
            return _render(request)
        if request.operation == "word_height":
            tsv = self._tsv(request)
            self.recognized = request, tsv
            return word_height(tsv)
        if request.operation == "recognize":
            return vars(ocr_result(self._tsv(request)))
        return self._orientation(request)

    def _tsv(self, request: Request) -> str:
        """The program cannot analyse the layout alone: words are measured with the result of OCR, which is kept."""
        recognized, self.recognized = self.recognized, None
        if recognized is not None and _is_same_image(recognized[0], request):
            return recognized[1]
        return str(self._run(pytesseract.image_to_data, request))

    def _orientation(self, request: Request) -> tuple[int, float]:
        try:
            detected = self._run(pytesseract.image_to_osd, request, output_type=pytesseract.Output.DICT)
        except pytesseract.TesseractError as error:
            if _TOO_FEW_CHARACTERS in error.message:
                return 0, 0.0
            raise
        return detected["rotate"], detected["orientation_conf"]

    def _run(self, function: Callable[..., Any], request: Request, **options: Any) -> Any:
        languages = request.languages.split("+")
        if missing := [name for name in languages if not (self.models / f"{name}.traineddata").is_file()]:
            raise ModelsMissing("+".join(missing))
        config = f"--dpi {request.dpi:.0f} --tessdata-dir {shlex.quote(str(self.models))}"
        timeout = _TIMEOUT_SHARE * request.timeout
        try:
            return function(request.image, lang=request.languages, config=config, timeout=timeout, **options)
        except pytesseract.TesseractError as error:
            if error.status < 0:
                _end_by_signal(-error.status)
            raise
        except RuntimeError as error:
            if "timeout" not in str(error):
                raise
            # The client kills this process when the time is over, and reports that.
            signal.pause()
            raise


def _render(request: Request) -> str | None:
    """Render a page with pdf2image and return the error messages, as far as it reports them; None if the image is blank
    or incomplete."""
    image, messages = Path(request.image), ""
    try:
        convert_from_path(
            request.pdf,
            dpi=round(request.dpi, 3),  # type: ignore[arg-type] # passed to pdftoppm as it is
            output_folder=image.parent,
            output_file=image.stem,
            first_page=request.page,
            last_page=request.page,
            grayscale=True,
            use_cropbox=True,
            single_file=True,
            strict=True,
            paths_only=True,
            timeout=_TIMEOUT_SHARE * request.timeout,  # type: ignore[arg-type]
        )
    except (PDFSyntaxError, PDFPageCountError, PDFPopplerTimeoutError) as error:
        messages = str(error)
    return None if page_image.size(image) is None or page_image.is_blank(image) else messages


def _is_same_image(first: Request, second: Request) -> bool:
    return (first.image, first.dpi, first.languages) == (second.image, second.dpi, second.languages)


def _end_by_signal(number: int) -> NoReturn:
    """End this process like the program that it ran, so that the client reports the same cause."""
    if number != signal.SIGKILL:  # its action cannot be set
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    raise SystemExit(128 + number)


def main(models: Path) -> None:
    serve(PytesseractServer(models).handle)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
