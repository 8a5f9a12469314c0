"""Linux's `prctl`: attributes of the calling process. Other systems lack it; there the functions do nothing."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38


def _prctl(option: int, value: int | bytes) -> None:
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None, use_errno=True)
    argument = ctypes.c_char_p(value) if isinstance(value, bytes) else ctypes.c_ulong(value)
    if library.prctl(option, argument, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")


def set_name(name: str) -> None:
    """The name that `ps` and `top` show; at most 15 characters."""
    _prctl(_PR_SET_NAME, name.encode())


def kill_with_parent() -> None:
    """The kernel kills this process when its parent ends: the thread that started it, so the parent must have one."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def become_subreaper() -> None:
    """Become the parent of descendants whose own parent ends, so that they are reaped and their CPU time is counted."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def disable_dumps() -> None:
    """Make this process's environment and memory unreadable for other processes of the same user. They contain the
    database URL. Also disables core dumps and debuggers, except for root."""
    _prctl(_PR_SET_DUMPABLE, 0)


def forbid_new_privileges() -> None:
    """Programs that this process executes cannot gain privileges. Landlock and seccomp require it."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
