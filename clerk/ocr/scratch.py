"""Scratch folders of the processes that read PDFs, in the machine's folder for temporary files.

Each folder is locked by the process that created it. The lock ends with the process, also if that is killed, so the
next process that needs a folder on the same machine deletes those that were abandoned.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "clerk-scratch-"
_MIN_AGE = 60.0
"""Seconds. A folder that is newer may not be locked yet."""


@contextlib.contextmanager
def scratch_folder(name: str) -> Iterator[Path]:
    """Create a folder that is deleted at the end; its name contains `name`. Deletes abandoned folders first."""
    delete_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{name}-"))
    try:
        with _open(folder) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def delete_abandoned() -> None:
    """Delete the folders of this user whose process has ended. What cannot be deleted now is left to the next call."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _open(folder) as descriptor:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mtime > time.time() - _MIN_AGE:
                continue
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails while its process lives
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _open(folder: Path) -> Iterator[int]:
    # Other users can create files in this folder: a link is never followed.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
