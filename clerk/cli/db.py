"""`clerk db …`: the schema, and the embedded server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from clerk import config
from clerk.cli.output import dry_run_option, info, json_option, print_json, table
from clerk.cli.verify import check_schema
from clerk.db.connection import connect, database_url
from clerk.db.embedded import postgres
from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.migrate import Migrator, Step, read_state
from clerk.db.migrations.repeatable import is_cleaned_up
from clerk.db.migrations.sqlfiles import default_folder
from clerk.errors import MigrationError, SettingError

to_option = click.option("--to", type=click.IntRange(min=0), metavar="N", help="Stop at migration N.")


@click.group()
def db() -> None:
    """Make, migrate and check the database; start and stop the embedded one.

    \b
    Examples:
      clerk db up
      clerk db status
      psql "$(clerk db url)"
    """


@contextmanager
def _migrator() -> Iterator[Migrator]:
    settings = config.load()
    with connect(settings) as connection:
        yield Migrator(connection, default_folder(), settings.lock_timeout, info)


def _report(steps: list[Step], as_json: bool, nothing: str, done: str) -> None:
    if as_json:
        print_json({"steps": [{"action": step.action, "what": step.what} for step in steps]})
    elif not steps:
        click.echo(nothing)
    else:
        for step in steps:
            click.echo(f"  {step}")
        click.echo(done)


@db.command()
@to_option
@dry_run_option
@json_option
def up(to: int | None, dry_run: bool, as_json: bool) -> None:
    """Bring the database to the newest schema, Procrastinate's included.

    Works on an empty database and on one of the older clerk; anything else is left alone.

    \b
    Examples:
      clerk db up
      clerk db up --to 3 --dry-run
    """
    with _migrator() as migrator:
        steps = migrator.plan(to) if dry_run else migrator.up(to)
    _report(steps, as_json, "The database is up to date.", "Nothing was done." if dry_run else "Done.")


@db.command()
@to_option
@click.option("--yes", is_flag=True, help="Go ahead although rows will be lost.")
@dry_run_option
@json_option
def down(to: int | None, yes: bool, dry_run: bool, as_json: bool) -> None:
    """Take migrations back: the newest one, or all above --to N. --to 0 leaves what was there before clerk.

    Refuses, without --yes, when tables with rows in them would go.

    \b
    Examples:
      clerk db down --dry-run
      clerk db down --to 0 --yes
    """
    with _migrator() as migrator:
        if to is None:
            to = max(read_state(migrator.connection).version - 1, 0)
        losses = migrator.data_loss(to)
        lost = ", ".join(f"{count:,} rows of {name}" for name, count in losses.items())
        if dry_run:
            steps = migrator.plan_down(to)
        elif losses and not yes:
            raise MigrationError(f"going down to {to:04} would delete {lost}", "add --yes if that is meant")
        else:
            steps = migrator.down(to)
    if dry_run and lost:
        info(f"This would delete {lost}.")
    _report(steps, as_json, "There is nothing to revert.", "Nothing was done." if dry_run else "Done.")


@db.command()
@to_option
@json_option
def plan(to: int | None, as_json: bool) -> None:
    """Show what `up` would do.

    \b
    Example:
      clerk db plan --json
    """
    with _migrator() as migrator:
        steps = migrator.plan(to)
    _report(steps, as_json, "The database is up to date.", f"{len(steps)} to do; run: clerk db up")


@db.command()
@json_option
def status(as_json: bool) -> None:
    """Show which migrations are applied.

    \b
    Example:
      clerk db status
    """
    with _migrator() as migrator:
        state = read_state(migrator.connection)
        pending = [] if state.kind == "foreign" else migrator.plan()
        version = migrator.connection.info.server_version // 10_000
        cleaned_up = is_cleaned_up(migrator.connection)
        migrations = migrator.folder.migrations
    if as_json:
        print_json(
            {
                "database": state.kind,
                "postgres": version,
                "version": state.version,
                "newest": len(migrations),
                "cleaned_up": cleaned_up,
                "procrastinate": str(state.procrastinate.version) if state.procrastinate else None,
                "migrations": [{"name": m.name, "applied": m.version in state.applied} for m in migrations],
                "pending": [str(step) for step in pending],
            }
        )
        return
    kinds = {
        "ours": "migrated by clerk",
        "empty": "empty",
        "legacy": "of the older clerk, not migrated yet",
        "foreign": "of something else",
    }
    click.echo(f"Postgres {version}; the database is {kinds[state.kind]}.")
    if state.procrastinate:
        click.echo(f"Procrastinate's schema: {state.procrastinate.version}")
    table([(m.name, "applied" if m.version in state.applied else "pending") for m in migrations])
    if cleaned_up:
        click.echo(
            "The older system's tables and columns are set aside (clerk legacy cleanup --undo brings them back)."
        )
    others = [step for step in pending if step.action != "apply"]
    if pending:
        click.echo(f"{len(others)} other steps are pending. Run: clerk db up" if others else "Run: clerk db up")


@db.command("verify")
@click.option("--apply-migration", is_flag=True, help="Migrate first.")
@json_option
def verify_command(apply_migration: bool, as_json: bool) -> None:
    """Check the schema in detail. Exit code 0: as it should be, 1: not, 3: it cannot be reached.

    \b
    Examples:
      clerk db verify
      clerk db verify --apply-migration --json
    """
    check_schema(apply_migration=apply_migration, as_json=as_json)


@db.command()
@json_option
def url(as_json: bool) -> None:
    """Print the database's URL, for psql and any other client. A password in it is printed too.

    An embedded server is started for it, and stays while anybody is connected.

    \b
    Examples:
      psql "$(clerk db url)"
      clerk db url --json
    """
    settings = config.load()
    with database_url(settings) as found:
        if as_json:
            print_json({"url": found})
        else:
            click.echo(found)
    if settings.database_url is None and sys.stdout.isatty():
        info(f"(stops {settings.postgres_idle_timeout:g} s after its last user has left; `clerk db start` keeps it up)")


@db.command()
@dry_run_option
def start(dry_run: bool) -> None:
    """Start the embedded Postgres and keep it up until `clerk db stop`.

    \b
    Example:
      clerk db start
    """
    settings = config.load()
    home = postgres.EmbeddedPostgres(_embedded_only(settings))
    if dry_run:
        running = home.server.pid is not None
        click.echo(f"Would {'keep up' if running else 'start'} the embedded Postgres in {home.folder}.")
        return
    with database_url(settings) as found:
        home.keep_running_file.touch()
    click.echo(f"The embedded Postgres runs: {found}")


@db.command()
@click.option("--force", is_flag=True, help="Even while other clerk processes use it.")
@dry_run_option
def stop(force: bool, dry_run: bool) -> None:
    """Stop the embedded Postgres.

    \b
    Examples:
      clerk db stop
      clerk db stop --force
    """
    folder = _embedded_only(config.load())
    running = postgres.stop(folder, force=force, dry_run=dry_run)
    if not running:
        click.echo("No embedded Postgres is running here.")
    elif dry_run:
        click.echo(f"Would stop the embedded Postgres in {folder}.")
    else:
        click.echo("The embedded Postgres has stopped.")


@db.command("snapshot", hidden=True)
def snapshot_command() -> None:
    """Print the schema as text; for developers: clerk db snapshot > sql/schema.snapshot.sql"""
    with _migrator() as migrator:
        click.echo(schema_snapshot.render(schema_snapshot.take(migrator.connection, migrator.folder)), nl=False)


def _embedded_only(settings: config.Settings) -> Path:
    if settings.database_url is not None:
        raise SettingError(
            "DATABASE_URL is set, so there is no embedded Postgres",
            "unset it, or use your own server's commands",
        )
    return settings.home
