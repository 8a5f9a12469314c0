"""Embedded Postgres for users without a database: binaries from a wheel, data under CLERK_HOME, a Unix socket, no TCP.

Every process that uses the server holds a shared `flock` on `postgres.users`; the kernel releases it however the
process ends, `kill -9` included. A background daemon (`clerk.db.embedded.daemon`) starts the server, restarts it if
it dies, and stops it when no process holds the lock and no client is connected.

Limitation: one machine only. On a network file system neither the locks nor the socket work; set DATABASE_URL there.
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
from clerk.db.embedded.server import STOP_TIMEOUT, Server
from clerk.errors import EmbeddedServerError


@dataclass(frozen=True)
class EmbeddedPostgres:
    """The embedded server of one CLERK_HOME, and the lock files that its users and its daemon share."""

    folder: Path

    @property
    def server(self) -> Server:
        return Server(self.folder / "postgres")

    @property
    def users_lock(self) -> Path:
        return self.folder / "postgres.users"

    @property
    def daemon_lock(self) -> Path:
        return self.folder / "postgres.daemon"

    @property
    def keep_running_file(self) -> Path:
        """While this file exists, the server keeps running without users (`clerk db start`)."""
        return self.folder / "postgres.keep-running"

    def exists(self) -> bool:
        """Whether the database has been created."""
        return (self.folder / "postgres" / "PG_VERSION").exists()

    def prepare(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.users_lock.open("a"):
                pass
        except OSError as error:
            raise folder_error(self.folder, error) from error

    def is_used(self) -> bool:
        """Whether a clerk process uses the server."""
        if not self.users_lock.exists():
            return False
        with self.users_lock.open("a") as file:
            for _ in range(3):
                # Users hold a shared lock. Only the daemon takes an exclusive one, briefly, when there is no user.
                if try_lock(file.fileno()) or not try_lock(file.fileno(), fcntl.LOCK_SH):
                    return False
        return True

    def daemon_pid(self) -> int | None:
        """The pid of the daemon while it runs: the daemon holds the lock and wrote its pid into the file."""
        if not self.daemon_lock.exists():
            return None
        with self.daemon_lock.open("r") as file:
            # Shared, so that two processes that test at the same time do not take each other for the daemon.
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
def running(folder: Path, idle_timeout: float) -> Iterator[str]:
    """Yield the URL of the embedded server, which runs at least as long as this context."""
    embedded = EmbeddedPostgres(folder)
    embedded.prepare()
    with embedded.users_lock.open("a") as file:
        # Blocks only while a daemon is stopping the server.
        fcntl.flock(file.fileno(), fcntl.LOCK_SH)
        if embedded.daemon_pid() is None or not embedded.server.is_ready():
            _start_daemon(embedded, idle_timeout)
        try:
            yield embedded.server.url()
        finally:
            # If the daemon was killed, nothing would ever stop the server.
            if embedded.daemon_pid() is None and embedded.server.pid is not None:
                with contextlib.suppress(EmbeddedServerError):
                    _start_daemon(embedded, idle_timeout)


def _start_daemon(embedded: EmbeddedPostgres, idle_timeout: float) -> None:
    """Start the daemon, and return when the server accepts connections."""
    package = str(Path(clerk.__file__).parents[1])
    path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryFile("w+") as stderr:
        result = subprocess.run(
            # -P: do not import a folder named clerk in the user's working directory instead of this package.
            [sys.executable, "-P", "-m", "clerk.db.embedded.daemon", str(embedded.folder), str(idle_timeout)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        if result.returncode == 0:
            return
        stderr.seek(0)
        *_, what, remedy = ["", *stderr.read().strip().splitlines()]
        raise EmbeddedServerError(what or "the daemon of the embedded Postgres failed", remedy)


def stop(folder: Path, *, force: bool = False, dry_run: bool = False) -> bool:
    """Stop the server of this folder. Return whether one was running."""
    embedded = EmbeddedPostgres(folder)
    was_running = embedded.server.pid is not None
    if was_running and embedded.is_used() and not force:
        raise EmbeddedServerError(
            f"other clerk processes are using the embedded Postgres in {folder}",
            "stop them first, or add --force to end their sessions",
        )
    if dry_run:
        return was_running
    embedded.keep_running_file.unlink(missing_ok=True)
    daemon = embedded.daemon_pid()
    if daemon:
        os.kill(daemon, signal.SIGTERM)
        deadline = time.monotonic() + STOP_TIMEOUT
        while embedded.daemon_pid() == daemon and time.monotonic() < deadline:
            time.sleep(0.02)
    embedded.server.stop()
    return was_running


def folder_error(folder: Path, error: OSError) -> EmbeddedServerError:
    if error.errno == errno.ENOSPC:
        return EmbeddedServerError(
            f"the disk of {folder} is full", "free disk space, or set CLERK_HOME to a folder on another disk"
        )
    return EmbeddedServerError(
        f"clerk cannot write to {folder} ({error.strerror})",
        "set CLERK_HOME to a folder that you may write to, or set DATABASE_URL to use your own Postgres",
    )
