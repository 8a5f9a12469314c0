"""The reader processes of one document: one, or several for a large document if cores are free."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from clerk.errors import ReaderOutputInvalid, ReaderStalled
from clerk.host import count_cores
from clerk.ocr import cores
from clerk.ocr.protocol import PageResult, Request, Task
from clerk.ocr.reader_client import ReaderProcess
from clerk.ocr.reader_output import Inspected, raise_failure, read_inspected, read_pages

_POLL_INTERVAL = 1.0
_WALL_PER_CPU_SECOND = 10.0
"""Wall-clock limits, as multiples of limits on CPU time, so that good documents do not fail on a busy machine."""
_LARGE = 60
"""Pages. A document with more is processed in page ranges."""
_MIN_RANGE, _MAX_RANGE = 4, 50
_RANGES_PER_READER = 4
"""Ranges are short enough that the reader processes finish at about the same time."""
_SECOND_READER_AFTER = 2.0
"""Seconds. Documents without OCR are finished sooner, so more processes would only cost."""
_MAX_READERS = 8
_MAX_SCRATCH_BYTES = 2 << 30
_MAX_SCRATCH_FILES = 10_000
"""Of one reader process. Its limit on the size of a file does not limit the number of files."""


@dataclass
class _Reader:
    process: ReaderProcess
    scratch: Path
    last_output: float
    is_ready: bool = False
    """It has inspected the document."""
    requested: set[int] = field(default_factory=set)
    """Pages without a result."""


class DocumentReaders:
    """Starts the first reader process on entry. On exit all are killed. One thread uses it."""

    def __init__(self, task: Task, scratch: Path, check_cancelled: Callable[[], None]) -> None:
        self.task = task
        self.scratch = scratch
        self.check_cancelled = check_cancelled
        self.stall_timeout = _WALL_PER_CPU_SECOND * task.page_seconds
        self._readers: list[_Reader] = []
        self._resources = contextlib.ExitStack()
        self._last_check = time.monotonic()

    def __enter__(self) -> Self:
        # The first process runs also if no core is free.
        if (core := cores.take()) is not None:
            self._resources.callback(core.release)
        with self._resources:
            self._set_wall_limit(self.stall_timeout)
            self._start()
            self._resources = self._resources.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def inspect(self) -> Inspected:
        """What the first reader process found. Raises the errors of documents."""
        for reader, event in self._events():
            self._inspected = read_inspected(event, self.task.max_pages)
            reader.is_ready = True
            self._set_wall_limit(_WALL_PER_CPU_SECOND * self.task.cpu_limit(self._inspected.page_count))
            return self._inspected
        raise AssertionError("unreachable: _events ends with an exception")

    def results(self, todo: Sequence[int]) -> Iterator[tuple[Path, list[PageResult]]]:
        """Process pages; yield results as they are finished, with the folder of their images."""
        self._queue = deque(todo)
        self._has_ranges = len(todo) > _LARGE
        started = time.monotonic()
        self._request(self._readers[0])
        if not todo:
            return
        for reader, event in self._events():
            if not reader.is_ready:
                self._check_same(read_inspected(event, self.task.max_pages))
                reader.is_ready = True
                self._request(reader)
            elif event["event"] == "done":
                if reader.requested:
                    raise ReaderOutputInvalid(f"the OCR process returned no result for page {min(reader.requested)}")
                self._request(reader)
            else:
                results = read_pages(event, reader.requested)
                reader.requested -= {result.page for result in results}
                yield reader.scratch, results
            if not self._queue and not any(reader.requested for reader in self._readers):
                return
            if self._has_ranges and self._queue and time.monotonic() - started > _SECOND_READER_AFTER:
                self._start_another()

    def _request(self, reader: _Reader) -> None:
        """Give a reader process the next pages, if there are any."""
        remaining = len(self._queue)
        length = remaining
        if self._has_ranges:
            length = max(_MIN_RANGE, min(_MAX_RANGE, remaining // (_RANGES_PER_READER * max(2, len(self._readers)))))
        pages = [self._queue.popleft() for _ in range(min(length, remaining))]
        if pages:
            reader.requested = set(pages)
            reader.process.send(asdict(Request(pages, 1 / len(self._readers))))

    def _start_another(self) -> None:
        if len(self._readers) >= min(_MAX_READERS, count_cores()) or len(self._queue) <= _MIN_RANGE:
            return
        if (core := cores.take()) is not None:
            self._resources.callback(core.release)
            self._start()

    def _start(self) -> None:
        folder = self.scratch / str(len(self._readers) + 1)
        folder.mkdir(mode=0o700)
        process = self._resources.enter_context(ReaderProcess(replace(self.task, scratch=str(folder))))
        self._readers.append(_Reader(process, folder, time.monotonic()))

    def _check_same(self, inspected: Inspected) -> None:
        if inspected.page_count != self._inspected.page_count:
            raise ReaderOutputInvalid(
                f"two OCR processes found {self._inspected.page_count} and {inspected.page_count} pages"
            )

    def _events(self) -> Iterator[tuple[_Reader, dict[str, Any]]]:
        """Events of all reader processes, until one fails or exceeds a limit."""
        while True:
            by_descriptor = {reader.process.fileno(): reader for reader in self._readers}
            ready, _, _ = select.select(by_descriptor, [], [], _POLL_INTERVAL)
            now = time.monotonic()
            for descriptor in ready:
                reader = by_descriptor[descriptor]
                reader.last_output = now
                for event in reader.process.receive():
                    raise_failure(event)
                    yield reader, event
            self._check_time(now)

    def _set_wall_limit(self, seconds: float) -> None:
        self._wall_limit, self._deadline = seconds, time.monotonic() + seconds

    def _check_time(self, now: float) -> None:
        if now - self._last_check >= _POLL_INTERVAL:
            self._last_check = now
            self.check_cancelled()
            for reader in self._readers:
                _check_scratch(reader.scratch)
        for reader in self._readers:
            if (reader.requested or not reader.is_ready) and now - reader.last_output > self.stall_timeout:
                raise ReaderStalled(f"the OCR process wrote no output for {self.stall_timeout:.0f} s")
        if now > self._deadline:
            raise ReaderStalled(f"the OCR process did not finish within {self._wall_limit:.0f} s")


def _check_scratch(folder: Path) -> None:
    files = size = 0
    with os.scandir(folder) as entries:
        for entry in entries:
            files += 1
            with contextlib.suppress(FileNotFoundError):
                size += 512 * entry.stat(follow_symlinks=False).st_blocks
            if files > _MAX_SCRATCH_FILES or size > _MAX_SCRATCH_BYTES:
                raise ReaderOutputInvalid(
                    f"the OCR process wrote more than {_MAX_SCRATCH_BYTES >> 20} MiB"
                    f" or {_MAX_SCRATCH_FILES} files to its scratch folder"
                )
