"""Documents that lie on this machine's disk."""

from __future__ import annotations

import asyncio
from pathlib import Path

from clerk.errors import DownloadRefused
from clerk.sources.http.client import FetchResult, Sink, Validators

_PIECE = 1 << 20


def version_of(path: Path) -> str:
    """Changes when the file is written again; spares reading it when it was not."""
    status = path.stat()
    return f"{status.st_mtime_ns}-{status.st_size}"


def is_below(path: Path, folder: Path) -> bool:
    """Not by way of `..` nor of a link: the file itself lies in the folder."""
    return path.is_file() and path.resolve().is_relative_to(folder.resolve())


async def copy(path: Path, folder: Path, sink: Sink) -> FetchResult:
    await asyncio.to_thread(_copy, path, folder, sink)
    return FetchResult(path.as_uri(), validators=Validators())


def _copy(path: Path, folder: Path, sink: Sink) -> None:
    try:
        if not is_below(path, folder):
            raise DownloadRefused(f"{path} is not a file in {folder}")
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                sink.write(piece)
    except OSError as error:
        if error.filename is None:
            raise  # the sink's: our own disk
        raise DownloadRefused(f"{path} cannot be read ({error.strerror})") from error
