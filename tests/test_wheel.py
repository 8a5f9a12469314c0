"""The wheel holds the SQL and works without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from clerk.db.migrations.sqlfiles import SqlFolder, default_folder

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", target],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = target.glob("clerk-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target / "site-packages")
    return target / "site-packages"


def run(unpacked: Path, *arguments: str) -> str:
    """Away from the checkout, with the wheel in front of whatever is installed here."""
    ran = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=unpacked.parent,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ran.stdout


def test_it_holds_all_the_sql(unpacked: Path) -> None:
    brought, ours = SqlFolder(unpacked / "clerk" / "_sql"), default_folder()
    assert brought.migrations == ours.migrations
    assert brought.objects == ours.objects
    for name in (
        "migrator_tables.sql",
        "grants.sql",
        "schema_query.sql",
        "schema.snapshot.sql",
        "procrastinate.down.sql",
    ):
        assert brought.read(name) == ours.read(name)


def test_it_finds_its_own_sql(unpacked: Path) -> None:
    asked = "from clerk.db.migrations.sqlfiles import default_folder as f; print(f().root, f().newest)"
    assert run(unpacked, "-c", asked) == f"{unpacked}/clerk/_sql {default_folder().newest}\n"


def test_its_command_runs(unpacked: Path) -> None:
    assert run(unpacked, "-m", "clerk", "--version").startswith("python -m clerk, version 0")
    entry_points = next(unpacked.glob("clerk-*.dist-info/entry_points.txt")).read_text()
    assert "clerk = clerk.cli:main" in entry_points
    assert "clerk-reconcile = clerk.cli.reconcile_pipeline:main" in entry_points
    assert not (unpacked / "tests").exists()
