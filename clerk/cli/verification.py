"""`clerk verify`, also reached as `clerk db verify`."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import json_option, print_json, say
from clerk.errors import WRONG
from clerk.pg.connection import connect
from clerk.pg.migrate import Migrator
from clerk.pg.sqlfiles import default_folder
from clerk.pg.verify import Check, verify_schema


def check_schema(*, apply_migration: bool, as_json: bool) -> None:
    settings, folder = config.load(), default_folder()
    with connect(settings) as connection:
        if apply_migration:
            Migrator(connection, folder, settings.lock_timeout, say).up()
        checks = verify_schema(connection, folder)
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
@click.option("--schema", is_flag=True, required=True, help="Check the schema.")
@click.option("--apply-migration", is_flag=True, help="Migrate first.")
@json_option
def verify(schema: bool, apply_migration: bool, as_json: bool) -> None:
    """Check that the database is as it should be. Exit code 0: yes, 1: no, 3: it cannot be reached.

    \b
    Examples:
      clerk verify --schema
      clerk verify --schema --json
    """
    check_schema(apply_migration=apply_migration, as_json=as_json)
