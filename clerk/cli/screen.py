"""A terminal that is written over in place, so that nothing flickers and nothing scrolls by."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

_TOP_LEFT, _TO_LINE_END, _TO_SCREEN_END = "\033[H", "\033[K", "\033[J"
_CLEAR = "\033[2J"
_HIDE_CURSOR, _SHOW_CURSOR = "\033[?25l", "\033[?25h"
_NO_WRAP, _WRAP = "\033[?7l", "\033[?7h"
_BOLD, _PLAIN = "\033[1m", "\033[0m"
_ALL_AT_ONCE, _NOW = "\033[?2026h", "\033[?2026l"
"""Terminals that know it show what comes between as one picture; others ignore it."""


class Screen:
    """Standard output. The screen is cleared once, and then each line to its end, in one write per picture."""

    def __init__(self) -> None:
        self._write(_CLEAR + _HIDE_CURSOR)

    @property
    def height(self) -> int:
        return shutil.get_terminal_size().lines - 1

    def draw(self, lines: Sequence[str], title: bool = False) -> None:
        """With a title the first line is bold."""
        # A name or an error message comes from outside: it must not be able to move the cursor.
        shown = ["".join(sign if sign.isprintable() else "?" for sign in line) for line in lines[: self.height]]
        if title and shown:
            shown[0] = f"{_BOLD}{shown[0]}{_PLAIN}"
        drawn = "".join(f"{line}{_TO_LINE_END}\n" for line in shown)
        self._write(_ALL_AT_ONCE + _NO_WRAP + _TOP_LEFT + drawn + _TO_SCREEN_END + _WRAP + _NOW)

    def close(self) -> None:
        self._write(_SHOW_CURSOR)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
