"""Kills a process with SIGKILL at each of its steps in turn, and reports the state of the files each time.

A step is a Python audit event: a file is opened, copied, renamed, linked or removed, or a database is opened. The work
runs in a fork of a separate process, so that the fork does not inherit the state of the test process.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

_STEPS = ("open", "os.", "shutil.", "sqlite3.", "tempfile.")


def _kill_at(step: int) -> None:
    count = 0

    def hook(event: str, _: object) -> None:
        nonlocal count
        if event.startswith(_STEPS) and event not in ("os.kill", "os.scandir", "os.listdir"):
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def kill_at_every_step(
    work: Callable[[Path], None], before: Path, scratch: Path, inspect: Callable[[Path], object]
) -> None:
    """Print, as JSON lines, what `inspect` returns after a kill at step 1, 2, 3, …, and last without a kill."""
    step = 0
    while True:
        step += 1
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(before, scratch, symlinks=True)
        child = os.fork()
        if child == 0:
            _kill_at(step)
            work(scratch)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"killed": os.WIFSIGNALED(status), "state": inspect(scratch)}) + "\n")
        if not os.WIFSIGNALED(status):
            if os.WEXITSTATUS(status) != 0:
                sys.exit(f"the work failed with {os.WEXITSTATUS(status)}")
            return


def run(script: str, *arguments: Path) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", script, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]
