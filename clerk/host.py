"""Problems of this machine that keep every job of a kind from succeeding: disks, memory, open files. Its cores.

A job that fails with a HostError says that there was a problem. These functions find out whether there is one now, and
name the folder and the free space.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from clerk.error_causes import classify
from clerk.errors import DiskFailed, DiskFull, HostError, HostOutOfMemory, HostOutOfResources
from clerk.humanize import format_bytes

_PROBE_BYTES = 1 << 16
_MIN_FREE_SHARE = 0.05
_MIN_FREE_BYTES = 64 << 20
_LOW_SHARE = 0.1
_LOW_BYTES = 20_000_000_000
_MIN_MEMORY_SHARE = 0.1
_MIN_MEMORY_BYTES = 256 << 20
_CGROUPS = Path("/sys/fs/cgroup")


def find_problem(error: type[HostError], folders: Iterable[Path]) -> HostError | None:
    """The problem, if a job would fail again with this error, or one like it; None if jobs can be tried again."""
    if error is HostOutOfMemory:
        return _memory_problem()
    if error is HostOutOfResources:
        return _resource_problem()
    problems = (disk_problem(folder, min_free=error is DiskFull) for folder in folders)
    return next((problem for problem in problems if problem is not None), None)


def disk_problem(folder: Path, *, min_free: bool = False) -> HostError | None:
    """What prevents writing in a folder. A disk that was full counts as full until some space is free (`min_free`):
    otherwise every page would be tried that fits."""
    existing = next((path for path in (folder, *folder.parents) if path.exists()), folder)
    try:
        with tempfile.TemporaryFile(prefix=".clerk-probe-", dir=existing) as file:
            file.write(b"\0" * _PROBE_BYTES)
            file.flush()
            os.fsync(file.fileno())
        free, total = _disk_space(existing)
        if min_free and free < min(_MIN_FREE_BYTES, total * _MIN_FREE_SHARE):
            return DiskFull(f"the disk of {folder} is full ({_space(existing)})")
    except OSError as error:
        error_class = classify(error)
        if error_class is DiskFull:
            return DiskFull(f"the disk of {folder} is full ({_space(existing)})")
        problem = error_class if issubclass(error_class, HostError) else DiskFailed
        return problem(f"{folder} cannot be written: {error.strerror}")
    return None


def require_free_space(folder: Path) -> None:
    """Raise DiskFull if nothing more can be written in a folder. For programs that do not report it: pdftotext writes a
    part of its output and exits with 0."""
    if _disk_space(folder)[0] < _PROBE_BYTES:
        raise DiskFull(f"the disk of {folder} is full ({_space(folder)})")


def describe_low_space(folder: Path, min_free: int) -> str | None:
    """The free space of a folder's disk if it is less than `min_free` bytes and, on a small disk, than 5 percent."""
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free, total = _disk_space(existing)
    return _space(existing) if free < min(min_free, total * _MIN_FREE_SHARE) else None


def describe_space(folders: Iterable[Path]) -> str:
    """The free space of each disk, with one of its folders."""
    existing = (next((path for path in (folder, *folder.parents) if path.exists()), folder) for folder in folders)
    disks = {folder.stat().st_dev: folder for folder in reversed(list(existing))}
    return "; ".join(f"{folder}: {_space(folder)}" for folder in reversed(disks.values()))


@dataclass(frozen=True)
class Disk:
    folder: Path
    """One of the folders on it."""
    purpose: str
    """What clerk keeps on it."""
    free: int
    total: int

    @property
    def is_low(self) -> bool:
        """Whether somebody should make space before jobs fail: less than a tenth is free, and less than 20 GB."""
        return self.free < min(self.total * _LOW_SHARE, _LOW_BYTES)


def list_disks(folders: Mapping[str, Path]) -> list[Disk]:
    """The disks of folders by purpose. A folder that does not exist yet is on the disk of the one above it."""
    disks: dict[int, Disk] = {}
    for purpose, folder in folders.items():
        existing = next((path for path in (folder, *folder.parents) if path.exists()), None)
        if existing is None or not os.statvfs(existing).f_blocks:  # a file system without this information
            continue
        free, total = _disk_space(existing)
        device = existing.stat().st_dev
        purposes = f"{disks[device].purpose}, {purpose}" if device in disks else purpose
        disks[device] = Disk(disks[device].folder if device in disks else folder, purposes, free, total)
    return list(disks.values())


def _disk_space(folder: Path) -> tuple[int, int]:
    status = os.statvfs(folder)
    if not status.f_blocks:  # a file system without this information
        return _MIN_FREE_BYTES, _MIN_FREE_BYTES
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize


def _space(folder: Path) -> str:
    free, total = _disk_space(folder)
    return f"{format_bytes(free)} of {format_bytes(total)} are free"


def _resource_problem() -> HostError | None:
    try:
        for descriptor in os.pipe():
            os.close(descriptor)
    except OSError as error:
        return HostOutOfResources(f"no more files can be opened: {error.strerror}")
    return None


def count_cores() -> int:
    """The cores that this process may use: by its affinity, and by the CPU limit of its container or systemd unit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _own_cgroups():
        try:
            quota, period = (folder / "cpu.max").read_text().split()
        except OSError:
            continue  # the controller is not enabled in this group
        if quota != "max":
            cores = min(cores, max(1, math.ceil(int(quota) / int(period))))
    return cores


# --- memory. Only Linux has these files; elsewhere memory counts as sufficient.


def _memory_problem() -> HostError | None:
    for what, available, total in (*_machine_memory(), *_cgroup_memory()):
        if available < min(_MIN_MEMORY_BYTES, total * _MIN_MEMORY_SHARE):
            return HostOutOfMemory(f"{what} has {available >> 20:,} of {total >> 20:,} MiB of memory available")
    return None


def _machine_memory() -> Iterator[tuple[str, int, int]]:
    values = _numbers(Path("/proc/meminfo"), ":")
    if "MemAvailable" in values and "MemTotal" in values:
        yield "the machine", values["MemAvailable"] << 10, values["MemTotal"] << 10


def _cgroup_memory() -> Iterator[tuple[str, int, int]]:
    """The limits of a container or systemd unit."""
    for folder in _own_cgroups():
        try:
            limit, used = ((folder / name).read_text().strip() for name in ("memory.max", "memory.current"))
        except OSError:
            continue  # the controller is not enabled in this group
        if limit.isdecimal() and used.isdecimal():
            reclaimable = _numbers(folder / "memory.stat").get("inactive_file", 0)
            yield f"the control group {folder.name}", int(limit) - int(used) + reclaimable, int(limit)


def count_oom_kills() -> int:
    """How often the kernel's out-of-memory killer has killed a process: of this machine, or of a control group that
    reached its limit."""
    try:
        _, _, rest = Path("/proc/vmstat").read_bytes().partition(b"\noom_kill ")
    except OSError:
        return 0  # not Linux, or hidden from this process
    return int(rest.partition(b"\n")[0] or 0)


def _own_cgroups() -> Iterator[Path]:
    """The control group of this process and those above it (version 2)."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        if line.startswith("0::/"):
            group = _CGROUPS / line[4:]
            yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(_CGROUPS))


def _numbers(file: Path, separator: str = " ") -> dict[str, int]:
    """The lines `name number` of a file of the kernel; empty if this kernel lacks it."""
    try:
        lines = file.read_text().splitlines()
    except OSError:
        return {}
    pairs = (line.partition(separator)[::2] for line in lines)
    return {name: int(first) for name, value in pairs if (first := (value.split() or [""])[0]).isdecimal()}
