"""A program on a terminal, and what is on the screen after all that it wrote."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
_PIECE = re.compile(r"\x1b\[([\d?]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
_LOOKS = {"h", "l", "m"}
"""Cursor shown or not, wrapping, bold: nothing moves."""


def after(written: str) -> list[str]:
    """The lines that a terminal shows: text, line ends, cursor up and home, clear to the end of line and screen."""
    lines, row, column = [""], 0, 0
    for number, command, end, text in _PIECE.findall(written):
        if text:
            lines[row] = lines[row][:column].ljust(column) + text + lines[row][column + len(text) :]
            column += len(text)
        elif end == "\r":
            column = 0
        elif end == "\n":
            row += 1
            lines += [""] * (row == len(lines))
        elif command == "A":
            row -= int(number)
            assert row >= 0, "above the top of the screen"
        elif command == "H":
            row = column = 0
        elif command == "K":
            lines[row] = lines[row][:column]
        elif command == "J" and number == "2":
            lines = [""] * len(lines)
        elif command == "J":
            lines[row] = lines[row][:column]
            del lines[row + 1 :]
        elif command not in _LOOKS:
            raise AssertionError(f"what does {command} mean?")
    return [line.rstrip() for line in lines]


class Screen:
    def __init__(self, descriptor: int, process: subprocess.Popen[str]) -> None:
        self._descriptor, self.process = descriptor, process
        self.written = ""
        self._bytes = b""

    def shows(self, text: str) -> bool:
        """Whether it is there now; waits for the program to write something if not."""
        return text in "\n".join(self.lines) or (self._read() and text in "\n".join(self.lines))

    @property
    def lines(self) -> list[str]:
        return after(self.written)

    def to_the_end(self) -> int:
        while self._read():
            pass
        return self.process.wait(60)

    def _read(self) -> bool:
        try:
            read = os.read(self._descriptor, 65536)
        except OSError:  # Linux says so when the last writer has gone
            read = b""
        self._bytes += read
        self.written = self._bytes.decode(errors="ignore")
        return bool(read)


@contextlib.contextmanager
def on_a_terminal(
    *arguments: str, environment: Mapping[str, str], piped_output: bool = False, size: tuple[int, int] = (80, 24)
) -> Iterator[Screen]:
    """Python with these arguments; `size`: columns and lines."""
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ("TERM", "COLUMNS", "LINES")}
    with subprocess.Popen(
        [sys.executable, *arguments],
        env={**inherited, "PYTHONPATH": str(ROOT), "TERM": "xterm", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if piped_output else terminal,
        stderr=terminal,
        text=True,
    ) as process:
        os.close(terminal)
        try:
            yield Screen(master, process)
        finally:
            process.kill()
            os.close(master)
