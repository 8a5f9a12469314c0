"""`clerk legacy …` and `clerk migrate-stuck-sites`: coming from the older system. docs/legacy.md is the guide."""

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
from clerk.legacy.migrate import Migrated


@click.group()
def legacy() -> None:
    """Come from the older system: look, take over, empty its Redis, clean up. docs/legacy.md is the guide.

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
    """Show what the older system left: in the database, on disk, in Redis (with REDIS_URL), and where they disagree.

    Changes nothing; works before and after `clerk db up`. What cannot be read is named, and the rest is shown.
    Exit code 3: the Redis could not be looked at.

    \b
    Examples:
      clerk legacy inspect
      REDIS_URL=redis://localhost:6379/0 clerk legacy inspect --json
    """
    settings = config.load()
    with connect(settings) as connection:
        found = inspect(connection, settings.storage_dir, settings.redis_url)
    if as_json:
        print_json(found.as_dict())
    else:
        _print_inspection(found)
    if "problem" in (found.redis or {}):
        click.get_current_context().exit(EXIT_UNKNOWN)


def _print_inspection(found: Inspection) -> None:
    database, disk = found.database, found.disk
    click.echo(f"database  {database['about']}; {database['sites']} sites, {database['stuck']} stuck")
    for who, stages in database["stuck_by"].items():
        if stages:
            click.echo(f"          by {who}: " + ", ".join(f"{count} in {stage}" for stage, count in stages.items()))
    holding = ", ".join(f"{count} with {what}" for what, count in sorted(disk.holding.items()))
    click.echo(f"disk      {disk.root}: {disk.sites} sites, {disk.documents} documents ({holding or 'none'}),")
    click.echo(f"          {disk.text_files} text files")
    if found.redis is None:
        click.echo("redis     not looked at: REDIS_URL is not set")
    elif problem := found.redis.get("problem"):
        click.echo(f"redis     not looked at: {problem}")
    else:
        click.echo(f"redis     {len(found.redis['workers'])} workers alive, {len(found.redis['queues'])} queues")
        for queue, counts in found.redis["queues"].items():
            there = ", ".join(f"{count} {place}" for place, count in counts.items() if count)
            click.echo(f"          {queue}: {there or 'empty'}")
        for problem in found.redis["problems"]:
            click.echo(f"          {problem}")
    click.echo(f"{len(found.disagreements)} disagreements" + (":" if found.disagreements else ""))
    for line in found.disagreements:
        click.echo(f"  {line}")


@click.command("migrate-stuck-sites")
@click.option("--every-site", is_flag=True, help="Take over the documents of all other sites too, without a run.")
@quiet_option
@dry_run_option
@json_option
def migrate_stuck_sites(every_site: bool, quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Make runs of the sites that are stuck in the older system, from what it left on disk.

    A document with all its text counts as read, one with its PDF alone will be read, one with neither has failed.
    Nothing is read again, no file is lost. Reconciliation (`clerk reconcile-pipeline`, or a worker) then goes on
    with each run. A site that has had a run here is passed over: repeat the command as often as you like.

    \b
    Examples:
      clerk migrate-stuck-sites --dry-run
      clerk migrate-stuck-sites --every-site
      clerk migrate-stuck-sites --json
    """
    settings = config.load()
    done: list[Migrated] = []
    with connect(settings) as connection, Progress(quiet) as progress:
        require_known_schema(connection, default_folder())
        cleanup.require_not_done(connection)
        found = tables.read(connection)
        counting = progress.counting("sites")
        for migrated in migrate.migrate(
            connection, settings.storage_dir, every_site=every_site, rehearse=dry_run, progress=counting
        ):
            done.append(migrated)
            if not as_json:
                progress.echo(f"{migrated.subdomain}: {migrated}")
                for problem in migrated.problems:
                    progress.echo(f"  {problem}", err=True)
    for name in found.progress_of_no_site:
        info(f"{name}: in site_progress, and no such site: skipped")
    if as_json:
        print_json(_migration(done, found.progress_of_no_site, dry_run))
    else:
        click.echo(_totals(done, dry_run))
    click.get_current_context().exit(EXIT_FAILURE if any(one.skipped for one in done) else EXIT_OK)


def _totals(done: list[Migrated], dry_run: bool) -> str:
    if not done:
        return "No site is stuck."
    documents: Counter[str] = sum((one.documents for one in done), Counter())
    stuck = [one for one in done if one.was is not None and not one.skipped]
    said = f"{len(stuck)} stuck sites{' would be' if dry_run else ''} migrated"
    if others := sum(1 for one in done if one.was is None and not one.skipped):
        said += f", {others} others taken over"
    if skipped := sum(1 for one in done if one.skipped):
        said += f", {skipped} skipped"
    return (
        f"{said}: {documents['processed']}/{documents.total()} completed, {documents['failed_terminal']} failed, "
        f"{documents['pending']} to read" + ("; nothing was done." if dry_run else ".")
    )


def _migration(done: list[Migrated], no_site: list[str], dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "sites": [
            {
                "site": one.subdomain,
                "stuck_in": one.was,
                "run_id": one.run_id,
                "phase": one.phase,
                "total": one.total,
                "completed": one.documents["processed"],
                "failed": one.documents["failed_terminal"],
                "to_read": one.documents["pending"],
                "skipped": one.skipped,
                "problems": one.problems,
            }
            for one in done
        ],
        "progress_of_no_site": no_site,
    }


legacy.add_command(redis_command)
legacy.add_command(cleanup_command)
