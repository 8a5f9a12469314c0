"""Documents in the local file system, for the fetchers `directory` and `manifest`."""

from __future__ import annotations

import asyncio
import errno
import getpass
import os
import socket
from pathlib import Path

from clerk.errors import DownloadRefused, FetchError, LocalPathForbidden, LocalPathMissing
from clerk.sources.http.client import FetchResult, Sink, Validators

_CHUNK_SIZE = 1 << 20


def unreadable(path: Path, error: OSError) -> FetchError:
    """The error of clerk for a folder or file that cannot be read, with the machine and its user."""
    host = socket.gethostname()
    if error.errno in (errno.EACCES, errno.EPERM):
        return LocalPathForbidden(f"user {_user()} may not read {path} on {host}")
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return LocalPathMissing(f"{path} does not exist on {host}")
    return LocalPathMissing(f"{path} on {host} cannot be read ({error.strerror})")


def require_folder(folder: Path) -> None:
    """Raise an error that says what is wrong if a folder cannot be listed."""
    try:
        with os.scandir(folder):
            return
    except NotADirectoryError as error:
        raise LocalPathMissing(f"{folder} on {socket.gethostname()} is a file, not a folder") from error
    except FileNotFoundError as error:
        raise LocalPathMissing(f"the folder {folder} does not exist on {socket.gethostname()}") from error
    except OSError as error:
        raise unreadable(folder, error) from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user without a name
        return str(os.getuid())


def version_of(path: Path) -> str:
    """Modification time and size: an unchanged file need not be read."""
    status = path.stat()
    return f"{status.st_mtime_ns}-{status.st_size}"


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a regular file is in the folder, after resolving `..` and symbolic links."""
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


async def copy(path: Path, folder: Path, sink: Sink) -> FetchResult:
    await asyncio.to_thread(_copy, path, folder, sink)
    return FetchResult(path.as_uri(), validators=Validators())


def _copy(path: Path, folder: Path, sink: Sink) -> None:
    try:
        if not is_inside(path, folder):
            raise DownloadRefused(f"{path} is not a file in {folder}")
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_SIZE):
                sink.write(chunk)
    except OSError as error:
        if error.filename is None:
            raise  # the sink could not be written
        raise unreadable(path, error) from error
