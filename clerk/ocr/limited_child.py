"""Runs a module of clerk in a child process that runs poppler in the sandbox.

The child is single-threaded: limits are set between fork and exec, where a process with several threads could hang.
`run_module` always returns: `clerk.ocr.sandbox` limits CPU time, memory and file size, and a wall-clock timeout limits
the child process. The child exits when its standard input closes, so it ends with its parent.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from clerk.ocr.ocr_engine import environment, import_path


class ChildFailed(Exception):
    """The child process failed. The message contains no path of the scratch folder."""


def run_module(module: str, arguments: Sequence[str | Path], scratch: Path, timeout: float) -> None:
    """Run `python -m module arguments` in `scratch` with a minimal environment, or raise ChildFailed."""
    stderr_file = scratch / "stderr"
    with stderr_file.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-s", "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            cwd=scratch,
            env={**environment(scratch), **import_path()},
            start_new_session=True,
        )
    try:
        code = process.wait(timeout)
    except subprocess.TimeoutExpired as error:
        raise ChildFailed(f"the process did not finish within {timeout:g} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
    if code != 0:
        lines = stderr_file.read_text(errors="replace").replace(str(scratch), "").splitlines()
        raise ChildFailed(lines[-1][:200] if code == 1 and lines else "the process crashed")
