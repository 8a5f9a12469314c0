"""Problems of a worker's machine: full and read-only disks, missing storage, missing tools, no memory."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clerk.db.connection import connect_to, read_only_snapshot
from clerk.monitoring.alerts import find_alerts
from clerk.monitoring.explain import explain
from clerk.monitoring.metrics import read_metrics, render
from clerk.monitoring.site_state import read_site_state
from clerk.monitoring.status import read_status
from clerk.ocr.poppler import PROGRAMS
from clerk.process.holder import short_host
from tests import disks
from tests.faults.pipeline import Pipeline, until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with disks.small_disk(tmp_path / "storage") as folder:
        yield folder


def _problems(pipeline: Pipeline) -> list[tuple[str, str, str]]:
    query = "select queue, error_code, message from worker_problems order by queue"
    return [(queue, code, message) for queue, code, message in pipeline.rows(query)]


def _alert(pipeline: Pipeline) -> str:
    with connect_to(pipeline.url) as connection, read_only_snapshot(connection):
        return next(
            (f"{a.what}: {a.remedy}" for a in find_alerts(read_status(connection)) if a.kind == "host_problem"), ""
        )


def _attention(pipeline: Pipeline, kind: str) -> str:
    with connect_to(pipeline.url) as connection, read_only_snapshot(connection):
        return next((alert.what for alert in find_alerts(read_status(connection)) if alert.kind == kind), "")


def _why(pipeline: Pipeline) -> tuple[str, str, str | None]:
    with connect_to(pipeline.url) as connection, read_only_snapshot(connection):
        state = read_site_state(connection, "anytown")
    assert state is not None
    explanation = explain(state)
    return explanation.because, explanation.sentence, explanation.remedy


def _metrics(pipeline: Pipeline) -> str:
    with connect_to(pipeline.url) as connection, read_only_snapshot(connection):
        return render(read_metrics(connection))


@pytest.mark.parametrize(
    ("kind", "code", "text"),
    [("full", "DiskFull", "the disk of {} is full (0 bytes of 1.0 MB are free)"),
     ("read-only", "DiskReadOnly", "{} cannot be written: Read-only file system")],
)  # fmt: skip
def test_disk_is_full_or_read_only(pipeline: Pipeline, small_disk: Path, kind: str, code: str, text: str) -> None:
    """The worker takes one job, reports the disk, takes no other job of the queue, and continues by itself."""
    documents = pipeline.add_site(documents=5)
    pipeline.set_plan(ocr="write:50")
    ballast = small_disk / "ballast"

    def fill() -> None:
        if kind == "read-only":
            subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
            return
        ballast.write_bytes(b"x" * shutil.disk_usage(small_disk).free)

    def free() -> None:
        if kind == "read-only":
            subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
            return
        ballast.unlink()

    fill()
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker(variables={"STORAGE_DIR": str(small_disk)})
    until(lambda: _problems(pipeline), "the report of the problem")
    assert _problems(pipeline) == [("ocr", code, text.format(small_disk))]
    # One attempt was made, which does not count, and no other job is taken.
    until(lambda: not pipeline.is_running("ocr", documents[0]), "the end of the attempt")
    assert len(pipeline.steps(stage="ocr")) == 1
    assert pipeline.ledger("ocr", documents[0]) == ("failed_retryable", code, 0)
    assert [pipeline.ledger("ocr", document) for document in documents[1:]] == [("pending", None, 0)] * 4

    assert f"cannot process jobs of queue ocr ({code}: {text.format(small_disk)})" in _alert(pipeline)
    because, sentence, remedy = _why(pipeline)
    assert because == "host_problem"
    assert text.format(small_disk) in sentence
    assert remedy is not None
    assert "continue by themselves" in remedy
    if kind == "full":
        until(lambda: _attention(pipeline, "disk_low"), "the report of the free space")
        disk = f"1 disk is nearly full: {small_disk} on {short_host(socket.gethostname())} (storage"
        assert _attention(pipeline, "disk_low").startswith(disk)
        assert 'clerk_attention{kind="disk_low",severity="error"} 1.0' in _metrics(pipeline)
    metrics = _metrics(pipeline)
    assert f'clerk_host_problems{{error_code="{code}",queue="ocr"}} 1.0' in metrics
    assert 'clerk_workers{queue="ocr"} 0.0' in metrics
    assert 'clerk_workers{queue="coordinator"} 1.0' in metrics

    free()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert [pipeline.ledger("ocr", document) for document in documents] == [("processed", None, 1)] * 5
    assert _problems(pipeline) == []
    assert _alert(pipeline) == ""
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_disk_is_nearly_full(pipeline: Pipeline, small_disk: Path) -> None:
    """The probe finds space, since the failed write was undone. The report lasts until a job succeeds: an alert that
    needs five minutes would never be sent."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.set_plan(ocr="write:500")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * (shutil.disk_usage(small_disk).free - 300_000))
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker(variables={"STORAGE_DIR": str(small_disk)})
    until(lambda: _problems(pipeline), "the report of the problem")
    ((queue, code, message),) = _problems(pipeline)
    assert (queue, code) == ("ocr", "DiskFull")
    # A file takes whole blocks.
    assert re.search(rf"{re.escape(str(small_disk))}: (29\d|300) kB of 1\.0 MB are free", message), message
    since = pipeline.rows("select since from worker_problems")
    for attempts in (2, 3):
        pipeline.clear_schedule("clerk.ocr")
        until(lambda attempts=attempts: len(pipeline.steps(stage="ocr")) == attempts, "another attempt")  # type: ignore[misc]
        until(lambda: not pipeline.is_running("ocr", document), "its end")
        assert pipeline.rows("select since from worker_problems") == since
    ballast.unlink()
    pipeline.clear_schedule("clerk.ocr")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert _problems(pipeline) == []
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_other_worker_continues(pipeline: Pipeline, small_disk: Path, tmp_path: Path) -> None:
    """A problem of one machine does not stop the others, also for the document that found it."""
    documents = pipeline.add_site(documents=5)
    pipeline.set_plan(ocr="write:2000")
    run = pipeline.start_run(first_phase=2)
    full = pipeline.worker("ocr", variables={"STORAGE_DIR": str(small_disk)}, probe_interval=600)
    until(lambda: _problems(pipeline), "the report of the problem")
    pipeline.worker(variables={"STORAGE_DIR": str(tmp_path / "large")})
    assert pipeline.wait_for_end(run) == "succeeded"
    assert [pipeline.ledger("ocr", document) for document in documents] == [("processed", None, 1)] * 5
    assert full.stop() == 0
    assert _problems(pipeline) == []
    pipeline.check_invariants()


