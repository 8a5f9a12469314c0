"""One set-up checkout, shared by all test processes because creating it takes ten seconds."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

from tests.helpers import until
from tests.setup.machine import Machine, Result, copy_checkout, finish


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Has Python and the programs that clerk calls."""
    machine = Machine(tmp_path / "bin")
    machine.put_python()
    machine.put_programs()
    return machine


@dataclass(frozen=True)
class Prepared:
    """Read-only: tests that change a checkout copy it."""

    root: Path
    runs: list[Result]  # of two concurrent bin/setup, after one that was killed


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    root, results = base / "prepared", base / "prepared.json"
    with (base / "prepared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not results.exists():
            runs = prepare(copy_checkout(root), Machine(base / "prepared-bin"))
            results.write_text(json.dumps([asdict(run) for run in runs]))
    return Prepared(root, [Result(**run) for run in json.loads(results.read_text())])


def prepare(root: Path, machine: Machine) -> list[Result]:
    machine.put_python()
    machine.put_programs()
    with machine.start(root / "bin/setup") as killed:
        until((root / ".venv/bin/python").exists)
        os.killpg(killed.pid, signal.SIGKILL)
    both = [machine.start(root / "bin/setup") for _ in range(2)]
    return [finish(process) for process in both]
