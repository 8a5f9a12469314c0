"""The operator's moves: update, retry, cancel, rewind, pause and resume. Each is one SQL transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
import psycopg

from clerk import config
from clerk.cli.output import dry_run_option, json_option, print_json
from clerk.cli.progress import Progress, quiet_option
from clerk.cli.wait import wait_for
from clerk.db.audit import set_actor, whoami
from clerk.db.connection import connect
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.monitoring.overview import Progress as RunProgress
from clerk.monitoring.overview import due_sites, read_progress, retryable_units
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES

Connection = psycopg.Connection[Any]


@contextmanager
def _pipeline() -> Iterator[Connection]:
    with connect(config.load()) as connection:
        require_known_schema(connection, default_folder())
        set_actor(connection, "cli")
        yield connection


@contextmanager
def _undone_if(connection: Connection, dry_run: bool) -> Iterator[None]:
    """A dry run does the real thing and takes it back: what it says is exactly what would happen."""
    with connection.transaction(force_rollback=dry_run):
        yield


def _would(dry_run: bool, sentence: str) -> str:
    return f"(dry run, nothing was done) {sentence}" if dry_run else sentence


@click.command()
@click.argument("site", required=False)
@click.option("--next-site", is_flag=True, help="The one that has waited longest among those that are due.")
@click.option("--all", "all_sites", is_flag=True, help="Every site that is due.")
@click.option("--supersede", is_flag=True, help="Even if a run is going: end it and start anew.")
@click.option("--wait", is_flag=True, help="Stay until the runs have ended, and show how far they are.")
@quiet_option
@dry_run_option
@json_option
def update(
    site: str | None,
    next_site: bool,
    all_sites: bool,
    supersede: bool,
    wait: bool,
    quiet: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start a run of a site. Workers do the rest.

    With --wait the exit code is 1 if a run ended as failed or cancelled.

    \b
    Examples:
      clerk update springfield --wait
      clerk update --next-site
      clerk update --all --dry-run
    """
    if (site is not None) + next_site + all_sites != 1:
        raise click.UsageError("Name a SITE, or say --next-site or --all.")
    with _pipeline() as connection:
        if dry_run:
            if site:
                with _undone_if(connection, dry_run):
                    engine.start_run(connection, site, supersede=supersede)
            sites = [site] if site else due_sites(connection, None if all_sites else 1)
            _report_started(dict.fromkeys(sites), as_json, dry_run)
            return
        started: dict[str, int | None] = {}
        if site:
            started[site] = engine.start_run(connection, site, supersede=supersede)
        else:
            while name := engine.start_next_due_site(connection, "requested"):
                started[name] = read_progress(connection, [name])[0].run_id
                if next_site:
                    break
        if not wait:
            _report_started(started, as_json, dry_run)
            return
        code = _wait_for(connection, list(started), as_json, quiet)
    click.get_current_context().exit(code)


