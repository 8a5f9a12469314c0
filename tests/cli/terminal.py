"""Runs a program on a pseudo-terminal and computes the lines that the terminal shows."""

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
_TOKEN = re.compile(r"\x1b\[([\d?;]*)([A-Za-z])|([\r\n])|([^\x1b\r\n]+)")
_IGNORED = {"h", "l", "m"}
"""Commands that show or hide the cursor or set a style: they do not move the cursor."""


def screen_lines(written: str) -> list[str]:
    """Lines on the screen, without empty ones at its end."""
    lines, row, column = [""], 0, 0
    for number, command, end, text in _TOKEN.findall(written):
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
            assert row >= 0, "the cursor moved above the top of the screen"
        elif command == "H":
            row = column = 0
        elif command == "K":
            lines[row] = "" if number == "2" else lines[row][:column]
        elif command == "J" and number == "2":
            lines = [""] * len(lines)
        elif command == "J":
            lines[row] = lines[row][:column]
            del lines[row + 1 :]
        else:
            assert command in _IGNORED, f"unknown control sequence {command}"
    return "\n".join(line.rstrip() for line in lines).rstrip("\n").split("\n")


class Terminal:
    def __init__(self, descriptor: int, process: subprocess.Popen[str]) -> None:
        self._descriptor, self.process = descriptor, process
        self.written = ""
        self._bytes = b""

    @property
    def lines(self) -> list[str]:
        return screen_lines(self.written)

    def wait_for(self, text: str) -> None:
        """Wait until the screen shows the text. pytest-timeout ends a test that waits for ever."""
        while text not in "\n".join(self.lines):
            assert self._read(), f"the program ended without showing {text!r}:\n{self.written}"

    def wait_for_output(self, text: str, count: int = 1) -> None:
        """Wait until the program has written the text so many times, whether the screen still shows it or not."""
        while self.written.count(text) < count:
            assert self._read(), f"the program ended without writing {text!r} {count} times:\n{self.written}"

    def wait_for_end(self) -> int:
        # A program that writes to a terminal blocks until its output is read.
        while self._read():
            pass
        return self.process.wait()

    def _read(self) -> bool:
        try:
            read = os.read(self._descriptor, 65536)
        except OSError:  # on Linux: no process has the terminal open any more
            read = b""
        self._bytes += read
        self.written = self._bytes.decode(errors="ignore")
        return bool(read)


@contextlib.contextmanager
def run_on_terminal(
    *arguments: str, environment: Mapping[str, str], piped_output: bool = False, size: tuple[int, int] = (80, 24)
) -> Iterator[Terminal]:
    """Run Python with these arguments. `size` is columns and lines."""
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
            yield Terminal(master, process)
        finally:
            process.kill()
            os.close(master)
