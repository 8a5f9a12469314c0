"""`clerk legacy cleanup`: the older system's tables and columns go, weeks after the cut-over, and can come back."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from clerk import config
from clerk.cli.output import dry_run_option, info, json_option, print_json
from clerk.db.audit import set_actor
from clerk.db.connection import connect
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.repeatable import is_cleaned_up
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.humanize import pluralize
from clerk.legacy import cleanup
from clerk.legacy.cleanup import Check, Extent


@click.command("cleanup")
@click.option("--check", "how", flag_value="check", default="check", help="Say whether it is safe (the default).")
@click.option("--apply", "how", flag_value="apply", help="Do it, if every check holds.")
@click.option("--undo", "how", flag_value="undo", help="Bring tables, columns and their contents back.")
@click.option("--backup", type=click.Path(path_type=Path), help="A file of pg_dump, a day old at most.")
@click.option("--force", "forced", multiple=True, metavar="NAME", help="Override the check of that name; repeatable.")
@dry_run_option
@json_option
def cleanup_command(how: str, backup: Path | None, forced: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Take away site_progress, job_tracking, the five older columns of sites and the trigger that keeps them in step.

    Off unless you ask for it: readers that select those columns break. All of it is set aside, and --undo brings it
    back. What was done, and which checks were overridden, is in operator_actions. Exit code 1: a check does not hold.

    \b
    Examples:
      clerk legacy cleanup --check --backup /backup/clerk.dump
      clerk legacy cleanup --apply --backup /backup/clerk.dump
      clerk legacy cleanup --apply --backup /backup/clerk.dump --force operators
      clerk legacy cleanup --undo --dry-run
    """
    settings, folder = config.load(), default_folder()
    with connect(settings) as connection:
        require_known_schema(connection, folder)
        set_actor(connection, "cli")
        done, extent = is_cleaned_up(connection), cleanup.extent(connection)
        found = [] if done or how == "undo" else cleanup.checks(connection, backup)
        if unknown := set(forced) - {check.name for check in found} if found else set():
            raise click.UsageError(f"there is no check {', '.join(sorted(unknown))}")
        refused = cleanup.broken(found, frozenset(forced)) if how == "apply" else []
        if not dry_run and not refused:
            migrator = Migrator(connection, folder, settings.lock_timeout, info)
            if how == "undo":
                cleanup.undo(migrator)
            elif how == "apply":
                cleanup.apply(migrator, found, frozenset(forced))
        now = is_cleaned_up(connection)
    if as_json:
        about = {"dry_run": dry_run, "refused": refused, "checks": [asdict(check) for check in found]}
        print_json({"cleaned_up": now, **about, **asdict(extent)})
    else:
        _print_checks(found)
    if refused:
        raise cleanup.refusal(refused)
    if not as_json:
        would = dry_run and how == ("undo" if done else "apply")
        click.echo(_would(extent, done) if would else _CLEANUP[done, now])
    click.get_current_context().exit(EXIT_OK if all(check.holds for check in found) or how != "check" else EXIT_FAILURE)


_CLEANUP = {
    (False, False): "Nothing was done: the older system's tables and columns are there.",
    (False, True): "Done: the older system's tables and columns are set aside.",
    (True, False): "Done: the older system's tables and columns are back.",
    (True, True): "The older system's tables and columns are set aside.",
}
"""(before, after) → in words"""


def _would(extent: Extent, undo: bool) -> str:
    tables = "".join(f"{name} ({pluralize(rows, 'row')}), " for name, rows in extent.tables.items())
    said = f"{tables}{', '.join(extent.columns)} of {pluralize(extent.sites, 'site')}"
    if undo:
        moved = f"; {extent.moved} have moved on since and get newer values" if extent.moved else ""
        return f"(dry run, nothing was done) Back would come {said}{moved}."
    return f"(dry run, nothing was done) Set aside would be {said}."


def _print_checks(found: list[Check]) -> None:
    for check in found:
        click.echo(f"{'ok  ' if check.holds else 'NO  '} {check.name:<14} {check.figure} (wanted: {check.wanted})")
