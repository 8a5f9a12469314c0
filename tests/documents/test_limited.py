"""Programs that misbehave are real ones: a shell and a Python that burn, hoard, spill, wait and die."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from clerk.exec.limited import (
    Crashed,
    Ended,
    Limits,
    Orphaned,
    OutOfMemory,
    OutOfTime,
    OutputTooLarge,
    ToolMissing,
    run,
)

LIMITS = Limits(memory=256 << 20, file_size=1 << 20)


def python(code: str, folder: Path, seconds: float = 10.0, lifeline: int | None = None) -> Ended:
    return run([sys.executable, "-S", "-c", code], LIMITS, seconds, folder, lifeline=lifeline)


def test_an_exit_code_is_the_callers_business(tmp_path: Path) -> None:
    ended = python("import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (ended.code, ended.complaint) == (3, "two")


def test_burning_time(tmp_path: Path) -> None:
    with pytest.raises(OutOfTime, match="CPU"):
        python("while True: pass", tmp_path, 1)


def test_waiting_for_ever(tmp_path: Path) -> None:
    with pytest.raises(OutOfTime, match="did not end"):
        python("import time; time.sleep(60)", tmp_path, 0.2)


def test_hoarding_memory(tmp_path: Path) -> None:
    with pytest.raises(OutOfMemory):
        run(["sh", "-c", "echo 'Out of memory' >&2"], LIMITS, 5, tmp_path)
    assert python("bytearray(1 << 30)", tmp_path).code == 1  # MemoryError: it never had it


def test_spilling_to_disk(tmp_path: Path) -> None:
    with pytest.raises(OutputTooLarge):
        run(["sh", "-c", "exec cat /dev/zero > spilled"], LIMITS, 5, tmp_path)
    assert (tmp_path / "spilled").stat().st_size == LIMITS.file_size


def test_dying(tmp_path: Path) -> None:
    with pytest.raises(Crashed, match="SIGSEGV"):
        python("import os; os.kill(os.getpid(), 11)", tmp_path)


def test_not_installed(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing):
        run(["no-such-program"], LIMITS, 5, tmp_path)


def test_talking_without_end_does_not_fill_memory(tmp_path: Path) -> None:
    ended = python("import sys\nfor n in range(100000): print('x' * 100, file=sys.stderr)", tmp_path)
    assert len(ended.stderr) <= 16 * 1024


def test_nothing_is_inherited(tmp_path: Path) -> None:
    secret = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        ended = python(f"import os; os.fstat({secret})", tmp_path)
    finally:
        os.close(secret)
    assert ended.code == 1


def test_when_nobody_wants_it_any_more(tmp_path: Path) -> None:
    end, other = os.pipe()
    os.close(other)
    began = time.monotonic()
    with pytest.raises(Orphaned):
        python("import time; time.sleep(60)", tmp_path, 60, lifeline=end)
    os.close(end)
    assert time.monotonic() - began < 30
