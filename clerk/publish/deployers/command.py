"""Runs the operator's command, CLERK_DEPLOY_COMMAND, with the path of the database as its last argument.

The command comes from the environment of the worker only: a row of a table must not be able to run programs. No shell
is involved. CLERK_SITE and CLERK_DATABASE tell it the same; its standard input is empty. It runs in a process group of
its own, which is ended as a whole, when the command is over or its time is.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from pathlib import Path
from typing import IO

from clerk import config
from clerk.documents.storage import SiteStorage
from clerk.errors import CommandFailed, CommandTimeout, CommandUnset
from clerk.plugins.hookspecs import hookimpl

_GRACE = 5.0
"""Seconds between asking a command to end and ending it."""
_LAST_WORDS = 400


@hookimpl
def deploy_municipality(subdomain: str) -> str:
    settings = config.load()
    if settings.deploy_command is None:
        raise CommandUnset(f"{subdomain} is to be deployed by command, but CLERK_DEPLOY_COMMAND is not set")
    database = SiteStorage(settings.storage_dir, subdomain).database
    return run(settings.deploy_command, subdomain, database, settings.deploy_time_limit)


def run(command: tuple[str, ...], subdomain: str, database: Path, limit: float) -> str:
    """The last line that the command printed."""
    environment = {**os.environ, "CLERK_SITE": subdomain, "CLERK_DATABASE": str(database)}
    try:
        process = subprocess.Popen(
            [*command, str(database)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandFailed(f"{command[0]} cannot be run: {error}") from error
    assert process.stdout is not None
    said: deque[bytes] = deque(maxlen=8)
    listener = threading.Thread(target=_listen, args=(process.stdout, said), daemon=True)
    listener.start()
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        _end(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        raise CommandTimeout(f"{command[0]} was ended after {limit:g} s") from None
    finally:
        _end(process, signal.SIGKILL)  # whatever it left running
        process.wait()
        listener.join(_GRACE)
        if not listener.is_alive():
            process.stdout.close()
    words = b"".join(said)[-_LAST_WORDS:].decode(errors="replace").replace("\0", "").strip()
    if code != 0:
        raise CommandFailed(f"{command[0]} ended with code {code}" + (f": {words}" if words else ""))
    return words.splitlines()[-1] if words else ""


def _listen(stream: IO[bytes], said: deque[bytes]) -> None:
    """Keeps the last of what is said, whatever its length."""
    with contextlib.suppress(ValueError, OSError):
        while piece := stream.read1(1024) if hasattr(stream, "read1") else stream.read(1024):
            said.append(piece)


def _end(process: subprocess.Popen[bytes], with_signal: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, with_signal)
