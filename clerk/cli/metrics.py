"""`clerk metrics`."""

from __future__ import annotations

from pathlib import Path

import click

from clerk import config
from clerk.cli.output import json_option, print_json
from clerk.db.connection import connect
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_migrations
from clerk.documents import storage
from clerk.errors import SettingError
from clerk.monitoring.metrics import read_metrics, render


@click.command()
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Write this file instead, by rename.")
@json_option
def metrics(output: Path | None, as_json: bool) -> None:
    """Print the pipeline's metrics as Prometheus reads them. The dashboard serves the same at /metrics.

    With --output, for node_exporter's textfile collector: the file is replaced as a whole, so that nobody reads half
    of it. It is left as it was if the database cannot be reached, and its age tells.

    \b
    Examples:
      clerk metrics
      clerk metrics --output /var/lib/prometheus/node-exporter/clerk.prom
    """
    if as_json and output is not None:
        raise click.UsageError("--output writes what Prometheus reads: leave out --json.")
    with connect(config.load()) as connection:
        require_known_migrations(connection, default_folder())
        found = read_metrics(connection)
    if as_json:
        print_json(
            {
                metric.name: [{"labels": dict(labels), "value": value} for labels, value in metric.samples]
                for metric in found
            }
        )
    elif output is None:
        click.echo(render(found), nl=False)
    else:
        try:
            storage.write(output, render(found))
        except OSError as error:
            raise SettingError(f"cannot write {output} ({error.strerror})", "choose another --output") from error
