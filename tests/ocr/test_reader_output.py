"""What the worker accepts from a reader process. The process may be under the control of a document."""

from __future__ import annotations

import os
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from clerk.documents.manifest import FAILED, OCR
from clerk.errors import DiskFull, PdfBroken, PdfEmpty, PdfTimeout, ReaderOutputInvalid
from clerk.ocr import reader_output
from clerk.ocr.protocol import MAX_CHARACTERS, PageResult
from clerk.ocr.reader_output import CHECKS, raise_failure, read_image, read_inspected, read_pages


def pages_event(*pages: dict[str, Any]) -> dict[str, Any]:
    return {"event": "pages", "pages": list(pages)}


def page(**changes: Any) -> dict[str, Any]:
    return {**asdict(PageResult(3, OCR, "text", 88.5, 1200, 90, image="3.png")), **changes}


def test_every_field_of_a_page_has_a_check() -> None:
    assert set(CHECKS) == {field.name for field in fields(PageResult)}


def test_valid_pages() -> None:
    event = pages_event(page(), page(page=4, method=FAILED, text="", error="PdfTimeout: too long"))
    results = read_pages(event, {3, 4, 5})
    assert [result.page for result in results] == [3, 4]
    assert results[0].text == "text"


@pytest.mark.parametrize(
    "event",
    [
        pages_event(page(page=9)),
        pages_event(page(page=-1)),
        pages_event(page(page="3")),
        pages_event(page(page=True)),
        pages_event(page(), page()),
        pages_event(),
        pages_event(page(method="older system")),
        pages_event(page(text=None)),
        pages_event(page(text="x" * (MAX_CHARACTERS + 1))),
        pages_event(page(confidence=float("nan"))),
        pages_event(page(confidence="high")),
        pages_event(page(rotation=45)),
        pages_event(page(milliseconds=-5)),
        pages_event(page(method=FAILED, error=None)),
        pages_event(page(unknown=1)),
        {"event": "pages", "pages": "1"},
        {"event": "pages", "pages": [1]},
        {"event": "inspected", "page_count": 3, "notes": []},
    ],
)
def test_invalid_pages(event: dict[str, Any]) -> None:
    with pytest.raises(ReaderOutputInvalid):
        read_pages(event, {1, 2, 3})


def test_inspected() -> None:
    event = {"event": "inspected", "page_count": 3, "is_truncated": False, "notes": ["x" * 10_000] * 100}
    inspected = read_inspected(event, 10)
    assert inspected.page_count == 3
    assert sum(map(len, inspected.notes)) <= 10_000
    with pytest.raises(PdfEmpty):
        read_inspected({**event, "page_count": 0}, 10)


@pytest.mark.parametrize("changes", [{"page_count": 11}, {"page_count": "3"}, {"page_count": -1}, {"notes": [1]}])
def test_invalid_inspected(changes: dict[str, Any]) -> None:
    event = {"event": "inspected", "page_count": 3, "is_truncated": False, "notes": [], **changes}
    with pytest.raises(ReaderOutputInvalid):
        read_inspected(event, 10)


def test_failures_have_the_code_of_a_document_or_host() -> None:
    for code, error in {"PdfTimeout": PdfTimeout, "DiskFull": DiskFull, "ClaimLost": PdfBroken, "?": PdfBroken}.items():
        with pytest.raises(error, match=r"x{500}$"):
            raise_failure({"event": "failed", "error": code, "message": "x" * 10_000})
    events: list[Any] = [[], {}, "failed"]
    for event in events:
        with pytest.raises(ReaderOutputInvalid):
            raise_failure(event)


@pytest.fixture
def png(tmp_path: Path) -> Path:
    Image.new("L", (10, 10)).save(tmp_path / "good.png")
    return tmp_path / "good.png"


def test_an_image_is_returned(png: Path) -> None:
    assert read_image(png) == png.read_bytes()


def test_images_that_are_not_files_of_their_own(png: Path, tmp_path: Path) -> None:
    """With Landlock a reader process cannot create them."""
    paths = [tmp_path / name for name in ("symbolic.png", "hard.png", "pipe.png", "folder.png", "missing.png")]
    paths[0].symlink_to(png)
    os.mkfifo(paths[2])
    paths[3].mkdir()
    for path in (paths[0], *paths[2:]):
        with pytest.raises(ReaderOutputInvalid):
            read_image(path)
    paths[1].hardlink_to(png)
    with pytest.raises(ReaderOutputInvalid, match="not a file of its own"):
        read_image(paths[1])


def test_images_with_other_content(png: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = png.read_bytes()
    for other in (b"", b"<svg/>", content[:-1], b"x" + content):
        png.write_bytes(other)
        with pytest.raises(ReaderOutputInvalid, match="not a PNG file"):
            read_image(png)
    png.write_bytes(content)
    monkeypatch.setattr(reader_output, "_MAX_IMAGE_BYTES", len(content) - 1)
    with pytest.raises(ReaderOutputInvalid, match="bytes"):
        read_image(png)
