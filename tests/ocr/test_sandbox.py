"""Programs that misbehave are real ones: a shell and a Python that burn, hoard, spill, wait and die."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clerk.errors import ToolMissing
from clerk.ocr.sandbox import (
    Completed,
    Crashed,
    Limits,
    LineServer,
    OutOfMemory,
    OutOfTime,
    OutputTooLarge,
    ParentGone,
    run,
)

LIMITS = Limits(memory=256 << 20, file_size=1 << 20)


def python(code: str, folder: Path, seconds: float = 10.0, lifeline: int | None = None) -> Completed:
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
    with pytest.raises(OutOfMemory):
        python("bytearray(1 << 30)", tmp_path)


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
    with pytest.raises(ParentGone):
        python("import time; time.sleep(60)", tmp_path, 60, lifeline=end)
    os.close(end)
    assert time.monotonic() - began < 30


ECHO = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"


@contextmanager
def talking(code: str, folder: Path, lifeline: int | None = None, seconds: float = 10.0) -> Iterator[LineServer]:
    command = [sys.executable, "-S", "-c", code]
    conversation = LineServer("program", command, LIMITS, seconds, folder, {"PATH": os.environ["PATH"]}, lifeline)
    try:
        yield conversation
    finally:
        conversation.end()


def test_a_program_that_stays_is_asked_again_and_again(tmp_path: Path) -> None:
    with talking(ECHO, tmp_path) as conversation:
        assert [conversation.ask(word, 5) for word in (b"one", b"two")] == [b"ONE", b"TWO"]
        assert not conversation.is_gone
    assert conversation.is_gone


@pytest.mark.parametrize(
    ("instead", "error", "says"),
    [
        ("import os; os.kill(os.getpid(), 11)", Crashed, "SIGSEGV"),
        ("import sys; sys.exit('no idea')", Crashed, "exit code 1 .no idea"),
        ("bytearray(1 << 30)", OutOfMemory, "MemoryError"),
        ("import time; time.sleep(60)", OutOfTime, "did not end"),
        ("import resource as r; r.setrlimit(r.RLIMIT_CPU, (1, 2))\nwhile True: pass", OutOfTime, "CPU"),
        ("while True: print('x' * (1 << 20), end='')", OutputTooLarge, "does not stop"),
    ],
    ids=["crash", "exit", "memory", "wait", "burn", "talk"],
)
def test_one_that_does_not_answer_is_gone_and_says_why(
    tmp_path: Path, instead: str, error: type[Exception], says: str
) -> None:
    seconds = 0.2 if error is OutOfTime and "sleep" in instead else 5.0
    with talking(f"input()\n{instead}", tmp_path) as conversation:
        with pytest.raises(error, match=says):
            conversation.ask(b"well?", seconds)
        assert conversation.is_gone


def test_its_whole_life_is_limited_too(tmp_path: Path) -> None:
    burn = (
        "import time\nwhile input():\n  until = time.process_time() + 0.7\n  while time.process_time() < until: pass\n"
    )
    with talking(f"{burn}  print(flush=True)", tmp_path, seconds=1) as conversation:
        conversation.ask(b"once", 5)
        with pytest.raises(OutOfTime, match="CPU"):
            conversation.ask(b"twice", 5, used_before=0.7)


def test_what_it_complains_of_is_no_answer_and_does_not_fill_memory(tmp_path: Path) -> None:
    complain = "import sys\ninput()\nfor n in range(3000): print('x' * 100, file=sys.stderr)\nprint('fine', flush=True)"
    with talking(complain, tmp_path) as conversation:
        assert conversation.ask(b"well?", 5) == b"fine"
        assert len(conversation.said) <= 16 * 1024


def test_a_program_that_stays_ends_when_nobody_wants_it(tmp_path: Path) -> None:
    end, other = os.pipe()
    os.close(other)
    with talking("import time; time.sleep(60)", tmp_path, lifeline=end) as conversation:
        with pytest.raises(ParentGone):
            conversation.ask(b"well?", 60)
        assert conversation.is_gone
    os.close(end)
