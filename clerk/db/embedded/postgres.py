"""Postgres for people who have none: binaries from a wheel, data under CLERK_HOME, one Unix socket, no TCP.

Who uses the server holds a shared `flock` on `postgres.users`; the kernel drops it however the process ends,
`kill -9` included. A small background process, the keeper (`clerk.db.embedded.daemon`), owns the server's life: it
starts it, starts it again should it die, and stops it once nobody holds the lock and nobody is connected.

The catch: everything here is for one machine. A CLERK_HOME on a network file system has neither the locks nor
the socket; such people set DATABASE_URL.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import clerk
from clerk.db.embedded.server import STOPPING_TAKES_AT_MOST, Server
from clerk.errors import EmbeddedServerError


@dataclass(frozen=True)
class EmbeddedPostgres:
    """The embedded server of one CLERK_HOME, with the files by which its users find each other."""

    folder: Path

    @property
    def server(self) -> Server:
        return Server(self.folder / "postgres")

    @property
    def users_lock(self) -> Path:
        return self.folder / "postgres.users"

    @property
    def daemon_lock(self) -> Path:
        return self.folder / "postgres.keeper"

    @property
    def keep_running_file(self) -> Path:
        """While this file is there the server stays up without users (`clerk db start`)."""
        return self.folder / "postgres.stay"

    def prepare(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.users_lock.open("a"):
                pass
        except OSError as error:
            raise folder_error(self.folder, error) from error

    def is_used(self) -> bool:
        """Does any clerk process hold the server?"""
        if not self.users_lock.exists():
            return False
        with self.users_lock.open("a") as file:
            for _ in range(3):
                # Only users hold it shared. Whoever holds it alone, the keeper for a moment, is its only holder.
                if try_lock(file.fileno()) or not try_lock(file.fileno(), fcntl.LOCK_SH):
                    return False
        return True

    def daemon_pid(self) -> int | None:
        """The keeper's process, while one lives: it holds its lock and wrote its pid there."""
        if not self.daemon_lock.exists():
            return None
        with self.daemon_lock.open("r") as file:
            # Shared, so that two who look at once do not take each other for the keeper.
            if try_lock(file.fileno(), fcntl.LOCK_SH):
                return None
            return int(file.read().strip() or 0)


def try_lock(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def running(folder: Path, linger: float) -> Iterator[str]:
    """The URL of the embedded server, which stays up for at least as long as this context does."""
    home = EmbeddedPostgres(folder)
    home.prepare()
    with home.users_lock.open("a") as file:
        # Waits only while a keeper is stopping the server, which takes a moment.
        fcntl.flock(file.fileno(), fcntl.LOCK_SH)
        if home.daemon_pid() is None or not home.server.answers():
            _start_keeper(home, linger)
        try:
            yield home.server.url()
        finally:
            # A keeper that was killed would leave the server running for ever.
            if home.daemon_pid() is None and home.server.pid is not None:
                with contextlib.suppress(EmbeddedServerError):
                    _start_keeper(home, linger)


def _start_keeper(home: EmbeddedPostgres, linger: float) -> None:
    """Returns when the server answers; the keeper then goes on in the background."""
    package = str(Path(clerk.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile("w+") as said:
        result = subprocess.run(
            # -P: a folder named clerk where the user happens to be is not this package.
            [sys.executable, "-P", "-m", "clerk.db.embedded.daemon", str(home.folder), str(linger)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        if result.returncode == 0:
            return
        said.seek(0)
        *_, what, remedy = ["", *said.read().strip().splitlines()]
        raise EmbeddedServerError(what or "the keeper of the embedded Postgres failed", remedy)


def stop(folder: Path, *, force: bool = False, dry_run: bool = False) -> bool:
    """Stop the server of this folder, and say whether one was running."""
    home = EmbeddedPostgres(folder)
    running = home.server.pid is not None
    if running and home.is_used() and not force:
        raise EmbeddedServerError(
            f"other clerk processes are using the embedded Postgres in {folder}",
            "stop them first, or add --force to end their sessions",
        )
    if dry_run:
        return running
    home.keep_running_file.unlink(missing_ok=True)
    keeper = home.daemon_pid()
    if keeper:
        os.kill(keeper, signal.SIGTERM)
        deadline = time.monotonic() + STOPPING_TAKES_AT_MOST
        while home.daemon_pid() == keeper and time.monotonic() < deadline:
            time.sleep(0.02)
    home.server.stop()
    return running


def folder_error(folder: Path, error: OSError) -> EmbeddedServerError:
    if error.errno == errno.ENOSPC:
        return EmbeddedServerError(
            f"the disk under {folder} is full", "make room, or set CLERK_HOME to a folder on another disk"
        )
    return EmbeddedServerError(
        f"clerk cannot write to {folder} ({error.strerror})",
        "set CLERK_HOME to a folder you may write to, or set DATABASE_URL to use a Postgres of your own",
    )
