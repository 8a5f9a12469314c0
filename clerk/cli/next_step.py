"""`clerk` alone: the state that it finds, and the commands that come next. Changes and starts nothing."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import psycopg

from clerk import config
from clerk.cli.output import show, text
from clerk.db.connection import connect_if_running, read_only_snapshot
from clerk.errors import ClerkError, EmbeddedServerStopped, NoDatabase, SchemaMismatch
from clerk.humanize import pluralize

if TYPE_CHECKING:
    from clerk.monitoring.status import PipelineStatus

Connection = psycopg.Connection[Any]

_STATEMENT_SECONDS = 3.0
_ADD_SITE = "site add springfield --url https://www.springfield.gov"
_ADD_FOLDER = "site add scans --path /data/scans"


@dataclass(frozen=True)
class NextStep:
    situation: str
    commands: list[tuple[str, str]]
    """Command without the program's name → what it does."""


def print_next_step() -> None:
    show_next_step(find_next_step(config.load()))


def show_next_step(step: NextStep) -> None:
    program = program_name()
    show(*(text(line) for line in step.situation.splitlines()))
    for command, purpose in step.commands:
        show("", text(purpose))
        # Not wrapped, so that it can be copied.
        click.secho(f"    {program} {command}", bold=True)
    show("", "Help: --help lists all commands, COMMAND --help has examples, doctor checks this machine.")


def find_next_step(settings: config.Settings) -> NextStep:
    try:
        with connect_if_running(settings, _STATEMENT_SECONDS) as connection:
            return _of_database(connection)
    except NoDatabase:
        return how_to_begin(settings)
    except EmbeddedServerStopped:
        return _stopped(settings)
    except psycopg.errors.QueryCanceled:
        return NextStep(
            f"The database has not answered within {_STATEMENT_SECONDS:g} seconds.",
            [("status", "Wait longer for the state of the pipeline:"), _DOCTOR],
        )
    except ClerkError as error:
        return NextStep(f"The state is unknown: {error}", [_DOCTOR])


_DOCTOR = ("doctor", "Find out what is wrong:")
_ADD = [
    (_ADD_SITE, "Add a town by the address of its website; clerk finds out which system it uses:"),
    (_ADD_FOLDER, "Or a folder of documents:"),
]
_READ = [
    ("""search '"bike lanes"'""", "Search all published archives:"),
    ("serve", "Show them on the web:"),
]


def how_to_begin(settings: config.Settings) -> NextStep:
    """The next step where there is no database."""
    return NextStep(
        "clerk turns the documents of public meetings into searchable archives.\n"
        f"There is no database here yet ({settings.home}, and DATABASE_URL is not set).",
        [
            ("up", "Create one and run everything on this machine until Ctrl-C:"),
            (_ADD_SITE, "Then, in another terminal and the same folder, add a town:"),
            ("demo", "Or see all of it with generated documents first, in half a minute:"),
        ],
    )


def _stopped(settings: config.Settings) -> NextStep:
    from clerk.publish.versions import current_versions

    published = len(current_versions(settings.publish_dir)) if isinstance(settings.publish_dir, Path) else 0
    archives = f" {pluralize(published, 'archive')} published." if published else ""
    return NextStep(
        f"Nothing is running: the database under {settings.home} has stopped.{archives}",
        [
            ("up", "Run everything on this machine until Ctrl-C:"),
            ("status", "Only look at the pipeline:"),
            *(_READ if published else []),
        ],
    )


def _of_database(connection: Connection) -> NextStep:
    # Imported here because the imports take half a second, which a new user, without a database, need not wait for.
    from clerk.db.migrations.migrate import read_state
    from clerk.db.migrations.sqlfiles import default_folder
    from clerk.db.migrations.verify import require_known_migrations
    from clerk.monitoring.status import read_status

    kind = read_state(connection).kind
    if kind == "foreign":
        what = f"The database {connection.info.dbname} belongs to another application."
        return NextStep(f"{what} Correct DATABASE_URL.", [("config", "See the settings:")])
    if kind != "ours":
        what = "is empty" if kind == "empty" else "is one of legacy clerk, not migrated yet"
        return NextStep(
            f"The database {connection.info.dbname} {what}.",
            [("db up --dry-run", "See what a migration would do:"), ("db up", "Migrate it:")],
        )
    try:
        require_known_migrations(connection, default_folder())
    except SchemaMismatch as error:
        return NextStep(f"The database must be migrated: {error.what}.", [("db up", "Migrate it:")])
    with read_only_snapshot(connection):
        status = read_status(connection)
        row = connection.execute("select exists (select from publications)").fetchone()
    return _of_pipeline(status, is_published=row == (True,))


def _of_pipeline(status: PipelineStatus, *, is_published: bool) -> NextStep:
    from clerk.monitoring.alerts import find_alerts

    sites, active = status.health["sites"], status.health["active"]
    if not sites:
        return NextStep("There is a database, and it has no site yet.", _ADD)
    have = f"There {'is' if sites == 1 else 'are'} {pluralize(sites, 'site')}"
    if not any(worker.alive for worker in status.workers):
        return NextStep(
            f"{have}, and no worker runs: nothing is fetched or processed.",
            [
                ("up", "Run workers and dashboard on this machine:"),
                ("worker", "Or only workers:"),
                *(_READ if is_published else []),
            ],
        )
    if alerts := find_alerts(status):
        more = f" ({pluralize(len(alerts) - 1, 'more alert')})" if len(alerts) > 1 else ""
        return NextStep(
            f"{have}. Something needs attention{more}:\n! {alerts[0].what}\n  → {alerts[0].remedy}",
            [("status", "See all alerts with what to do:")],
        )
    if active:
        return NextStep(
            f"{have}; {active:,} {'is' if active == 1 else 'are'} being processed. There are no alerts.",
            [("status --watch", "Watch the progress:"), *(_READ[:1] if is_published else [])],
        )
    if is_published:
        return NextStep(f"{have}; all is processed, and there are no alerts.", [*_READ, ("status", "See details:")])
    return NextStep(
        f"{have}, and workers run. Nothing is published yet: sites that are due start within a minute.",
        [("update --all", "Start all sites now:"), ("status --watch", "Watch the progress:")],
    )


def program_name() -> str:
    """How the user calls clerk: by its name if the shell finds it, else by a path."""
    if shutil.which("clerk") is not None:
        return "clerk"
    script = Path(sys.argv[0])
    if script.name == "__main__.py":
        return "python -m clerk"
    # bin/clerk of a checkout runs the script of its virtual environment.
    wrapper = script.absolute().parents[2] / "bin" / "clerk" if len(script.absolute().parents) > 2 else script
    path = wrapper if wrapper.is_file() else script.absolute()
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
