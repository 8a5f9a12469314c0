"""Records docs/images/demo.svg and up.svg, terminal recordings of real runs: python -m tests.docs.terminal_recordings

Each frame of the animation is a screen of the terminal. Pauses are shortened, long runs are played faster, and the path
of the checkout is replaced.
"""

from __future__ import annotations

import fcntl
import os
import pty
import selectors
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

import pyte

from clerk.demo.documents import make_all

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
CLERK = (sys.executable, "-m", "clerk")
COLUMNS, LINES = 100, 30
_MIN_FRAME, _MAX_FRAME, _LAST_FRAME = 0.12, 1.2, 5.0
"""Seconds that a frame is shown."""
_MAX_PLAYED = 20.0
"""Seconds of all frames but the last."""
_REDRAW = 0.03
"""Seconds: after a longer pause, the program has drawn the whole screen."""
_COLUMN, _LINE, _MARGIN = 8.4, 18, 12
_COLOURS = {
    "default": "#d8dee9",
    "black": "#6b7486",
    "red": "#ff7b85",
    "green": "#8fd48a",
    "brown": "#f0c674",
    "blue": "#83b0f0",
    "magenta": "#d6a4e8",
    "cyan": "#7fd0dc",
    "white": "#eceff4",
}
_BACKGROUND = "#1e2430"

Cells = tuple[tuple[str, str, bool], ...]
"""Runs of one style in a line: text, colour, bold."""
Screen = tuple[Cells, ...]


@dataclass(frozen=True)
class Frame:
    screen: Screen
    seconds: float


