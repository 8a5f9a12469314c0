"""The sandbox, with real programs that use too much CPU time, memory or disk, wait, or crash."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from clerk.errors import HostOutOfMemory, ToolMissing
from clerk.ocr import sandbox
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
from tests import disks

LIMITS = Limits(memory=256 << 20, file_size=1 << 20)


def python(code: str, folder: Path, seconds: float = 10.0, parent_pipe: int | None = None) -> Completed:
    return run([sys.executable, "-S", "-c", code], LIMITS, seconds, folder, parent_pipe=parent_pipe)


def test_an_exit_code_is_returned(tmp_path: Path) -> None:
    completed = python("import sys; print('one\\ntwo', file=sys.stderr); sys.exit(3)", tmp_path)
    assert (completed.code, completed.last_message) == (3, "two")


def test_cpu_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_WALL_PER_CPU_SECOND", 120.0)  # a busy machine must not reach the other limit first
    with pytest.raises(OutOfTime, match="CPU"):
        python("while True: pass", tmp_path, 1)


def test_wall_clock_timeout(tmp_path: Path) -> None:
    with pytest.raises(OutOfTime, match="did not finish"):
        python("import time; time.sleep(600)", tmp_path, 0.2)


def test_memory_limit(tmp_path: Path) -> None:
    with pytest.raises(OutOfMemory):
        run(["sh", "-c", "echo 'Out of memory' >&2"], LIMITS, 5, tmp_path)
    with pytest.raises(OutOfMemory):
        python("bytearray(1 << 30)", tmp_path)


def test_host_runs_out_of_memory(tmp_path: Path) -> None:
    """The kernel kills the program within its own limit: the document is not the cause."""
    code = "memory = bytearray(200 << 20); memory[::4096] = bytes(len(memory[::4096]))"
    with disks.memory_group(64 << 20) as group:
        join = f"echo $$ > {group}/cgroup.procs && exec {sys.executable} -S -c '{code}'"
        with pytest.raises(HostOutOfMemory, match="the kernel killed sh because the machine ran out of memory"):
            run(["sh", "-c", join], Limits(memory=1 << 30), 20, tmp_path)


def test_program_that_is_killed_otherwise_has_crashed(tmp_path: Path) -> None:
    with pytest.raises(Crashed, match="SIGKILL"):
        run(["sh", "-c", "kill -KILL $$"], LIMITS, 5, tmp_path)


def test_file_size_limit(tmp_path: Path) -> None:
    with pytest.raises(OutputTooLarge):
        run(["sh", "-c", "exec cat /dev/zero > output"], LIMITS, 5, tmp_path)
    assert (tmp_path / "output").stat().st_size == LIMITS.file_size


def test_crash(tmp_path: Path) -> None:
    with pytest.raises(Crashed, match="SIGSEGV"):
        python("import os; os.kill(os.getpid(), 11)", tmp_path)


def test_not_installed(tmp_path: Path) -> None:
    with pytest.raises(ToolMissing):
        run(["no-such-program"], LIMITS, 5, tmp_path)


def test_only_the_end_of_stderr_is_kept(tmp_path: Path) -> None:
    completed = python("import sys\nfor n in range(100000): print('x' * 100, file=sys.stderr)", tmp_path)
    assert len(completed.stderr) <= 16 * 1024


def test_file_descriptors_are_not_inherited(tmp_path: Path) -> None:
    descriptor = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(descriptor, True)
    try:
        completed = python(f"import os; os.fstat({descriptor})", tmp_path)
    finally:
        os.close(descriptor)
    assert completed.code == 1


def test_a_program_is_killed_when_the_parent_dies(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    started = time.monotonic()
    with pytest.raises(ParentGone):
        python("import time; time.sleep(600)", tmp_path, 600, parent_pipe=read_end)
    os.close(read_end)
    assert time.monotonic() - started < 300


ECHO = "import sys\nfor line in sys.stdin: print(line.upper(), end='', flush=True)"


@contextmanager
def line_server(code: str, folder: Path, parent_pipe: int | None = None, seconds: float = 10.0) -> Iterator[LineServer]:
    command = [sys.executable, "-S", "-c", code]
    server = LineServer("program", command, LIMITS, seconds, folder, {"PATH": os.environ["PATH"]}, parent_pipe)
    try:
        yield server
    finally:
        server.kill()


def test_a_line_server_answers_several_requests(tmp_path: Path) -> None:
    with line_server(ECHO, tmp_path) as server:
        assert [server.request(word, 5) for word in (b"one", b"two")] == [b"ONE", b"TWO"]
        assert not server.has_exited
    assert server.has_exited


@pytest.mark.parametrize(
    ("code", "error", "message"),
    [
        ("import os; os.kill(os.getpid(), 11)", Crashed, "SIGSEGV"),
        ("import sys; sys.exit('no idea')", Crashed, "exit code 1 .no idea"),
        ("bytearray(1 << 30)", OutOfMemory, "MemoryError"),
        ("import time; time.sleep(600)", OutOfTime, "did not finish"),
        ("import resource as r; r.setrlimit(r.RLIMIT_CPU, (1, 2))\nwhile True: pass", OutOfTime, "CPU"),
        ("while True: print('x' * (1 << 20), end='')", OutputTooLarge, "exceeded 16 MiB"),
    ],
    ids=["crash", "exit", "memory", "wait", "cpu", "output"],
)
def test_a_line_server_that_fails_exits_with_the_reason(
    tmp_path: Path, code: str, error: type[Exception], message: str
) -> None:
    seconds = 0.2 if error is OutOfTime and "sleep" in code else 5.0
    with line_server(f"input()\n{code}", tmp_path) as server:
        with pytest.raises(error, match=message):
            server.request(b"line", seconds)
        assert server.has_exited


def test_the_total_cpu_time_of_a_line_server_is_limited(tmp_path: Path) -> None:
    busy_loop = (
        "import time\nwhile input():\n  until = time.process_time() + 0.7\n  while time.process_time() < until: pass\n"
    )
    with line_server(f"{busy_loop}  print(flush=True)", tmp_path, seconds=1) as server:
        server.request(b"once", 5)
        with pytest.raises(OutOfTime, match="CPU"):
            server.request(b"twice", 5, used_before=0.7)


def test_stderr_of_a_line_server_is_not_a_response_and_is_limited(tmp_path: Path) -> None:
    code = "import sys\ninput()\nfor n in range(3000): print('x' * 100, file=sys.stderr)\nprint('fine', flush=True)"
    with line_server(code, tmp_path) as server:
        assert server.request(b"line", 5) == b"fine"
        assert len(server.stderr) <= 16 * 1024


def test_a_line_server_is_killed_when_the_parent_dies(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(write_end)
    with line_server("import time; time.sleep(600)", tmp_path, parent_pipe=read_end) as server:
        with pytest.raises(ParentGone):
            server.request(b"line", 60)
        assert server.has_exited
    os.close(read_end)
