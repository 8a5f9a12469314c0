"""Sites with real PDFs, processed by `clerk worker` with clerk's own tasks, and the contents of their archives."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
from fpdf import FPDF

from clerk.archive.content_hash import hash_content, open_readonly
from clerk.documents.storage import SiteStorage
from clerk.publish.versions import DATABASE, SiteVersions
from tests.faults.pipeline import ROOT, until


def write_documents(folder: Path, site: str, count: int) -> None:
    """The documents at the source: PDFs of two pages with a text layer."""
    council = folder / site / "Council"
    council.mkdir(parents=True)
    for day in range(1, count + 1):
        pdf = FPDF()
        pdf.set_font("Helvetica")
        for page in (1, 2):
            pdf.add_page()
            text = f"Minutes of {site}, meeting {day}, page {page}. Motion by Council Member Jane Doe. Carried 5-0. "
            pdf.multi_cell(0, text=text * 10)
        pdf.output(str(council / f"2024-{1 + day // 28:02}-{1 + day % 28:02}.pdf"))


@dataclass(frozen=True)
class Installation:
    url: str
    folder: Path
    sources: Path

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith(("CLERK_", "PG"))},
            "DATABASE_URL": self.url,
            "CLERK_HOME": str(self.folder),
            "STORAGE_DIR": str(self.storage),
            "PYTHONPATH": str(ROOT),
        }

    def clerk(self, *arguments: str, code: int = 0) -> str:
        """Run a command, require its exit code, and return its output."""
        done = subprocess.run(
            [sys.executable, "-m", "clerk", *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, f"clerk {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def add_sites(self, *sites: str) -> None:
        for site in sites:
            extra = json.dumps({"path": str(self.sources / site)})
            self.clerk("site", "add", site, "--name", site, "--scraper", "directory", "--extra", extra)

    @contextlib.contextmanager
    def workers(self, processes: int = 3) -> Iterator[Workers]:
        """A supervisor with its workers, stopped at the end of the context."""
        log = self.folder / "worker-log"
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "clerk", "worker", "--processes", str(processes)],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            workers = Workers(process.pid, log)
            until(lambda: len(workers.pids()) == processes, "the workers")
            yield workers
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    def content_hashes(self, *sites: str) -> dict[str, str]:
        """Of each meetings.db and its published copy."""
        hashes = {}
        for site in sites:
            published = SiteVersions(self.storage / "_published", site).current
            assert published is not None, f"{site} is not published"
            for name, path in (
                ("archive", SiteStorage(self.storage, site).database),
                ("published", published.path / DATABASE),
            ):
                with open_readonly(path) as connection:
                    hashes[f"{site} {name}"] = hash_content(connection)
        return hashes


@dataclass(frozen=True)
class Workers:
    supervisor: int
    log: Path

    def pids(self) -> set[int]:
        return {child.pid for child in psutil.Process(self.supervisor).children()}

    def has_logged(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")
