"""`clerk update`."""

from __future__ import annotations

import click

from clerk.cli.connection import Connection, open_pipeline
from clerk.cli.output import dry_run_option, dry_run_prefix, info, json_option, print_json
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.cli.wait import wait_for_runs
from clerk.db.audit import log_action
from clerk.db.sites import require_site
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.monitoring.explain import explain
from clerk.monitoring.runs import RunProgress, due_sites, read_progress
from clerk.monitoring.site_state import read_site_state
from clerk.pipeline import engine

_MAX_RECORDED = 20
"""Names of sites in the record of an action, and sites that are warned of."""
_WAITS = ("site_paused", "queue_paused", "no_worker", "host_problem")
"""Reasons of `clerk why` for which a new run does not begin by itself."""


@click.command()
@click.argument("sites", metavar="[SITE]...", nargs=-1)
@click.option("--next-site", is_flag=True, help="Start the site that has been due for the longest time.")
@click.option("--all", "all_sites", is_flag=True, help="Start every site that is due.")
@click.option("--supersede", is_flag=True, help="If the site has an active run, end it and start a new one.")
@click.option("--wait", is_flag=True, help="Wait until the runs have ended, and show their progress.")
@quiet_option
@dry_run_option
@json_option
def update(
    sites: tuple[str, ...],
    next_site: bool,
    all_sites: bool,
    supersede: bool,
    wait: bool,
    quiet: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Start a run of a site, or of several. Workers then process it.

    If one of several sites cannot be started, none is. With --wait the exit code is 1 if a run failed or was cancelled.

    \b
    Examples:
      clerk update springfield --wait
      clerk update springfield riverton
      clerk update --next-site
      clerk update --all --dry-run
    """
    if bool(sites) + next_site + all_sites != 1:
        raise click.UsageError("Give one of SITE, --next-site and --all.")
    with open_pipeline() as connection:
        started: dict[str, int | None] = {}
        # Sorted, so that two commands lock the rows of their sites in the same order.
        for site in sorted(set(sites)):
            require_site(connection, site)
            started[site] = None
        if dry_run:
            with connection.transaction(force_rollback=True):
                for site in started:
                    engine.start_run(connection, site, supersede=supersede)
            names = started or due_sites(connection, None if all_sites else 1)
            _report_started(dict.fromkeys(names), as_json, dry_run)
            return
        if started:
            with connection.transaction():
                for site in started:
                    started[site] = engine.start_run(connection, site, supersede=supersede)
                    log_action(connection, "update", site, started[site])
        else:
            while name := engine.start_next_due_site(connection, "requested"):
                started[name] = read_progress(connection, [name])[0].run_id
                if next_site:
                    break
            if started:
                names, omitted = list(started)[:_MAX_RECORDED], len(started) - _MAX_RECORDED
                more = {"not_listed": omitted} if omitted > 0 else {}
                log_action(connection, "update", sites=names, count=len(started), **more)
        if not quiet:
            _warn_of_waits(connection, list(started))
        if not wait:
            _report_started(started, as_json, dry_run)
            return
        exit_code = _wait(connection, list(started), as_json, quiet)
    click.get_current_context().exit(exit_code)


def _warn_of_waits(connection: Connection, sites: list[str]) -> None:
    """Say which runs do not begin until somebody acts: the site or its queue is paused, or no worker takes its jobs."""
    waits = []
    for site in sites[:_MAX_RECORDED]:
        state = read_site_state(connection, site)
        if state is not None and (why := explain(state)).because in _WAITS:
            waits.append(f"clerk: {site} waits: {why.sentence} → {why.remedy}")
    for line in waits:
        info(line)


def _report_started(started: dict[str, int | None], as_json: bool, dry_run: bool) -> None:
    if as_json:
        runs = [{"site": site, "run_id": run_id} for site, run_id in started.items()]
        print_json({"started": runs, "dry_run": dry_run})
    elif not started:
        click.echo("No site is due.")
    else:
        for site, run_id in started.items():
            click.echo(dry_run_prefix(dry_run, f"{site}: run {run_id or 'would be'} started"))


def _wait(connection: Connection, subdomains: list[str], as_json: bool, quiet: bool) -> int:
    with ProgressReporter(quiet) as progress:

        def report_end(run: RunProgress) -> None:
            if not as_json:
                progress.echo(str(run))

        ended = wait_for_runs(connection, subdomains, progress, report_end)
    if as_json:
        print_json({"ended": [run.as_dict() for run in ended]})
    return EXIT_FAILURE if any(run.outcome in ("failed", "cancelled") for run in ended) else EXIT_OK
