"""`clerk purge`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.output import confirm, dry_run_option, dry_run_prefix, json_option, print_json
from clerk.db.sites import require_site
from clerk.humanize import pluralize
from clerk.pipeline import engine


@click.command()
@click.argument("site", required=False)
@click.option("-s", "--subdomain", help="The same as SITE.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@json_option
def purge(site: str | None, subdomain: str | None, yes: bool, dry_run: bool, as_json: bool) -> None:
    """End the run of a site and delete all of its jobs, to start over.

    Documents, texts and the archive are kept, and what was processed is not processed again. Running jobs are asked to
    stop. `clerk cancel` keeps the finished jobs; `clerk site remove` removes the site itself.

    \b
    Examples:
      clerk purge springfield --dry-run
      clerk purge springfield --yes
    """
    name = site or subdomain
    if name is None or (site and subdomain):
        raise click.UsageError("Give one SITE.")
    with open_pipeline() as connection:
        require_site(connection, name)
        with connection.transaction(force_rollback=True):
            planned = engine.purge_site(connection, name)
        if not (yes or dry_run):
            run = f"run {planned.run_id} of {name}" if planned.run_id else f"what is left of the runs of {name}"
            confirm(f"End {run} and delete {_jobs(planned)}?", f"{name} was not changed")
        purged = planned
        if not dry_run:
            purged = engine.purge_site(connection, name)
    if as_json:
        print_json({"site": name, **vars(purged), "dry_run": dry_run})
        return
    ended = f"run {purged.run_id} ended, " if purged.run_id else ""
    running = f", {pluralize(purged.running_jobs, 'running job')} asked to stop" if purged.running_jobs else ""
    click.echo(dry_run_prefix(dry_run, f"{name}: {ended}{_jobs(purged)} deleted{running}"))


def _jobs(purged: engine.Purged) -> str:
    return pluralize(purged.deleted_jobs, "job")
