"""`clerk metrics`."""

from __future__ import annotations

from pathlib import Path

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.output import json_option, print_json
from clerk.db.connection import read_only_snapshot
from clerk.documents import storage
from clerk.errors import SettingError
from clerk.monitoring.metrics import read_metrics, render


@click.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
@json_option
def metrics(output: Path | None, as_json: bool) -> None:
    """Print metrics in the Prometheus text format. The dashboard serves the same at /metrics.

    --output is for the textfile collector of node_exporter: the file is replaced atomically. If the database cannot
    be reached the file is not changed, so its age shows the problem.

    \b
    Examples:
      clerk metrics
      clerk metrics --output /var/lib/prometheus/node-exporter/clerk.prom
    """
    if as_json and output is not None:
        raise click.UsageError("--output writes the Prometheus text format: omit --json.")
    with open_pipeline(migrations_only=True) as connection, read_only_snapshot(connection):
        families = read_metrics(connection)
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
