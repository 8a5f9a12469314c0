"""Renders one page of a stored PDF as a PNG for the dashboard, in a sandbox.

`render_page` starts a child process (`main`), which runs poppler in the sandbox (`clerk.ocr.limited_child`).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from clerk.errors import HostError
from clerk.ocr import poppler
from clerk.ocr.limited_child import ChildFailed, run_module
from clerk.ocr.ocr_engine import limited_runner
from clerk.ocr.sandbox import Limits, ParentGone, ToolFailed, set_own_limits
from clerk.ocr.scratch import scratch_folder

PROGRAM = "pdftoppm"
_MAX_SIDE = 1100
"""Pixels: a letter page at 100 dpi. Limits the image without relying on the page size that the file declares."""
_CPU_SECONDS = 5.0
_TIMEOUT = 60.0
_OWN_MEMORY = 256 << 20
_MEMORY = 512 << 20
_MAX_FILE_SIZE = 16 << 20
"""Bytes: several times the size of such an image without compression."""
_PNG_SIGNATURE, _PNG_END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"


class RenderFailed(Exception):
    """The page could not be rendered. The dashboard shows the message, so it contains no paths."""


def can_render() -> bool:
    return shutil.which(PROGRAM) is not None


def render_page(pdf: Path, page: int) -> bytes:
    """Render the page as a PNG, or raise RenderFailed. Most pages take less than a second."""
    with scratch_folder("page") as scratch:
        try:
            run_module(__name__, [pdf.resolve(), str(page), scratch], scratch, _TIMEOUT)
        except ChildFailed as error:
            raise RenderFailed(str(error)) from error
        return _target(scratch).read_bytes()


def _target(scratch: Path) -> Path:
    return scratch / "page.png"


def _render(pdf: Path, page: int, scratch: Path, parent_pipe: int) -> None:
    run = limited_runner(Limits(_MEMORY, file_size=_MAX_FILE_SIZE), scratch, parent_pipe)
    target = _target(scratch)
    completed = poppler.render_png(run, pdf, page, _MAX_SIDE, target, _CPU_SECONDS)
    content = target.read_bytes() if target.exists() else b""
    # pdftoppm exits with 0 after some errors, so the file itself is checked.
    if not (content.startswith(_PNG_SIGNATURE) and content.endswith(_PNG_END)):
        raise ToolFailed(f"{PROGRAM} wrote no image ({completed.last_message})")


def main() -> None:
    pdf, page, scratch = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    set_own_limits(Limits(_OWN_MEMORY), _MEMORY, 2 * _CPU_SECONDS)
    try:
        _render(pdf, page, scratch, sys.stdin.fileno())
    except (ToolFailed, HostError) as error:
        sys.exit(str(error).replace(str(pdf), "the file"))
    except ParentGone:
        shutil.rmtree(scratch, ignore_errors=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
