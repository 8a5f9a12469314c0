"""A small installation: one town, three documents of which one is broken, one finished run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from fpdf import FPDF

from clerk.db.embedded.server import bundled
from tests.conftest import Databases, Url, with_database
from tests.runbooks.pages import ROOT


@dataclass(frozen=True)
class Installation:
    database: Url
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        # The client programs of the server under test.
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], str(bundled(18))])
            if "CLERK_TEST_DATABASE_URL" in os.environ
            else os.pathsep.join([str(Path(sys.executable).parent), str(bundled(18)), os.environ["PATH"]]),
            "DATABASE_URL": self.database,
            "CLERK_HOME": str(self.folder / "home"),
            "STORAGE_DIR": str(self.folder / "storage"),
        }

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run in one shell, so that variables persist; the first failing command ends it."""
        trap = "trap 'echo \"failed with $?: $BASH_COMMAND\" >&2' ERR"
        return subprocess.run(
            ["bash", "-c", f"set -eo pipefail\n{trap}\n{script}"],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )


def write_documents(folder: Path) -> None:
    folder.mkdir(parents=True)
    for day in (1, 2):
        pdf = FPDF()
        pdf.add_page()
        pdf.set_font("Helvetica")
        pdf.multi_cell(0, text=f"The council met on day {day} and spoke about bike lanes at great length. " * 20)
        pdf.output(str(folder / f"2024-01-0{day}.pdf"))
    (folder / "2024-01-03.pdf").write_bytes(b"%PDF-1.7\nno more than a head\n")


@pytest.fixture(scope="session")
def first_installation(server: Url, template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    databases = Databases(server)
    folder = tmp_path_factory.mktemp("installation")
    write_documents(folder / "documents" / "Council")
    installation = Installation(databases.create(template), folder)
    done = installation.run(
        f"clerk site add springfield --name Springfield --scraper directory"
        f' --extra \'{{"path": "{folder}/documents"}}\'\n'
        "clerk update springfield\n"
        "clerk worker --until-idle --processes 2\n"
    )
    assert done.returncode == 0, done.stderr
    yield installation
    databases.drop_all()


@pytest.fixture
def installation(first_installation: Installation, server: Url, tmp_path: Path) -> Iterator[Installation]:
    """A copy for one page, with `bin/` as in a checkout."""
    databases = Databases(server)
    folder = tmp_path / "installation"
    shutil.copytree(first_installation.folder, folder, symlinks=True)
    (folder / "bin").symlink_to(ROOT / "bin")
    yield Installation(databases.create(first_installation.database.partition("?")[0].rpartition("/")[2]), folder)
    databases.created.append("clerk_restored")
    databases.drop_all()


@pytest.fixture
def restored_url(server: Url) -> Url:
    return with_database(server, "clerk_restored")
