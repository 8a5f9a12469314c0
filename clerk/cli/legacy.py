"""`clerk legacy …` and `clerk migrate-stuck-sites`: migration from legacy clerk. docs/legacy.md is the guide."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from clerk import config
from clerk.cli.legacy_cleanup import cleanup_command
from clerk.cli.legacy_redis import redis_command
from clerk.cli.output import dry_run_option, info, json_option, print_json
from clerk.cli.progress import Progress, quiet_option
from clerk.db.connection import connect
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNKNOWN
from clerk.legacy import cleanup, migrate, tables
from clerk.legacy.inspect import Inspection, inspect
from clerk.legacy.migrate import MigratedSite


@click.group()
def legacy() -> None:
    """Migrate from legacy clerk: inspect, import, empty its Redis, clean up. docs/legacy.md is the guide.

    \b
    Examples:
      clerk legacy inspect
      clerk migrate-stuck-sites --dry-run
      clerk legacy redis --dry-run
      clerk legacy cleanup --check
    """


@legacy.command("inspect")
@json_option
def inspect_command(as_json: bool) -> None:
    """Show what legacy clerk left in the database, on disk and in Redis (REDIS_URL), and where they disagree.

    Changes nothing; works before and after `clerk db up`. What cannot be read is reported, and the rest is shown.
    Exit code 3: the Redis cannot be read.

    \b
    Examples:
      clerk legacy inspect
      REDIS_URL=redis://localhost:6379/0 clerk legacy inspect --json
    """
    settings = config.load()
    with connect(settings) as connection:
        inspection = inspect(connection, settings.storage_dir, settings.redis_url)
    if as_json:
        print_json(inspection.as_dict())
    else:
        _print_inspection(inspection)
    if "problem" in (inspection.redis or {}):
        click.get_current_context().exit(EXIT_UNKNOWN)


def _print_inspection(inspection: Inspection) -> None:
    database, disk = inspection.database, inspection.disk
    click.echo(f"database  {database['description']}; {database['sites']} sites, {database['stuck']} stuck")
    for source, stages in database["stuck_by"].items():
        if stages:
            click.echo(f"          by {source}: " + ", ".join(f"{count} in {stage}" for stage, count in stages.items()))
    states = ", ".join(f"{count} with {state}" for state, count in sorted(disk.states.items()))
    click.echo(f"disk      {disk.root}: {disk.sites} sites, {disk.documents} documents ({states or 'none'}),")
    click.echo(f"          {disk.text_files} text files")
    if inspection.redis is None:
        click.echo("redis     not read: REDIS_URL is not set")
    elif problem := inspection.redis.get("problem"):
        click.echo(f"redis     not read: {problem}")
    else:
        workers, queues = inspection.redis["workers"], inspection.redis["queues"]
        click.echo(f"redis     {len(workers)} workers alive, {len(queues)} queues")
        for queue, counts in queues.items():
            jobs = ", ".join(f"{count} {status}" for status, count in counts.items() if count)
            click.echo(f"          {queue}: {jobs or 'empty'}")
        for problem in inspection.redis["problems"]:
            click.echo(f"          {problem}")
    click.echo(f"{len(inspection.disagreements)} disagreements" + (":" if inspection.disagreements else ""))
    for line in inspection.disagreements:
        click.echo(f"  {line}")


@click.command("migrate-stuck-sites")
@click.option("--every-site", is_flag=True, help="Also import the documents of all other sites, without a run.")
@quiet_option
@dry_run_option
@json_option
def migrate_stuck_sites(every_site: bool, quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Import the sites that are stuck in legacy clerk from their files, and open a run for each.

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
    done: list[MigratedSite] = []
    with connect(settings) as connection, Progress(quiet) as progress:
        require_known_schema(connection, default_folder())
        cleanup.require_not_done(connection)
        legacy_tables = tables.read(connection)
        counting = progress.counting("sites")
        for migrated in migrate.migrate(
            connection, settings.storage_dir, every_site=every_site, dry_run=dry_run, progress=counting
        ):
            done.append(migrated)
            if not as_json:
                progress.echo(f"{migrated.subdomain}: {migrated}")
                for problem in migrated.problems:
                    progress.echo(f"  {problem}", err=True)
    for name in legacy_tables.orphaned_progress:
        info(f"{name}: in site_progress, but there is no such site: skipped")
    if as_json:
        print_json(_migration(done, legacy_tables.orphaned_progress, dry_run))
    else:
        click.echo(_totals(done, dry_run))
    click.get_current_context().exit(EXIT_FAILURE if any(site.skipped for site in done) else EXIT_OK)


def _totals(done: list[MigratedSite], dry_run: bool) -> str:
    if not done:
        return "No site is stuck."
    documents: Counter[str] = sum((site.documents for site in done), Counter())
    stuck = [site for site in done if site.stuck_in is not None and not site.skipped]
    text = f"{len(stuck)} stuck sites{' would be' if dry_run else ''} migrated"
    if others := sum(1 for site in done if site.stuck_in is None and not site.skipped):
        text += f", {others} others imported"
    if skipped := sum(1 for site in done if site.skipped):
        text += f", {skipped} skipped"
    return (
        f"{text}: {documents['processed']}/{documents.total()} completed, {documents['failed_terminal']} failed, "
        f"{documents['pending']} pending" + ("; nothing was done." if dry_run else ".")
    )


def _migration(done: list[MigratedSite], orphaned_progress: list[str], dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "sites": [
            {
                "site": site.subdomain,
                "stuck_in": site.stuck_in,
                "run_id": site.run_id,
                "phase": site.phase,
                "total": site.total,
                "completed": site.documents["processed"],
                "failed": site.documents["failed_terminal"],
                "pending": site.documents["pending"],
                "skipped": site.skipped,
                "problems": site.problems,
            }
            for site in done
        ],
        "orphaned_progress": orphaned_progress,
    }


legacy.add_command(redis_command)
legacy.add_command(cleanup_command)
