"""The wheel contains the SQL files and the documentation, and works without a checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from clerk.db.migrations.sqlfiles import SqlFolder, default_folder
from clerk.web.documentation import names

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
    """Run Python outside the checkout, with the wheel before all installed packages."""
    completed = subprocess.run(
        [sys.executable, "-P", *arguments],
        cwd=unpacked.parent,
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        text=True,
        check=True,
    )
    return completed.stdout


def test_the_wheel_contains_all_sql_files(unpacked: Path) -> None:
    packaged, source = SqlFolder(unpacked / "clerk" / "_sql"), default_folder()
    assert packaged.migrations == source.migrations
    assert packaged.objects == source.objects
    for name in (
        "migrator_tables.sql",
        "grants.sql",
        "replaced_triggers.sql",
        "schema_query.sql",
        "schema.snapshot.sql",
        "procrastinate.down.sql",
    ):
        assert packaged.read(name) == source.read(name)


def test_the_wheel_uses_its_own_sql_files(unpacked: Path) -> None:
    code = "from clerk.db.migrations.sqlfiles import default_folder as f; print(f().root, f().newest)"
    assert run(unpacked, "-c", code) == f"{unpacked}/clerk/_sql {default_folder().newest}\n"


def test_the_wheel_serves_its_own_documentation(unpacked: Path) -> None:
    code = "from clerk.web.documentation import FOLDER, names; print(FOLDER, len(names()))"
    assert run(unpacked, "-c", code) == f"{unpacked}/clerk/_docs {len(names())}\n"


def test_the_command_runs(unpacked: Path) -> None:
    assert run(unpacked, "-m", "clerk", "--version").startswith("python -m clerk, version 0")
    entry_points = next(unpacked.glob("clerk-*.dist-info/entry_points.txt")).read_text()
    assert "clerk = clerk.cli:main" in entry_points
    assert "clerk-reconcile = clerk.cli.reconcile_pipeline:main" in entry_points
    assert not (unpacked / "tests").exists()


def test_the_wheel_has_what_plugin_authors_need(unpacked: Path) -> None:
    assert (unpacked / "clerk" / "py.typed").is_file()
    entry_points = next(unpacked.glob("clerk-*.dist-info/entry_points.txt")).read_text()
    assert "[pytest11]\nclerk = clerk.testing" in entry_points
    run(unpacked, "-m", "clerk", "plugins", "new", "mine", "--to", str(unpacked.parent))
    assert (unpacked.parent / "mine" / "mine.py").is_file()
