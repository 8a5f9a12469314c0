"""Documents in the local file system, for the fetchers `directory` and `manifest`."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clerk.errors import DownloadRefused
from clerk.sources.http.client import FetchResult, Sink, Validators

_CHUNK_SIZE = 1 << 20


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
        raise DownloadRefused(f"{path} cannot be read ({error.strerror})") from error
