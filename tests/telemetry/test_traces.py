"""Traces of real workers, received by a collector."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg

from clerk.telemetry.trace_context import run_ids
from tests.conftest import Url
from tests.faults.pipeline import Pipeline
from tests.helpers import until
from tests.ocr import pdfs
from tests.telemetry.collector import ERROR, Collector

ROOT = Path(__file__).parents[2]
KEY_OF_COLLECTOR = "0123456789"


def test_a_run_is_one_trace_of_jobs_and_page_batches(
    collector: Collector, connection: psycopg.Connection, database: Url, tmp_path: Path
) -> None:
    documents = tmp_path / "documents" / "Council"
    documents.mkdir(parents=True)
    (documents / "2024-01-01.pdf").write_bytes(pdfs.numbered(64))
    (documents / "2024-01-02.pdf").write_bytes(b"%PDF-1.7\nno more than a head\n")
    extra = json.dumps({"path": str(documents.parent)})
    connection.execute(
        "insert into sites (subdomain, name, scraper, extra) values ('springfield', 'Springfield', 'directory', %s)",
        [extra],
    )
    (run_id,) = connection.execute("select clerk_start_run('springfield')").fetchone() or ()
    log = tmp_path / "worker.log"
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("OTEL_")},
        **collector.variables,
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-key={KEY_OF_COLLECTOR}",
        "DATABASE_URL": database,
        "STORAGE_DIR": str(tmp_path / "storage"),
        "PYTHONPATH": str(ROOT),
    }
    with log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "clerk", "worker", "--processes", "1", "--log-format", "json"],
            env=environment,
            cwd=tmp_path,
            stdout=output,
            stderr=output,
        )
    try:
        until(lambda: worker.poll() is not None or collector.runs())
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait()
    assert worker.returncode == 0, log.read_text()

    ids = run_ids("springfield", run_id)
    spans = [span for span in collector.spans if span.trace_id == ids.trace_id]
    (root,) = collector.runs()
    row = connection.execute(
        "select (extract(epoch from started_at) * 1e9)::bigint, (extract(epoch from ended_at) * 1e9)::bigint, outcome"
        " from pipeline_runs where run_id = %s",
        [run_id],
    ).fetchone()
    assert (root.start, root.end, root["outcome"]) == row
    assert (root.trace_id, root.span_id, root.parent_id) == (ids.trace_id, ids.span_id, "")
    assert (root["subdomain"], root["run_id"]) == ("springfield", run_id)
    jobs = collector.jobs(run_id=run_id)
    assert [span.name for span in jobs] == [
        *("clerk.fetch", "clerk.coordinate", "clerk.ocr", "clerk.ocr", "clerk.coordinate"),
        *[span.name for span in jobs[5:7]],
        *("clerk.coordinate", "clerk.deploy", "clerk.coordinate"),
    ]
    assert {span.name for span in jobs[5:7]} == {"clerk.compilation", "clerk.extraction"}
    assert {span.parent_id for span in jobs} == {root.span_id}
    assert all(span.start <= span.end for span in spans)
    assert all(root.start <= span.start for span in jobs)

    # A job of its own trace: the deploy deferred the matching of saved searches.
    assert all(span.trace_id != ids.trace_id and not span.parent_id for span in collector.jobs(queue="delivery"))

    (good,) = collector.jobs(stage="ocr", outcome="succeeded")
    (bad,) = collector.jobs(stage="ocr", outcome="failed")
    assert (good.status, good["queue"], good["attempt"]) == (0, "ocr", 1)
    assert bad.status == ERROR
    (code,) = connection.execute(
        "select error_code from content_item_pipeline_state where content_item_id = %s and pipeline = 'ocr'",
        [bad["document_id"]],
    ).fetchone() or ("",)
    assert (bad["error_code"], bad.attributes["error.type"], bad.status_message) == (code, code, code)

    batches = sorted((span for span in spans if span.name == "clerk.ocr.pages"), key=lambda span: span["first_page"])
    assert len(batches) > 1
    assert {batch.parent_id for batch in batches} == {good.span_id}
    assert [page for b in batches for page in range(b["first_page"], b["last_page"] + 1)] == list(range(1, 65))
    assert all(good.start <= batch.start <= batch.end <= good.end for batch in batches)
    assert {batch["failed_pages"] for batch in batches} == {0}
    assert {span.name for span in spans} == {span.name for span in (root, *jobs, *batches)}
    assert {(s.resource["service.name"], s.resource["deployment.environment.name"]) for s in spans} == {
        ("clerk", "test")
    }

    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    span_of_job = {span["job_id"]: (span.trace_id, span.span_id) for span in collector.jobs()}
    with_ids = [line for line in lines if "job" in line and "trace_id" in line]
    assert {line["job"] for line in with_ids} >= {good["job_id"], bad["job_id"], jobs[0]["job_id"]}
    assert all((line["trace_id"], line["span_id"]) == span_of_job[line["job"]] for line in with_ids)
    assert KEY_OF_COLLECTOR not in log.read_text()


def test_a_retry_is_a_second_span(collector: Collector, pipeline: Pipeline) -> None:
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "transient", "ok")
    run_id = pipeline.start_run(first_phase=2)
    worker = pipeline.worker(variables=collector.variables)
    assert pipeline.wait_for_end(run_id) == "succeeded"
    assert worker.stop() == 0
    first, second = collector.jobs(stage="ocr")
    assert (first["attempt"], first["outcome"], first["error_code"], first.status) == (
        *(1, "retried", "DownloadFailed"),
        ERROR,
    )
    assert (second["attempt"], second["outcome"], second["error_code"], second.status) == (2, "succeeded", None, 0)
    (root,) = collector.runs()
    assert {first.parent_id, second.parent_id} == {root.span_id}
    assert first.span_id != second.span_id
    # The message of the error could contain text of a document.
    assert "closed the connection" not in repr(collector.spans)
    assert worker.has_logged(f"{len(collector.spans)} spans were exported")


def test_the_trace_continues_after_a_killed_worker(collector: Collector, pipeline: Pipeline) -> None:
    document, other = pipeline.add_site(documents=2)
    pipeline.plan_item("ocr", document, "kill", "ok")
    run_id = pipeline.start_run(first_phase=2)
    killed = pipeline.worker("ocr", variables=collector.variables)
    assert killed.wait() == -signal.SIGKILL
    pipeline.expire_leases(pipeline.job_id("ocr", document), pipeline.job_id("ocr", other))
    pipeline.rescue()
    pipeline.worker(variables=collector.variables)
    assert pipeline.wait_for_end(run_id) == "succeeded"
    until(collector.runs)
    (span,) = until(lambda: collector.jobs(stage="ocr", document_id=document))
    assert (span["attempt"], span["outcome"]) == (2, "succeeded")
    assert {job.trace_id for job in collector.jobs(run_id=run_id)} == {collector.runs()[0].trace_id}


def test_the_span_of_a_fenced_attempt_says_so(collector: Collector, pipeline: Pipeline) -> None:
    (document,) = pipeline.add_site(documents=1)
    pipeline.plan_item("ocr", document, "wait:thaw", "ok")
    run_id = pipeline.start_run(first_phase=2)
    late = pipeline.worker("ocr", variables=collector.variables)
    until(lambda: pipeline.steps("wait:thaw"))
    late.freeze()
    pipeline.expire_leases(pipeline.job_id("ocr", document))
    assert pipeline.rescue() == 1
    pipeline.worker(variables=collector.variables)
    assert pipeline.wait_for_end(run_id) == "succeeded"
    pipeline.open_gate("thaw")
    late.thaw()
    until(lambda: len(collector.jobs(stage="ocr")) == 2)
    outcomes = {span["attempt"]: span["outcome"] for span in collector.jobs(stage="ocr")}
    assert outcomes == {1: "fenced", 2: "succeeded"}


def test_a_run_that_an_operator_ends_gets_its_root_span_from_the_periodic_task(
    collector: Collector, pipeline: Pipeline
) -> None:
    pipeline.add_site()
    run_id = pipeline.start_run(first_phase=2)
    pipeline.scalar("select clerk_cancel_run('anytown')")
    pipeline.connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name, args)"
        " select 'coordinator', 'clerk.trace_runs', '{\"timestamp\": 0}' from generate_series(1, 2)"
    )
    worker = pipeline.worker("coordinator", variables=collector.variables)
    until(lambda: len(collector.jobs(outcome="succeeded")) == 2)
    assert worker.stop() == 0
    (root,) = collector.runs()
    assert (root["run_id"], root["outcome"], root.status) == (run_id, "cancelled", 0)
    assert pipeline.scalar("select count(*) from pipeline_runs where traced_at is not null") == 1


def test_without_an_endpoint_nothing_is_recorded(pipeline: Pipeline) -> None:
    pipeline.add_site(documents=1)
    run_id = pipeline.start_run(first_phase=2)
    worker = pipeline.worker()
    assert pipeline.wait_for_end(run_id) == "succeeded"
    assert worker.stop() == 0
    assert pipeline.scalar("select traced_at from pipeline_runs") is None
    assert not worker.has_logged("OpenTelemetry")


def test_a_collector_that_is_down_fails_no_job(pipeline: Pipeline) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
    pipeline.add_site()
    run_id = pipeline.start_run(first_phase=2)
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_EXPORTER_OTLP_TIMEOUT": "3"}
    worker = pipeline.worker(variables={**variables, "OTEL_BSP_SCHEDULE_DELAY": "50"})
    assert pipeline.wait_for_end(run_id) == "succeeded"
    until(lambda: worker.has_logged("spans were lost so far: "))
    assert worker.stop() == 0
    assert worker.has_logged("spans were not exported")
    assert "refused" in worker.log.read_text()
    pipeline.check_invariants()


def test_a_collector_that_does_not_respond_delays_neither_jobs_nor_the_shutdown(
    collector: Collector, pipeline: Pipeline
) -> None:
    collector.responds.clear()
    pipeline.add_site()
    run_id = pipeline.start_run(first_phase=2)
    # The exporter alone would wait for hours.
    worker = pipeline.worker(variables={**collector.variables, "OTEL_EXPORTER_OTLP_TIMEOUT": "9999"})
    until(lambda: collector.requests)
    assert pipeline.wait_for_end(run_id) == "succeeded"
    assert worker.stop() == 0
    assert not collector.responds.is_set()
    assert worker.has_logged("spans were not exported")
