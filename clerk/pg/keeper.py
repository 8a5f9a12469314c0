"""Keeps the embedded Postgres of one CLERK_HOME alive while it is used, and stops it afterwards.

Started by `clerk.pg.embedded.use`. The process that was started returns 0 as soon as the server answers; its
fork stays as the keeper. At most one keeper per home: it holds the lock on `postgres.keeper`. Killed with
`kill -9`, it leaves the server running, and the next user's keeper takes that server over.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import time
from pathlib import Path
from typing import IO

from clerk.errors import EmbeddedServerError
from clerk.pg.embedded import Home, try_lock

_LOOKS_EVERY = 0.25


class _AskedToStop(Exception):
    pass


def main() -> None:
    home, linger = Home(Path(sys.argv[1])), float(sys.argv[2])
    try:
        with home.keeper_lock.open("a+") as lock:
            if not _become_keeper(home, lock):
                return
            _ensure_running(home)
            if os.fork() > 0:
                # Not sys.exit: closing `lock` here is harmless, but buffers and exit hooks are the child's.
                os._exit(0)
            _detach(home)
            _write_pid(lock)
            _keep(home, linger)
    except EmbeddedServerError as error:
        sys.stderr.write(f"{error.what}\n{error.remedy}\n")
        sys.exit(1)


def _become_keeper(home: Home, lock: IO[str]) -> bool:
    """Wait for the keeper's lock; give up as soon as another keeper has the server answering."""
    while not try_lock(lock.fileno()):
        if home.server.answers():
            return False
        time.sleep(_LOOKS_EVERY)
    return True


def _ensure_running(home: Home) -> None:
    server = home.server
    if not server.answers():
        server.initialise()
        server.start()
    server.create_database()


def _detach(home: Home) -> None:
    """Leave the starter's session and its files, so that closing a terminal does not close the database."""
    os.setsid()
    os.chdir("/")
    log = os.open(home.folder / "postgres.keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)


def _write_pid(lock: IO[str]) -> None:
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()


def _keep(home: Home, linger: float) -> None:
    signal.signal(signal.SIGTERM, _on_sigterm)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with home.users_lock.open("a") as users:
        with contextlib.suppress(_AskedToStop):
            _wait_until_unused(home, users, linger)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        # Whoever comes now waits for the users' lock, which is ours until the server is down.
        home.server.stop()


def _wait_until_unused(home: Home, users: IO[str], linger: float) -> None:
    """Returns with the users' lock held, so that nobody can slip in between the last look and the stop."""
    idle_since: float | None = None
    while True:
        time.sleep(_LOOKS_EVERY)
        alone = try_lock(users.fileno())
        if not alone and home.server.pid is None:
            _ensure_running(home)
        if not alone or home.stay_mark.exists() or home.server.clients() > 0:
            idle_since = None
        elif idle_since is None:
            idle_since = time.monotonic()
        elif time.monotonic() - idle_since >= linger:
            return
        fcntl.flock(users.fileno(), fcntl.LOCK_UN)


def _on_sigterm(*_: object) -> None:
    raise _AskedToStop


if __name__ == "__main__":
    main()
