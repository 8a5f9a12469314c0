"""The worker's side of the reader processes: starts the fork server, and reads the events of one reader process."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from clerk import host
from clerk.errors import HostOutOfMemory, PdfMemory, PdfTimeout, ReaderCrashed, ReaderOutputInvalid
from clerk.ocr import protocol
from clerk.ocr.ocr_engine import environment, import_path

_MAX_OUTPUT_LINE = 256 << 20
_FORK_TIMEOUT = 120.0
"""Seconds. The first fork waits until the fork server has imported everything, which takes long on a busy machine."""
_KILL_TIMEOUT = 30.0
_MAX_FORKS = 500
"""After so many documents a fork server is replaced, so that nothing accumulates in it."""


class ForkServerClient:
    """A fork server process. One thread at a time may use it; its reader processes run concurrently."""

    def __init__(self) -> None:
        self.variables = _variables()
        self.forks = 0
        self._control, control = socket.socketpair()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        with control:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-s", "-m", protocol.FORK_SERVER_MODULE],
                stdin=control.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                cwd="/",
                env=self.variables,
                start_new_session=True,
            )

    @property
    def is_usable(self) -> bool:
        return self.process.poll() is None and self.forks < _MAX_FORKS and self.variables == _variables()

    def fork(self, request: bytes, descriptors: list[int]) -> int:
        """Fork a reader process and return its id. Raises ReaderCrashed, then the server has ended."""
        self.forks += 1
        self._control.settimeout(_FORK_TIMEOUT)
        try:
            socket.send_fds(self._control, [request], descriptors)
            reply = self._control.recv(protocol.PROCESS_ID.size, socket.MSG_WAITALL)
        except OSError as error:
            self.kill()
            raise ReaderCrashed(f"the fork server did not respond: {error} ({self._last_message})") from error
        if len(reply) < protocol.PROCESS_ID.size:
            self.kill()
            raise ReaderCrashed(f"the fork server ended ({self._last_message})")
        pid: int = protocol.PROCESS_ID.unpack(reply)[0]
        if pid < 0:
            raise OSError(-pid, os.strerror(-pid))
        return pid

    def retire(self) -> None:
        """Let the server exit after its last reader process."""
        self._control.close()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        """End the server and its reader processes, and wait, so that their CPU time is counted."""
        self.retire()
        try:
            self.process.wait(_KILL_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
        self._stderr.close()

    @property
    def _last_message(self) -> str:
        return _last_line(self._stderr) or "no message"


def _variables() -> dict[str, str]:
    # A reader process sets its scratch folder in place of this one.
    return {**environment(Path("/")), **import_path()}


_server: ForkServerClient | None = None
_retired: list[ForkServerClient] = []
_server_lock = threading.Lock()


def _fork(request: bytes, descriptors: list[int]) -> int:
    """Fork a reader process from this process's fork server, which is started if there is none, and replaced if it has
    ended or is used up."""
    global _server
    with _server_lock:
        if _server is not None and not _server.is_usable:
            _server.retire()
            _retired.append(_server)
            _server = None
        for server in [server for server in _retired if server.process.poll() is not None]:
            server.close()
            _retired.remove(server)
        if _server is None:
            _server = ForkServerClient()
        return _server.fork(request, descriptors)


@atexit.register
def close() -> None:
    """End this process's fork servers."""
    global _server
    with _server_lock:
        servers = [*_retired, *([_server] if _server is not None else [])]
        _retired.clear()
        _server = None
    for server in servers:
        server.close()


class ReaderProcess:
    """A reader process, which has its own process group. On exit the whole group is killed."""

    def __init__(self, task: protocol.Task | protocol.FirstPageTask) -> None:
        self.task = task
        self.exit_code: int | None = None
        self._chunks: list[bytes] = []

    def __enter__(self) -> ReaderProcess:
        self.oom_kills_before = host.count_oom_kills()
        with contextlib.ExitStack() as stack, contextlib.ExitStack() as of_child:
            # stderr goes to a file: nothing reads it while the process runs, and a full pipe would block the process.
            self.stderr = stack.enter_context(tempfile.TemporaryFile())
            stdin, own_stdin = os.pipe()
            of_child.callback(os.close, stdin)
            self.stdin = stack.enter_context(os.fdopen(own_stdin, "wb", buffering=0))
            own_stdout, stdout = os.pipe()
            of_child.callback(os.close, stdout)
            self.stdout = stack.enter_context(os.fdopen(own_stdout, "rb", buffering=0))
            own_status, status = socket.socketpair()
            of_child.enter_context(status)
            self.status = stack.enter_context(own_status)
            request = protocol.READ_DOCUMENT if isinstance(self.task, protocol.Task) else protocol.READ_FIRST_PAGE
            self.pid = _fork(request, [stdin, stdout, self.stderr.fileno(), status.fileno()])
            self._resources = stack.pop_all()
        self.send(asdict(self.task))
        return self

    def __exit__(self, *_: object) -> None:
        with self._resources:
            self.status.shutdown(socket.SHUT_WR)
            self._wait()

    def fileno(self) -> int:
        """The descriptor that is readable when `receive` does not wait."""
        return self.stdout.fileno()

    def send(self, message: dict[str, Any]) -> None:
        """Send the task or a request. The process must have answered the last one: see `clerk.ocr.protocol`."""
        with contextlib.suppress(BrokenPipeError):  # it has ended; `receive` raises the reason
            self.stdin.write(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Any]:
        """The events of the next piece of output, which may be none. Raises the reason if the process has ended."""
        chunk = os.read(self.stdout.fileno(), 1 << 20)
        if not chunk:
            self._raise_exit_error()
        *complete, rest = b"".join([*self._chunks, chunk]).split(b"\n") if b"\n" in chunk else [chunk]
        self._chunks = [rest] if complete else [*self._chunks, rest]
        if sum(map(len, self._chunks)) > _MAX_OUTPUT_LINE:
            raise ReaderOutputInvalid(f"a line of the OCR process exceeded {_MAX_OUTPUT_LINE >> 20} MiB")
        try:
            return [json.loads(line) for line in complete]
        except (ValueError, RecursionError) as error:
            raise ReaderOutputInvalid("the OCR process wrote a line that is not JSON") from error

    def _wait(self) -> int | None:
        """Wait for the exit code that the fork server sends; None if the server has ended."""
        if self.exit_code is None:
            self.status.settimeout(_KILL_TIMEOUT)
            status = b""
            with contextlib.suppress(OSError):
                status = self.status.recv(protocol.EXIT_STATUS.size, socket.MSG_WAITALL)
            if len(status) == protocol.EXIT_STATUS.size:
                self.exit_code = protocol.EXIT_STATUS.unpack(status)[0]
            else:
                # The kernel kills the reader process with its server; programs that it runs are in its group.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
        return self.exit_code

    def _raise_exit_error(self) -> NoReturn:
        """Raise the error of a process that has ended without a `failed` event."""
        code = self._wait()
        if code == -signal.SIGXCPU:
            raise PdfTimeout("OCR used more CPU time than a document may use")
        if code in (None, -signal.SIGKILL) and host.count_oom_kills() > self.oom_kills_before:
            raise HostOutOfMemory("the kernel killed the OCR process because the machine ran out of memory")
        if code is None:
            raise ReaderCrashed("the OCR process ended because its fork server has ended")
        message = _last_line(self.stderr)
        if "MemoryError" in message:
            raise PdfMemory("the OCR process ran out of memory")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        raise ReaderCrashed(f"the OCR process ended with {how} ({message[:200] or 'no message'})")


def _last_line(file: Any) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - 2000))
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""
