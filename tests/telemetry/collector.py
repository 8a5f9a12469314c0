"""An OpenTelemetry collector for tests: an HTTP server that decodes OTLP requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Status

ERROR = Status.StatusCode.STATUS_CODE_ERROR


@dataclass(frozen=True)
class ReceivedSpan:
    name: str
    trace_id: str
    span_id: str
    parent_id: str
    """Empty for a root span."""
    start: int
    """Nanoseconds, like `end`."""
    end: int
    attributes: dict[str, Any]
    status: int
    status_message: str
    resource: dict[str, Any]

    def __getitem__(self, name: str) -> Any:
        """An attribute of clerk."""
        return self.attributes.get(f"clerk.{name}")


@dataclass
class Collector:
    endpoint: str
    spans: list[ReceivedSpan] = field(default_factory=list)
    metrics: list[dict[str, float]] = field(default_factory=list)
    """Per request: `name{label="value"}` → value."""
    resources: list[dict[str, Any]] = field(default_factory=list)
    """Of the metrics."""
    status: int = 200
    """What it responds."""
    decodes: bool = True
    """If not, requests are only counted: decoding takes as much CPU time as a worker needs for its jobs."""
    requests: int = 0
    responds: threading.Event = field(default_factory=threading.Event)
    """Requests wait for it."""

    @property
    def variables(self) -> dict[str, str]:
        """Spans are exported a tenth of a second after they end, not five seconds."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "100"}

    def jobs(self, **attributes: Any) -> list[ReceivedSpan]:
        """Spans of jobs with these attributes, in order of their start."""
        found = [
            span
            for span in self.spans
            if span["job_id"] is not None and all(span[name] == value for name, value in attributes.items())
        ]
        return sorted(found, key=lambda span: span.start)

    def runs(self) -> list[ReceivedSpan]:
        return [span for span in self.spans if span.name == "clerk.run"]

    def accept(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            self.spans += list(_decode_spans(body))
        elif path == "/v1/metrics":
            self._accept_metrics(body)
        else:
            raise AssertionError(path)

    def _accept_metrics(self, body: bytes) -> None:
        samples: dict[str, float] = {}
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
            self.resources.append(_values(resource.resource.attributes))
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.gauge.data_points:
                        labels = ",".join(f'{name}="{value}"' for name, value in _values(point.attributes).items())
                        samples[f"{metric.name}{{{labels}}}"] = point.as_double
        self.metrics.append(samples)


@contextmanager
def running_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.requests += 1
            collector.responds.wait()
            if collector.status == 200 and collector.decodes:
                collector.accept(self.path, body)
            self.send_response(collector.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that did not wait for the response is part of the tests."""

    with Server(("127.0.0.1", 0), Handler) as server:
        collector = Collector(f"http://127.0.0.1:{server.server_port}")
        collector.responds.set()
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield collector
        finally:
            collector.responds.set()
            server.shutdown()
            thread.join()


def _decode_spans(body: bytes) -> Iterator[ReceivedSpan]:
    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield ReceivedSpan(
                    span.name,
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex(),
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    _values(span.attributes),
                    span.status.code,
                    span.status.message,
                    _values(resource.resource.attributes),
                )


def _values(attributes: Any) -> dict[str, Any]:
    def value(attribute: KeyValue) -> Any:
        kind = attribute.value.WhichOneof("value")
        assert kind is not None
        return getattr(attribute.value, kind)

    return {attribute.key: value(attribute) for attribute in attributes}
