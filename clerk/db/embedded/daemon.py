"""Keeps the embedded Postgres of one CLERK_HOME alive while it is used, and stops it afterwards.

Started by `clerk.db.embedded.postgres.use`. The process that was started returns 0 as soon as the server answers; its
fork stays as the keeper. At most one keeper per home: it holds the lock on `postgres.keeper`. Killed with
`kill -9`, it leaves the server running, and the keeper that the next user starts takes that server over.
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
from clerk.db.embedded.server import STARTING_TAKES_AT_MOST
from clerk.errors import EmbeddedServerError

_LOOKS_EVERY = 0.25


def main() -> None:
    home, linger = EmbeddedPostgres(Path(sys.argv[1])), float(sys.argv[2])
    try:
        with home.daemon_lock.open("a+") as lock:
            if not _become_keeper(home, lock):
                return
            _ensure_running(home)
            keeper = os.fork()
            if keeper > 0:
                _write(lock, str(keeper))
                # Not sys.exit: exit hooks are the keeper's.
                os._exit(0)
            _detach(home)
            _keep(home, linger)
    except OSError as error:
        _give_up(folder_error(home.folder, error))
    except EmbeddedServerError as error:
        _give_up(error)


def _give_up(error: EmbeddedServerError) -> None:
    sys.stderr.write(f"{error.what}\n{error.remedy}\n")
    sys.exit(1)


def _become_keeper(home: EmbeddedPostgres, lock: IO[str]) -> bool:
    """Wait for the keeper's lock; give up as soon as another keeper has the server answering."""
    deadline = time.monotonic() + STARTING_TAKES_AT_MOST
    while not try_lock(lock.fileno()):
        time.sleep(_LOOKS_EVERY)
        # Only a keeper holds the lock for that long; others just look whether one does.
        if home.daemon_pid() is not None and home.server.answers():
            return False
        if time.monotonic() > deadline:
            raise EmbeddedServerError(
                f"the embedded Postgres in {home.folder} does not answer, and its keeper cannot start it",
                f"look at {home.folder}/postgres.log and postgres.keeper.log",
            )
    # Whose pid is in there is gone; nobody may signal it.
    _write(lock, "")
    return True


def _write(lock: IO[str], pid: str) -> None:
    lock.truncate(0)
    lock.write(pid)
    lock.flush()


def _ensure_running(home: EmbeddedPostgres) -> None:
    server = home.server
    if not server.answers():
        server.initialise()
        server.start()
    server.create_database()


def _detach(home: EmbeddedPostgres) -> None:
    """Leave the starter's session and its files, so that closing a terminal does not close the database."""
    os.setsid()
    os.chdir("/")
    log = os.open(home.folder / "postgres.keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


def _keep(home: EmbeddedPostgres, linger: float) -> None:
    asked_to_stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with home.users_lock.open("a") as users:
        idle_since: float | None = None
        while not asked_to_stop.wait(_LOOKS_EVERY):
            if not _is_idle(home, users):
                idle_since = None
            elif idle_since is None:
                idle_since = time.monotonic()
            elif time.monotonic() - idle_since >= linger and try_lock(users.fileno()):
                # Whoever comes now waits for the users' lock, which is ours until the server is down.
                break
            fcntl.flock(users.fileno(), fcntl.LOCK_UN)
        home.server.stop()


def _is_idle(home: EmbeddedPostgres, users: IO[str]) -> bool:
    unused = try_lock(users.fileno())
    fcntl.flock(users.fileno(), fcntl.LOCK_UN)
    wanted = not unused or home.keep_running_file.exists()
    if wanted and home.server.pid is None:
        _bring_back(home)
    return not wanted and home.server.clients() == 0


def _bring_back(home: EmbeddedPostgres) -> None:
    try:
        _ensure_running(home)
    except EmbeddedServerError as error:
        # Sessions of the dead server may still be ending, or a disk be full: the next look tries again.
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    main()
