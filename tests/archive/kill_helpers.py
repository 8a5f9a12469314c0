"""Kills a process at each of its steps in turn, with SIGKILL, and shows what is left each time.

A step is an audit event of Python: a file opened, copied, renamed, linked or removed, a database opened. The work runs
in a fork of a process of its own, so that nothing of the test's is copied along.
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
    seen = 0

    def hook(event: str, _: object) -> None:
        nonlocal seen
        if event.startswith(_STEPS) and event not in ("os.kill", "os.scandir", "os.listdir"):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def at_every_step(work: Callable[[Path], None], before: Path, playground: Path, look: Callable[[Path], object]) -> None:
    """Prints, as JSON lines, what `look` sees after a death at step 1, 2, 3, … and last after none."""
    step = 0
    while True:
        step += 1
        shutil.rmtree(playground, ignore_errors=True)
        shutil.copytree(before, playground, symlinks=True)
        child = os.fork()
        if child == 0:
            _kill_at(step)
            work(playground)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps({"killed": os.WIFSIGNALED(status), "left": look(playground)}) + "\n")
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
