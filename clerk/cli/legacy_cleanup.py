"""`clerk legacy cleanup`: remove the tables and columns of legacy clerk weeks after the cut-over, or restore them."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from clerk import config
from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, dry_run_prefix, info, json_option, print_json
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.repeatable import is_cleaned_up
from clerk.db.migrations.sqlfiles import default_folder
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.humanize import pluralize
from clerk.legacy import cleanup
from clerk.legacy.cleanup import CleanupCheck, CleanupScope


@click.command("cleanup")
@click.option("--check", "mode", flag_value="check", default="check", help="Show whether it is safe (the default).")
@click.option("--apply", "mode", flag_value="apply", help="Remove them, if every check holds.")
@click.option("--undo", "mode", flag_value="undo", help="Restore tables, columns and their contents.")
@click.option("--backup", type=click.Path(path_type=Path), help="A pg_dump file, at most one day old.")
@click.option("--force", "forced", multiple=True, metavar="NAME", help="Override the check of that name; repeatable.")
@dry_run_option
@json_option
def cleanup_command(mode: str, backup: Path | None, forced: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Remove the tables and columns of legacy clerk.

    They are site_progress, job_tracking, five columns of sites and the trigger that updates them. Programs that select
    those columns break. Everything is saved, and --undo restores it. The action and the overridden checks are recorded
    in operator_actions. Exit code 1: a check does not hold.

    \b
    Examples:
      clerk legacy cleanup --check --backup /backup/clerk.dump
      clerk legacy cleanup --apply --backup /backup/clerk.dump
      clerk legacy cleanup --apply --backup /backup/clerk.dump --force operators
      clerk legacy cleanup --undo --dry-run
    """
    settings = config.load()
    with open_pipeline(settings) as connection:
        was_removed, scope = is_cleaned_up(connection), cleanup.read_scope(connection)
        checks = [] if was_removed or mode == "undo" else cleanup.run_checks(connection, backup)
        if unknown := set(forced) - {check.name for check in checks} if checks else set():
            names = ", ".join(check.name for check in checks)
            raise click.UsageError(f"There is no check {', '.join(sorted(unknown))}. Use one of {names}.")
        refused = cleanup.failed(checks, frozenset(forced)) if mode == "apply" else []
        if not dry_run and not refused:
            migrator = Migrator(connection, default_folder(), settings.lock_timeout, info)
            if mode == "undo":
                cleanup.undo(migrator)
            elif mode == "apply":
                cleanup.apply(migrator, checks, frozenset(forced))
        is_removed = is_cleaned_up(connection)
    if as_json:
        report = {"dry_run": dry_run, "refused": refused, "checks": [asdict(check) for check in checks]}
        print_json({"cleaned_up": is_removed, **report, **asdict(scope)})
    else:
        _print_checks(checks)
    if refused:
        raise cleanup.cleanup_refused(refused)
    if not as_json:
        has_plan = dry_run and mode == ("undo" if was_removed else "apply")
        click.echo(_plan(scope, undo=was_removed) if has_plan else _MESSAGES[was_removed, is_removed])
    is_ok = mode != "check" or all(check.holds for check in checks)
    click.get_current_context().exit(EXIT_OK if is_ok else EXIT_FAILURE)


_MESSAGES = {
    (False, False): "Nothing was done: the tables and columns of legacy clerk exist.",
    (False, True): "Done: the tables and columns of legacy clerk were removed; --undo restores them.",
    (True, False): "Done: the tables and columns of legacy clerk were restored.",
    (True, True): "The tables and columns of legacy clerk are already removed; --undo restores them.",
}
"""(removed before, removed now) → message"""


def _plan(scope: CleanupScope, undo: bool) -> str:
    tables = "".join(f"{name} ({pluralize(rows, 'row')}), " for name, rows in scope.tables.items())
    objects = f"{tables}{', '.join(scope.columns)} of {pluralize(scope.sites, 'site')}"
    if undo:
        changed = f"; new values for {pluralize(scope.changed_sites, 'changed site')}" if scope.changed_sites else ""
        return dry_run_prefix(True, f"Would restore {objects}{changed}.")
    return dry_run_prefix(True, f"Would remove {objects}.")


def _print_checks(checks: list[CleanupCheck]) -> None:
    for check in checks:
        click.echo(f"{'ok  ' if check.holds else 'NO  '} {check.name:<14} {check.value} (required: {check.required})")
