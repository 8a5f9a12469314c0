"""`clerk up`: database, workers and dashboard on one machine, in one terminal."""

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
from clerk.cli.connection import open_migrator
from clerk.cli.output import info, make_console
from clerk.cli.progress_reporter import quiet_option
from clerk.cli.status_poller import StatusPoller
from clerk.cli.up_display import Display, Endpoints, LineDisplay, NullDisplay, SupervisorLogHandler, TerminalDisplay
from clerk.cli.worker import (
    log_format_option,
    plan_processes,
    processes_option,
    require_ocr,
    until_idle_option,
    worker_specs,
)
from clerk.config import redact_url
from clerk.db.connection import connect, database_url
from clerk.errors import ClerkError, SettingError
from clerk.monitoring.runs import failed_since
from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES
from clerk.process.supervisor import ProcessSpec, Supervisor
from clerk.telemetry import variables

_LOG_FILE = "up.log"
_MAX_LOG_SIZE = 20_000_000
_MAX_NAMES = 5


@click.command()
@processes_option
@click.option("--host", default="127.0.0.1", show_default=True, help="The address the dashboard listens on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8010,
    show_default=True,
    help="Port of the dashboard; 0: any free port.",
)
@click.option(
    "--allow-actions", is_flag=True, help="Allow operator actions in the dashboard, with a token; see clerk dashboard."
)
@click.option("--no-dashboard", is_flag=True, help="Do not start the dashboard.")
@quiet_option
@until_idle_option
@log_format_option
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
    """Run database, workers and dashboard on this machine.

    Creates or migrates the database (an embedded Postgres without DATABASE_URL), starts workers for all queues and
    the dashboard, starts every site that is due, and shows the status. A process that dies or hangs is restarted.
    Ctrl-C stops everything when the running jobs have finished; a second Ctrl-C stops immediately, and the interrupted
    jobs are retried later. With --until-idle the exit code is 1 if a run failed.

    On a terminal, and with --quiet, log lines are written to up.log under CLERK_HOME; otherwise to standard error.

    \b
    Examples:
      clerk up
      clerk up --processes 2 --port 9000
      CLERK_DASHBOARD_TOKEN=... clerk up --allow-actions
      clerk up --until-idle --no-dashboard
    """
    settings = config.load()
    require_ocr(settings, QUEUES)
    specs = worker_specs(plan_processes(QUEUES, processes, None), ["--log-format", log_format])
    address = None
    if not no_dashboard:
        dashboard.require_token(host, settings.dashboard_token, allow_actions)
        with dashboard.listen(host, port) as listener:
            port = listener.getsockname()[1]
        address = dashboard.address(host, port)
        options = ["--host", host, "--port", str(port), *(["--allow-actions"] if allow_actions else [])]
        specs.append(ProcessSpec("dashboard", ("dashboard", *options)))
    specs += _metrics_specs()
    if not quiet:
        info("Starting; stop with Ctrl-C …")
    with database_url(settings), _open_log(settings, quiet, log_format) as log:
        with open_migrator(settings, create=True) as migrator:
            migrator.up()
            started_at = engine.now(migrator.connection)
        endpoints = Endpoints(
            address,
            _describe_database(settings),
            str(log.name) if log else None,
        )
        _run(settings, Supervisor(specs, output=log), _make_display(endpoints, quiet), until_idle)
        if until_idle:
            _require_no_failed_run(settings, started_at)
    if not quiet:
        info("clerk has stopped.")


def _describe_database(settings: config.Settings) -> str:
    if settings.database_url is None:
        return f"embedded, under {settings.home}"
    direct = f", sessions at {redact_url(settings.direct_database_url)}" if settings.is_pooled else ""
    return f"{redact_url(settings.database_url)}{direct}"


def _metrics_specs() -> list[ProcessSpec]:
    """The process that exports metrics, if there is an OpenTelemetry endpoint."""
    if not variables.is_requested("METRICS"):
        return []
    if problem := variables.find_problem("METRICS"):
        info(f"No metrics are exported: {problem}")
        return []
    return [ProcessSpec("metrics exporter", ("metrics", "--otlp"))]


def _require_no_failed_run(settings: config.Settings, since: datetime) -> None:
    with connect(settings) as connection:
        failed = failed_since(connection, since)
    if failed:
        names = ", ".join(failed[:_MAX_NAMES]) + (" and others" if len(failed) > _MAX_NAMES else "")
        raise ClerkError(f"the run of {names} failed", f'see the reason with "clerk why {failed[0]}"')


def _run(settings: config.Settings, supervisor: Supervisor, display: Display, until_idle: bool) -> None:
    poller = StatusPoller(settings, display, supervisor)

    def is_finished() -> bool:
        if poller.error is not None:
            raise poller.error
        return until_idle and poller.is_idle

    poller.start()
    try:
        supervisor.run(is_finished)
    finally:
        poller.stop()


def _make_display(endpoints: Endpoints, quiet: bool) -> Display:
    supervisor_logger = logging.getLogger("clerk.process.supervisor")
    if quiet:
        errors = logging.StreamHandler(sys.stderr)
        errors.setLevel(logging.ERROR)
        errors.setFormatter(logging.Formatter("clerk: %(message)s"))
        supervisor_logger.addHandler(errors)
        return NullDisplay()
    if not _has_live_display():
        return LineDisplay(endpoints)
    handler = SupervisorLogHandler()
    supervisor_logger.addHandler(handler)
    return TerminalDisplay(endpoints, handler)


def _has_live_display() -> bool:
    console = make_console(sys.stdout)
    return console.is_terminal and not console.is_dumb_terminal


@contextmanager
def _open_log(settings: config.Settings, quiet: bool, log_format: str) -> Iterator[IO[str] | None]:
    """The log file, where log lines would break the display; None where they go to standard error."""
    if not quiet and not _has_live_display():
        logs.configure(log_format)
        yield None
        return
    path = settings.home / _LOG_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size > _MAX_LOG_SIZE:
            path.replace(path.with_suffix(".log.1"))
        file = path.open("a", encoding="utf-8")
    except OSError as error:
        raise SettingError(
            f"the log {path} cannot be written ({error.strerror})", "set CLERK_HOME to another folder"
        ) from error
    with file:
        logs.configure(log_format, stream=file)
        yield file
