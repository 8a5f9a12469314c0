"""Exports the metrics of `clerk.monitoring.metrics` by OTLP, as observable gauges with the same names and labels.

Imported only if an endpoint is set: it needs `clerk[otel]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, MetricsData, PeriodicExportingMetricReader
from prometheus_client.metrics_core import Metric

from clerk.telemetry.export_log import ExportLog
from clerk.telemetry.resource import create_resource


class _Exporter(OTLPMetricExporter):
    """Keeps and counts the results."""

    def __init__(self, log: ExportLog) -> None:
        super().__init__()
        self.log = log
        self.result = MetricExportResult.FAILURE

    def export(
        self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **options: Any
    ) -> MetricExportResult:
        self.result = super().export(metrics_data, timeout_millis, **options)
        self.log.record(1, self.result is MetricExportResult.SUCCESS)
        return self.result


class OtlpMetrics:
    """Used in a `with` block."""

    def __init__(self) -> None:
        self._log = ExportLog("snapshots of the metrics", "opentelemetry.exporter.otlp.proto.http.metric_exporter")
        self._exporter = _Exporter(self._log)
        # Without an interval of its own: the database is read first, and no snapshot is exported twice.
        self._reader = PeriodicExportingMetricReader(self._exporter, export_interval_millis=math.inf)
        # The same instance on every machine and after every start: otherwise each would be a new series.
        self._provider = MeterProvider([self._reader], resource=create_resource("metrics"), shutdown_on_exit=False)
        self._meter = self._provider.get_meter("clerk")
        self._snapshot: dict[str, Metric] = {}
        self._instruments: set[str] = set()
        self._exports = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._provider.shutdown()
        self._log.close(self._exports)

    def export(self, metrics: Iterable[Metric]) -> bool:
        """Export one snapshot; False if the collector did not accept it, which is logged."""
        self._snapshot = {metric.name: metric for metric in metrics}
        for metric in self._snapshot.values():
            if metric.name not in self._instruments:
                self._instruments.add(metric.name)
                # No unit: it is in the name, and a collector would append it again.
                self._meter.create_observable_gauge(
                    metric.name, [self._callback(metric.name)], description=metric.documentation
                )
        self._exports += 1
        self._exporter.result = MetricExportResult.FAILURE
        self._reader.collect()
        return self._exporter.result is MetricExportResult.SUCCESS

    def _callback(self, name: str) -> Callable[[CallbackOptions], list[Observation]]:
        def observe(_: CallbackOptions) -> list[Observation]:
            metric = self._snapshot.get(name)
            return [] if metric is None else [Observation(s.value, dict(s.labels)) for s in metric.samples]

        return observe
