"""What the processes of every peer share: their options, and a report of the jobs that a worker has run.

Runs in the environment of the peer, so it imports only the standard library.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

WRITE_INTERVAL = 0.05


@dataclass(frozen=True)
class Options:
    """The one argument of a peer's script, as JSON."""

    command: str
    """`enqueue` or `work`."""
    url: str
    sites: int
    units_per_site: int
    concurrency: int
    threads: bool
    tuned: bool
    """Settings and code that are faster than what the peer's documentation shows."""
    reports: str
    """The folder of the reports, one file per worker."""

    @classmethod
    def from_command_line(cls) -> Options:
        return cls(**json.loads(sys.argv[1]))

    def site_of_each_unit(self) -> list[int]:
        """The argument of each job in the order of enqueuing: site after site, as clerk enqueues them."""
        return [site for site in range(self.sites) for _ in range(self.units_per_site)]


@dataclass
class Counts:
    """What a worker has run so far. The times are those of `time.monotonic()`."""

    units: int = 0
    coordinators: int = 0
    first_start: float = 0.0
    last_end: float = 0.0


class Report:
    """Counts the jobs of this worker; a thread writes the counts to a file."""

    def __init__(self, options: Options) -> None:
        self._file = Path(options.reports) / f"{os.getpid()}.json"
        self._counts = Counts()
        self._lock = threading.Lock()

    def wait_for_start(self) -> None:
        """Write the first report, which says that this worker is ready, and wait until the benchmark closes stdin."""
        self.write()
        sys.stdin.read()
        threading.Thread(target=self._write_repeatedly, daemon=True).start()

    @contextlib.contextmanager
    def unit(self) -> Iterator[None]:
        """Count the job whose body is the `with` block."""
        start = time.monotonic()
        yield
        end = time.monotonic()
        with self._lock:
            self._counts.units += 1
            self._counts.first_start = min(self._counts.first_start or start, start)
            self._counts.last_end = max(self._counts.last_end, end)

    def count_coordinator(self) -> None:
        with self._lock:
            self._counts.coordinators += 1

    def _write_repeatedly(self) -> None:
        while True:
            time.sleep(WRITE_INTERVAL)
            self.write()

    def write(self) -> None:
        with self._lock:
            content = json.dumps(asdict(self._counts))
        draft = self._file.with_suffix(".draft")
        draft.write_text(content)
        draft.rename(self._file)
