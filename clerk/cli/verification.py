"""`clerk verify`, also reached as `clerk db verify`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import json_option, print_json, say
from clerk.errors import WRONG
from clerk.pg.connection import connect
from clerk.pg.migrate import Migrator
from clerk.pg.sqlfiles import default_folder
from clerk.pg.verify import Check, require_known_migrations, verify_invariants, verify_schema


def check_schema(*, apply_migration: bool, as_json: bool) -> None:
    settings, folder = config.load(), default_folder()
    with connect(settings) as connection:
        if apply_migration:
            Migrator(connection, folder, settings.lock_timeout, say).up()
        checks = verify_schema(connection, folder)
    _report(checks, as_json)


def check_books(*, full: bool, apply_migration: bool, as_json: bool) -> None:
    settings, folder = config.load(), default_folder()
    with connect(settings) as connection:
        if apply_migration:
            Migrator(connection, folder, settings.lock_timeout, say).up()
        require_known_migrations(connection, folder)
        checks = verify_invariants(connection, full=full)
    _report(checks, as_json)


def _report(checks: list[Check], as_json: bool) -> None:
    ok = all(check.ok for check in checks)
    if as_json:
        print_json(
            {
                "ok": ok,
                "checks": [
                    {"name": check.name, "ok": check.ok, "about": check.about, "problems": check.problems}
                    for check in checks
                ],
            }
        )
    else:
        for check in checks:
            _print(check)
    if not ok:
        click.get_current_context().exit(WRONG)


def _print(check: Check) -> None:
    click.echo(f"{'ok   ' if check.ok else 'WRONG'}  {check.name}: {check.about}")
    for problem in check.problems:
        click.echo(f"         {problem}")


@click.command()
@click.option("--schema", is_flag=True, help="Check the schema instead of the books.")
@click.option("--full", is_flag=True, help="Look at every row, also of sites at rest: for nights, and after a restore.")
@click.option("--apply-migration", is_flag=True, help="Migrate first.")
@json_option
def verify(schema: bool, full: bool, apply_migration: bool, as_json: bool) -> None:
    """Check the pipeline's books: the invariants that hold whatever dies. With --schema, the schema.

    Exit code 0: as it should be, 1: not, 3: the database cannot be reached.

    \b
    Examples:
      clerk verify
      clerk verify --full
      clerk verify --schema --json
    """
    if schema:
        check_schema(apply_migration=apply_migration, as_json=as_json)
    else:
        check_books(full=full, apply_migration=apply_migration, as_json=as_json)
