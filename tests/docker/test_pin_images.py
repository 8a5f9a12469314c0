"""bin/pin-images, with a program `docker` that knows two images."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docker.compose import FILE, ROOT

POSTGRES, PYTHON = f"sha256:{'a' * 64}", f"sha256:{'b' * 64}"
DOCKER = f"""#!/bin/sh
[ "$1 $2 $3 $5" = "buildx imagetools inspect --format" ] || exit 2
case $4 in
  postgres:18.6) echo {POSTGRES} ;;
  python:3.11-slim) echo {PYTHON} ;;
  *) echo "not found: $4" >&2; exit 1 ;;
esac
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(0o755)
    return [Path(shutil.copy(file, tmp_path)) for file in (FILE, ROOT / "Dockerfile")]


def pin_images(files: list[Path], *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PATH": f"{files[0].parent / 'bin'}:{os.environ['PATH']}"}
    command = [str(ROOT / "bin" / "pin-images"), *options, *map(str, files)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_digests_are_written(files: list[Path]) -> None:
    before = [file.read_text() for file in files]
    dry = pin_images(files, "--dry-run")
    assert (dry.returncode, dry.stderr) == (0, "")
    assert f"postgres:18.6 is now {POSTGRES}" in dry.stdout
    assert [file.read_text() for file in files] == before
    assert pin_images(files).returncode == 0
    compose, dockerfile = (file.read_text() for file in files)
    assert compose.count(f"image: postgres:18.6@{POSTGRES}\n") == compose.count("image: postgres") == 2
    assert dockerfile.count(f"FROM python:3.11-slim@{PYTHON}") == dockerfile.count("FROM ") == 2
    assert "image: clerk:local\n" in compose
    assert len(compose) == len(before[0])
    assert pin_images(files).stdout == "postgres:18.6 is up to date\npython:3.11-slim is up to date\n"


def test_a_tag_without_a_digest_is_pinned(files: list[Path]) -> None:
    text = files[0].read_text()
    files[0].write_text(text.replace(text.split("image: postgres:18.6", 1)[1].split("\n")[0], ""))
    assert "image: postgres:18.6\n" in files[0].read_text()
    assert pin_images(files).returncode == 0
    assert files[0].read_text().count(f"image: postgres:18.6@{POSTGRES}\n") == 2


def test_an_unknown_tag_changes_nothing(files: list[Path]) -> None:
    files[0].write_text(files[0].read_text().replace("postgres:18.6", "postgres:18.99"))
    before = [file.read_text() for file in files]
    result = pin_images(files)
    assert result.returncode == 1
    assert "no digest for postgres:18.99" in result.stderr
    assert [file.read_text() for file in files] == before
