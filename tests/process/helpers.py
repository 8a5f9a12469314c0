"""`clerk up` as a process of its own, with what it started, and towns for it to work on."""

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

until = partial(until_within, seconds=120.0)  # processes that start, on a machine that may be busy
ROOT = Path(__file__).parents[2]
DAY = date(2024, 3, 5)


class Up:
    """What it says, on either stream, goes to a file."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.said_in = folder / "said"
        with self.said_in.open("wb") as output:
            self.process = psutil.Popen(
                [sys.executable, "-m", "clerk", "up", *options],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT), "CLERK_HOME": str(folder / "home"), **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def said(self) -> str:
        return self.said_in.read_text(encoding="utf-8", errors="replace")

    def until_said(self, text: str) -> None:
        until(lambda: text in self.said or self.process.poll() is not None)
        assert text in self.said, self.said

    def dashboard(self) -> str:
        """Its address, once all are ready."""
        self.until_said("clerk is up")
        found = re.search(r"the dashboard at (http://\S+)", self.said)
        assert found, self.said
        return found[1]

    def children(self, command: str) -> list[psutil.Process]:
        """Those that run `clerk COMMAND`."""
        found = []
        for child in self.process.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cmdline()[2:4] == ["clerk", command]:
                    found.append(child)
        return found

    def descendants(self) -> list[psutil.Process]:
        return list(self.process.children(recursive=True))

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        return int(self.process.wait(120))

    def end(self) -> None:
        """Whatever the test came to: nothing of it stays."""
        left = self.descendants() if self.process.poll() is None else []
        for process in [self.process, *left]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()


def gone(processes: list[psutil.Process]) -> bool:
    """A zombie whose parent is gone waits for init, which a container may not have."""
    return not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes)


def papers(folder: Path, pictures: int = 0) -> Path:
    """A town's documents: one of text, and as many scanned ones as wanted, which take a while to read."""
    r = random.Random(1)  # noqa: S311 (not for secrets)
    write(folder / "City Council" / "2024-03-05.pdf", digital(r, "Springfield", DAY, 2))
    for number in range(pictures):
        write(folder / "City Council" / f"2023-03-{number + 1:02}.pdf", scanned(r, "Springfield", DAY, 2, HIDDEN_WORD))
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
    found: str | None = row[0]
    return found
