"""Which cores of this machine are free for another reader process.

Each reader process holds a lock on one file per core, in a folder that the workers of this user share. Locks end with
the process that holds them. Limitation: the load of other programs is not considered.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

logger = logging.getLogger(__name__)

_FOLDER = "clerk-cores"


def count() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
    with _folder() as folder:
        for number in range(count()):
            # Other users can create files in the folder for temporary files: a link is never followed.
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(str(number), flags, 0o600, dir_fd=folder)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
            else:
                return Core(descriptor)
    return None


@contextlib.contextmanager
def _folder() -> Iterator[int]:
    path = Path(tempfile.gettempdir()) / f"{_FOLDER}-{os.geteuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        yield descriptor
    finally:
        os.close(descriptor)
