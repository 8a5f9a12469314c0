"""Runs a program that reads untrusted input, on a short leash, and says how it ended.

Time is counted in CPU seconds, so that a busy machine does not fail good documents; the wall clock, several times
as long, is there for what waits instead of computing. Called in children (`clerk.ocr.reader_process`, `.drawing`) that
have one thread: between fork and exec a process with several could hang.

The catch: memory is limited as address space, which macOS does not enforce; there the wall clock is all there is.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clerk.errors import ToolMissing

_WALL_PER_CPU_SECOND = 8.0
_STDERR_KEPT = 16 * 1024
_LONGEST_ANSWER = 16 << 20
_NO_MEMORY = ("out of memory", "bad_alloc", "cannot allocate", "gmalloc", "memory allocation", "bogus memory",
              "memoryerror")  # fmt: skip


class ToolFailed(Exception):
    """The program did not do what it was run for. Says which, and how it ended."""


class OutOfTime(ToolFailed):
    """It used up its CPU seconds, or the wall clock ran out."""


class OutOfMemory(ToolFailed):
    """It asked for more memory than it may have, whatever its exit code said."""


class OutputTooLarge(ToolFailed):
    """It wrote more than it may."""


class Crashed(ToolFailed):
    """A signal ended it."""


class ParentGone(BaseException):
    """Whoever asked for this work is gone. Not an error of the input: nothing may catch it on the way out."""


@dataclass(frozen=True)
class Limits:
    memory: int
    """Bytes of address space."""
    file_size: int = 96 << 20
    files: int = 64


@dataclass(frozen=True)
class Completed:
    program: str
    code: int
    stderr: str
    cpu_seconds: float

    @property
    def complaint(self) -> str:
        """The last thing it said, for error messages."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:200] if lines else "no message"


def set_own_limits(limits: Limits, most_memory: int, cpu_seconds: float) -> None:
    """For the calling process itself. What it starts may have up to `most_memory`, and no more files than it."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits.file_size)
    _limit(resource.RLIMIT_NOFILE, limits.files)
    _limit(resource.RLIMIT_AS, limits.memory, most_memory)
    set_own_cpu_limit(cpu_seconds)


def set_own_cpu_limit(seconds: float) -> None:
    """Soft only: it is raised once more is known, or asked for. A hard one that was set from outside stays."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def run(
    arguments: Sequence[str | Path],
    limits: Limits,
    cpu_seconds: float,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    lifeline: int | None = None,
    stdout: Path | None = None,
) -> Completed:
    """Run to the end, or raise the ToolFailed that fits. An exit code other than 0 is left to the caller.

    `lifeline` is a descriptor that becomes readable when the work is no longer wanted.
    """
    program = Path(arguments[0]).name
    if cpu_seconds <= 0:
        raise OutOfTime(f"no time was left to run {program}")
    output = subprocess.DEVNULL if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = _start(arguments, limits, cpu_seconds, folder, environment, subprocess.DEVNULL, output)
    finally:
        if output >= 0:
            os.close(output)
    assert process.stderr is not None
    before = _cpu_of_children()
    try:
        said, in_time = _listen(process.stderr.fileno(), cpu_seconds * _WALL_PER_CPU_SECOND, lifeline)
        if not in_time:
            process.kill()
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        process.stderr.close()
    ended = Completed(program, code, said, _cpu_of_children() - before)
    _judge(ended, cpu_seconds, in_time)
    return ended


def _start(
    arguments: Sequence[str | Path],
    limits: Limits,
    cpu_seconds: float,
    folder: Path,
    environment: Mapping[str, str] | None,
    stdin: int,
    stdout: int,
) -> subprocess.Popen[bytes]:
    def limit() -> None:
        _limit(resource.RLIMIT_AS, limits.memory)
        _limit(resource.RLIMIT_FSIZE, limits.file_size)
        # One second later it is SIGKILL, for a program that does not heed SIGXCPU.
        _limit(resource.RLIMIT_CPU, math.ceil(cpu_seconds), math.ceil(cpu_seconds) + 1)
        # Neither poppler nor tesseract (with OMP_THREAD_LIMIT=1) starts anything. Root is exempt from this one.
        _limit(resource.RLIMIT_NPROC, 0)

    try:
        return subprocess.Popen(
            arguments,
            stdin=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            preexec_fn=limit,
        )
    except FileNotFoundError as error:
        program = Path(arguments[0]).name
        raise ToolMissing(f"{program} is not installed; on Debian: apt install poppler-utils tesseract-ocr") from error


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _listen(stderr: int, seconds: float, lifeline: int | None) -> tuple[str, bool]:
    """What it says until it closes standard error, which is when it ends; and whether that was in time."""
    deadline = time.monotonic() + seconds
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([stderr] if lifeline is None else [stderr, lifeline], [], [], left)
        if lifeline in ready:
            raise ParentGone
        if stderr in ready:
            piece = os.read(stderr, 65536)
            if not piece:
                return said.decode(errors="replace"), True
            said = (said + piece)[-_STDERR_KEPT:]
    return said.decode(errors="replace"), False


