"""`clerk db`: the schema, and the embedded Postgres."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

import click

from clerk import config
from clerk.cli.connection import open_migrator
from clerk.cli.db_maintain import maintain
from clerk.cli.names import Group
from clerk.cli.output import dry_run_option, info, json_option, print_json, show, table
from clerk.cli.verify import apply_migration_option, report_checks
from clerk.db.connection import database_url, direct_database_url
from clerk.db.embedded import postgres
from clerk.db.migrations import schema_snapshot
from clerk.db.migrations.migrate import FEW, Step, read_state
from clerk.db.migrations.repeatable import is_cleaned_up
from clerk.db.migrations.verify import schema_privilege_problems, verify_schema
from clerk.errors import MigrationError, SettingError
from clerk.humanize import pluralize

verbose_option = click.option("--verbose", is_flag=True, help="List each migration and object, also if there are many.")
to_option = click.option("--to", type=click.IntRange(min=0), metavar="N", help="Stop at migration N.")

_COUNTED = ("migration", "function", "trigger", "view", "statement")
_KINDS_OF_ACTIONS = {"apply": "migration", "revert": "migration", "execute": "statement"}
_KINDS = {
    "ours": "is migrated",
    "empty": "is empty",
    "legacy": "is one of legacy clerk, not migrated yet",
    "foreign": "belongs to another application",
}


@click.group(cls=Group)
def db() -> None:
    """Migrate, check and maintain the database. Start and stop the embedded Postgres.

    \b
    Examples:
      clerk db up
      clerk db status
      psql "$(clerk db url)"
    """


def _report(
    steps: list[Step], as_json: bool, dry_run: bool, no_steps: str, done: str = "Done.", *, verbose: bool = False
) -> None:
    if as_json:
        print_json({"steps": [{"action": step.action, "what": step.what} for step in steps]})
    elif not steps:
        click.echo(no_steps)
    else:
        if verbose or len(steps) <= FEW:
            for step in steps:
                click.echo(f"  {step}")
        else:
            click.echo(f"  {_summarize(steps)} (--verbose lists them)")
        click.echo("Nothing was done." if dry_run else done)


def _summarize(steps: list[Step]) -> str:
    """The steps, with those of a kind as a number: "install Procrastinate 3.5, apply 12 migrations, create 3 views"."""
    counts = Counter((step.action, _kind(step)) for step in steps)
    return ", ".join(
        f"{action} {pluralize(number, kind) if kind in _COUNTED else kind}" for (action, kind), number in counts.items()
    )


def _kind(step: Step) -> str:
    kind = _KINDS_OF_ACTIONS.get(step.action) or step.what.partition(" ")[0]
    return kind if kind in _COUNTED else step.what


@db.command()
@to_option
@verbose_option
@dry_run_option
@json_option
def up(to: int | None, verbose: bool, dry_run: bool, as_json: bool) -> None:
    """Migrate the database to the newest schema. Includes the schema of Procrastinate.

    Accepts an empty database and one of legacy clerk; a database of another application is refused.

    \b
    Examples:
      clerk db up
      clerk db up --dry-run
      clerk db up --to 3 --dry-run
    """
    began = time.monotonic()
    with open_migrator(create=not dry_run) as migrator:
        migrator.verbose = verbose
        steps = migrator.plan(to) if dry_run else migrator.up(to)
        version = read_state(migrator.connection).version
        for problem in [] if dry_run else schema_privilege_problems(migrator.connection):
            info(f"note: {problem}")
    done = f"The database is at migration {version:04}, after {time.monotonic() - began:.1f} s."
    _report(steps, as_json, dry_run, "The database is up to date.", done, verbose=verbose)


@db.command()
@to_option
@click.option("--yes", is_flag=True, help="Continue even if rows will be deleted.")
@verbose_option
@dry_run_option
@json_option
def down(to: int | None, yes: bool, verbose: bool, dry_run: bool, as_json: bool) -> None:
    """Revert migrations: the newest one, or all above --to N. --to 0 restores the state before clerk.

    Without --yes it refuses to drop tables that have rows.

    \b
    Examples:
      clerk db down --dry-run
      clerk db down --to 0 --yes
    """
    with open_migrator() as migrator:
        if to is None:
            to = max(read_state(migrator.connection).version - 1, 0)
        losses = migrator.data_loss(to)
        lost_rows = ", ".join(f"{pluralize(count, 'row')} of {name}" for name, count in losses.items())
        if dry_run:
            steps = migrator.plan_down(to)
        elif losses and not yes:
            raise MigrationError(f"reverting to migration {to:04} would delete {lost_rows}", "add --yes to delete them")
        else:
            steps = migrator.down(to)
    if dry_run and lost_rows:
        info(f"This would delete {lost_rows}.")
    _report(steps, as_json, dry_run, "There is no migration to revert.", verbose=verbose)


@db.command()
@json_option
def status(as_json: bool) -> None:
    """Show which migrations are applied.

    \b
    Example:
      clerk db status
    """
    with open_migrator() as migrator:
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
    click.echo(f"Postgres {version}; the database {_KINDS[state.kind]}.")
    if state.procrastinate:
        click.echo(f"Procrastinate's schema: {state.procrastinate.version}")
    show(table([(m.name, "applied" if m.version in state.applied else "pending") for m in migrations]))
    if cleaned_up:
        click.echo("The legacy tables and columns are removed (clerk legacy cleanup --undo restores them).")
    others = [step for step in pending if step.action != "apply"]
    if others:
        click.echo(f"{pluralize(len(others), 'other step')} {'is' if len(others) == 1 else 'are'} pending.")
    if pending:
        click.echo("Run: clerk db up")


@db.command("verify")
@apply_migration_option
@json_option
def verify_command(apply_migration: bool, as_json: bool) -> None:
    """Compare the schema with the one of this version. `clerk verify` checks the data.

    Exit code 0: no differences, 1: differences, 3: the database cannot be reached.

    \b
    Examples:
      clerk db verify
      clerk db verify --apply-migration --json
    """
    with open_migrator(create=apply_migration, read_only=not apply_migration) as migrator:
        if apply_migration:
            migrator.up()
        checks = verify_schema(migrator.connection, migrator.folder)
    report_checks(checks, as_json)


@db.command()
@json_option
def url(as_json: bool) -> None:
    """Print the URL of the database, including the password. Behind a pooler: CLERK_DIRECT_DATABASE_URL.

    Starts the embedded Postgres if it is used; it runs as long as a client is connected.

    \b
    Examples:
      psql "$(clerk db url)"
      clerk db url --json
    """
    settings = config.load()
    with direct_database_url(settings) as database:
        if as_json:
            print_json({"url": database})
        else:
            click.echo(database)
    if settings.database_url is None and sys.stdout.isatty():
        idle = f"{settings.postgres_idle_timeout:g} s"
        info(f"(stops {idle} after the last client has disconnected; `clerk db start` keeps it running)")


@db.command()
@dry_run_option
def start(dry_run: bool) -> None:
    """Start the embedded Postgres. It runs until `clerk db stop`.

    \b
    Example:
      clerk db start
    """
    settings = config.load()
    embedded = postgres.EmbeddedPostgres(_embedded_home(settings))
    if dry_run:
        running = embedded.server.pid is not None
        click.echo(f"Would {'keep' if running else 'start'} the embedded Postgres in {embedded.folder}.")
        return
    with database_url(settings) as database:
        embedded.keep_running_file.touch()
    click.echo(f"The embedded Postgres is running: {database}")


@db.command()
@click.option("--force", is_flag=True, help="Stop it even if other clerk processes use it.")
@dry_run_option
def stop(force: bool, dry_run: bool) -> None:
    """Stop the embedded Postgres.

    \b
    Examples:
      clerk db stop
      clerk db stop --force
    """
    folder = _embedded_home(config.load())
    running = postgres.stop(folder, force=force, dry_run=dry_run)
    if not running:
        click.echo("No embedded Postgres is running here.")
    elif dry_run:
        click.echo(f"Would stop the embedded Postgres in {folder}.")
    else:
        click.echo("The embedded Postgres has stopped.")


db.add_command(maintain)


@db.command("snapshot", hidden=True)
def snapshot_command() -> None:
    """Print the schema as text; for developers: clerk db snapshot > sql/schema.snapshot.sql"""
    with open_migrator() as migrator:
        click.echo(schema_snapshot.render(schema_snapshot.take(migrator.connection, migrator.folder)), nl=False)


def _embedded_home(settings: config.Settings) -> Path:
    if settings.database_url is not None:
        raise SettingError(
            "DATABASE_URL is set, so there is no embedded Postgres",
            "unset it, or use the commands of your server",
        )
    return settings.home
