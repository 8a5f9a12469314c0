"""`clerk reconcile-pipeline`, installed as `clerk-reconcile` too."""

from __future__ import annotations

import sys
from datetime import timedelta

import click

from clerk import config
from clerk.cli.output import dry_run_option, json_option, print_json
from clerk.cli.progress import Progress, quiet_option
from clerk.db.audit import set_actor
from clerk.db.connection import connect
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
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
    help="Leave sites alone that moved within this time; 0 heals at once. Jobs of dead workers never wait.",
)
@click.option("--site", help="Only this site.")
@click.option(
    "--storage",
    type=click.Choice(["quick", "all", "none"]),
    default="quick",
    show_default=True,
    help="How far files are compared: the sites whose turn it is, all by the hash of every file, or not at all.",
)
@quiet_option
@dry_run_option
@json_option
def reconcile_pipeline(
    threshold_hours: float, site: str | None, storage: str, quiet: bool, dry_run: bool, as_json: bool
) -> None:
    """Find what reality broke in the pipeline, and mend it. Workers do the same every 15 minutes.

    What is alive is left alone. Every repair is written to the table reconcile_log. If another
    reconciliation is going on, this one leaves quietly.

    Exit code 0: all that was found is mended, 1: a repair failed, 3: the database or the storage cannot be reached.

    \b
    Examples:
      clerk reconcile-pipeline --dry-run
      clerk reconcile-pipeline --site springfield --threshold-hours 0 --json
      clerk reconcile-pipeline --storage all --threshold-hours 0    after a restore
    """
    settings, threshold = config.load(), timedelta(hours=threshold_hours)
    with connect(settings) as connection, Progress(quiet) as progress:
        require_known_schema(connection, default_folder())
        looking = progress.counting("sites")
        comparison = None if storage == "none" else StorageScan(settings, storage == "all", looking)
        if dry_run:
            plan = make_plan(connection, comparison, site, threshold)
            result = Result(
                done=[repair for repair in plan if not repair.is_report],
                reports=[repair for repair in plan if repair.is_report],
            )
        else:
            set_actor(connection, "cli")
            result = reconcile(connection, comparison, site, threshold, progress.counting("repairs"))
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
        click.echo("Another reconciliation compares the files; this one left them alone.")
    if result.busy:
        click.echo("Another reconciliation is going on; this one left it alone.")
    elif not result.done and not result.failed:
        click.echo("Nothing to mend.")
    elif dry_run:
        click.echo(f"{len(result.done)} to mend; nothing was done.")
    else:
        click.echo(f"{len(result.done)} mended" + (f", {len(result.failed)} failed." if result.failed else "."))


def _sentence(repair: Repair) -> str:
    where = " ".join(filter(None, (repair.subdomain, repair.stage)))
    return f"{where or 'pipeline'}: {repair.found}; {repair.do} ({repair.why})"


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
        "do": repair.do,
        "why": repair.why,
    }


def main() -> None:
    """The command `clerk-reconcile`: the same, under the name that timers and cron tables use."""
    from clerk.cli import main as clerk

    sys.argv.insert(1, reconcile_pipeline.name or "")
    clerk()
