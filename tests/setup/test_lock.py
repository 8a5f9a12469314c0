"""bin/lock: uv.lock matches pyproject.toml and contains no URL."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.setup.conftest import Prepared
from tests.setup.machine import SOURCE, Machine

# Split, so that this file does not match.
REGISTRIES = re.compile(rf"(pypi|npmjs|debian|ubuntu|docker|ghcr)[.](org|com|io)\b|python{'hosted'}|crates[.]io")


@pytest.fixture
def checkout(prepared: Prepared, tmp_path: Path) -> Path:
    """The files that bin/lock reads; .venv is the shared one."""
    root = tmp_path / "checkout"
    root.mkdir()
    shutil.copytree(prepared.root / "bin", root / "bin")
    for name in ("pyproject.toml", "uv.lock"):
        shutil.copy(prepared.root / name, root)
    (root / ".venv").symlink_to(prepared.root / ".venv")
    return root


def add_dependency(root: Path, requirement: str) -> None:
    project = root / "pyproject.toml"
    project.write_text(
        project.read_text().replace("dependencies = [\n", f'dependencies = [\n    "{requirement}",\n', 1)
    )


def test_check_without_a_network(machine: Machine, checkout: Path, tmp_path: Path) -> None:
    offline = {"UV_OFFLINE": "1", "UV_CACHE_DIR": str(tmp_path / "empty")}
    assert machine.run(checkout / "bin/lock", "--check", environment=offline).silent
    add_dependency(checkout, "packaging>=20")
    drifted = machine.run(checkout / "bin/lock", "--check", environment=offline)
    assert drifted.code == 1
    assert drifted.err == "bin/lock: uv.lock is out of date; run bin/lock\n"


def test_check_rejects_urls(machine: Machine, checkout: Path) -> None:
    lock = checkout / "uv.lock"
    lock.write_text(lock.read_text().replace('registry = "index"', 'registry = "https://index.example"', 1))
    result = machine.run(checkout / "bin/lock", "--check")
    assert result.code == 1
    assert result.err == "bin/lock: uv.lock contains URLs; run bin/lock\n"


def test_a_new_dependency_does_not_change_others(machine: Machine, checkout: Path) -> None:
    before = (checkout / "uv.lock").read_text().splitlines()
    add_dependency(checkout, "iniconfig>=1")
    result = machine.run(checkout / "bin/lock")
    assert result.code == 0, result.err
    after = (checkout / "uv.lock").read_text().splitlines()
    assert sorted(set(after) - set(before)) == ['    { name = "iniconfig", specifier = ">=1" },']
    assert "://" not in "\n".join(after)
    assert machine.run(checkout / "bin/lock", "--check").silent


def test_wrong_usage(machine: Machine, checkout: Path) -> None:
    assert machine.run(checkout / "bin/lock", "--chek").code == 2
    assert "--upgrade" in machine.run(checkout / "bin/lock", "--help").out


def test_no_file_names_a_registry() -> None:
    """Each machine chooses its package index; an address in a file would override that."""
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, text=True
    )
    files = [SOURCE / name for name in listed.split("\0") if name]
    assert SOURCE / "uv.lock" in files
    named = {
        str(file.relative_to(SOURCE)): found.group()
        for file in files
        if file.is_file() and (found := REGISTRIES.search(file.read_text(errors="replace")))
    }
    assert named == {}
