"""A small file system that a test can fill, and a control group with little memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

_GROUPS_V1 = Path("/sys/fs/cgroup/memory")
_GROUPS_V2 = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """Mount a file system of one megabyte. Skips the test where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if (done := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
        pytest.skip(f"this container may not mount a file system: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily: a process of the test may still have a file open there.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextlib.contextmanager
def memory_group(limit: int) -> Iterator[Path]:
    """A control group whose processes may use `limit` bytes. Skips the test where that is not possible."""
    root, name = (_GROUPS_V1, "memory.limit_in_bytes") if _GROUPS_V1.is_dir() else (_GROUPS_V2, "memory.max")
    group = root / f"clerk-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"this user may not create a control group: {error}")
    try:
        try:
            (group / name).write_text(str(limit))
        except OSError as error:
            pytest.skip(f"the memory of control groups is not limited here: {error}")
        yield group
    finally:
        group.rmdir()
