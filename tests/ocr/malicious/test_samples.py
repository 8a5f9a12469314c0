"""Files that crashed other programs, if ../shared/samples exists; a few of each kind without --long."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ocr.malicious.conftest import Outcome

SAMPLES = Path(__file__).parents[4] / "shared" / "samples" / "hostile"
OUTCOMES = {
    "NotAPdf", "PdfBroken", "PdfEmpty", "PdfEncrypted", "PdfMemory", "PdfTimeout", "PdfTooLarge", "PdfTruncated",
    "processed",
}  # fmt: skip
EXPECTED = {
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
"""Files whose outcome is known. Any outcome is accepted for the others."""


def names() -> list[str]:
    return sorted(path.name for path in SAMPLES.iterdir()) if SAMPLES.is_dir() else sorted(EXPECTED)


@pytest.mark.parametrize("name", names())
def test_every_sample_has_an_outcome(outcome: Outcome, name: str, request: pytest.FixtureRequest) -> None:
    if not SAMPLES.is_dir():
        pytest.skip("../shared/samples does not exist")
    if name not in EXPECTED and not request.config.getoption("--long"):
        pytest.skip("runs with --long only")
    result = outcome((SAMPLES / name).read_bytes())
    assert result in OUTCOMES
    assert result == EXPECTED.get(name, result)
