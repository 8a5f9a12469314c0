"""`clerk pause` and `clerk resume`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.names import NameChoice
from clerk.cli.output import dry_run_option, dry_run_prefix, json_option, print_json
from clerk.db.audit import whoami
from clerk.db.sites import require_site
from clerk.pipeline import engine

queue_option = click.option("--queue", type=NameChoice("queue", engine.QUEUES), help="A queue instead of a site.")


@click.command()
@click.argument("site", required=False)
@queue_option
@click.option("--reason", default="", help="The reason, which `clerk why` and `clerk status` show.")
@dry_run_option
@json_option
def pause(site: str | None, queue: str | None, reason: str, dry_run: bool, as_json: bool) -> None:
    """Put the waiting jobs of a site or of a queue on hold. Running jobs continue.

    \b
    Examples:
      clerk pause springfield --reason "requested by the town"
      clerk pause --queue ocr
    """
    _require_one(site, queue)
    by = f"{whoami()}{f': {reason}' if reason else ''}"
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        if site:
            require_site(connection, site)
        changed = engine.pause_site(connection, site, by) if site else engine.pause_queue(connection, queue or "", by)
    _report(site, queue, "paused", changed, dry_run, as_json)


@click.command()
@click.argument("site", required=False)
@queue_option
@dry_run_option
@json_option
def resume(site: str | None, queue: str | None, dry_run: bool, as_json: bool) -> None:
    """Resume a paused site or queue.

    \b
    Examples:
      clerk resume springfield
      clerk resume --queue ocr
    """
    _require_one(site, queue)
    with open_pipeline() as connection, connection.transaction(force_rollback=dry_run):
        if site:
            require_site(connection, site)
        changed = engine.resume_site(connection, site) if site else engine.resume_queue(connection, queue or "")
    _report(site, queue, "resumed", changed, dry_run, as_json)


def _require_one(site: str | None, queue: str | None) -> None:
    if bool(site) == bool(queue):
        raise click.UsageError("Give either SITE or --queue.")


def _report(site: str | None, queue: str | None, action: str, changed: bool, dry_run: bool, as_json: bool) -> None:
    what = site or f"queue {queue}"
    if as_json:
        print_json({"what": what, action: changed, "dry_run": dry_run})
    elif changed:
        click.echo(dry_run_prefix(dry_run, f"{what}: {action}"))
    else:
        state = "is already paused" if action == "paused" else "is not paused"
        click.echo(f"{what}: nothing to do, it {state}.")
