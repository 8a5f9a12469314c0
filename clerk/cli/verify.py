"""`clerk verify`, also reached as `clerk db verify`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import info, json_option, print_json
from clerk.cli.progress import Progress, quiet_option
from clerk.db.connection import connect
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import Check, require_known_migrations, verify_invariants, verify_schema
from clerk.errors import EXIT_FAILURE, EXIT_UNKNOWN
from clerk.reconcile.verify_files import verify_files


def check_schema(*, apply_migration: bool, as_json: bool) -> None:
    settings, folder = config.load(), default_folder()
    with connect(settings) as connection:
        if apply_migration:
            Migrator(connection, folder, settings.lock_timeout, info).up()
        checks = verify_schema(connection, folder)
    _report(checks, as_json)


def check_books(*, full: bool, files: bool, apply_migration: bool, quiet: bool, as_json: bool) -> None:
    settings, folder = config.load(), default_folder()
    with connect(settings) as connection, Progress(quiet) as progress:
        if apply_migration:
            Migrator(connection, folder, settings.lock_timeout, info).up()
        require_known_migrations(connection, folder)
        checks = verify_invariants(connection, full=full)
        if files:
            checks.append(verify_files(connection, settings, full, progress.counting("sites")))
    _report(sorted(checks, key=lambda check: check.name), as_json)


def _report(checks: list[Check], as_json: bool) -> None:
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
            _print(check)
    if not ok:
        click.get_current_context().exit(EXIT_FAILURE if any(check.problems for check in checks) else EXIT_UNKNOWN)


def _print(check: Check) -> None:
    word = "?    " if check.unknown else "ok   " if check.ok else "WRONG"
    click.echo(f"{word}  {check.name}: {check.unknown or check.about}")
    for problem in check.problems:
        click.echo(f"         {problem}")


@click.command()
@click.option("--schema", is_flag=True, help="Check the schema instead of the books.")
@click.option("--full", is_flag=True, help="Look at every row and every file: for nights, and after a restore.")
@click.option("--books-only", is_flag=True, help="Leave the files out: for a machine without the storage.")
@click.option("--apply-migration", is_flag=True, help="Migrate first.")
@quiet_option
@json_option
def verify(schema: bool, full: bool, books_only: bool, apply_migration: bool, quiet: bool, as_json: bool) -> None:
    """Check the pipeline's books and files: the invariants that hold whatever dies. With --schema, the schema.

    Quick enough to be run every minute: it looks at what moves, and at the databases published last. --full looks
    at everything, and hashes every file.

    Exit code 0: as it should be, 1: not, 3: could not tell (no database, or no storage on this machine).

    \b
    Examples:
      clerk verify
      clerk verify --full
      clerk verify --schema --json
    """
    if schema and (full or books_only):
        raise click.UsageError("--full and --books-only are about the books and files, --schema about the schema")
    if schema:
        check_schema(apply_migration=apply_migration, as_json=as_json)
    else:
        check_books(full=full, files=not books_only, apply_migration=apply_migration, quiet=quiet, as_json=as_json)
