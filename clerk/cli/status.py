"""`clerk status`, also available as `clerk pipeline-status`."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import click
from rich.console import RenderableType
from rich.live import Live

from clerk import config
from clerk.cli import site_status_view, status_view
from clerk.cli.connection import Connection, open_pipeline
from clerk.cli.next_step import how_to_begin, show_next_step
from clerk.cli.output import json_option, make_console, print_json, show
from clerk.db.connection import read_only_snapshot, require_running
from clerk.db.embedded.postgres import EmbeddedPostgres
from clerk.db.sites import site_not_found
from clerk.errors import EXIT_OK, EXIT_UNKNOWN
from clerk.monitoring.alerts import Alert, find_alerts
from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_history, read_site_state
from clerk.monitoring.status import read_status
from clerk.ocr import restrictions


@click.command()
@click.argument("site", required=False)
@click.option("--all", "everything", is_flag=True, help="Show all documents and runs of the site.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.5),
    is_flag=False,
    flag_value=5.0,
    metavar="[SECONDS]",
    help="Refresh every SECONDS, 5 by default, until Ctrl-C. Without a terminal, print one line each time.",
)
@json_option
def status(site: str | None, everything: bool, watch: float | None, as_json: bool) -> None:
    """Show alerts, then stages, queues and workers. With a SITE, its documents and runs.

    With --watch and --json each update is one line of JSON. Where there is no database yet, it says how to begin and
    creates none; the exit code is 3.

    \b
    Examples:
      clerk status
      clerk status --watch
      clerk status springfield --all
      clerk status --json
    """
    if everything and site is None:
        raise click.UsageError("--all needs a SITE.")
    settings = config.load()
    if settings.database_url is None and not EmbeddedPostgres(settings.home).exists():
        _explain_beginning(settings, as_json)
    with open_pipeline(settings, migrations_only=True, read_only=True) as connection:
        read = partial(_read_site, connection, site, everything) if site else partial(_read_pipeline, connection)
        if watch is not None:
            _watch(read, watch, as_json)
        elif as_json:
            print_json(read().as_dict)
        else:
            show(read().full)


def _explain_beginning(settings: config.Settings, as_json: bool) -> NoReturn:
    if as_json:
        require_running(settings)  # raises NoDatabase, which is printed as JSON
    show_next_step(how_to_begin(settings))
    sys.exit(EXIT_UNKNOWN)


@dataclass(frozen=True)
class View:
    """One status, in the three forms in which it can be shown."""

    as_dict: dict[str, Any]
    full: RenderableType
    line: str


def _read_pipeline(connection: Connection) -> View:
    with read_only_snapshot(connection):
        pipeline = read_status(connection)
    alerts = [*find_alerts(pipeline), *_kernel_alerts()]
    as_dict = {"attention": [alert.as_dict() for alert in alerts], **pipeline.as_dict()}
    return View(as_dict, status_view.render(pipeline, alerts), status_view.one_line(pipeline, alerts))


def _kernel_alerts() -> list[Alert]:
    """Whether this machine's kernel cannot restrict the processes that read PDFs."""
    problem = restrictions.find_problem()
    return [] if problem is None else [Alert("sandbox", problem, restrictions.REMEDY)]


def _read_site(connection: Connection, subdomain: str, everything: bool) -> View:
    with read_only_snapshot(connection):
        state = read_site_state(connection, subdomain)
        if state is None:
            raise site_not_found(connection, subdomain)
        history = read_site_history(connection, subdomain, everything)
    why = explain(state)
    as_dict = {"site": subdomain, "because": why.because, "sentence": why.sentence, **history.as_dict()}
    line = f"{state.now.astimezone():%H:%M:%S} {subdomain}: {why.sentence}"
    return View(as_dict, site_status_view.render(state, why, history), line)


def _watch(read: Callable[[], View], interval: float, as_json: bool) -> None:
    console = make_console(sys.stdout)
    try:
        if console.is_terminal and not as_json:
            with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
                while True:
                    live.update(read().full, refresh=True)
                    time.sleep(interval)
        while True:
            view = read()
            if as_json:
                print_json(view.as_dict, indent=None)
            else:
                click.echo(view.line)
            sys.stdout.flush()
            time.sleep(interval)
    except KeyboardInterrupt:
        click.get_current_context().exit(EXIT_OK)


pipeline_status = copy.copy(status)
"""The name of the command in legacy clerk."""
pipeline_status.name = "pipeline-status"
pipeline_status.help = (status.help or "").replace("clerk status", "clerk pipeline-status")
pipeline_status.short_help = "The same as status, under the name that it had in legacy clerk."