class Recorder:
    """A program on a pseudo-terminal, and what it has written, with times."""

    def __init__(self, command: Iterable[str], environment: Mapping[str, str], folder: Path) -> None:
        self.chunks: list[tuple[float, bytes]] = []
        self._master, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.process = subprocess.Popen(
            [*command],
            env={**environment, "TERM": "xterm-256color"},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)

    def read(self, until: bytes | None = None) -> None:
        """Read until the program ends, or has written a text."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._master, selectors.EVENT_READ)
            while until is None or until not in b"".join(chunk for _, chunk in self.chunks):
                selector.select()
                try:
                    chunk = os.read(self._master, 65536)
                except OSError:  # on Linux: no process has the terminal open any more
                    chunk = b""
                if not chunk:
                    if until is not None:
                        raise SystemExit(f"the program ended without writing {until!r}")
                    return
                self.chunks.append((time.monotonic(), chunk))

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def frames(self, prompt: str, home: Path) -> list[Frame]:
        """The screens, each with the time until the next one. `home`: CLERK_HOME, shown as that of a checkout."""
        screen = pyte.Screen(COLUMNS, LINES)
        stream = pyte.ByteStream(screen)
        stream.feed(f"\x1b[32m$\x1b[0m {prompt}\r\n".encode())
        shown: list[tuple[float, Screen]] = [(self.chunks[0][0] - _MAX_FRAME, _cells(screen))]
        following = [at for at, _ in self.chunks[1:]]
        for (at, chunk), next_at in zip(self.chunks, following, strict=False):
            stream.feed(_with_neutral_paths(chunk, home))
            is_complete = next_at - at >= _REDRAW
            if is_complete and at - shown[-1][0] >= _MIN_FRAME and _cells(screen) != shown[-1][1]:
                shown.append((at, _cells(screen)))
        stream.feed(_with_neutral_paths(self.chunks[-1][1], home))
        ends = [at for at, _ in shown[1:]]
        pauses = [min(end - at, _MAX_FRAME) for (at, _), end in zip(shown, ends, strict=False)]
        speed = max(1.0, sum(pauses) / _MAX_PLAYED)
        frames, seconds = [], 0.0
        for (_, cells), pause in zip(shown, pauses, strict=False):
            seconds += pause / speed
            if seconds >= _MIN_FRAME:
                frames.append(Frame(cells, seconds))
                seconds = 0.0
        return [*frames, Frame(_cells(screen), _LAST_FRAME)]


def _with_neutral_paths(output: bytes, home: Path) -> bytes:
    return output.replace(str(home).encode(), b"~/clerk/.clerk").replace(str(ROOT).encode(), b"~/clerk")


def _cells(screen: pyte.Screen) -> Screen:
    return tuple(tuple(_runs(screen.buffer[line])) for line in range(LINES))


def _runs(line: Mapping[int, pyte.screens.Char]) -> Iterator[tuple[str, str, bool]]:
    text, style = "", (_COLOURS["default"], False)
    for column in range(COLUMNS):
        cell = line[column]
        colour = cell.fg.removeprefix("bright")
        new = (_COLOURS.get(colour) or f"#{colour}", cell.bold)
        if new != style and text:
            yield text, *style
            text = ""
        text, style = text + cell.data, new
    if text.rstrip():
        yield text.rstrip(), *style


def draw(frames: list[Frame], title: str) -> str:
    """An SVG with one group per frame; an animation shows one after the other."""
    width, height = COLUMNS * _COLUMN + 2 * _MARGIN, LINES * _LINE + 2 * _MARGIN
    total = sum(frame.seconds for frame in frames)
    lines: dict[Cells, int] = {}
    groups, steps, at = [], [], 0.0
    for number, frame in enumerate(frames):
        steps.append(f"{100 * at / total:.3f}%{{transform:translateY({-number * height}px)}}")
        at += frame.seconds
        used = [
            f'<use href="#l{lines.setdefault(cells, len(lines))}" y="{number * height + row * _LINE}"/>'
            for row, cells in enumerate(frame.screen)
            if cells
        ]
        groups.append("".join(used))
    definitions = "".join(f'<g id="l{number}">{_draw_line(cells)}</g>' for cells, number in lines.items())
    last = -(len(frames) - 1) * height
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">'
        f"<title>{escape(title)}</title><style>"
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre}"
        f"#s{{animation:s {total:.1f}s steps(1,end) infinite}}@keyframes s{{{''.join(steps)}}}"
        f"@media(prefers-reduced-motion:reduce){{#s{{animation:none;transform:translateY({last}px)}}}}</style>"
        f'<defs>{definitions}</defs><rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>'
        f'<svg x="{_MARGIN}" y="{_MARGIN}" width="{COLUMNS * _COLUMN:g}" height="{LINES * _LINE}">'
        f'<g id="s">{"".join(groups)}</g></svg></svg>\n'
    )


def _draw_line(cells: Cells) -> str:
    drawn, column = [], 0
    for text, colour, bold in cells:
        if text.strip():
            weight = ' font-weight="bold"' if bold else ""
            drawn.append(
                f'<text x="{column * _COLUMN:g}" y="{_LINE - 4}" textLength="{len(text) * _COLUMN:g}"'
                f' fill="{colour}"{weight}>{escape(text)}</text>'
            )
        column += len(text)
    return "".join(drawn)


def record_demo(home: Path) -> None:
    environment = {**os.environ, "CLERK_HOME": str(home)}
    recorder = Recorder([str(ROOT / "bin" / "demo")], environment, ROOT)
    recorder.read()
    _write("demo", recorder.frames("bin/demo", home), "bin/demo takes five generated towns through the pipeline")


def record_up(home: Path, documents: Path) -> None:
    """`clerk up`, to which a town is added while it runs."""
    environment = {**os.environ, "CLERK_HOME": str(home)}
    recorder = Recorder([*CLERK, "up"], environment, home.parent)
    recorder.read(until=b"http://")
    subprocess.run(
        [*CLERK, "site", "add", "riverton", "--name", "Riverton", "--path", str(documents)],
        env=environment,
        check=True,
        cwd=home.parent,
    )
    recorder.read(until=b"run ended")
    recorder.interrupt()
    recorder.read()
    _write("up", recorder.frames("bin/clerk up", home), "clerk up processes a town that is added while it runs")


def _write(name: str, frames: list[Frame], title: str) -> None:
    (IMAGES / f"{name}.svg").write_text(draw(frames, title))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        record_demo(Path(folder) / "demo")
        documents = Path(folder) / "documents"
        make_all(documents)
        (Path(folder) / "up").mkdir()
        record_up(Path(folder) / "up" / ".clerk", documents / "riverton")


if __name__ == "__main__":
    main()
