"""Background daemon that runs the embedded Postgres server of one CLERK_HOME and stops it when it is unused.

`clerk.db.embedded.postgres.running` starts it. The process that it starts exits with 0 as soon as the server accepts
connections; its fork continues as the daemon. The lock on `postgres.daemon` allows one daemon per CLERK_HOME. If the
daemon is killed with `kill -9`, the server keeps running, and the daemon that the next user starts adopts it.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import IO

from clerk.db.embedded.postgres import EmbeddedPostgres, folder_error, try_lock
from clerk.db.embedded.server import START_TIMEOUT
from clerk.errors import EmbeddedServerError

_POLL_INTERVAL = 0.25


def main() -> None:
    embedded, idle_timeout = EmbeddedPostgres(Path(sys.argv[1])), float(sys.argv[2])
    try:
        with embedded.daemon_lock.open("a+") as lock:
            if not _acquire_daemon_lock(embedded, lock):
                return
            _ensure_running(embedded)
            daemon_pid = os.fork()
            if daemon_pid > 0:
                _write_pid(lock, str(daemon_pid))
                # Not sys.exit: exit hooks must run in the daemon only.
                os._exit(0)
            _detach(embedded)
            _run(embedded, idle_timeout)
    except OSError as error:
        _exit_with(folder_error(embedded.folder, error))
    except EmbeddedServerError as error:
        _exit_with(error)


def _exit_with(error: EmbeddedServerError) -> None:
    sys.stderr.write(f"{error.what}\n{error.remedy}\n")
    sys.exit(1)


def _acquire_daemon_lock(embedded: EmbeddedPostgres, lock: IO[str]) -> bool:
    """Wait for the daemon lock. Return False as soon as another daemon has a server that accepts connections."""
    deadline = time.monotonic() + START_TIMEOUT
    while not try_lock(lock.fileno()):
        time.sleep(_POLL_INTERVAL)
        # Only a daemon holds the lock this long; other processes take it for a moment to test whether one runs.
        if embedded.daemon_pid() is not None and embedded.server.is_ready():
            return False
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"the embedded Postgres in {embedded.folder} did not start within {START_TIMEOUT:g} s",
                f"read {embedded.folder}/postgres.log and postgres.daemon.log",
            )
    # The process whose pid is in the file has ended: `stop` must not signal whichever process has that pid now.
    _write_pid(lock, "")
    return True


def _write_pid(lock: IO[str], pid: str) -> None:
    lock.truncate(0)
    lock.write(pid)
    lock.flush()


def _ensure_running(embedded: EmbeddedPostgres) -> None:
    server = embedded.server
    if not server.is_ready():
        server.initialise()
        server.start()
    server.create_database()


def _detach(embedded: EmbeddedPostgres) -> None:
    """Leave the session and the open files of the starting process, so that the daemon survives a closed terminal."""
    os.setsid()
    os.chdir("/")
    log = os.open(embedded.folder / "postgres.daemon.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


def _run(embedded: EmbeddedPostgres, idle_timeout: float) -> None:
    stop_requested = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop_requested.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with embedded.users_lock.open("a") as users:
        idle_since: float | None = None
        while not stop_requested.wait(_POLL_INTERVAL):
            if not _is_idle(embedded, users):
                idle_since = None
            elif idle_since is None:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since >= idle_timeout and try_lock(users.fileno()):
                # A process that wants the server now waits for the users lock, which is held until the server is down.
                break
            fcntl.flock(users.fileno(), fcntl.LOCK_UN)
        embedded.server.stop()


def _is_idle(embedded: EmbeddedPostgres, users: IO[str]) -> bool:
    unused = try_lock(users.fileno())
    fcntl.flock(users.fileno(), fcntl.LOCK_UN)
    wanted = not unused or embedded.keep_running_file.exists()
    if wanted and embedded.server.pid is None:
        _restart(embedded)
    return not wanted and embedded.server.connected_clients() == 0


def _restart(embedded: EmbeddedPostgres) -> None:
    try:
        _ensure_running(embedded)
    except EmbeddedServerError as error:
        # Sessions of the crashed server may still be ending, or the disk may be full: the next poll tries again.
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
