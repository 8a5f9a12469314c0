"""The runbooks and docs/operating.md as a list of fenced blocks with their language."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
RUNBOOKS = sorted(f"runbooks/{path.name}" for path in (DOCS / "runbooks").glob("*.md"))
PAGES = ["operating.md", *RUNBOOKS]
"""Relative to docs/."""

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    for _, language, text in _FENCE.findall((DOCS / page).read_text(encoding="utf-8")):
        yield Block(page, language, textwrap.dedent(text))


def all_blocks() -> list[Block]:
    return [block for page in PAGES for block in blocks(page)]


def commands(page: str) -> list[str]:
    """The lines to type, in order: those that begin with a dollar sign."""
    return [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]
