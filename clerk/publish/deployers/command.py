"""Runs the operator's command, CLERK_DEPLOY_COMMAND, with the path of the database as its last argument.

The command comes only from the worker's environment: a database row must not be able to run programs. No shell is used.
The environment variables CLERK_SITE and CLERK_DATABASE name the site and the file; stdin is empty. Of the worker's
environment it gets all but clerk's own credentials. The command runs in its own process group, which is killed when the
command exits or exceeds its time limit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections import deque
from pathlib import Path
from typing import IO

from clerk import config
from clerk.documents.storage import SiteStorage, local_copy, make_folder
from clerk.errors import CommandFailed, CommandTimeout, CommandUnset
from clerk.object_storage.path import ObjectPath
from clerk.plugins.hookspecs import hookimpl

_KILL_DELAY = 5.0
"""Seconds between SIGTERM and SIGKILL."""
_MAX_OUTPUT = 400
_CREDENTIALS = frozenset(
    {
        "DATABASE_URL",
        "CLERK_DIRECT_DATABASE_URL",
        "REDIS_URL",
        "CLERK_DASHBOARD_TOKEN",
        "CLERK_SMTP_PASSWORD",
        "CREDENTIALS_DIRECTORY",
    }
)


@hookimpl
def deploy_municipality(subdomain: str) -> str:
    settings = config.load()
    if settings.deploy_command is None:
        raise CommandUnset(f"{subdomain} uses the deployer command, but CLERK_DEPLOY_COMMAND is not set")
    database = SiteStorage(settings.storage_dir, subdomain).database
    if not isinstance(database, ObjectPath):
        return run(settings.deploy_command, subdomain, database, settings.deploy_time_limit)
    # A copy with its own name, which the command may change: others read the one in the cache.
    make_folder(database.cache.work_folder)
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=database.cache.work_folder) as folder:
        copy = Path(folder) / database.name
        with local_copy(database) as file:
            shutil.copyfile(file, copy)
        return run(settings.deploy_command, subdomain, copy, settings.deploy_time_limit)


def run(command: tuple[str, ...], subdomain: str, database: Path, limit: float) -> str:
    """Run the command and return the last line of its output."""
    environment = {name: value for name, value in os.environ.items() if not _is_credential(name)}
    environment |= {"CLERK_SITE": subdomain, "CLERK_DATABASE": str(database)}
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
    chunks: deque[bytes] = deque(maxlen=8)
    reader = threading.Thread(target=_read_output, args=(process.stdout, chunks), daemon=True)
    reader.start()
    try:
        code = process.wait(limit)
    except subprocess.TimeoutExpired:
        _signal_group(process, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILL_DELAY)
        raise CommandTimeout(f"{command[0]} was killed after {limit:g} s") from None
    finally:
        _signal_group(process, signal.SIGKILL)  # including its child processes
        process.wait()
        reader.join(_KILL_DELAY)
        if not reader.is_alive():
            process.stdout.close()
    output = b"".join(chunks)[-_MAX_OUTPUT:].decode(errors="replace").replace("\0", "").strip()
    if code != 0:
        raise CommandFailed(f"{command[0]} exited with code {code}" + (f": {output}" if output else ""))
    return output.splitlines()[-1] if output else ""


def _is_credential(name: str) -> bool:
    """Whether a variable is a credential of clerk itself, or names its file. PGPASSWORD and others are libpq's; the
    headers of OpenTelemetry's requests may contain a key."""
    return name in _CREDENTIALS or name.startswith("PG") or (name.startswith("OTEL_") and name.endswith("_HEADERS"))


def _read_output(stream: IO[bytes], chunks: deque[bytes]) -> None:
    """Read until end-of-file; the deque keeps the last chunks."""
    with contextlib.suppress(ValueError, OSError):
        while chunk := stream.read1(1024) if hasattr(stream, "read1") else stream.read(1024):
            chunks.append(chunk)


def _signal_group(process: subprocess.Popen[bytes], signal_number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal_number)
