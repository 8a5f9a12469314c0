"""Computes the word boxes of a page's text layer from the stored PDF, when they are needed, in a sandbox.

They are not stored: computing them during OCR would more than double the time of a page with a text layer, and only few
pages are ever looked at.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from clerk.documents import word_boxes
from clerk.documents.word_boxes import WordBoxes, WordBoxesInvalid
from clerk.ocr import poppler
from clerk.ocr.limited_child import ChildFailed, run_child, run_limited
from clerk.ocr.ocr_engine import limited_runner
from clerk.ocr.sandbox import Limits, ToolFailed
from clerk.ocr.scratch import scratch_folder

_CPU_SECONDS = 5.0
_TIMEOUT = 60.0
_OWN_MEMORY = 256 << 20
_MEMORY = 512 << 20
_MAX_FILE_SIZE = 32 << 20
_MAX_TEXT_SIZE = 16 << 20


def layer_words(pdf: Path, page: int) -> WordBoxes:
    """The words of the text layer, with boxes on the page as the PDF shows it. Raises ChildFailed."""
    with scratch_folder("words") as scratch:
        run_child(__name__, [pdf.resolve(), str(page), scratch], scratch, _TIMEOUT)
        with _target(scratch).open("rb") as file:
            content = file.read(_MAX_TEXT_SIZE)
        try:
            return word_boxes.loads(content.decode())
        except (WordBoxesInvalid, UnicodeDecodeError) as error:
            raise ChildFailed("the word boxes are invalid") from error


def _target(scratch: Path) -> Path:
    return scratch / "words"


def _write_words(pdf: Path, page: int, scratch: Path, parent_pipe: int) -> None:
    run = limited_runner(Limits(_MEMORY, file_size=_MAX_FILE_SIZE), scratch, parent_pipe)
    box = poppler.pdf_info(run, pdf, scratch / "info", page, _CPU_SECONDS, first=page).boxes.get(page)
    if box is None:
        raise ToolFailed("poppler cannot find the page")
    lines = poppler.words(run, pdf, page, box, scratch / "layer.html", _CPU_SECONDS)
    _target(scratch).write_text(word_boxes.dumps(WordBoxes(lines, proportion=box.height / box.width)))


def main() -> None:
    pdf, page, scratch = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    run_limited(partial(_write_words, pdf, page, scratch), pdf, scratch, Limits(_OWN_MEMORY), 2 * _CPU_SECONDS)


if __name__ == "__main__":
    main()
