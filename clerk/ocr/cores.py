"""Which cores of this machine are free for another reader process.

Each reader process holds a lock on one file per core, in a folder that the workers of this user share. Locks end with
the process that holds them. Limitation: the load of other programs is not considered.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import tempfile
from pathlib import Path

from clerk.host import count_cores

logger = logging.getLogger(__name__)

_FOLDER = "clerk-cores"


class Core:
    """A core that is in use until `release`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        os.close(self._descriptor)


def take() -> Core | None:
    """Take a free core; None if there is none. If the folder cannot be used, none counts as free."""
    try:
        return _take()
    except OSError as error:
        logger.warning("large documents are processed by one process only: %s", error)
        return None


def _take() -> Core | None:
    folder = _own_folder()
    for number in range(count_cores()):
        descriptor = os.open(folder / str(number), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
        else:
            return Core(descriptor)
    return None


def _own_folder() -> Path:
    """The folder of the locks. Other users can create files in the folder for temporary files, but not in this one."""
    folder = Path(tempfile.gettempdir()) / f"{_FOLDER}-{os.geteuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise PermissionError(f"{folder} is not a folder of this user")
    return folder
