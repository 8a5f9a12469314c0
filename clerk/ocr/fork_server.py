"""Fork server: a single-threaded process that forks one reader process per document, or per first page at fetch.

A forked reader process has its modules imported and tesseract's model loaded, which costs more CPU time than a short
document needs. It shares no state with other documents. Started by `clerk.ocr.reader_client`, one per worker process,
with a minimal environment.

Protocol: the worker sends a byte, which names the work, and four descriptors over the socket that is the server's
standard input: standard input, output and error of the reader process, and a status socket. The response is the process
id, or a negative error number. The server writes the exit status to the status socket. If the worker shuts down its end
of that socket, or dies, the process group of the reader process is killed. The server exits at end-of-file, after its
last reader process.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import logging
import os
import selectors
import signal
import socket
import sys
import traceback

from clerk.ocr import first_page_process, reader_process, restrictions, tesseract
from clerk.ocr.forked_process import run_forked
from clerk.ocr.protocol import EXIT_STATUS, PROCESS_ID, READ_DOCUMENT, READ_FIRST_PAGE
from clerk.process import prctl

_DESCRIPTORS = 4
_WORK = {READ_DOCUMENT: reader_process.main, READ_FIRST_PAGE: first_page_process.main}


class ForkServer:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.status_sockets: dict[int, socket.socket] = {}
        """Process id → status socket of each reader process."""
        self.exit_codes: dict[int, int] = {}
        """Process id → exit code of reader processes that have ended, but programs of their group have not."""
        self.selector = selectors.DefaultSelector()
        self.pid = os.getpid()
        self.has_models = False

    def serve(self) -> None:
        """Fork reader processes until the worker closes its end of the control socket."""
        wakeup, wakeup_write = os.pipe()
        os.set_blocking(wakeup_write, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wakeup, selectors.EVENT_READ)
        self.selector.register(self.control, selectors.EVENT_READ)
        is_open = True
        while is_open or self.status_sockets:
            for key, _ in self.selector.select():
                if key.fileobj is self.control:
                    is_open = self._accept()
                elif key.fileobj == wakeup:
                    with contextlib.suppress(BlockingIOError):
                        os.read(wakeup, 4096)
                    self._reap()
                elif self.status_sockets.get(key.data) is key.fileobj:  # not if `_reap` has just sent its status
                    self._kill(key.data)

    def _accept(self) -> bool:
        """Handle one request of the worker. Returns False at end-of-file."""
        try:
            message, descriptors, _, _ = socket.recv_fds(self.control, 1, _DESCRIPTORS)
        except ConnectionError:
            message, descriptors = b"", []
        if not message or len(descriptors) < _DESCRIPTORS:
            self.selector.unregister(self.control)
            return False
        *standard, status = descriptors
        if message == READ_DOCUMENT and not self.has_models:
            self.has_models = True
            _load_models()
        try:
            pid = os.fork()
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            self._become_reader(message, standard)
        for descriptor in standard:
            os.close(descriptor)
        if pid > 0:
            self.status_sockets[pid] = socket.socket(fileno=status)
            self.selector.register(self.status_sockets[pid], selectors.EVENT_READ, pid)
        else:
            os.close(status)
        with contextlib.suppress(BrokenPipeError):  # the worker has died; the next event is end-of-file
            self.control.sendall(PROCESS_ID.pack(pid))
        return True

    def _become_reader(self, request: bytes, standard: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        run_forked("clerk-reader", self.pid, standard, _WORK[request], new_session=True)

    def _kill(self, pid: int) -> None:
        """Kill the process group. `_reap` then sends the status."""
        self.selector.unregister(self.status_sockets[pid])
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:  # it has not created its session yet
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Collect ended processes: reader processes, and programs that outlived theirs (this is their subreaper)."""
        while (ended := self._wait()) is not None:
            pid, status = ended
            if pid in self.status_sockets:
                self.exit_codes[pid] = os.waitstatus_to_exitcode(status)
        for pid in [pid for pid in self.exit_codes if not _has_group(pid)]:
            self._send_status(pid)

    def _wait(self) -> tuple[int, int] | None:
        """Kill the process group of an ended reader process; return its id and status, or None if none has ended."""
        try:
            if sys.platform == "linux":
                # Until `waitpid` the id cannot be that of another process group.
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    return None
                self._kill_group(ended.si_pid)
                return os.waitpid(ended.si_pid, 0)
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid == 0:
            return None
        self._kill_group(pid)
        return pid, status

    def _kill_group(self, pid: int) -> None:
        if pid in self.status_sockets:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)

    def _send_status(self, pid: int) -> None:
        status_socket, exit_code = self.status_sockets.pop(pid), self.exit_codes.pop(pid)
        with contextlib.suppress(KeyError):  # `_kill` has unregistered it
            self.selector.unregister(status_socket)
        with status_socket, contextlib.suppress(OSError):  # the worker has died
            status_socket.sendall(EXIT_STATUS.pack(exit_code))


def _has_group(pid: int) -> bool:
    """Whether programs that an ended reader process started still run. Only a subreaper is told when they end."""
    if sys.platform != "linux":
        return False
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _load_models() -> None:
    """Load what readers of whole documents need. A worker that only fetches does without."""
    try:
        # Not at the top: tesserocr has no wheel for every platform.
        importlib.import_module(tesseract.SERVER_MODULE).preload(tesseract.models(), tesseract.DEFAULT_LANGUAGES)
    except Exception:  # noqa: BLE001 (a scanned page reports what is missing; other pages need no model)
        traceback.print_exc(file=sys.stderr)
    reader_process.prepare()
    _share_memory()


def _share_memory() -> None:
    """Reader processes share the memory of the objects that exist now, as long as nothing writes to them."""
    gc.collect()
    gc.freeze()


def main() -> None:
    logging.disable()  # pypdf logs many warnings that no operator can act on
    control = socket.socket(fileno=os.dup(0))
    prctl.set_name("clerk-fork")
    prctl.become_subreaper()
    restrictions.prepare()
    _share_memory()
    gc.set_threshold(20_000, 50, 100)  # most reader processes end before a collection would find anything
    ForkServer(control).serve()


if __name__ == "__main__":
    main()
