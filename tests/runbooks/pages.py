"""The runbooks as a list of blocks: what stands between fences, and in which language."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "runbooks"
PAGES = sorted(path.name for path in FOLDER.glob("*.md"))

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: str
    language: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    for _, language, text in _FENCE.findall((FOLDER / page).read_text(encoding="utf-8")):
        yield Block(page, language, textwrap.dedent(text))


def everything() -> list[Block]:
    return [block for page in PAGES for block in blocks(page)]


def commands(page: str) -> list[str]:
    """What a person types, in order: the lines with a dollar in front."""
    return [
        line.removeprefix("$ ")
        for block in blocks(page)
        if block.language == "console"
        for line in block.text.splitlines()
        if line.startswith("$ ")
    ]
