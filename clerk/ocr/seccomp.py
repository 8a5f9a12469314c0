"""Seccomp: a process of Linux gives up system calls, for itself and every process that it starts.

The calls that poppler, tesseract and Python need vary with their versions, so calls are denied by name, not allowed by
name: sockets of every kind, access to other processes, shared memory, io_uring, changes of owners, modes and times of
files, and calls for administrators. A denied call fails with EPERM.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import platform
import struct
import sys
from dataclasses import dataclass

_PR_GET_SECCOMP, _PR_SET_SECCOMP, _MODE_FILTER = 21, 22, 2
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ERRNO, _ALLOW = 0x8000_0000, 0x0005_0000, 0x7FFF_0000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in `struct seccomp_data`; of the argument, its lower 32 bits."""
_X32_BIT = 0x4000_0000
"""System calls of x86-64's ABI with 32-bit pointers have this bit."""
_NEW_NAMESPACES = 0x7E02_0000
"""The flags of `clone` that create a namespace."""

# Since Linux 5.1 new calls have the same number everywhere.
_DENIED_EVERYWHERE = {
    "pidfd_send_signal": 424, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "pidfd_open": 434,
    "pidfd_getfd": 438, "process_madvise": 440, "mount_setattr": 442, "process_mrelease": 448, "fchmodat2": 452,
    "setxattrat": 463, "removexattrat": 466,
}  # fmt: skip
_DENIED_X86_64 = {
    "shmget": 29, "shmat": 30, "shmctl": 31, "socket": 41, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45,
    "sendmsg": 46, "recvmsg": 47, "bind": 49, "listen": 50, "socketpair": 53, "semget": 64, "semop": 65, "semctl": 66,
    "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93,
    "lchown": 94, "ptrace": 101, "syslog": 103, "utime": 132, "personality": 135, "pivot_root": 155, "chroot": 161,
    "acct": 163, "settimeofday": 164, "mount": 165, "umount2": 166, "swapon": 167, "swapoff": 168, "reboot": 169,
    "sethostname": 170, "setdomainname": 171, "iopl": 172, "ioperm": 173, "init_module": 175, "delete_module": 176,
    "quotactl": 179, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "removexattr": 197, "lremovexattr": 198,
    "fremovexattr": 199, "semtimedop": 220, "clock_settime": 227, "utimes": 235, "mq_open": 240, "mq_unlink": 241,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "fchownat": 260, "futimesat": 261,
    "fchmodat": 268, "unshare": 272, "utimensat": 280, "accept4": 288, "perf_event_open": 298, "recvmmsg": 299,
    "name_to_handle_at": 303, "open_by_handle_at": 304, "sendmmsg": 307, "setns": 308, "process_vm_readv": 310,
    "process_vm_writev": 311, "kcmp": 312, "finit_module": 313, "kexec_file_load": 320, "bpf": 321, "userfaultfd": 323,
}  # fmt: skip
_DENIED_ARM64 = {
    "setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16,
    "umount2": 39, "mount": 40, "pivot_root": 41, "chroot": 51, "fchmod": 52, "fchmodat": 53, "fchownat": 54,
    "fchown": 55, "quotactl": 60, "utimensat": 88, "acct": 89, "personality": 92, "unshare": 97, "kexec_load": 104,
    "init_module": 105, "delete_module": 106, "clock_settime": 112, "syslog": 116, "ptrace": 117, "reboot": 142,
    "sethostname": 161, "setdomainname": 162, "settimeofday": 170, "mq_open": 180, "mq_unlink": 181, "msgget": 186,
    "msgctl": 187, "msgrcv": 188, "msgsnd": 189, "semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193,
    "shmget": 194, "shmctl": 195, "shmat": 196, "socket": 198, "socketpair": 199, "bind": 200, "listen": 201,
    "accept": 202, "connect": 203, "sendto": 206, "recvfrom": 207, "sendmsg": 211, "recvmsg": 212, "add_key": 217,
    "request_key": 218, "keyctl": 219, "swapon": 224, "swapoff": 225, "perf_event_open": 241, "accept4": 242,
    "recvmmsg": 243, "name_to_handle_at": 264, "open_by_handle_at": 265, "setns": 268, "sendmmsg": 269,
    "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "finit_module": 273, "bpf": 280,
    "userfaultfd": 282, "kexec_file_load": 294,
}  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    audit_number: int
    """The kernel's number of the architecture. A program can make calls of another one, such as 32-bit calls."""
    denied: dict[str, int]
    clone: int
    prlimit64: int
    has_x32: bool = False


ARCHITECTURES = {
    "x86_64": Architecture(0xC000_003E, _DENIED_X86_64 | _DENIED_EVERYWHERE, clone=56, prlimit64=302, has_x32=True),
    "aarch64": Architecture(0xC000_00B7, _DENIED_ARM64 | _DENIED_EVERYWHERE, clone=220, prlimit64=261),
}
_CLONE3 = 435


def is_supported() -> bool:
    """Whether the kernel has seccomp, and this module knows the architecture's system calls."""
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_GET_SECCOMP, 0, 0, 0, 0) >= 0)


def restrict() -> None:
    """Deny the calls. The process must have `no_new_privs` (see `clerk.ocr.restrictions`)."""
    instructions = own_filter()
    program = ctypes.create_string_buffer(instructions, len(instructions))
    header = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(program))
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


@functools.cache
def own_filter() -> bytes:
    return build_filter(ARCHITECTURES[platform.machine()])


def build_filter(architecture: Architecture) -> bytes:
    """The filter as instructions of the kernel's packet filter machine; jumps are relative."""
    deny = _instruction(_RETURN, _ERRNO | errno.EPERM)
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_JUMP_EQUAL, architecture.audit_number, 1, 0),
        _instruction(_RETURN, _KILL),
        _instruction(_LOAD, _NUMBER),
    ]
    if architecture.has_x32:
        program += [_instruction(_JUMP_AT_LEAST, _X32_BIT, 0, 1), deny]
    for number in sorted(architecture.denied.values()):
        program += [_instruction(_JUMP_EQUAL, number, 0, 1), deny]
    # The C library then uses `clone`, whose flags can be inspected.
    program += [_instruction(_JUMP_EQUAL, _CLONE3, 0, 1), _instruction(_RETURN, _ERRNO | errno.ENOSYS)]
    program += [
        _instruction(_JUMP_EQUAL, architecture.clone, 0, 3),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_JUMP_SET, _NEW_NAMESPACES, 0, 5),
        deny,
        # Limits of the own process only: argument 0. Others of the same user include the worker.
        _instruction(_JUMP_EQUAL, architecture.prlimit64, 0, 3),
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_JUMP_EQUAL, 0, 1, 0),
        deny,
        _instruction(_RETURN, _ALLOW),
    ]
    return b"".join(program)


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", code, if_true, if_false, value)
