"""`clerk up` as a child process, its descendants, and sites for it to process."""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
from datetime import date
from functools import partial
from pathlib import Path

import psutil
import psycopg

from clerk.db.sites import add_site
from clerk.demo.documents import HIDDEN_WORD, digital, scanned
from clerk.documents.storage import write
from tests.helpers import until as until_within

until = partial(until_within, seconds=120.0)  # a busy machine starts processes slowly
ROOT = Path(__file__).parents[2]
DAY = date(2024, 3, 5)


class Up:
    """A running `clerk up`, with its output in a file."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.output_file = folder / "output"
        with self.output_file.open("wb") as output:
            self.process = psutil.Popen(
                [sys.executable, "-m", "clerk", "up", *options],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "CLERK_HOME": str(folder / "home"), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def output(self) -> str:
        return self.output_file.read_text(encoding="utf-8", errors="replace")

    def wait_for_output(self, text: str) -> None:
        until(lambda: text in self.output or self.process.poll() is not None)
        assert text in self.output, self.output

    def dashboard(self) -> str:
        """The dashboard's address. Waits until all processes are ready."""
        self.wait_for_output("clerk is up")
        address = re.search(r"the dashboard at (http://\S+)", self.output)
        assert address, self.output
        return address[1]

    def children(self, command: str) -> list[psutil.Process]:
        """Child processes that run `clerk COMMAND`."""
        matching = []
        for child in self.process.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cmdline()[2:4] == ["clerk", command]:
                    matching.append(child)
        return matching

    def descendants(self) -> list[psutil.Process]:
        return list(self.process.children(recursive=True))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return int(self.process.wait(120))

    def end(self) -> None:
        """Kill it and all its descendants."""
        remaining = self.descendants() if self.process.poll() is None else []
        for process in [self.process, *remaining]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


def have_exited(processes: list[psutil.Process]) -> bool:
    """A zombie counts as exited: its parent has exited, and a container may have no init to reap it."""
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def write_documents(folder: Path, scans: int = 0) -> Path:
    """A site's documents: one with text, and `scans` scanned ones, whose OCR takes a while."""
    rng = random.Random(1)  # noqa: S311 (not for secrets)
    write(folder / "City Council" / "2024-03-05.pdf", digital(rng, "Springfield", DAY, 2))
    for number in range(scans):
        write(
            folder / "City Council" / f"2023-03-{number + 1:02}.pdf", scanned(rng, "Springfield", DAY, 2, HIDDEN_WORD)
        )
    return folder


def add(connection: psycopg.Connection, subdomain: str, folder: Path, **extra: object) -> None:
    values = {
        "name": subdomain,
        "state": "IL",
        "kind": "city",
        "scraper": "directory",
        "extra": json.dumps({"path": str(folder), **extra}),
    }
    assert add_site(connection, subdomain, values)


def outcome(connection: psycopg.Connection, subdomain: str) -> str | None:
    row = connection.execute("select outcome from sites where subdomain = %s", [subdomain]).fetchone()
    assert row is not None
    result: str | None = row[0]
    return result