class LineServer:
    """A program that stays, and answers a line with a line, under the same limits as one that is run to its end.

    `cpu_seconds` is for its whole life; what one answer may take, the program limits itself (`set_own_cpu_limit`),
    and the wall clock sees to it that it does. After any ToolFailed it is gone.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str | Path],
        limits: Limits,
        cpu_seconds: float,
        folder: Path,
        environment: Mapping[str, str],
        lifeline: int | None = None,
    ) -> None:
        self.name = name
        self.lifeline = lifeline
        self.said = b""
        pipe = subprocess.PIPE
        self.process = _start(arguments, limits, cpu_seconds, folder, environment, pipe, pipe)

    @property
    def is_gone(self) -> bool:
        return self.process.poll() is not None

    def ask(self, question: bytes, cpu_seconds: float, used_before: float = 0.0) -> bytes:
        """The answer to one line. `used_before` is what it has used up to now, as it says itself."""
        assert self.process.stdin is not None
        before = _cpu_of_children()
        in_time, answer = True, None
        try:
            # If it is gone already, that is seen when nothing comes back.
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(question + b"\n")
                self.process.stdin.flush()
            in_time, answer = self._answer(time.monotonic() + cpu_seconds * _WALL_PER_CPU_SECOND)
        finally:
            if answer is None:
                self.end()
        if answer is not None:
            return answer
        used = _cpu_of_children() - before - used_before
        ended = Completed(self.name, self.process.returncode, self.said.decode(errors="replace"), used)
        _judge(ended, cpu_seconds, in_time)
        raise Crashed(f"{self.name} ended with exit code {ended.code} ({ended.complaint})")

    def _answer(self, deadline: float) -> tuple[bool, bytes | None]:
        """Whether the wait ended in time, and the line that came, if one came."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        stdout, stderr = self.process.stdout.fileno(), self.process.stderr.fileno()
        listened = {stdout, stderr} | (set() if self.lifeline is None else {self.lifeline})
        heard = bytearray()
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select(listened, [], [], left)
            if self.lifeline in ready:
                raise ParentGone
            if stderr in ready:
                piece = os.read(stderr, 65536)
                self.said = (self.said + piece)[-_STDERR_KEPT:]
                if not piece:
                    listened.remove(stderr)
            if stdout in ready:
                piece = os.read(stdout, 1 << 20)
                heard += piece
                if heard.endswith(b"\n"):
                    return True, bytes(heard[:-1])
                if not piece:
                    return True, None
                if len(heard) > _LONGEST_ANSWER:
                    raise OutputTooLarge(f"{self.name} does not stop talking")
        return False, None

    def end(self) -> None:
        """Kill it, if it is still there, and learn what it used."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def _judge(ended: Completed, cpu_seconds: float, in_time: bool) -> None:
    program, code = ended.program, ended.code
    if not in_time:
        raise OutOfTime(f"{program} did not end within {cpu_seconds * _WALL_PER_CPU_SECOND:.0f} s")
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and ended.cpu_seconds >= 0.9 * cpu_seconds):
        raise OutOfTime(f"{program} took more than {math.ceil(cpu_seconds)} s of CPU time")
    # Exit codes lie: pdftoppm says "Out of memory", leaves a blank image and exits with 0.
    if any(words in ended.stderr.lower() for words in _NO_MEMORY):
        raise OutOfMemory(f"{program} ran out of memory ({ended.complaint})")
    if -code == signal.SIGXFSZ or "file too large" in ended.stderr.lower():
        raise OutputTooLarge(f"{program} wrote more than it may")
    if code < 0:
        raise Crashed(f"{program} was ended by {signal.Signals(-code).name} ({ended.complaint})")


def _limit(what: int, value: int, most: int | None = None) -> None:
    _, hard = resource.getrlimit(what)
    most = value if most is None else most
    if hard != resource.RLIM_INFINITY:
        value, most = min(value, hard), min(most, hard)
    # macOS refuses this one.
    with contextlib.suppress(ValueError, OSError) if what == resource.RLIMIT_AS else contextlib.nullcontext():
        resource.setrlimit(what, (value, most))
