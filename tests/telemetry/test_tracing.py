"""The export of spans, in this process."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from opentelemetry import trace

from clerk import logs
from clerk.ocr import reader_client
from clerk.plugins.isolation import call_with_timeout
from clerk.telemetry import tracing, variables
from clerk.telemetry.trace_context import run_ids, take_job_ids
from tests.helpers import until
from tests.ocr import pdfs
from tests.ocr.conftest import ProcessPdf
from tests.ocr.conftest import document as document
from tests.ocr.conftest import process_pdf as process_pdf
from tests.ocr.conftest import storage as storage
from tests.telemetry.collector import Collector
from tests.telemetry.test_trace_context import job

ROOT = Path(__file__).parents[2]


@pytest.fixture
def _tracing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in collector.variables.items():
        monkeypatch.setenv(name, value)
    tracing.start("this process")
    yield
    collector.responds.set()
    tracing.stop(60)


def record_job(run_id: int) -> None:
    arguments = job(subdomain="springfield", run_id=run_id)
    with tracing.job_span(arguments, take_job_ids(arguments)):
        pass


def record_run(run_id: int) -> None:
    started_at = datetime(2024, 1, 1, tzinfo=UTC)
    tracing.record_run("springfield", run_id, started_at, started_at + timedelta(hours=1), "succeeded")


@pytest.mark.parametrize(
    ("sampler", "argument", "share"),
    [
        ("always_off", "", 0),
        ("parentbased_always_on", "", 1),
        ("traceidratio", "0.5", None),
        ("parentbased_traceidratio", "0.5", None),
    ],
)
def test_a_sampler_decides_about_whole_traces(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, sampler: str, argument: str, share: int | None
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", sampler)
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", argument)
    tracing.start("this process")
    for run_id in range(100):
        record_job(run_id)
        record_run(run_id)
    tracing.stop(60)
    roots = {span.trace_id for span in collector.runs()}
    children = {span.trace_id for span in collector.jobs()}
    assert roots == children
    if share is None:
        assert 20 < len(roots) < 80
    else:
        assert len(roots) == 100 * share


@pytest.mark.usefixtures("_tracing")
def test_spans_of_plugins_are_children_of_the_job(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    def plugin() -> None:
        with trace.get_tracer("plugin").start_as_current_span("of a plugin"):
            pass

    waiting = job(subdomain="springfield", run_id=1)
    # The provider of a process is the first one that was started in it: that of an earlier test.
    assert tracing._tracer is not None
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", tracing._tracer._provider)
    with tracing.job_span(waiting, take_job_ids(waiting)):
        call_with_timeout("plugin", "hook", plugin)
    tracing.stop(60)
    (child,) = [span for span in collector.spans if span.name == "of a plugin"]
    (parent,) = collector.jobs()
    assert (child.parent_id, child.trace_id) == (parent.span_id, parent.trace_id)


def test_log_lines_of_plugins_have_the_fields_of_the_job() -> None:
    waiting = job(subdomain="springfield", run_id=1)
    ids = take_job_ids(waiting)
    with logs.job_logging(waiting, ids):
        fields = call_with_timeout("plugin", "hook", logs._job.get)
    assert fields is not None
    assert (fields["site"], fields["trace_id"], fields["span_id"]) == ("springfield", ids.trace_id, ids.span_id)


@pytest.mark.usefixtures("_tracing")
def test_reader_processes_inherit_neither_variables_nor_threads_nor_sockets(
    collector: Collector, process_pdf: ProcessPdf
) -> None:
    record_run(1)
    until(collector.runs)  # there is a connection to the collector
    assert psutil.Process().net_connections("tcp")
    assert process_pdf(pdfs.digital()).is_complete
    assert reader_client._server is not None
    server = psutil.Process(reader_client._server.process.pid)
    assert not [name for name in server.environ() if name.startswith("OTEL_")]
    assert server.num_threads() == 1
    assert server.net_connections("tcp") == []
    assert not [mapping.path for mapping in server.memory_maps() if "google/_upb" in mapping.path]


@pytest.mark.usefixtures("_tracing")
@pytest.mark.parametrize("status", [400, 503])
def test_what_the_collector_rejects_is_counted_and_logged(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    caplog.set_level(logging.INFO)
    collector.status = status
    record_run(1)
    until(lambda: "1 spans were lost so far" in caplog.text)
    collector.status = 200
    record_run(2)
    until(lambda: "are exported again; 1 were lost" in caplog.text)
    tracing.stop(60)
    assert "1 of 2 spans were not exported" in caplog.text
    assert [span["run_id"] for span in collector.runs()] == [2]


@pytest.mark.usefixtures("_tracing")
def test_stop_does_not_wait_longer_than_its_timeout(collector: Collector) -> None:
    collector.responds.clear()
    record_run(1)
    until(lambda: collector.requests)
    tracing.stop(0.1)
    # The SDK still waits for the collector.
    assert "stop tracing" in {thread.name for thread in threading.enumerate()}
    assert not tracing.is_on()


def test_a_full_queue_drops_spans_and_never_blocks(
    collector: Collector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in {**collector.variables, "OTEL_BSP_MAX_QUEUE_SIZE": "8"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    collector.responds.clear()
    tracing.start("this process")
    for run_id in range(100):
        record_run(run_id)
    collector.responds.set()
    tracing.stop(60)
    assert 0 < len(collector.runs()) < 100
    assert f"{100 - len(collector.runs())} of 100 spans were not exported" in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "over http/protobuf, not grpc"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "-1", "max_queue_size must be a positive integer"),
    ],
)
def test_an_unusable_variable_is_reported_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setenv(name, value)
    tracing.start("this process")
    assert not tracing.is_on()
    assert [message in record.getMessage() for record in caplog.records] == [True]
    record_job(1)
    record_run(1)


def test_missing_packages_are_reported_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    tracing.start("this process")
    assert not tracing.is_on()
    (record,) = caplog.records
    assert record.getMessage().endswith("the OpenTelemetry packages are not installed: pip install 'clerk[otel]'")


@pytest.mark.parametrize(
    ("given", "traces", "metrics"),
    [
        ({}, False, False),
        ({"OTEL_SERVICE_NAME": "clerk"}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, True, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, True, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False, False),
    ],
)
def test_an_endpoint_turns_the_export_on(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], traces: bool, metrics: bool
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    assert (variables.is_requested("TRACES"), variables.is_requested("METRICS")) == (traces, metrics)


def test_without_an_endpoint_no_package_is_imported() -> None:
    script = (
        "import sys, clerk.app, clerk.cli.metrics, clerk.cli.up\n"
        "from clerk.telemetry import tracing\n"
        "tracing.start('this process')\n"
        "tracing.stop(1)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('opentelemetry', 'google', 'requests')])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_run_ids_differ_between_sites_and_runs() -> None:
    assert len({run_ids(site, run).trace_id for site in ("a", "b") for run in (1, 2)}) == 4
