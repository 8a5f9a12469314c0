"""`clerk reconcile-pipeline`, installed as `clerk-reconcile` too."""

from __future__ import annotations

import sys

import click

from clerk import config
from clerk.cli.output import dry_run_option, json_option, print_json
from clerk.pg.connection import connect
from clerk.pg.sqlfiles import default_folder
from clerk.pg.verify import require_known_schema
from clerk.reconcile import Repair, make_plan, reconcile_once


@click.command("reconcile-pipeline")
@click.option("--site", help="Only this site.")
@dry_run_option
@json_option
def reconcile_pipeline(site: str | None, dry_run: bool, as_json: bool) -> None:
    """Find what reality broke in the pipeline, and mend it. Workers do the same every 15 minutes.

    What is alive is left alone. Every repair is written to the table reconcile_log. If another
    reconciliation is going on, this one leaves quietly.

    \b
    Examples:
      clerk reconcile-pipeline --dry-run
      clerk reconcile-pipeline --site springfield --json
    """
    with connect(config.load()) as connection:
        require_known_schema(connection, default_folder())
        repairs = make_plan(connection, site) if dry_run else reconcile_once(connection, site)
    if as_json:
        print_json({"dry_run": dry_run, "repairs": [_as_dict(repair) for repair in repairs]})
        return
    for repair in repairs:
        where = " ".join(filter(None, (repair.subdomain, repair.stage)))
        click.echo(f"{where or 'pipeline'}: {repair.found}; {repair.do} ({repair.why})")
    if not repairs:
        click.echo("Nothing to mend.")
    elif dry_run:
        click.echo(f"{len(repairs)} to mend; nothing was done.")
    else:
        click.echo(f"{len(repairs)} mended.")


def _as_dict(repair: Repair) -> dict[str, object]:
    return {
        "site": repair.subdomain,
        "run_id": repair.run_id,
        "stage": repair.stage,
        "found": repair.found,
        "do": repair.do,
        "why": repair.why,
    }


def main() -> None:
    """The command `clerk-reconcile`: the same, under the name that timers and cron tables use."""
    from clerk.cli import main as clerk

    sys.argv.insert(1, reconcile_pipeline.name or "")
    clerk()