def _report_started(started: dict[str, int | None], as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json({"started": [{"site": site, "run_id": run_id} for site, run_id in started.items()]})
    elif not started:
        click.echo("No site is due.")
    else:
        for site, run_id in started.items():
            click.echo(_would(dry_run, f"{site}: run {run_id or 'would be'} started"))


def _wait_for(connection: Connection, subdomains: list[str], as_json: bool, quiet: bool) -> int:
    with Progress(quiet) as progress:

        def say_end(one: RunProgress) -> None:
            if not as_json:
                progress.echo(str(one))

        ended = wait_for(connection, subdomains, progress, say_end)
    if as_json:
        print_json({"ended": [one.as_dict() for one in ended]})
    return EXIT_OK if all(one.outcome not in ("failed", "cancelled") for one in ended) else EXIT_FAILURE


@click.command()
@click.argument("site")
@click.option("--stage", type=click.Choice(STAGES), help="Default: the earliest stage that has failures.")
@click.option("--failed-only", is_flag=True, help="Leave alone what waits for a retry of its own.")
@dry_run_option
@json_option
def retry(site: str, stage: str | None, failed_only: bool, dry_run: bool, as_json: bool) -> None:
    """Try failed documents again, and bring forward those that wait for their next attempt.

    While the stage is going on they are tried within it. Afterwards a new run does just them, and what
    follows from them; documents that were read stay read.

    \b
    Examples:
      clerk retry springfield
      clerk retry springfield --stage ocr --failed-only --dry-run
    """
    with _pipeline() as connection:
        failed = retryable_units(connection, site, stage)
        with _undone_if(connection, dry_run):
            retried = engine.retry_failed(connection, site, stage, failed_only)
    if as_json:
        print_json({"run_id": retried.run_id, "stage": retried.stage, "units": retried.units, "failures": failed})
    elif retried.units == 0:
        click.echo(f"{site}: nothing has failed.")
    else:
        for failure in failed:
            click.echo(f"  {failure['stage']}: {failure['units']} with {failure['error_code']}")
        units = f"{retried.units} unit{'' if retried.units == 1 else 's'}"
        click.echo(_would(dry_run, f"{site}: {units} tried again in run {retried.run_id}"))


@click.command()
@click.argument("site")
@click.option("--reason", default="", help="Why, for the record.")
@dry_run_option
@json_option
def cancel(site: str, reason: str, dry_run: bool, as_json: bool) -> None:
    """End the run that is going. What was read stays; what was open is taken up by the next run.

    \b
    Example:
      clerk cancel springfield --reason "the source is being moved"
    """
    with _pipeline() as connection, _undone_if(connection, dry_run):
        run_id = engine.cancel_run(connection, site, f"cancelled by {whoami()}{f': {reason}' if reason else ''}")
    if as_json:
        print_json({"run_id": run_id})
    elif run_id is None:
        click.echo(f"{site}: no run is going.")
    else:
        click.echo(_would(dry_run, f"{site}: run {run_id} cancelled"))


@click.command()
@click.argument("site")
@click.option("--to", "stage", type=click.Choice(STAGES), required=True, help="The stage to do again.")
@dry_run_option
@json_option
def rewind(site: str, stage: str, dry_run: bool, as_json: bool) -> None:
    """Do a stage again for every document, and all stages after it. A run that is going is superseded.

    \b
    Example:
      clerk rewind springfield --to compilation
    """
    with _pipeline() as connection, _undone_if(connection, dry_run):
        run_id = engine.rewind(connection, site, stage)
    if as_json:
        print_json({"run_id": run_id, "stage": stage})
    else:
        click.echo(_would(dry_run, f"{site}: run {run_id} starts again with {stage}"))


@click.command()
@click.argument("site", required=False)
@click.option("--queue", help="A queue instead of a site.")
@click.option("--reason", default="", help="Why: shown to whoever asks what it waits for.")
@dry_run_option
@json_option
def pause(site: str | None, queue: str | None, reason: str, dry_run: bool, as_json: bool) -> None:
    """Hold back the jobs of a site or of a queue. What runs goes on to its end.

    \b
    Examples:
      clerk pause springfield --reason "asked by the town"
      clerk pause --queue ocr
    """
    by = f"{whoami()}{f': {reason}' if reason else ''}"
    with _pipeline() as connection, _undone_if(connection, dry_run):
        if queue is not None and site is None:
            changed = engine.pause_queue(connection, queue, by)
        elif site is not None and queue is None:
            changed = engine.pause_site(connection, site, by)
        else:
            raise click.UsageError("Name a SITE or a --queue.")
    _report_pause(site or f"queue {queue}", "paused", changed, dry_run, as_json)


@click.command()
@click.argument("site", required=False)
@click.option("--queue", help="A queue instead of a site.")
@dry_run_option
@json_option
def resume(site: str | None, queue: str | None, dry_run: bool, as_json: bool) -> None:
    """Let a paused site or queue go on.

    \b
    Examples:
      clerk resume springfield
      clerk resume --queue ocr
    """
    with _pipeline() as connection, _undone_if(connection, dry_run):
        if queue is not None and site is None:
            changed = engine.resume_queue(connection, queue)
        elif site is not None and queue is None:
            changed = engine.resume_site(connection, site)
        else:
            raise click.UsageError("Name a SITE or a --queue.")
    _report_pause(site or f"queue {queue}", "resumed", changed, dry_run, as_json)


def _report_pause(what: str, done: str, changed: bool, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"what": what, done: changed})
    elif changed:
        click.echo(_would(dry_run, f"{what} {done}"))
    else:
        click.echo(f"{what}: nothing to do, it {'was paused already' if done == 'paused' else 'was not paused'}.")
