"""`clerk metrics`."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from pathlib import Path

import click
import psycopg
from prometheus_client.metrics_core import Metric

from clerk import config, logs
from clerk.cli.connection import open_pipeline
from clerk.cli.output import info, json_option, print_json
from clerk.db.connection import database_url, read_only_snapshot
from clerk.documents import storage
from clerk.errors import ClerkError, SettingError
from clerk.monitoring.metrics import read_metrics, render
from clerk.process import sd_notify
from clerk.telemetry import variables

logger = logging.getLogger(__name__)

_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_INTERVAL = "60000"


@click.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@click.option(
    "--otlp",
    is_flag=True,
    help=f"Send the metrics to OTEL_EXPORTER_OTLP_ENDPOINT, until stopped. Every {_INTERVAL} milliseconds, by default"
    " each minute.",
)
@click.option("--once", is_flag=True, help="With --otlp: send the metrics once.")
@json_option
def metrics(output: Path | None, otlp: bool, once: bool, as_json: bool) -> None:
    """Print metrics in the Prometheus text format. The dashboard serves the same at /metrics.

    --output is for the textfile collector of node_exporter: the file is replaced atomically. If the database cannot
    be reached the file is not changed, so its age shows the problem.

    --otlp is for OpenTelemetry collectors; one process for the whole installation is enough. It continues when the
    collector or the database cannot be reached.

    \b
    Examples:
      clerk metrics
      clerk metrics --output /var/lib/prometheus/node-exporter/clerk.prom
      OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:4318 clerk metrics --otlp
    """
    if as_json and output is not None:
        raise click.UsageError("--output writes the Prometheus text format: omit --json.")
    if otlp and (as_json or output is not None):
        raise click.UsageError("--otlp sends the metrics to a collector: omit --json and --output.")
    if once and not otlp:
        raise click.UsageError("--once is for --otlp.")
    if otlp:
        _export(once)
        return
    families = _read(config.load())
    if as_json:
        print_json(
            {
                metric.name: [{"labels": sample.labels, "value": sample.value} for sample in metric.samples]
                for metric in families
            }
        )
    elif output is None:
        click.echo(render(families), nl=False)
    else:
        try:
            storage.write(output, render(families))
        except OSError as error:
            raise SettingError(f"cannot write {output} ({error.strerror})", "choose another --output") from error


def _read(settings: config.Settings) -> list[Metric]:
    with (
        open_pipeline(settings, migrations_only=True, read_only=True) as connection,
        read_only_snapshot(connection),
    ):
        return read_metrics(connection)


def _export(once: bool) -> None:
    if not variables.is_requested("METRICS"):
        raise SettingError(
            "there is no OpenTelemetry endpoint to export metrics to",
            "set OTEL_EXPORTER_OTLP_ENDPOINT, as in http://collector:4318, and neither OTEL_SDK_DISABLED=true nor"
            " OTEL_METRICS_EXPORTER=none",
        )
    if problem := variables.find_problem("METRICS"):
        raise SettingError("no metrics are exported", problem)
    interval = _interval()
    from clerk.monitoring.otlp_metrics import OtlpMetrics  # the packages may be missing

    settings = config.load()
    logs.configure("human")
    # Raises SystemExit, so that the embedded Postgres is released.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with database_url(settings), OtlpMetrics() as exporter:
        # Not caught, unlike later errors: a wrong DATABASE_URL is an error of the command.
        families = _read(settings)
        if once:
            if not exporter.export(families):
                raise ClerkError(
                    "the collector did not accept the metrics", "the log says why; check OTEL_EXPORTER_OTLP_ENDPOINT"
                )
            return
        info("Sending metrics to the OpenTelemetry collector (stop with Ctrl-C) …")
        sd_notify.notify(sd_notify.READY)
        exporter.export(families)
        stopped = threading.Event()
        while not stopped.wait(interval):
            try:
                families = _read(settings)
            except (ClerkError, psycopg.Error) as error:
                logger.warning("no metrics are exported, because they cannot be read: %s", error)
            else:
                exporter.export(families)


def _interval() -> float:
    """Seconds."""
    text = variables.read(_INTERVAL) or _DEFAULT_INTERVAL
    try:
        milliseconds = float(text)
    except ValueError:
        milliseconds = 0
    if not 0 < milliseconds <= threading.TIMEOUT_MAX:
        raise SettingError(f"{_INTERVAL} is {text!r}", "write the number of milliseconds, as in 60000")
    return milliseconds / 1000
