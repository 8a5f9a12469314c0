"""`clerk failures`: what failed, by class of error and age, what helps, and the retry of such a group."""

from __future__ import annotations

import click

from clerk import config
from clerk.cli.output import dry_run_option, format_table, json_option, print_json, truncate
from clerk.db.audit import set_actor
from clerk.db.connection import connect, read_only_snapshot
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.db.sites import read_site, site_not_found
from clerk.errors import EXIT_FAILURE, job_error_class
from clerk.humanize import pluralize
from clerk.monitoring.failures import AGES, Failures, Group, Retry, read_failures, retry_group
from clerk.pipeline.engine import STAGES

_SITES_SHOWN = 20


@click.command()
@click.option("--site", help="Only this site.")
@click.option("--stage", type=click.Choice(STAGES), help="Only this stage.")
@click.option("--error", metavar="CLASS", help="Only this class of error, such as PdfTimeout.")
@click.option("--retry", is_flag=True, help="Try them again: what failed for good, in the group that the options name.")
@dry_run_option
@json_option
def failures(site: str | None, stage: str | None, error: str | None, retry: bool, dry_run: bool, as_json: bool) -> None:
    """Show what failed by class of error and age, with examples and what helps.

    With --retry the group is tried again, site by site, each in one transaction: within the stage while that is
    going on, else in a new run that does just those documents and what follows from them. Exit code 1 if a
    site could not be.

    \b
    Examples:
      clerk failures
      clerk failures --site springfield --json
      clerk failures --stage ocr --error ReaderCrashed --retry --dry-run
    """
    group = Group(site, stage, error)
    if retry and group == Group():
        raise click.UsageError("Say which: --site, --stage or --error.")
    if dry_run and not retry:
        raise click.UsageError("--dry-run is about --retry.")
    with connect(config.load()) as connection:
        require_known_schema(connection, default_folder())
        if site is not None and read_site(connection, site) is None:
            raise site_not_found(connection, site)
        if retry:
            set_actor(connection, "cli")
            _report(list(retry_group(connection, group, dry_run)), dry_run, as_json)
            return
        with read_only_snapshot(connection):
            found = read_failures(connection, group)
    if as_json:
        print_json([{**one.as_dict(), "remedy": job_error_class(one.error_code).remedy} for one in found])
    elif found:
        _show(found)
    else:
        click.echo("Nothing has failed.")


def _show(found: list[Failures]) -> None:
    header = ("error", "stage", *AGES, "all", "sites", "for good")
    rows = [
        (
            one.error_code,
            one.stage,
            *(f"{number:,}" if number else "" for number in one.by_age.values()),
            f"{one.units:,}",
            f"{one.sites:,}",
            f"{one.permanent:,}",
        )
        for one in found
    ]
    for line in format_table([header, *rows], right=range(2, len(header))):
        click.echo(line)
    for one in found:
        click.echo(f"\n{one.error_code} in {one.stage}: {job_error_class(one.error_code).remedy}.")
        for example in one.examples:
            where = " ".join(filter(None, (example.site, example.document)))
            click.echo(truncate(f"  {where}: {' '.join(example.message.split())}".removesuffix(": ")))


def _report(retried: list[Retry], dry_run: bool, as_json: bool) -> None:
    failed = [one for one in retried if one.problem]
    if as_json:
        print_json({"dry_run": dry_run, "sites": [vars(one) for one in retried]})
    else:
        for one in retried[:_SITES_SHOWN]:
            units = ", ".join(f"{number:,} in {stage}" for stage, number in one.units.items())
            click.echo(f"  {one.site}: {one.problem or f'{units} (run {one.run_id})'}")
        if len(retried) > _SITES_SHOWN:
            click.echo(f"  and {pluralize(len(retried) - _SITES_SHOWN, 'more site')}")
        total = sum(sum(one.units.values()) for one in retried)
        done = f"{pluralize(total, 'unit')} of {pluralize(len(retried) - len(failed), 'site')} tried again"
        click.echo(f"(dry run, nothing was done) {done}" if dry_run else f"{done}.")
    if failed:
        click.get_current_context().exit(EXIT_FAILURE)
