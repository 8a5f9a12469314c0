"""What else Procrastinate has works with clerk's triggers: the shell, the periodic deferrer, abort requests."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.faults.pipeline import ROOT, Pipeline, until


def _shell(pipeline: Pipeline, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "procrastinate", "--app=clerk.app.app", "shell", *command],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": pipeline.url},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def _events(pipeline: Pipeline, job: int) -> list[str]:
    found = pipeline.rows("select type::text from procrastinate_events where job_id = %s order by id", job)
    return [row[0] for row in found]


def _wait_for_listener(pipeline: Pipeline) -> None:
    """A notification before that is lost."""
    listener = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
    until(lambda: pipeline.scalar(listener), "the worker listens")


def test_shell_lists_cancels_and_retries(pipeline: Pipeline) -> None:
    first, second = pipeline.add_site(documents=2)
    pipeline.start_run(first_phase=2)
    cancelled, failed = pipeline.job_id("ocr", first), pipeline.job_id("ocr", second)
    assert f"#{cancelled} clerk.ocr on ocr" in _shell(pipeline, "list_jobs")
    assert "ocr: 2 jobs (todo: 2" in _shell(pipeline, "list_queues")

    assert f"#{cancelled}" in _shell(pipeline, "cancel", str(cancelled))
    assert _events(pipeline, cancelled) == ["deferred", "cancelled"]
    assert pipeline.ledger("ocr", first)[:2] == ("failed_terminal", "JobCancelled")

    pipeline.plan_item("ocr", second, "permanent", "ok")
    worker = pipeline.worker("ocr")
    until(lambda: pipeline.ledger("ocr", second)[0] == "failed_terminal", "failed")
    assert f"#{failed}" in _shell(pipeline, "retry", str(failed))
    until(lambda: pipeline.ledger("ocr", second)[0] == "processed", "retried")
    expected = ["deferred", "started", "failed", "retried", "started", "succeeded"]
    assert [event for event in _events(pipeline, failed) if event != "scheduled"] == expected
    assert worker.stop() == 0


def test_periodic_deferrer(pipeline: Pipeline) -> None:
    """A periodic job is deferred once per timestamp, noticed by a worker that does not poll, and recorded once."""
    worker = pipeline.worker("nowhere", options=("--fetch-job-polling-interval=600",))
    _wait_for_listener(pipeline)
    defer = "select procrastinate_defer_periodic_job_v2('nowhere', null, null, 'faults.new_year', 0, '', 1, %s::jsonb)"
    job = pipeline.scalar(defer, '{"timestamp": 1}')
    assert pipeline.scalar(defer, '{"timestamp": 1}') is None
    until(lambda: "succeeded" in _events(pipeline, job), "its end")
    assert _events(pipeline, job) == ["deferred", "started", "succeeded"]
    assert worker.stop() == 0


def test_abort_request(pipeline: Pipeline) -> None:
    """The notification reaches the worker, which polls for abort requests only every ten minutes here."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "wait_or_stop:never")
    pipeline.worker("ocr", options=("--abort-job-polling-interval=600",))
    _wait_for_listener(pipeline)
    pipeline.start_run(first_phase=2)
    until(lambda: pipeline.steps("wait_or_stop:never"), "at work")
    job = pipeline.job_id("ocr", document)
    pipeline.connection.execute("select procrastinate_cancel_job_v1(%s, true, false)", [job])
    until(lambda: pipeline.ledger("ocr", document)[0] == "failed_terminal", "aborted")
    assert _events(pipeline, job) == ["deferred", "started", "abort_requested", "aborted"]
