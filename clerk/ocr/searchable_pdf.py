"""Makes a searchable PDF of a document: the PDF as fetched, with the text of OCR as an invisible text layer.

The PDF is parsed in a child process (`clerk.ocr.text_layer_process`) with limits, never in this one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from clerk.documents import word_boxes
from clerk.documents.manifest import OCR, Manifest
from clerk.documents.storage import Document, SiteStorage
from clerk.documents.word_boxes import WordBoxes, WordBoxesInvalid
from clerk.ocr.limited_child import ChildFailed, run_child
from clerk.ocr.scratch import scratch_folder

CHILD_MODULE = "clerk.ocr.text_layer_process"
OUTPUT = "output.pdf"
_SECONDS = 60.0
_SECONDS_PER_PAGE = 5.0
"""On a busy machine. The child's limits on CPU time are shorter."""


@dataclass(frozen=True)
class PageTexts:
    """The pages of a document, by what a searchable PDF needs for them."""

    boxes: Mapping[int, WordBoxes]
    """Pages whose text was recognized: their words are added."""
    without_boxes: tuple[int, ...]
    """Pages whose text was recognized by a version of clerk that stored no word boxes, or whose boxes are damaged."""


def read_page_texts(storage: SiteStorage, document: Document, manifest: Manifest) -> PageTexts:
    boxes: dict[int, WordBoxes] = {}
    without_boxes = []
    for page in manifest.pages:
        if page.method != OCR:
            continue
        try:
            stored = word_boxes.load(storage.word_boxes(document, page.page))
        except WordBoxesInvalid:
            stored = None
        if stored is None:
            without_boxes.append(page.page)
        else:
            boxes[page.page] = stored
    return PageTexts(boxes, tuple(without_boxes))


@contextmanager
def searchable_pdf(pdf: Path, boxes: Mapping[int, WordBoxes]) -> Iterator[BinaryIO]:
    """Open the PDF with the words of these pages added. Without any, it is the PDF itself. Raises ChildFailed."""
    if not boxes:
        with pdf.open("rb") as file:
            yield file
        return
    with scratch_folder("export") as scratch:
        for page, words in boxes.items():
            (scratch / f"{page}.words").write_text(word_boxes.dumps(words))
        timeout = _SECONDS + _SECONDS_PER_PAGE * len(boxes)
        run_child(CHILD_MODULE, [pdf.resolve(), scratch], scratch, timeout)
        output = scratch / OUTPUT
        if output.is_symlink() or not output.is_file():
            raise ChildFailed("it wrote no file")
        with output.open("rb") as file:
            if not file.read(5).startswith(b"%PDF-"):
                raise ChildFailed("it wrote no PDF")
            file.seek(0)
            yield file
