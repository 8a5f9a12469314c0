"""The OpenTelemetry SDK for traces: spans with the ids of `trace_context`, exported in batches by a thread.

A full queue drops spans, and a collector that cannot be reached loses them. Both are counted and logged.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import NonRecordingSpan, SpanContext, SpanKind, TraceFlags

from clerk.telemetry.export_log import ExportLog
from clerk.telemetry.resource import create_resource
from clerk.telemetry.trace_context import SpanIds

logger = logging.getLogger(__name__)

_next_ids: contextvars.ContextVar[SpanIds | None] = contextvars.ContextVar("clerk_next_ids", default=None)
"""Ids of the span that is being started; None for random ones."""


class _IdGenerator(RandomIdGenerator):
    def generate_trace_id(self) -> int:
        ids = _next_ids.get()
        return super().generate_trace_id() if ids is None else int(ids.trace_id, 16)

    def generate_span_id(self) -> int:
        ids = _next_ids.get()
        return super().generate_span_id() if ids is None else int(ids.span_id, 16)


class _Exporter(SpanExporter):
    """Counts what the OTLP exporter exports and loses."""

    def __init__(self, log: ExportLog) -> None:
        self.otlp = OTLPSpanExporter()
        self.log = log

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self.otlp.export(spans)
        self.log.record(len(spans), result is SpanExportResult.SUCCESS)
        return result

    def shutdown(self) -> None:
        self.otlp.shutdown()


class _Processor(BatchSpanProcessor):
    """Counts the spans that it receives: a full queue drops some before they reach the exporter."""

    def __init__(self, exporter: SpanExporter) -> None:
        super().__init__(exporter)
        self.received = 0

    def on_end(self, span: ReadableSpan) -> None:
        if span.context is not None and span.context.trace_flags.sampled:
            self.received += 1
        super().on_end(span)


class Tracer:
    def __init__(self, instance: str) -> None:
        self._log = ExportLog("spans", "opentelemetry.exporter.otlp.proto.http.trace_exporter")
        self._exporter = _Exporter(self._log)
        self._processor = _Processor(self._exporter)
        resource = create_resource(instance, **{"host.name": socket.gethostname()})
        # `stop` ends the export. The SDK's own exit handler could wait for half a minute.
        self._provider = TracerProvider(resource=resource, id_generator=_IdGenerator(), shutdown_on_exit=False)
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("clerk")
        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            # Spans that plugins create with the API of OpenTelemetry are exported too.
            trace.set_tracer_provider(self._provider)

    @contextlib.contextmanager
    def start_job(self, name: str, ids: SpanIds, attributes: Mapping[str, Any]) -> Iterator[trace.Span]:
        span = self._start(name, ids, self._parent_context(ids), attributes, SpanKind.CONSUMER)
        # The exception itself is not recorded: its message may contain text of documents.
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            yield span

    def start_child(self, name: str, attributes: Mapping[str, Any]) -> trace.Span:
        return self._tracer.start_span(name, attributes=attributes)

    def start_root(self, name: str, ids: SpanIds, attributes: Mapping[str, Any], started_at: int) -> trace.Span:
        return self._start(name, ids, Context(), attributes, SpanKind.INTERNAL, started_at)

    def stop(self, timeout: float) -> None:
        """Export the remaining spans, for at most `timeout` seconds, and log how many were lost."""
        # In a thread, because the SDK's own time limit is 30 seconds.
        thread = threading.Thread(target=self._provider.shutdown, name="stop tracing", daemon=True)
        thread.start()
        thread.join(timeout)
        is_ended = not thread.is_alive()
        if not is_ended:
            self._exporter.shutdown()
        self._log.close(self._processor.received, is_ended)

    def _start(
        self,
        name: str,
        ids: SpanIds,
        context: Context,
        attributes: Mapping[str, Any],
        kind: SpanKind,
        started_at: int | None = None,
    ) -> trace.Span:
        token = _next_ids.set(ids)
        try:
            return self._tracer.start_span(name, context, kind, attributes, start_time=started_at)
        finally:
            _next_ids.reset(token)

    def _parent_context(self, ids: SpanIds) -> Context:
        """The context of the parent span, which is recorded when the run ends. Its sampling decision is made here,
        the same in every worker, because samplers decide by the trace id."""
        if ids.parent_id is None:
            return Context()
        trace_id = int(ids.trace_id, 16)
        result = self._provider.sampler.should_sample(Context(), trace_id, "clerk.run")
        flags = TraceFlags.SAMPLED if result.decision.is_sampled() else TraceFlags.DEFAULT
        parent = SpanContext(trace_id, int(ids.parent_id, 16), is_remote=True, trace_flags=TraceFlags(flags))
        return trace.set_span_in_context(NonRecordingSpan(parent), Context())
