"""`clerk up`: the whole system on one machine, in one terminal."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import IO

import click

from clerk import config, logs
from clerk.cli import dashboard
from clerk.cli.output import info
from clerk.cli.status_poller import StatusPoller
from clerk.cli.up_display import Display, Endpoints, LineDisplay, NullDisplay, SupervisorLogHandler, TerminalDisplay
from clerk.cli.worker import plan_processes, worker_specs
from clerk.config import redact_url
from clerk.db.connection import connect, database_url
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.errors import ClerkError, SettingError
from clerk.monitoring.overview import failed_since
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from clerk.process.supervisor import ProcessSpec, Supervisor

_LOG = "up.log"
_LONGEST_LOG = 20_000_000
_NAMED = 5


@click.command()
@click.option(
    "--workers",
    "--processes",
    "processes",
    type=click.IntRange(min=1),
    help="How many. Default: what suits this machine.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address the dashboard listens on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8010, show_default=True, help="0: any that is free.")
@click.option("--allow-actions", is_flag=True, help="The dashboard's visitors may also act: see clerk dashboard.")
@click.option("--no-dashboard", is_flag=True, help="Without the dashboard.")
@click.option("--quiet", is_flag=True, help="Show nothing but errors.")
@click.option(
    "--until-idle",
    is_flag=True,
    help="Stop when no site is due, and nothing waits or runs any more; exit code 1 if a run failed.",
)
@click.option(
    "--log-format",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="How log lines are written.",
)
def up(
    processes: int | None,
    host: str,
    port: int,
    allow_actions: bool,
    no_dashboard: bool,
    quiet: bool,
    until_idle: bool,
    log_format: str,
) -> None:
    """Run everything on this machine: database, workers, dashboard; until Ctrl-C.

    Makes or migrates the database (a Postgres of its own, without DATABASE_URL), starts workers for all queues and the
    dashboard, starts every site that is due, those that are added meanwhile too, and shows how it goes on. Whatever
    dies is started again. Ctrl-C lets running jobs finish and stops all of it; a second one stops at once, and what was
    being worked on is done again later.

    On a terminal, and with --quiet, log lines go to up.log under CLERK_HOME; in a pipe they go to standard error.

    \b
    Examples:
      clerk up
      clerk up --workers 2 --port 9000
      clerk up --until-idle --no-dashboard
    """
    settings = config.load()
    family_members = worker_specs(plan_processes(QUEUES, processes, None), ["--log-format", log_format])
    address = None
    if not no_dashboard:
        dashboard.require_token(host, settings.dashboard_token)
        with dashboard.listening(host, port) as listener:
            port = listener.getsockname()[1]
        address = dashboard.address(host, port)
        options = ["--host", host, "--port", str(port), *(["--allow-actions"] if allow_actions else [])]
        family_members.append(ProcessSpec("dashboard", ("dashboard", *options)))
    if not quiet:
        info("Starting; Ctrl-C stops it …")
    with database_url(settings) as url, _log(settings, quiet, log_format) as log:
        with connect(settings) as connection:
            Migrator(connection, default_folder(), settings.lock_timeout, info).up()
            began = engine.now(connection)
        embedded = settings.database_url is None
        place = Endpoints(
            address,
            f"clerk's own, under {settings.home}" if embedded else redact_url(url),
            str(log.name) if log else None,
        )
        _run(settings, Supervisor(family_members, output=log), _display(place, quiet), until_idle)
        if until_idle:
            _complain_of_failed_runs(settings, began)
    if not quiet:
        info("clerk has stopped.")


def _complain_of_failed_runs(settings: config.Settings, since: datetime) -> None:
    with connect(settings) as connection:
        failed = failed_since(connection, since)
    if failed:
        some = ", ".join(failed[:_NAMED]) + (" and others" if len(failed) > _NAMED else "")
        raise ClerkError(f"the run of {some} failed", f'"clerk why {failed[0]}" says why')


def _run(settings: config.Settings, family: Supervisor, display: Display, until_idle: bool) -> None:
    watch = StatusPoller(settings, display, family)

    def enough() -> bool:
        if watch.error is not None:
            raise watch.error
        return until_idle and watch.is_idle

    watch.start()
    try:
        family.run(enough)
    finally:
        watch.end()


def _display(place: Endpoints, quiet: bool) -> Display:
    if quiet:
        errors = logging.StreamHandler(sys.stderr)
        errors.setLevel(logging.ERROR)
        errors.setFormatter(logging.Formatter("clerk: %(message)s"))
        logging.getLogger("clerk.process.supervisor").addHandler(errors)
        return NullDisplay()
    if not sys.stdout.isatty():
        return LineDisplay(place)
    household = SupervisorLogHandler()
    logging.getLogger("clerk.process.supervisor").addHandler(household)
    return TerminalDisplay(place, household)


@contextmanager
def _log(settings: config.Settings, quiet: bool, log_format: str) -> Iterator[IO[str] | None]:
    """The file for log lines where they would tear up the display; None where they pass through."""
    if not quiet and not sys.stdout.isatty():
        logs.configure(log_format)
        yield None
        return
    path = settings.home / _LOG
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _LONGEST_LOG:
            path.replace(path.with_suffix(".log.1"))
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise SettingError(
            f"the log {path} cannot be written ({error.strerror})", "set CLERK_HOME to another folder"
        ) from error
    with file:
        logs.configure(log_format, stream=file)
        yield file
