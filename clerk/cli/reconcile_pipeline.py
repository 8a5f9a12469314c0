"""`clerk reconcile-pipeline`, also installed as `clerk-reconcile`."""

from __future__ import annotations

from datetime import timedelta

import click

from clerk import config
from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, json_option, print_json
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.db.sites import require_site
from clerk.errors import EXIT_FAILURE, EXIT_UNKNOWN
from clerk.reconcile.apply import Result, reconcile
from clerk.reconcile.file_checks import StorageScan
from clerk.reconcile.plan import THRESHOLD, make_plan
from clerk.reconcile.repair import Repair
from clerk.reconcile.storage_guard import STORAGE_MISSING


@click.command("reconcile-pipeline")
@click.option(
    "--threshold-hours",
    type=click.FloatRange(min=0),
    default=THRESHOLD / timedelta(hours=1),
    show_default=True,
    metavar="HOURS",
    help="Repair only sites without progress for this time; 0: all sites. Jobs of dead workers are always rescued.",
)
@click.option("--site", help="Repair only this site.")
@click.option(
    "--storage",
    type=click.Choice(["quick", "all", "none"]),
    default="quick",
    show_default=True,
    help="Files to check. quick: those of a limited number of sites, least recently checked first. all: every file, by"
    " its hash.",
)
@quiet_option
@dry_run_option
@json_option
def reconcile_pipeline(
    threshold_hours: float, site: str | None, storage: str, quiet: bool, dry_run: bool, as_json: bool
) -> None:
    """Detect and repair inconsistent pipeline state. Workers do the same every 15 minutes.

    Jobs that make progress are not touched. Every repair is recorded in the table reconcile_log. While another
    reconciliation is running, this one does nothing.

    Exit code 0: everything is repaired, 1: a repair failed, 3: the database or the storage cannot be reached.

    \b
    Examples:
      clerk reconcile-pipeline --dry-run
      clerk reconcile-pipeline --site springfield --threshold-hours 0 --json
      clerk reconcile-pipeline --storage all --threshold-hours 0    after a restore
    """
    settings, threshold = config.load(), timedelta(hours=threshold_hours)
    with open_pipeline(settings) as connection, ProgressReporter(quiet) as progress:
        if site is not None:
            require_site(connection, site)
        scan = None if storage == "none" else StorageScan(settings, storage == "all", progress.callback("sites"))
        if dry_run:
            plan = make_plan(connection, scan, site, threshold)
            result = Result(
                done=[repair for repair in plan if not repair.is_report],
                reports=[repair for repair in plan if repair.is_report],
            )
        else:
            result = reconcile(connection, scan, site, threshold, progress.callback("repairs"))
    if as_json:
        print_json(_as_dict(result, dry_run))
    else:
        _print(result, dry_run)
    if result.failed:
        click.get_current_context().exit(EXIT_FAILURE)
    if any(repair.kind == STORAGE_MISSING for repair in result.reports):
        click.get_current_context().exit(EXIT_UNKNOWN)


def _print(result: Result, dry_run: bool) -> None:
    for repair in result.done:
        click.echo(_sentence(repair))
    for repair, error in result.failed:
        click.echo(f"FAILED  {_sentence(repair)}: {error}")
    for repair in result.reports:
        click.echo(f"NOTE  {_sentence(repair)}")
    if result.files_busy:
        click.echo("Another reconciliation is checking the files; this one skipped them.")
    if result.busy:
        click.echo("Another reconciliation is running; this one did nothing.")
    elif not result.done and not result.failed:
        click.echo("Nothing to repair.")
    elif dry_run:
        click.echo(f"{len(result.done)} to repair; nothing was done.")
    else:
        click.echo(f"{len(result.done)} repaired" + (f", {len(result.failed)} failed." if result.failed else "."))


def _sentence(repair: Repair) -> str:
    where = " ".join(filter(None, (repair.subdomain, repair.stage)))
    return f"{where or 'pipeline'}: {repair.found}; {repair.action} ({repair.why})"


def _as_dict(result: Result, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "busy": result.busy,
        "files_busy": result.files_busy,
        "repairs": [_row(repair) for repair in result.done],
        "failed": [{**_row(repair), "error": error} for repair, error in result.failed],
        "reports": [_row(repair) for repair in result.reports],
    }


def _row(repair: Repair) -> dict[str, object]:
    return {
        "kind": repair.kind,
        "site": repair.subdomain,
        "run_id": repair.run_id,
        "stage": repair.stage,
        "content_item_id": repair.content_item_id,
        "found": repair.found,
        "action": repair.action,
        "why": repair.why,
    }


def main() -> None:
    """Entry point of `clerk-reconcile`, the name that timers and cron tables use."""
    from clerk.cli import run

    run(reconcile_pipeline, "clerk-reconcile")
