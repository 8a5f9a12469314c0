"""`clerk failures`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.names import NameChoice
from clerk.cli.output import dry_run_option, dry_run_prefix, info, json_option, line, print_json, show, table, text
from clerk.db.connection import read_only_snapshot
from clerk.db.sites import require_site
from clerk.errors import EXIT_FAILURE, job_error_class, remedy_for
from clerk.humanize import pluralize
from clerk.monitoring.alerts import find_periodic_task_alerts
from clerk.monitoring.failures import (
    AGES,
    FAILURE_STAGES,
    FailureFilter,
    FailureGroup,
    RetryResult,
    known_codes,
    read_failures,
    retry_failures,
)
from clerk.monitoring.status import read_periodic_tasks
from clerk.suggestions import require_known

_MAX_SITES = 20


@click.command()
@click.option("--site", help="Only failures of this site.")
@click.option("--stage", type=NameChoice("stage", FAILURE_STAGES), help="Only failures of this stage.")
@click.option("--error", metavar="CODE", help="Only failures with this error code, such as PdfTimeout.")
@click.option("--retry", is_flag=True, help="Retry the jobs that failed permanently and match the other options.")
@dry_run_option
@json_option
def failures(site: str | None, stage: str | None, error: str | None, retry: bool, dry_run: bool, as_json: bool) -> None:
    """Show failed jobs by error code, with a remedy. Counts them by age and lists examples.

    The stage `delivery` has the failures of alerts: new pages that could not be matched, and messages that could not
    be sent.

    --retry retries the selected jobs, one transaction per site. While the stage is running they are retried within
    it; otherwise a new run processes only these jobs and what depends on them. Exit code 1: a site could not be
    retried.

    \b
    Examples:
      clerk failures
      clerk failures --site springfield --json
      clerk failures --stage ocr --error ReaderCrashed --retry --dry-run
    """
    selected = FailureFilter(site, stage, error)
    if retry and selected == FailureFilter():
        raise click.UsageError("--retry needs --site, --stage or --error.")
    if dry_run and not retry:
        raise click.UsageError("--dry-run needs --retry.")
    with open_pipeline(read_only=not retry) as connection:
        if site is not None:
            require_site(connection, site)
        if error is not None:
            require_known("error code", error, known_codes(connection), "docs/errors.md lists the codes")
        if retry:
            _report_retries(list(retry_failures(connection, selected, dry_run)), dry_run, as_json)
            return
        with read_only_snapshot(connection):
            groups = read_failures(connection, selected)
            # Not of a site or stage.
            failing = read_periodic_tasks(connection) if selected == FailureFilter() else []
    # Also with --json, whose report has failures of sites only.
    for alert in find_periodic_task_alerts(failing):
        info(f"clerk: {alert.what}: {alert.remedy}.")
    if as_json:
        print_json([{**group.as_dict(), "remedy": _remedy(group)} for group in groups])
    elif groups:
        _show(groups)
    elif selected == FailureFilter():
        click.echo("No job of a site has failed." if failing else "Nothing has failed.")
    else:
        click.echo("No failure matches these options.")


def _remedy(group: FailureGroup) -> str:
    """With the name of the site if there is one, so that its commands can be copied."""
    if group.sites == 1 and group.examples and group.examples[0].site:
        return remedy_for(group.error_code, group.examples[0].site)
    return job_error_class(group.error_code).remedy


def _show(groups: list[FailureGroup]) -> None:
    header = ("error", "stage", *AGES, "all", "sites", "permanent")
    rows = [
        (
            group.error_code,
            group.stage,
            *(f"{number:,}" if number else "" for number in group.by_age.values()),
            f"{group.units:,}",
            f"{group.sites:,}",
            f"{group.permanent:,}",
        )
        for group in groups
    ]
    show(table(rows, header, right=range(2, len(header))))
    for group in groups:
        show("", text(f"{group.error_code} in {group.stage}: {_remedy(group)}."))
        for example in group.examples:
            document = " ".join(filter(None, (example.site, example.name)))
            show(line(f"  {document}: {' '.join(example.message.split())}".removesuffix(": ")))


def _report_retries(results: list[RetryResult], dry_run: bool, as_json: bool) -> None:
    failed = [result for result in results if result.problem]
    if as_json:
        print_json({"dry_run": dry_run, "sites": [vars(result) for result in results]})
    else:
        for result in results[:_MAX_SITES]:
            units = ", ".join(f"{number:,} in {stage}" for stage, number in result.units.items())
            run = f" (run {result.run_id})" if result.run_id is not None else ""
            click.echo(f"  {result.site or 'alerts'}: {result.problem or f'{units}{run}'}")
        if len(results) > _MAX_SITES:
            click.echo(f"  and {pluralize(len(results) - _MAX_SITES, 'more site')}")
        units = pluralize(sum(sum(result.units.values()) for result in results), "job")
        sites = [result for result in results if result.site and not result.problem]
        of_sites = f" of {pluralize(len(sites), 'site')}" if sites or failed else ""
        click.echo(dry_run_prefix(dry_run, f"{units}{of_sites} retried."))
    if failed:
        click.get_current_context().exit(EXIT_FAILURE)
