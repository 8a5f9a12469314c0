"""`clerk migrate-stuck-sites`."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from clerk import config
from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, info, json_option, print_json
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.legacy import cleanup, migrate, tables
from clerk.legacy.disk import require_folder
from clerk.legacy.migrate import MigratedSite


@click.command("migrate-stuck-sites")
@click.option("--every-site", is_flag=True, help="Also import the documents of all other sites, without a run.")
@quiet_option
@dry_run_option
@json_option
def migrate_stuck_sites(every_site: bool, quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Import the sites that are stuck in legacy clerk. Each gets a run.

    A document with all of its text becomes processed, one with only its PDF pending, one with neither failed.
    No document is processed again and no file is lost. Reconciliation (`clerk reconcile-pipeline`, or a worker) then
    continues each run. Sites that have had a run are skipped, so the command can be repeated.

    \b
    Examples:
      clerk migrate-stuck-sites --dry-run
      clerk migrate-stuck-sites --every-site
      clerk migrate-stuck-sites --json
    """
    settings = config.load()
    results: list[MigratedSite] = []
    with open_pipeline(settings) as connection, ProgressReporter(quiet) as progress:
        cleanup.require_not_done(connection)
        legacy = tables.read(connection)
        for result in migrate.migrate(
            connection,
            require_folder(settings),
            every_site=every_site,
            dry_run=dry_run,
            progress=progress.callback("sites"),
        ):
            results.append(result)
            if not as_json:
                progress.echo(f"{result.subdomain}: {result}")
                for problem in result.problems:
                    progress.echo(f"  {problem}", err=True)
    for name in legacy.orphaned_progress:
        info(f"{name}: in site_progress, but there is no such site: skipped")
    if as_json:
        print_json(_as_dict(results, legacy.orphaned_progress, dry_run))
    else:
        click.echo(_totals(results, dry_run))
    click.get_current_context().exit(EXIT_FAILURE if any(result.skipped for result in results) else EXIT_OK)


def _totals(results: list[MigratedSite], dry_run: bool) -> str:
    if not results:
        return "No site is stuck."
    documents: Counter[str] = sum((result.documents for result in results), Counter())
    migrated = [result for result in results if not result.skipped]
    stuck = sum(result.stuck_in is not None for result in migrated)
    totals = [f"{stuck} stuck sites{' would be' if dry_run else ''} migrated"]
    if len(migrated) > stuck:
        totals.append(f"{len(migrated) - stuck} others imported")
    if len(results) > len(migrated):
        totals.append(f"{len(results) - len(migrated)} skipped")
    return (
        f"{', '.join(totals)}: {documents['processed']}/{documents.total()} completed,"
        f" {documents['failed_terminal']} failed, {documents['pending']} pending"
        + ("; nothing was done." if dry_run else ".")
    )


def _as_dict(results: list[MigratedSite], orphaned_progress: list[str], dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "sites": [
            {
                "site": result.subdomain,
                "stuck_in": result.stuck_in,
                "run_id": result.run_id,
                "phase": result.phase,
                "total": result.total,
                "completed": result.documents["processed"],
                "failed": result.documents["failed_terminal"],
                "pending": result.documents["pending"],
                "skipped": result.skipped,
                "problems": result.problems,
            }
            for result in results
        ],
        "orphaned_progress": orphaned_progress,
    }