def test_tool_is_missing(pipeline: Pipeline, tmp_path: Path) -> None:
    """The worker continues when it is installed."""
    documents = pipeline.add_site(documents=3)
    pipeline.set_plan(ocr="tools")
    programs = tmp_path / "bin"
    programs.mkdir()
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker(variables={"PATH": str(programs)})
    until(lambda: _problems(pipeline), "the report of the problem")
    ((queue, code, message),) = _problems(pipeline)
    assert (queue, code) == ("ocr", "ToolMissing")
    assert f"{PROGRAMS[0]} is not installed" in message
    for program in PROGRAMS:
        (programs / program).symlink_to(str(shutil.which(program)))
    assert pipeline.wait_for_end(run) == "succeeded"
    assert [pipeline.ledger("ocr", document) for document in documents] == [("processed", None, 1)] * 3
    assert worker.stop() == 0
    pipeline.check_invariants()


def test_storage_is_not_mounted(pipeline: Pipeline, tmp_path: Path) -> None:
    """Otherwise every document would fail permanently, because its PDF is missing."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.connection.execute("update content_items set sha256 = %s where kind = 'minutes'", ["0" * 64])
    run = pipeline.start_run(first_phase=2)
    storage = tmp_path / "storage"
    storage.mkdir()
    worker = pipeline.worker("ocr", app="clerk.app.app", variables={"STORAGE_DIR": str(storage)})
    until(lambda: _problems(pipeline), "the report of the problem")
    ((queue, code, message),) = _problems(pipeline)
    assert (queue, code) == ("ocr", "StorageUnmounted")
    assert str(storage) in message
    expected = ("failed_retryable", "StorageUnmounted", 0)
    until(lambda: pipeline.ledger("ocr", document) == expected, "the end of the attempt")

    # As if the disk was mounted, on which only this PDF is missing.
    (storage / "anytown").mkdir()
    until(lambda: not _problems(pipeline), "the end of the problem")
    until(lambda: pipeline.ledger("ocr", document) == ("failed_terminal", "PdfMissing", 1), "the own error")
    assert worker.stop() == 0
    # The periodic jobs of clerk's own app are in the same queue: they have ended when the worker has.
    other = pipeline.worker("coordinator", variables={"STORAGE_DIR": str(storage)})
    assert pipeline.wait_for_end(run) == "failed"
    assert other.stop() == 0
    pipeline.check_invariants()


def test_lack_of_memory_does_not_count(pipeline: Pipeline) -> None:
    """Four attempts run out of memory, and the stage allows three."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, *["memory"] * 4, "ok")
    run = pipeline.start_run(first_phase=2)
    worker = pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert worker.has_logged("HostOutOfMemory")
    assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    assert [step.attempt for step in pipeline.steps("done", item=document, stage="ocr")] == [4]
    pipeline.check_invariants()


def test_shutdown_of_the_worker_does_not_count(pipeline: Pipeline) -> None:
    """Four workers are stopped during the document, and the stage allows three attempts."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, *["wait_or_stop:never"] * 4, "ok")
    run = pipeline.start_run(first_phase=2)
    for number in range(1, 5):
        worker = pipeline.worker(options=("--shutdown-graceful-timeout=0",))
        until(lambda number=number: len(pipeline.steps("wait_or_stop:never")) == number, "a running job")  # type: ignore[misc]
        worker.stop()
        pipeline.clear_schedule("clerk.ocr")
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.ledger("ocr", document) == ("processed", None, 1)
    pipeline.check_invariants()


def test_worker_without_tools_takes_no_document(pipeline: Pipeline, tmp_path: Path) -> None:
    """The problem is reported when the worker starts, before a document needs the program."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr", app="clerk.app.app", variables={"PATH": str(tmp_path)})
    until(lambda: _problems(pipeline), "the report of the problem")
    assert _problems(pipeline)[0][:2] == ("ocr", "ToolMissing")
    assert pipeline.ledger("ocr", document) == ("pending", None, 0)
    assert worker.stop() == 0
