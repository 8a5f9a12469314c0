"""Files that broke other programs, from ../shared/samples where that is present; a few of each kind unless --long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ocr.malicious.conftest import Outcome

SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "hostile"
CLASSES = {
    "NotAPdf", "PdfBroken", "PdfEmpty", "PdfEncrypted", "PdfMemory", "PdfTimeout", "PdfTooLarge", "PdfTruncated",
    "processed",
}  # fmt: skip
CERTAIN = {
    "dknow__bug_544880.pdf": "PdfBroken",
    "dknow__encrypted_hello_world_r6.pdf": "PdfEncrypted",
    "ocrmypdf__acroform.pdf": "processed",
    "own__crlf_mangled.pdf": "PdfBroken",
    "own__docx_named_pdf.pdf": "NotAPdf",
    "own__random_bytes.pdf": "NotAPdf",
    "own__truncated_5pct.pdf": "PdfTruncated",
    "paperlessngx__password-is-test.pdf": "PdfEncrypted",
    "pypdf__r2-empty-password.pdf": "processed",
    "qpdf__4797504999981056.fuzz.pdf": "NotAPdf",
}
"""These also say what is right; the others must only end, and say something."""


def names() -> list[str]:
    return sorted(path.name for path in SAMPLES.iterdir()) if SAMPLES.is_dir() else sorted(CERTAIN)


@pytest.mark.parametrize("name", names())
def test_ends_with_a_reason_or_is_read(outcome: Outcome, name: str, request: pytest.FixtureRequest) -> None:
    if not SAMPLES.is_dir():
        pytest.skip("the samples are not here")
    if name not in CERTAIN and not request.config.getoption("--long"):
        pytest.skip("one of many: --long")
    found = outcome((SAMPLES / name).read_bytes())
    assert found in CLASSES
    assert found == CERTAIN.get(name, found)
