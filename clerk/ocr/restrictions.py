"""Restricts what processes that read untrusted files can access: files with Landlock, system calls with seccomp.

They can read the system's programs and libraries, Python, clerk's package and the given files, and write to the given
folders. They cannot use the network, Unix sockets such as that of Postgres, `/proc`, or other processes. Kernels
without Landlock or seccomp are reported by `clerk config` and `clerk status`; work continues without.
"""

from __future__ import annotations

import functools
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from clerk.ocr import landlock, seccomp
from clerk.process import prctl

REMEDY = "run workers on Linux 5.13 or newer with Landlock enabled; until then, as a user that owns nothing else"
"""For what `find_problem` finds."""
_PACKAGE = Path(__file__).parents[1]
_PROGRAMS = ("pdfinfo", "pdftotext", "pdfimages", "pdftoppm", "prlimit", "tesseract")
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store",
    "/etc/ld.so.cache", "/etc/fonts", "/var/cache/fontconfig",
    "/dev/urandom", "/dev/random", "/dev/zero", "/proc/vmstat",
)  # fmt: skip
_SYSTEM_PREFIXES = ("/usr", "/bin", "/sbin", "/lib")


def restrict_process(readable: Iterable[Path] = (), writable: Iterable[Path] = ()) -> None:
    """Permanently restrict this process and those that it starts, as far as the kernel supports it. The process must
    have one thread."""
    prctl.forbid_new_privileges()
    if landlock.version():
        rules = [(path, landlock.EXECUTE) for path in _system()]
        rules += [(path, landlock.READ) for path in readable]
        rules += [(path, landlock.WRITE) for path in (Path(os.devnull), *writable)]
        landlock.restrict(rules)
    if seccomp.is_supported():
        seccomp.restrict()


def prepare() -> None:
    """Do in a fork server what every process that it forks would do in `restrict_process`."""
    _system()
    if seccomp.is_supported():
        seccomp.own_filter()


def describe() -> str:
    """The restrictions that this kernel supports, for `clerk config`."""
    version = landlock.version()
    supported = [*([f"Landlock {version}"] if version else []), *(["seccomp"] if seccomp.is_supported() else [])]
    return ", ".join(supported) or "none"


def find_problem() -> str | None:
    """What this kernel lacks, in a sentence; None if nothing."""
    consequences = {
        "Landlock": "can read the files of their user" if not landlock.version() else "",
        "seccomp": "can open network connections" if not seccomp.is_supported() else "",
    }
    missing = {name: consequence for name, consequence in consequences.items() if consequence}
    if not missing:
        return None
    return f"this machine's kernel lacks {' and '.join(missing)}: OCR processes {' and '.join(missing.values())}"


@functools.cache
def _system() -> tuple[Path, ...]:
    """The files and folders, without those that another one contains: each costs system calls in every process."""
    paths = {path.resolve() for path in _find_system() if path.exists()}
    return tuple(sorted(path for path in paths if not any(parent in paths for parent in path.parents)))


def _find_system() -> Iterator[Path]:
    yield from map(Path, _SYSTEM)
    yield from (Path(sys.prefix), Path(sys.base_prefix), _PACKAGE)
    # Packages of a user. Not every folder of sys.path: the folder that contains clerk's package may contain its data.
    yield from (folder for folder in map(Path, sys.path) if folder.name in ("site-packages", "dist-packages"))
    for program in _PROGRAMS:
        if (found := shutil.which(program)) is not None:
            yield from _of_program(Path(found))


def _of_program(program: Path) -> Iterator[Path]:
    """The folder of a program, and the folders of its libraries and data if it is installed elsewhere than usual."""
    for path in {program, program.resolve()}:
        if not str(path).startswith(_SYSTEM_PREFIXES):
            yield path.parent
            yield from (path.parent.parent / name for name in ("lib", "lib64", "share"))
