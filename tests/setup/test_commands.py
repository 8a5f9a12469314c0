"""bin/clerk, bin/migrate, bin/demo and bin/test run the right commands in the right folder."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from tests.setup.conftest import Prepared
from tests.setup.machine import SOURCE, Machine


@pytest.fixture
def checkout(prepared: Prepared, tmp_path: Path) -> Path:
    """A copy of the prepared checkout; its stamp is adapted, or bin/setup would create .venv again."""
    root = tmp_path / "a checkout"
    shutil.copytree(prepared.root, root, symlinks=True, copy_function=os.link)
    stamp = root / ".venv/clerk-setup"
    text = stamp.read_text().replace(str(prepared.root), str(root), 1)
    stamp.unlink()
    stamp.write_text(text)
    return root


def test_clerk_runs_in_the_current_folder(machine: Machine, prepared: Prepared, tmp_path: Path) -> None:
    link = tmp_path / "clerk"
    link.symlink_to(prepared.root / "bin/clerk")
    result = machine.run(link, "config", "--json", cwd=tmp_path)
    assert (result.code, result.err) == (0, "")
    settings = {setting["name"]: setting["value"] for setting in json.loads(result.out)}
    assert settings["CLERK_HOME"] == str(tmp_path / ".clerk")


def test_migrate_is_clerk_db(machine: Machine, prepared: Prepared, tmp_path: Path) -> None:
    assert "Usage: clerk db down" in machine.run(prepared.root / "bin/migrate", "down", "--help", cwd=tmp_path).out
    wrong = machine.run(prepared.root / "bin/migrate", "sideways", cwd=tmp_path)
    assert wrong.code == 2
    assert "no db command sideways" in wrong.err


def add_document(folder: Path) -> None:
    file = folder / "documents" / "City Council minutes 2024-03-05.html"
    file.parent.mkdir()
    file.write_text("<html><body><h1>Minutes</h1><p>The council discussed bike lanes.</p></body></html>")


def test_demo_uses_its_own_database(machine: Machine, checkout: Path, tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DATABASE_URL=postgresql://127.0.0.1:1/production\n")
    add_document(tmp_path)
    machine.put_real_programs()
    result = machine.run(checkout / "bin/demo", "documents", cwd=tmp_path)
    home = checkout / ".clerk/demo"
    try:
        assert result.code == 0, result.err
        assert "documents  1: 1 minutes" in result.out
        assert re.search("\nSearch for a word of the documents: (minutes|council|discussed)\n", result.out)
        quoted = str(checkout).replace(" ", r"\ ")
        command = f"CLERK_HOME={quoted}/.clerk/demo {quoted}/bin/clerk"
        assert f"\n  {command} search " in result.out
        assert f"\n  {command} status\n" in result.out
        assert result.out.endswith(f" {quoted}/bin/demo {tmp_path}/documents\n")
        assert (home / "postgres/PG_VERSION").exists()
    finally:
        machine.run(checkout / "bin/clerk", "db", "stop", cwd=home, environment={"CLERK_HOME": str(home)})


def test_demo_reports_the_end_of_its_workers(machine: Machine, checkout: Path, tmp_path: Path) -> None:
    add_document(tmp_path)
    result = machine.run(checkout / "bin/demo", "documents", cwd=tmp_path)
    home = checkout / ".clerk/demo"
    try:
        assert result.code == 1
        assert "the workers ended" in result.err
        assert "pdfinfo is not installed" in result.err
    finally:
        machine.run(checkout / "bin/clerk", "db", "stop", cwd=home, environment={"CLERK_HOME": str(home)})


def test_demo_requires_a_folder(machine: Machine, checkout: Path, tmp_path: Path) -> None:
    result = machine.run(checkout / "bin/demo", "nowhere", cwd=tmp_path)
    assert result.code == 2
    assert "nowhere is not a folder" in result.err


def put_tools(root: Path, failing: str = "") -> None:
    """Fake tools that print how they were called."""
    for name in ("ruff", "mypy", "lint-imports", "shellcheck", "pytest"):
        tool = root / ".venv/bin" / name
        tool.unlink()
        tool.write_text(f'#!/bin/sh\necho "{name} $*"\n[ {name} != "{failing}" ]\n')
        tool.chmod(0o755)


def test_test_runs_every_step(machine: Machine, checkout: Path) -> None:
    put_tools(checkout)
    result = machine.run(checkout / "bin/test", "--no-system", "--long", "tests/db")
    assert (result.code, result.err) == (0, "")
    headings = [line.removeprefix("== ") for line in result.out.splitlines() if line.startswith("== ")]
    assert headings == [
        "setup", "ruff check", "ruff format", "mypy", "import contracts", "shellcheck", "uv.lock", "tests",
    ]  # fmt: skip
    assert result.out.splitlines()[-1] == "pytest -n 3 --long tests/db"


def test_quick_runs_some_tests_only(machine: Machine, checkout: Path) -> None:
    put_tools(checkout)
    result = machine.run(checkout / "bin/test", "--quick", "-k", "x")
    assert (result.code, result.err) == (0, "")
    assert "== mypy" in result.out
    command = result.out.splitlines()[-1].split()
    assert command[:3] == ["pytest", "-n", "3"]
    assert command[-2:] == ["-k", "x"]
    paths = [word.partition("=")[2] if "=" in word else word for word in command[3:-2]]
    assert "tests/sql" in paths
    assert [path for path in paths if not (SOURCE / path).exists()] == []


def test_test_stops_at_the_first_step_that_fails(machine: Machine, checkout: Path) -> None:
    put_tools(checkout, failing="mypy")
    result = machine.run(checkout / "bin/test", "--no-system")
    assert result.code == 1
    assert result.err == "bin/test: failed at: mypy\n"
    assert "== import contracts" not in result.out
    alone = machine.run(checkout / "bin/test", "--no-lint", "--no-system", "-k", "x")
    assert (alone.code, alone.out) == (0, "== setup\n== tests\npytest -n 3 -k x\n")
