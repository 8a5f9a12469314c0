"""`clerk worker` and `clerk up` stop at once on a machine that cannot run OCR. `clerk worker --check`."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from clerk import config
from clerk.cli.worker import ProcessPlan, _is_idle, describe_plans, plan_processes
from clerk.pipeline.engine import QUEUES
from clerk.process.holder import short_host
from tests.cli.conftest import Clerk
from tests.conftest import Url
from tests.engine.helpers import Worker
from tests.monitoring.workers import die, register

Check = Callable[..., tuple[int, str]]
"""Runs `clerk worker --check` with options; returns exit code and output."""


@pytest.fixture(params=["worker", "up"])
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    monkeypatch.setenv("CLERK_HOME", str(tmp_path / "home"))
    return str(request.param)


def test_missing_poppler(clerk_command: Clerk, command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = clerk_command(command)
    assert result.code == 1
    assert "pdfinfo is not installed" in result.err
    assert "clerk worker --queues fetch," in result.err
    assert not (tmp_path / "home").exists(), "no database was started"


def test_unknown_engine(clerk_command: Clerk, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLERK_OCR_ENGINE", "easyocr")
    result = clerk_command(command)
    assert result.code == 1
    expected = "CLERK_OCR_ENGINE is 'easyocr' (did you mean tesserocr?); the engines are pytesseract, tesserocr"
    assert expected in result.err


@pytest.mark.parametrize("concurrency", [None, 10])
def test_one_process_runs_one_ocr_job_per_core(concurrency: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clerk.cli.worker.count_cores", lambda: 4)
    (plan,) = plans = plan_processes(QUEUES, 1, concurrency)
    assert (plan.concurrency, plan.cpu_concurrency) == (10, 4)
    assert describe_plans(plans) == (
        "1 process, 4 cores can be used; 1 for fetch, ocr, compilation, extraction, deploy, coordinator, delivery:"
        " 10 jobs at a time, at most 4 of ocr, compilation and extraction (one per core)"
    )


def test_a_process_per_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clerk.cli.worker.count_cores", lambda: 2)
    plans = plan_processes(QUEUES, None, None)
    assert [plan.cpu_concurrency for plan in plans] == [None, None, None]
    assert describe_plans(plans) == (
        "3 processes, 2 cores can be used; 1 for fetch, deploy, coordinator, delivery: 10 jobs at a time;"
        " 2 for ocr, compilation, extraction: 1 job at a time each"
    )
    assert ProcessPlan(("ocr",), 8).cpu_concurrency is None, "who asks for 8 gets 8"


@pytest.fixture
def check(clerk_command: Clerk, database: Url, monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setenv("DATABASE_URL", database)
    monkeypatch.setattr(socket, "gethostname", lambda: "host-a")

    def run(*options: str) -> tuple[int, str]:
        result = clerk_command("worker", "--check", *options)
        assert result.err == ""
        return result.code, result.out

    return run


def register_on(host: str, connection: psycopg.Connection, *queues: str) -> Worker:
    """Register a worker as a process on this host."""
    holder = f"0123456789ab clerk 7 {short_host(host)}"
    connection.execute("select set_config('application_name', %s, false)", [holder])
    return register(Worker(connection), *queues)


def test_check(connection: psycopg.Connection, check: Check) -> None:
    register_on("host-b", connection, "fetch", "ocr")
    assert check() == (1, "Not healthy: no worker of this machine (host-a) is registered.\n")
    worker = register_on("host-a", connection, "ocr")
    assert check() == (0, "A worker of this machine (host-a) is alive.\n")
    assert check("--queues", "ocr")[0] == 0
    assert check("--queues", "ocr,fetch") == (
        1,
        "Not healthy: no worker of this machine (host-a) serves the queue fetch.\n",
    )
    die(connection, worker)
    code, message = check()
    assert code == 1
    assert message.startswith("Not healthy: the last heartbeat of a worker of this machine (host-a) was 30")


def test_check_of_a_pod_with_a_long_name(
    connection: psycopg.Connection, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods of one Deployment differ in the end of their names only."""
    name = "clerk-of-a-release-with-a-long-name-compilation-7d9f8b6c5d-"
    register_on(f"{name}aaaaa", connection, "compilation")
    monkeypatch.setattr(socket, "gethostname", lambda: f"{name}bbbbb")
    assert check()[0] == 1
    monkeypatch.setattr(socket, "gethostname", lambda: f"{name}aaaaa")
    assert check()[0] == 0


def test_check_without_a_migrated_database(
    clerk_command: Clerk, new_database: Callable[[], Url], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", new_database())
    result = clerk_command("worker", "--check")
    assert (result.code, result.out) == (1, "Not healthy: the database is not migrated, so no worker can run.\n")


def test_check_does_not_import_the_pipeline() -> None:
    """Health checks run it every few seconds on every host: the imports of the worker take a second of CPU time."""
    program = "import sys; from clerk.cli import cli, worker; print({'procrastinate', 'httpx'} & sys.modules.keys())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_until_idle_does_not_end_while_the_database_is_unreachable(tmp_path: Path) -> None:
    """The workers wait for it, and the queues may have jobs."""
    settings = config.load({"DATABASE_URL": "postgresql://me@127.0.0.1:1/clerk"}, tmp_path)
    assert not _is_idle(settings, QUEUES)
