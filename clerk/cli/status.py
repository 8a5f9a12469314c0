"""`clerk status`, also called `clerk pipeline-status`: the whole pipeline, or one site."""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import psycopg

from clerk import config
from clerk.cli import site_status_view, status_view
from clerk.cli.output import json_option, print_json
from clerk.cli.screen import Screen
from clerk.db.connection import connect, read_only_snapshot
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_migrations
from clerk.db.sites import site_not_found
from clerk.errors import EXIT_OK
from clerk.monitoring.alerts import find_alerts
from clerk.monitoring.explain import explain
from clerk.monitoring.site_state import read_site_state
from clerk.monitoring.site_status import read_site_status
from clerk.monitoring.status import read_status

Connection = psycopg.Connection[Any]


@click.command()
@click.argument("site", required=False)
@click.option("--all", "everything", is_flag=True, help="All documents and runs of the site, not the first of them.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0.5),
    is_flag=False,
    flag_value=5.0,
    metavar="[SECONDS]",
    help="Show it again every so often, 5 seconds unless told, until Ctrl-C. A line each time if not on a terminal.",
)
@json_option
def status(site: str | None, everything: bool, watch: float | None, as_json: bool) -> None:
    """Show what needs attention, then stages, queues and workers. With a SITE, its documents and runs.

    With --watch and --json each update is one line of JSON.

    \b
    Examples:
      clerk status
      clerk status --watch
      clerk status springfield --all
      clerk status --json
    """
    if everything and site is None:
        raise click.UsageError("--all is about the documents of a SITE.")
    with connect(config.load()) as connection:
        require_known_migrations(connection, default_folder())
        read = partial(_site, connection, site, everything) if site else partial(_whole, connection)
        if watch is None:
            _show(read(), as_json)
        else:
            _watch(read, watch, as_json)


class View:
    """What was read, in the three ways in which it can be shown."""

    def __init__(self, as_dict: dict[str, Any], lines: list[str], line: str) -> None:
        self.as_dict = as_dict
        self.lines = lines
        self.line = line


def _whole(connection: Connection) -> View:
    with read_only_snapshot(connection):
        condition = read_status(connection)
    found = find_alerts(condition)
    as_dict = {"attention": [vars(one) for one in found], **condition.as_dict()}
    return View(as_dict, status_view.lines(condition, found), status_view.line(condition, found))


def _site(connection: Connection, subdomain: str, everything: bool) -> View:
    with read_only_snapshot(connection):
        facts = read_site_state(connection, subdomain)
        if facts is None:
            raise site_not_found(connection, subdomain)
        detail = read_site_status(connection, subdomain, everything)
    answer = explain(facts)
    as_dict = {"site": subdomain, "because": answer.because, "sentence": answer.sentence, **detail.as_dict()}
    line = f"{facts.now.astimezone():%H:%M:%S} {subdomain}: {answer.sentence}"
    return View(as_dict, site_status_view.lines(facts, answer, detail), line)


def _show(view: View, as_json: bool) -> None:
    if as_json:
        print_json(view.as_dict)
    else:
        for line in view.lines:
            click.echo(line)


def _watch(read: Callable[[], View], seconds: float, as_json: bool) -> None:
    screen = Screen() if sys.stdout.isatty() and not as_json else None
    try:
        while True:
            view = read()
            if as_json:
                print_json(view.as_dict, indent=None)
            elif screen:
                screen.draw(view.lines)
            else:
                click.echo(view.line)
            sys.stdout.flush()
            time.sleep(seconds)
    except KeyboardInterrupt:
        click.get_current_context().exit(EXIT_OK)
    finally:
        if screen:
            screen.close()


pipeline_status = copy.copy(status)
"""The older system's name for it."""
pipeline_status.name = "pipeline-status"
pipeline_status.hidden = True
