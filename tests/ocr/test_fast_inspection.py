"""Which files are inspected without pdfinfo, and that the result is that of the full inspection."""

from __future__ import annotations

import io
from pathlib import Path

import pypdf
import pytest

from clerk.ocr import fast_inspection, poppler
from clerk.ocr.fast_inspection import inspect_undamaged
from clerk.ocr.inspection import Inspection, inspect
from clerk.ocr.ocr_engine import limited_runner
from clerk.ocr.sandbox import Completed, Limits
from tests.ocr import pdfs


class Runner:
    """Runs programs with limits, and counts them."""

    def __init__(self, scratch: Path) -> None:
        self.run = limited_runner(Limits(1 << 29), scratch, None)
        self.programs: list[str] = []

    def __call__(self, *arguments: str | Path, cpu_seconds: float, stdout: Path | None = None) -> Completed:
        self.programs.append(str(arguments[0]))
        return self.run(*arguments, cpu_seconds=cpu_seconds, stdout=stdout)


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def inspected(runner: Runner, content: bytes, scratch: Path) -> Inspection | None:
    (scratch / "minutes.pdf").write_bytes(content)
    return inspect_undamaged(runner, scratch / "minutes.pdf", scratch, 100, 8)


def aes_encrypted(pages: int) -> bytes:
    writer = pypdf.PdfWriter(io.BytesIO(pdfs.digital(pages)))
    writer.encrypt(user_password="", owner_password="owner", algorithm="AES-256")  # noqa: S106
    output = io.BytesIO()
    writer.write(output)
    return output.getvalue()


@pytest.mark.parametrize("content", [pdfs.digital(3), pdfs.numbered(3), aes_encrypted(3)], ids=["text", "scan", "AES"])
def test_an_undamaged_file_is_inspected_without_pdfinfo(runner: Runner, tmp_path: Path, content: bytes) -> None:
    result = inspected(runner, content, tmp_path)
    assert result is not None
    assert runner.programs == ["pdftotext"]
    full = inspect(runner, tmp_path / "minutes.pdf", tmp_path, 100, 8)
    assert (result.page_count, result.notes, result.is_truncated) == (full.page_count, full.notes, full.is_truncated)
    assert dict(result.boxes) == full.boxes
    layers = poppler.text(runner, tmp_path / "minutes.pdf", 1, 3, tmp_path / "layer.txt", 8)
    assert list(result.text_layers) == layers


def test_boxes_are_read_once_and_only_if_needed(runner: Runner, tmp_path: Path) -> None:
    result = inspected(runner, pdfs.digital(3), tmp_path)
    assert result is not None
    assert result.boxes[1] == result.boxes[3] == poppler.Box(612, 792)
    assert result.boxes.get(4) is None
    assert runner.programs == ["pdftotext", "pdfinfo"]


def phantom_page() -> bytes:
    """The page tree lists an object that is not a page, which poppler skips."""
    return pdfs.digital(3).replace(b"/Kids [", b"/Kids [1 0 R ", 1).replace(b"/Count 3", b"/Count 4")


@pytest.mark.parametrize(
    "content",
    [
        pdfs.digital(3).replace(b"%%EOF", b""),
        b"\n" + pdfs.digital(3),
        pdfs.digital(3)[:-400],
        phantom_page(),
        pdfs.document([]),
        b"%PDF-1.4\n%%EOF\n",
        b"",
    ],
    ids=["no end mark", "header", "truncated", "phantom page", "no page", "nothing", "empty"],
)
def test_every_other_file_gets_the_full_inspection(runner: Runner, tmp_path: Path, content: bytes) -> None:
    assert inspected(runner, content, tmp_path) is None


def test_long_documents_get_the_full_inspection(
    runner: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_inspection, "_MAX_PAGES", 2)
    assert inspected(runner, pdfs.digital(3), tmp_path) is None
    assert runner.programs == []


def inline_image() -> bytes:
    image = b"q 612 0 0 792 0 0 cm BI /W 8 /H 8 /CS /G /BPC 1 ID " + bytes(range(8)) + b" EI Q"
    return pdfs.document([(image, "")])


def image_in_form() -> bytes:
    pdf = pdfs.Pdf()
    image = pdf.stream(
        bytes(64), "/Type /XObject /Subtype /Image /Width 8 /Height 8 /ColorSpace /DeviceGray /BitsPerComponent 8"
    )
    form = pdf.stream(
        b"/Im Do", f"/Type /XObject /Subtype /Form /BBox [0 0 1 1] /Resources << /XObject << /Im {image} 0 R >> >>"
    )
    page = pdf.add(
        f"<< /Type /Page /Parent 5 0 R /MediaBox [0 0 612 792] /Contents {pdf.stream(b'/Fm Do')} 0 R"
        f" /Resources << /XObject << /Fm {form} 0 R >> >> >>"
    )
    assert pdf.add(f"<< /Type /Pages /Count 1 /Kids [{page} 0 R] >>") == 5
    return pdf.write(pdf.add("<< /Type /Catalog /Pages 5 0 R >>"))


@pytest.mark.parametrize(
    ("content", "has_none"),
    [(pdfs.digital(1), True), (pdfs.numbered(1), False), (inline_image(), False), (image_in_form(), False)],
    ids=["text", "scan", "inline image", "image in a form"],
)
def test_pages_without_images(runner: Runner, tmp_path: Path, content: bytes, has_none: bool) -> None:
    result = inspected(runner, content, tmp_path)
    assert result is not None
    assert result.has_no_images(1) is has_none
    assert not result.has_no_images(2), "a page that does not exist is unknown"
