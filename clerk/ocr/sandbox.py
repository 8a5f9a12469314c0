"""Runs programs on untrusted input with limits on CPU time, memory, file size and processes.

The main limit is CPU time, so that good documents do not fail on a busy machine. A wall-clock timeout, several times as
long, ends programs that wait instead of computing. Only single-threaded processes may use this module
(`clerk.ocr.reader_process`, `clerk.ocr.page_render`): where the program `prlimit` is not installed, limits are set
between fork and exec, where a process with several threads could hang.

Limitation: memory is limited as address space, which macOS does not enforce; there only the time limits apply.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
import resource
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clerk import host
from clerk.errors import HostOutOfMemory, ToolMissing
from clerk.ocr.forked_process import ForkedProcess

_PRLIMIT_OPTIONS = {
    resource.RLIMIT_AS: "as", resource.RLIMIT_FSIZE: "fsize", resource.RLIMIT_CPU: "cpu", resource.RLIMIT_NPROC: "nproc"
}  # fmt: skip
_WALL_PER_CPU_SECOND = 8.0
_MAX_STDERR = 16 * 1024
_MAX_RESPONSE = 16 << 20
_OUT_OF_MEMORY_MESSAGES = ("out of memory", "bad_alloc", "cannot allocate", "gmalloc", "memory allocation",
                           "bogus memory", "memoryerror")  # fmt: skip


class ToolFailed(Exception):
    """A program failed. The message names the program and how it completed."""


class OutOfTime(ToolFailed):
    """The program exceeded its CPU limit or its wall-clock timeout."""


class OutOfMemory(ToolFailed):
    """The program ran out of memory, whatever its exit code is."""


class OutputTooLarge(ToolFailed):
    """The program wrote more than the limit."""


class Crashed(ToolFailed):
    """The program was ended by a signal, or exited without a response."""


class ParentGone(BaseException):
    """The parent process has completed. A BaseException, so that no handler for errors of the input catches it."""


@dataclass(frozen=True)
class Limits:
    memory: int
    """Bytes of address space."""
    file_size: int = 96 << 20
    files: int = 64
    runs_programs: bool = False
    """The program may start others, which have the same limits."""


@dataclass(frozen=True)
class Completed:
    program: str
    code: int
    stderr: str
    cpu_seconds: float
    oom_kills_before: int
    """Number of processes that the kernel's out-of-memory killer had killed when the program was started."""

    @property
    def last_message(self) -> str:
        """The last line of its standard error, for error messages."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1][:200] if lines else "no message"


def set_own_limits(limits: Limits, max_memory: int, cpu_seconds: float) -> None:
    """Limit the calling process. Its children may use up to `max_memory`, and as many files as itself."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, limits.file_size)
    _limit(resource.RLIMIT_NOFILE, limits.files)
    _limit(resource.RLIMIT_AS, limits.memory, max_memory)
    set_own_cpu_limit(cpu_seconds)


