"""`clerk verify`, and the report of checks that `clerk db verify` uses too."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.connection import open_migrator
from clerk.cli.output import json_option, print_json
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.db.migrations.verify import Check, require_known_migrations, verify_invariants
from clerk.errors import EXIT_FAILURE, EXIT_UNKNOWN
from clerk.reconcile.verify_files import verify_files

apply_migration_option = click.option("--apply-migration", is_flag=True, help="Migrate the database first.")


@click.command()
@click.option(
    "--full", is_flag=True, help="Check every row and hash every file. Slow: for nightly checks, and after a restore."
)
@click.option("--no-files", is_flag=True, help="Check the database only: for a machine without the storage.")
@apply_migration_option
@quiet_option
@json_option
def verify(full: bool, no_files: bool, apply_migration: bool, quiet: bool, as_json: bool) -> None:
    """Check the invariants of the pipeline. Reads the database and the files; `clerk db verify` checks the schema.

    Without --full it checks the active runs and the databases published last, which is quick enough for every minute.

    Exit code 0: no violations, 1: violations, 3: unknown (no database, or no storage on this machine).

    \b
    Examples:
      clerk verify
      clerk verify --full
      clerk verify --no-files --json
    """
    settings = config.load()
    with (
        open_migrator(settings, create=apply_migration, read_only=not apply_migration) as migrator,
        ProgressReporter(quiet) as progress,
    ):
        if apply_migration:
            migrator.up()
        require_known_migrations(migrator.connection, migrator.folder)
        checks = verify_invariants(migrator.connection, full=full)
        if not no_files:
            checks.append(verify_files(migrator.connection, settings, full, progress.callback("sites")))
    report_checks(sorted(checks, key=lambda check: check.name), as_json)


def report_checks(checks: list[Check], as_json: bool) -> None:
    """Print the checks and set the exit code."""
    ok = all(check.ok and not check.unknown for check in checks)
    if as_json:
        print_json(
            {
                "ok": ok,
                "checks": [
                    {
                        "name": check.name,
                        "ok": None if check.unknown else check.ok,
                        "about": check.about,
                        "problems": check.problems,
                        "unknown": check.unknown,
                    }
                    for check in checks
                ],
            }
        )
    else:
        for check in checks:
            result = "?    " if check.unknown else "ok   " if check.ok else "WRONG"
            click.echo(f"{result}  {check.name}: {check.unknown or check.about}")
            for problem in check.problems:
                click.echo(f"         {problem}")
    if not ok:
        click.get_current_context().exit(EXIT_FAILURE if any(check.problems for check in checks) else EXIT_UNKNOWN)
