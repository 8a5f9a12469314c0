"""CPU time of OCR per page, of a worker and all its child processes, through real jobs: this checkout and an older one
in turn, so that other load on the machine affects both.

The start of a worker is not counted: each worker processes a document before the measurement begins.
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    from tests.bench.ocr import Clerk

ROOT = Path(__file__).parents[2]
_POLL_INTERVAL = 0.2


@dataclass(frozen=True)
class Round:
    cpu: float
    wall: float
    memory: int
    """Peak of the proportional set size: memory that several processes share counts once."""


class Tree:
    """CPU time and memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        self.root = psutil.Process(pid)
        self.peak = 0

    def _processes(self) -> list[psutil.Process]:
        return [self.root, *self.root.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """Includes children that have ended and were waited for."""
        total = 0.0
        for process in self._processes():
            try:
                total += sum(process.cpu_times()[:4])
            except psutil.NoSuchProcess:
                continue  # it has ended since; its time is in that of its parent at the next call
        return total

    def sample_memory(self) -> None:
        size = 0
        for process in self._processes():
            try:
                size += process.memory_full_info().pss
            except psutil.Error:
                continue  # it has ended since
        self.peak = max(self.peak, size)


def start_worker(clerk: Clerk, checkout: Path) -> subprocess.Popen[bytes]:
    python = sys.executable if checkout == ROOT else str(checkout / ".venv" / "bin" / "python")
    command = [python, "-m", "procrastinate", "--app=clerk.app.app", "worker", "--queues=ocr"]
    environment = {**os.environ, "DATABASE_URL": clerk.url, "STORAGE_DIR": str(clerk.root), "PYTHONPATH": str(checkout)}
    # `python -m` imports from the current folder first.
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env=environment, cwd=checkout, stdout=quiet, stderr=quiet)


def _wait(clerk: Clerk, subdomain: str, each: Callable[[], None]) -> None:
    """Wait until every document of a site has a result."""
    query = """
        select count(*) from content_item_pipeline_state l join content_items i on i.id = l.content_item_id
        where i.subdomain = %s and l.pipeline = 'ocr' and l.status not in ('processed', 'failed_terminal')
    """
    while True:
        row = clerk.connection.execute(query, [subdomain]).fetchone()
        if row == (0,):
            return
        each()
        time.sleep(_POLL_INTERVAL)


def run_round(clerk: Clerk, checkout: Path, files: Sequence[Path], name: str) -> Round:
    worker = start_worker(clerk, checkout)
    try:
        tree = Tree(worker.pid)
        clerk.site(f"{name}-warm-up", [files[0]])
        _wait(clerk, f"{name}-warm-up", lambda: None)
        clerk.site(name, files)
        before, started = tree.cpu_seconds(), time.monotonic()
        _wait(clerk, name, tree.sample_memory)
        wall, cpu = time.monotonic() - started, tree.cpu_seconds() - before
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    return Round(cpu, wall, tree.peak)


def compare(
    clerk: Clerk, files: Sequence[Path], pages: int, before: Path | None, rounds: int, name: str
) -> dict[str, Any]:
    """Medians over the rounds, per checkout."""
    checkouts = {"after": ROOT} | ({"before": before} if before is not None else {})
    measured: dict[str, list[Round]] = {which: [] for which in checkouts}
    for number in range(rounds):
        for which, checkout in checkouts.items():
            measured[which].append(run_round(clerk, checkout, files, f"{name}-{which}-{number}"))
    return {
        which: {
            "cpu_milliseconds_per_page": round(1000 * statistics.median(one.cpu for one in all_rounds) / pages, 2),
            "seconds": round(statistics.median(one.wall for one in all_rounds), 2),
            "peak_megabytes": round(max(one.memory for one in all_rounds) / 1e6),
        }
        for which, all_rounds in measured.items()
    }
