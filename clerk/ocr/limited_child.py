"""Runs a module of clerk in a child process of its own, which may parse an untrusted PDF.

The child has one thread, as `clerk.ocr.sandbox` requires, a minimal environment and a process group of its own. It sets
its own limits (`run_limited`); a wall-clock timeout limits it in any case. If its parent dies, it exits.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from clerk.errors import HostError
from clerk.ocr.ocr_engine import environment, import_path
from clerk.ocr.restrictions import restrict_process
from clerk.ocr.sandbox import Limits, ParentGone, ToolFailed, set_own_limits


class ChildFailed(Exception):
    """The child could not do its work. The message contains no paths."""


def run_child(module: str, arguments: list[str | Path], scratch: Path, timeout: float) -> None:
    """Run the module's `main` in a child process and wait for it, or raise ChildFailed."""
    stderr_file = scratch / "stderr"
    with stderr_file.open("wb") as stderr:
        # Nothing is written to its standard input. If this process dies, the pipe closes and the child exits.
        process = subprocess.Popen(
            [sys.executable, "-P", "-s", "-m", module, *arguments],
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
        raise ChildFailed(f"it did not finish within {timeout:g} s") from error
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdin is not None
        process.stdin.close()
    if code != 0:
        lines = stderr_file.read_text(errors="replace").replace(str(scratch), "").splitlines()
        raise ChildFailed(lines[-1][:200] if code == 1 and lines else "its process crashed")


def run_limited(work: Callable[[int], None], pdf: Path, scratch: Path, limits: Limits, cpu_seconds: float) -> None:
    """Call `work` with the descriptor that becomes readable when the parent ends. For the `main` of a module."""
    limit_process(pdf, scratch, limits, cpu_seconds)
    try:
        work(sys.stdin.fileno())
    except (ToolFailed, HostError) as error:
        sys.exit(str(error).replace(str(pdf), "the file"))
    except ParentGone:
        shutil.rmtree(scratch, ignore_errors=True)
        sys.exit(2)


def limit_process(pdf: Path, scratch: Path, limits: Limits, cpu_seconds: float) -> None:
    """Limit this process permanently to reading this file and writing to its scratch folder.

    `limits` are those of this process; programs that it runs may have the double amount of memory.
    """
    set_own_limits(limits, 2 * limits.memory, cpu_seconds)
    restrict_process([pdf], [scratch])