def set_own_cpu_limit(seconds: float) -> None:
    """Set the soft CPU limit, so that it can be raised later. A hard limit that was set from outside stays."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = math.ceil(seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def wall_timeout(cpu_seconds: float) -> float:
    """Seconds after which a program that may use this much CPU time is killed."""
    return cpu_seconds * _WALL_PER_CPU_SECOND


def run(
    arguments: Sequence[str | Path],
    limits: Limits,
    cpu_seconds: float,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    parent_pipe: int | None = None,
    stdout: Path | None = None,
) -> Completed:
    """Run a program to its end, or raise a ToolFailed. The caller handles exit codes other than 0.

    `parent_pipe` is a descriptor that becomes readable when the parent process ends; then ParentGone is raised.
    """
    program = Path(arguments[0]).name
    if cpu_seconds <= 0:
        raise OutOfTime(f"no CPU time is left to run {program}")
    output = subprocess.DEVNULL if stdout is None else os.open(stdout, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        process = _start(arguments, limits, cpu_seconds, folder, environment, subprocess.DEVNULL, output)
    finally:
        if output >= 0:
            os.close(output)
    assert process.stderr is not None
    before, oom_kills = _children_cpu_seconds(), host.count_oom_kills()
    try:
        stderr, in_time = _read_stderr(process.stderr.fileno(), cpu_seconds * _WALL_PER_CPU_SECOND, parent_pipe)
        if not in_time:
            process.kill()
        code = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        process.stderr.close()
    completed = Completed(program, code, stderr, _children_cpu_seconds() - before, oom_kills)
    _raise_for_failure(completed, cpu_seconds, in_time)
    return completed


def _start(
    arguments: Sequence[str | Path],
    limits: Limits,
    cpu_seconds: float,
    folder: Path,
    environment: Mapping[str, str] | None,
    stdin: int,
    stdout: int,
) -> subprocess.Popen[bytes]:
    path = None if environment is None else environment.get("PATH")
    program = shutil.which(arguments[0], path=path)
    if program is None:
        name = Path(arguments[0]).name
        raise ToolMissing(f"{name} is not installed; on Debian: apt install poppler-utils tesseract-ocr")
    # Without a function between fork and exec, Python uses vfork, which does not copy this process's page tables.
    prlimit = shutil.which("prlimit", path=path)
    limit = functools.partial(_set_child_limits, limits, cpu_seconds) if prlimit is None else None
    return subprocess.Popen(
        [*_prlimit_command(prlimit, limits, cpu_seconds), program, *arguments[1:]],
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        preexec_fn=limit,
    )


def _prlimit_command(prlimit: str | None, limits: Limits, cpu_seconds: float) -> list[str]:
    """The command of util-linux that sets limits and executes a program; empty if it is not installed."""
    if prlimit is None:
        return []
    command = [prlimit]
    for kind, soft, hard in _child_limits(limits, cpu_seconds):
        soft, hard = _at_most_hard(kind, soft, hard)
        command.append(f"--{_PRLIMIT_OPTIONS[kind]}={soft}:{hard}")
    return [*command, "--"]


def _set_child_limits(limits: Limits, cpu_seconds: float) -> None:
    for kind, soft, hard in _child_limits(limits, cpu_seconds):
        _limit(kind, soft, hard)


def _child_limits(limits: Limits, cpu_seconds: float) -> list[tuple[int, int, int]]:
    """Soft and hard limits of a program."""
    seconds = math.ceil(cpu_seconds)
    child_limits = [
        (resource.RLIMIT_AS, limits.memory, limits.memory),
        (resource.RLIMIT_FSIZE, limits.file_size, limits.file_size),
        # A second after SIGXCPU the kernel sends SIGKILL, for programs that ignore SIGXCPU.
        (resource.RLIMIT_CPU, seconds, seconds + 1),
    ]
    if not limits.runs_programs:
        # Neither poppler nor tesseract (with OMP_THREAD_LIMIT=1) starts processes. Root is exempt from this limit.
        child_limits.append((resource.RLIMIT_NPROC, 0, 0))
    return child_limits


def _children_cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _read_stderr(stderr: int, seconds: float, parent_pipe: int | None) -> tuple[str, bool]:
    """Read standard error until the program exits, and return whether it exited in time."""
    deadline = time.monotonic() + seconds
    output = b""
    while (remaining := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([stderr] if parent_pipe is None else [stderr, parent_pipe], [], [], remaining)
        if parent_pipe in ready:
            raise ParentGone
        if stderr in ready:
            chunk = os.read(stderr, 65536)
            if not chunk:
                return output.decode(errors="replace"), True
            output = (output + chunk)[-_MAX_STDERR:]
    return output.decode(errors="replace"), False


class LineServer:
    """A sandboxed program that keeps running and answers each request line with one response line.

    `cpu_seconds` limits its whole life. The program limits each request itself (`set_own_cpu_limit`), and a wall-clock
    timeout enforces that. After any ToolFailed it has exited.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str | Path],
        limits: Limits,
        cpu_seconds: float,
        folder: Path,
        environment: Mapping[str, str],
        parent_pipe: int | None = None,
    ) -> None:
        pipe = subprocess.PIPE
        self._attach(name, _start(arguments, limits, cpu_seconds, folder, environment, pipe, pipe), parent_pipe)

    def _attach(self, name: str, process: subprocess.Popen[bytes] | ForkedProcess, parent_pipe: int | None) -> None:
        self.name = name
        self.process = process
        self.parent_pipe = parent_pipe
        self.stderr = b""

    @property
    def has_exited(self) -> bool:
        return self.process.poll() is not None

    def request(self, line: bytes, cpu_seconds: float, used_before: float = 0.0) -> bytes:
        """Send one line and return the response. `used_before` is the CPU time that it reported until now."""
        assert self.process.stdin is not None
        before, oom_kills = _children_cpu_seconds(), host.count_oom_kills()
        in_time, response = True, None
        try:
            # If it has exited already, no response arrives.
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write(line + b"\n")
                self.process.stdin.flush()
            in_time, response = self._read_response(time.monotonic() + cpu_seconds * _WALL_PER_CPU_SECOND)
        finally:
            if response is None:
                self.kill()
        if response is not None:
            return response
        used = _children_cpu_seconds() - before - used_before
        stderr = self.stderr.decode(errors="replace")
        completed = Completed(self.name, self.process.wait(), stderr, used, oom_kills)
        _raise_for_failure(completed, cpu_seconds, in_time)
        raise Crashed(f"{self.name} ended with exit code {completed.code} ({completed.last_message})")

    def _read_response(self, deadline: float) -> tuple[bool, bytes | None]:
        """Whether the deadline was met, and the response line, or None at the end of its output."""
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        stdout, stderr = self.process.stdout.fileno(), self.process.stderr.fileno()
        descriptors = {stdout, stderr} | (set() if self.parent_pipe is None else {self.parent_pipe})
        response = bytearray()
        while (remaining := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select(descriptors, [], [], remaining)
            if self.parent_pipe in ready:
                raise ParentGone
            if stderr in ready:
                chunk = os.read(stderr, 65536)
                self.stderr = (self.stderr + chunk)[-_MAX_STDERR:]
                if not chunk:
                    descriptors.remove(stderr)
            if stdout in ready:
                chunk = os.read(stdout, 1 << 20)
                response += chunk
                if response.endswith(b"\n"):
                    return True, bytes(response[:-1])
                if not chunk:
                    return True, None
                if len(response) > _MAX_RESPONSE:
                    raise OutputTooLarge(f"the response of {self.name} exceeded {_MAX_RESPONSE >> 20} MiB")
        return False, None

    def kill(self) -> None:
        """Kill it if it still runs, and wait for it, so that its CPU time is counted."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class ForkedLineServer(LineServer):
    """A LineServer that is forked from the calling process, whose modules and models it shares."""

    def __init__(
        self, name: str, work: Callable[[], None], limits: Limits, cpu_seconds: float, parent_pipe: int | None = None
    ) -> None:
        def limit_and_work() -> None:
            _set_child_limits(limits, cpu_seconds)
            work()

        self._attach(name, ForkedProcess(f"clerk-{name}", limit_and_work), parent_pipe)


def _raise_for_failure(completed: Completed, cpu_seconds: float, in_time: bool) -> None:
    program, code = completed.program, completed.code
    if not in_time:
        raise OutOfTime(f"{program} did not finish within {cpu_seconds * _WALL_PER_CPU_SECOND:.0f} s")
    if -code == signal.SIGXCPU or (-code == signal.SIGKILL and completed.cpu_seconds >= 0.9 * cpu_seconds):
        raise OutOfTime(f"{program} took more than {math.ceil(cpu_seconds)} s of CPU time")
    # The exit code is not enough: pdftoppm prints "Out of memory", writes a blank image and exits with 0.
    if any(message in completed.stderr.lower() for message in _OUT_OF_MEMORY_MESSAGES):
        raise OutOfMemory(f"{program} ran out of memory ({completed.last_message})")
    if -code == signal.SIGXFSZ or "file too large" in completed.stderr.lower():
        raise OutputTooLarge(f"a file of {program} exceeded the size limit")
    if -code == signal.SIGKILL and host.count_oom_kills() > completed.oom_kills_before:
        # The program was within its own limit, which it would have noticed itself.
        raise HostOutOfMemory(f"the kernel killed {program} because the machine ran out of memory")
    if code < 0:
        raise Crashed(f"{program} was ended by {signal.Signals(-code).name} ({completed.last_message})")


def _limit(kind: int, soft: int, hard: int | None = None) -> None:
    # macOS does not support RLIMIT_AS.
    with contextlib.suppress(ValueError, OSError) if kind == resource.RLIMIT_AS else contextlib.nullcontext():
        resource.setrlimit(kind, _at_most_hard(kind, soft, soft if hard is None else hard))


def _at_most_hard(kind: int, soft: int, hard: int) -> tuple[int, int]:
    """These limits, or the hard limit of this process, which it cannot exceed."""
    _, current_hard = resource.getrlimit(kind)
    if current_hard == resource.RLIM_INFINITY:
        return soft, hard
    return min(soft, current_hard), min(hard, current_hard)
