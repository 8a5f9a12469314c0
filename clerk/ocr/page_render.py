"""Draws one page of a stored PDF for somebody who looks at it, as untrusting as the reading is.

`draw` starts a child of one thread, since limits are put on between fork and exec, where a process with several
threads could hang; the child (`main`) runs poppler under them. Whatever the file does, `draw` ends: CPU time, memory
and size are limited as in `clerk.ocr.sandbox`, and the wall clock sees to the child itself.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from clerk.errors import ToolMissing
from clerk.ocr import poppler
from clerk.ocr.ocr_engine import environment, import_path, limited_runner
from clerk.ocr.sandbox import Limits, ParentGone, ToolFailed, set_own_limits

PROGRAM = "pdftoppm"
_LONGEST_SIDE = 1100
"""Pixels: a letter page at 100 dots per inch. As a bound on the image it needs no word of the file about its size."""
_CPU_SECONDS = 5.0
_WALL_SECONDS = 60.0
_OWN_MEMORY = 256 << 20
_MEMORY = 512 << 20
_LARGEST = 16 << 20
"""Bytes: several times as large as such an image without any compression."""
_PNG_STARTS, _PNG_ENDS = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


class RenderFailed(Exception):
    """There is no image of this page to be had. Says why, in words for whoever looks; no path is in them."""


def can_render() -> bool:
    return shutil.which(PROGRAM) is not None


def render_page(pdf: Path, page: int) -> bytes:
    """The page as a PNG, or NotDrawn. Takes a second at most for usual pages."""
    with tempfile.TemporaryDirectory(prefix="clerk-page.") as name:
        scratch = Path(name)
        said = scratch / "said"
        with said.open("wb") as stderr:
            # Nothing is written to its standard input: when that closes, we are gone, and the child ends.
            process = subprocess.Popen(
                [sys.executable, "-s", "-m", __name__, pdf.resolve(), str(page), scratch],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=scratch,
                env={**environment(scratch), **import_path()},
                start_new_session=True,
            )
        try:
            code = process.wait(_WALL_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise RenderFailed(f"{PROGRAM} did not end in time") from error
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert process.stdin is not None
            process.stdin.close()
        if code != 0:
            why = said.read_text(errors="replace").replace(str(scratch), "").splitlines()
            raise RenderFailed(why[-1][:200] if code == 1 and why else "the drawing process crashed")
        return _target(scratch).read_bytes()


def _target(scratch: Path) -> Path:
    return scratch / "page.png"


def _drawn(pdf: Path, page: int, scratch: Path, lifeline: int) -> None:
    run = limited_runner(Limits(_MEMORY, file_size=_LARGEST), scratch, lifeline)
    target = _target(scratch)
    ended = poppler.render_png(run, pdf, page, _LONGEST_SIDE, target, _CPU_SECONDS)
    content = target.read_bytes() if target.exists() else b""
    # Exit codes lie: what came out is looked at, and whether it is whole.
    if not (content.startswith(_PNG_STARTS) and content.endswith(_PNG_ENDS)):
        raise ToolFailed(f"{PROGRAM} drew nothing ({ended.complaint})")


def main() -> None:
    pdf, page, scratch = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    set_own_limits(Limits(_OWN_MEMORY), _MEMORY, 2 * _CPU_SECONDS)
    try:
        _drawn(pdf, page, scratch, sys.stdin.fileno())
    except (ToolFailed, ToolMissing) as error:
        sys.exit(str(error).replace(str(pdf), "the file"))
    except ParentGone:
        shutil.rmtree(scratch, ignore_errors=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
