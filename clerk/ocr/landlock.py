"""Landlock: a process of Linux restricts which files it, and every process that it starts, can access from then on.

https://docs.kernel.org/userspace-api/landlock.html. Also restricts TCP (version 4), and abstract Unix sockets and
signals to other processes (version 6). Landlock does not restrict Unix sockets with a path, `chmod` or `stat`:
`clerk.ocr.seccomp` does that for all but `stat`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""System calls; the numbers are the same on all architectures."""
_GET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_TRUNCATE = 1 << 14
_ALL_OF_VERSION_1 = (1 << 13) - 1
_ADDED = {2: 1 << 13, 3: _TRUNCATE, 5: 1 << 15}
"""Version → access right that it added: rename to another folder, truncate, device control."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_ALL_OF_TCP, _TCP_VERSION = 0b11, 4
_ALL_SCOPES, _SCOPE_VERSION = 0b11, 6

READ = _READ_FILE | _READ_DIR
EXECUTE = READ | _EXECUTE
WRITE = READ | _WRITE_FILE | _TRUNCATE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG
"""Read, write, create and delete files and folders; no links, sockets, pipes or devices, and no program is executed."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("access", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def version() -> int:
    """The version that the kernel supports; 0 if none."""
    if sys.platform != "linux":
        return 0
    return max(0, int(_library().syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)))


def restrict(rules: Iterable[tuple[Path, int]]) -> None:
    """Deny every access except the given ones. A rule is a file or folder, and READ, EXECUTE or WRITE; missing files
    are left out. The process must have `no_new_privs` (see `clerk.ocr.restrictions`)."""
    supported = version()
    handled = _ALL_OF_VERSION_1
    for added_in, right in _ADDED.items():
        handled |= right if supported >= added_in else 0
    attributes = _Ruleset(
        handled,
        _ALL_OF_TCP if supported >= _TCP_VERSION else 0,
        _ALL_SCOPES if supported >= _SCOPE_VERSION else 0,
    )
    size = {1: 8, 2: 8, 3: 8, 4: 16, 5: 16}.get(supported, ctypes.sizeof(attributes))
    library = _library()
    ruleset = _checked(library.syscall(_CREATE_RULESET, ctypes.byref(attributes), ctypes.c_size_t(size), 0))
    try:
        for path, access in rules:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                _add_rule(ruleset, path, access & handled)
        _checked(library.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)


def _add_rule(ruleset: int, path: Path, access: int) -> None:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _OF_FILES
        rule = _PathBeneath(access, descriptor)
        _checked(_library().syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(descriptor)


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
