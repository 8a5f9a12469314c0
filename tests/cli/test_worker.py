"""`clerk worker` and `clerk up` stop at once on a machine that cannot run OCR."""

from __future__ import annotations

from pathlib import Path

import pytest

from clerk import config
from clerk.cli.worker import _is_idle
from clerk.pipeline.engine import QUEUES
from tests.cli.conftest import Clerk


@pytest.fixture(params=["worker", "up"])
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("CLERK_HOME", str(tmp_path / "home"))
    return str(request.param)


def test_missing_poppler(clerk_command: Clerk, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = clerk_command(command)
    assert result.code == 1
    assert "pdfinfo is not installed" in result.err
    assert "clerk worker --queues fetch," in result.err
    assert not (tmp_path / "home").exists(), "no database was started"


def test_unknown_engine(clerk_command: Clerk, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLERK_OCR_ENGINE", "easyocr")
    result = clerk_command(command)
    assert result.code == 1
    assert "CLERK_OCR_ENGINE is 'easyocr'; the engines are pytesseract, tesserocr" in result.err


def test_until_idle_does_not_end_while_the_database_is_unreachable(tmp_path: Path) -> None:
    """The workers wait for it, and the queues may have jobs."""
    settings = config.load({"DATABASE_URL": "postgresql://me@127.0.0.1:1/clerk"}, tmp_path)
    assert not _is_idle(settings, QUEUES)
