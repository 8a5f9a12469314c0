"""Copies of the checkout, and simulated machines whose PATH is one folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from clerk.ocr.poppler import PROGRAMS

Process = subprocess.Popen[str]
Environment = Mapping[str, str]
NOTHING: Environment = {}

SOURCE = Path(__file__).resolve().parents[2]
PYTHON = Path(getattr(sys, "_base_executable", sys.executable)).resolve()

# Present on every system. Excludes Python, package managers and the programs that bin/setup checks for.
EVERYWHERE = (
    *("awk", "basename", "bash", "cat", "chmod", "cmp", "cp", "dirname", "env", "grep", "head", "id", "ls", "mkdir"),
    *("mktemp", "mv", "readlink", "rm", "sed", "setpriv", "sh", "tail", "tr", "uname"),
)


def copy_checkout(to: Path) -> Path:
    left_out = (".git", ".venv", ".clerk", ".env", "__pycache__", "*_cache", ".hypothesis", "tests")
    shutil.copytree(SOURCE, to, ignore=shutil.ignore_patterns(*left_out))
    return to


@dataclass
class Machine:
    """Runs programs with its own PATH."""

    bin: Path

    def __post_init__(self) -> None:
        self.bin.mkdir(parents=True)
        for name in EVERYWHERE:
            if real := shutil.which(name):  # a Mac has no setpriv
                (self.bin / name).symlink_to(real)

    def put(self, name: str, script: str) -> None:
        """A fake program: a shell script of the given lines."""
        program = self.bin / name
        program.unlink(missing_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)

    def put_python(self) -> None:
        self.put("python3", f'exec {PYTHON} "$@"')

    def put_programs(self) -> None:
        for name in ("tesseract", "pdftoppm"):
            self.put(name, "exit 0")

    def put_real_programs(self) -> None:
        """The programs that OCR needs, as they are installed on this machine."""
        for name in ("tesseract", *PROGRAMS):
            (self.bin / name).unlink(missing_ok=True)
            (self.bin / name).symlink_to(shutil.which(name) or pytest.fail(f"{name} is not installed"))

    def put_user(self, *, may_sudo: bool = False) -> None:
        """A user who is not root."""
        self.put("id", "case $1 in -u) echo 1000 ;; *) echo pat ;; esac")
        self.put("sudo", 'shift; exec "$@"' if may_sudo else "echo 'sudo: a password is required' >&2; exit 1")

    def put_installer(self, name: str) -> Path:
        """A fake package manager that installs the needed programs; returns its log of calls."""
        log = self.bin / f"{name}.log"
        self.put("true", "exit 0")
        self.put(
            name,
            f'echo "$DEBIAN_FRONTEND $PG_CLUSTER_CONF_ROOT $*" >>{log}\n'
            'case " $* " in *" install "*)\n'
            f"  cd {self.bin} && for name in tesseract pdftoppm chromium; do cp true $name; done ;;\n"
            "esac",
        )
        return log

    def start(self, *command: str | Path, cwd: Path | None = None, environment: Environment = NOTHING) -> Process:
        kept = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=cwd,
            env={**kept, **environment, "PATH": str(self.bin)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *command: str | Path, cwd: Path | None = None, environment: Environment = NOTHING) -> Result:
        return finish(self.start(*command, cwd=cwd, environment=environment))


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def silent(self) -> bool:
        return (self.code, self.out, self.err) == (0, "", "")

    @property
    def last_line(self) -> str:
        return self.err.splitlines()[-1]


def finish(process: Process) -> Result:
    with process:
        out, err = process.communicate()
    return Result(process.returncode, out, err)
