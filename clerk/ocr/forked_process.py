"""Processes that are forked from a single-threaded process and call a function."""

from __future__ import annotations

import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from clerk.process import prctl


def run_forked(
    name: str,
    parent: int,
    standard: Sequence[int],
    work: Callable[[], None],
    *,
    new_session: bool = False,
) -> NoReturn:
    """Call `work` in a process that was just forked, then exit. `standard` are descriptors for 0, 1 and 2; all others
    are closed. The process is killed when its parent, whose id is `parent`, ends."""
    code = 1
    try:
        if new_session:
            os.setsid()
        prctl.kill_with_parent()
        if os.getppid() != parent:
            os._exit(1)
        for target, descriptor in enumerate(standard):
            os.dup2(descriptor, target)
        os.closerange(len(standard), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        prctl.set_name(name)
        work()
        sys.stdout.flush()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:  # noqa: BLE001 (the process ends; its parent reads the last line of the traceback)
        traceback.print_exc(file=sys.stderr)
    finally:
        # Not sys.exit: that would run the exit handlers of the parent process.
        sys.stderr.flush()
        os._exit(code)


class ForkedProcess:
    """A child process with pipes that calls a function; the part of `subprocess.Popen`'s interface that is needed."""

    def __init__(self, name: str, work: Callable[[], None]) -> None:
        (stdin, own_stdin), (own_stdout, stdout), (own_stderr, stderr) = os.pipe(), os.pipe(), os.pipe()
        parent = os.getpid()
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            run_forked(name, parent, (stdin, stdout, stderr), work)
        for descriptor in (stdin, stdout, stderr):
            os.close(descriptor)
        self.stdin = os.fdopen(own_stdin, "wb")
        self.stdout = os.fdopen(own_stdout, "rb")
        self.stderr = os.fdopen(own_stderr, "rb")

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        code = self._wait(0)
        assert code is not None
        return code

    def kill(self) -> None:
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            if pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
