"""The name of a worker process in the database: its `application_name`, and the holder of its claims."""

from __future__ import annotations

import os
import socket
import uuid

_MAX_LENGTH = 63
"""Postgres cuts an application_name there."""
_MAX_PID = "4194304"
_PREFIX = f"{'0' * 12} clerk {_MAX_PID} "
_END = 17
"""Characters of a long host name's end: in Kubernetes, where a pod's name is its host name, the replicas of a
Deployment differ only there."""


def new_holder() -> str:
    """A name that no other process has or had: `<12 hex digits> clerk <pid> <host>`."""
    return f"{uuid.uuid4().hex[:12]} clerk {os.getpid()} {short_host(socket.gethostname())}"


def short_host(host: str) -> str:
    """The host as in the name of a worker process, the middle of a long one replaced by `~`."""
    length = _MAX_LENGTH - len(_PREFIX)
    return host if len(host) <= length else f"{host[: length - _END - 1]}~{host[-_END:]}"
