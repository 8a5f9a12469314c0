"""The commands and outputs of docs/legacy.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "legacy.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Step:
    language: str
    """sh or sql"""
    line: str


def steps() -> list[Step]:
    return [Step(language, line) for language, line in _lines() if language]


def outputs() -> list[str]:
    """Lines of output on the page, except those with a folder."""
    return [line for language, line in _lines() if not language and "…" not in line and line[10:11] != "/"]


def _lines() -> list[tuple[str, str]]:
    blocks = _BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    return [(language, line) for language, text in blocks for line in text.splitlines() if line.strip()]
