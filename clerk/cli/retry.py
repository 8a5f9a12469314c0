"""`clerk retry`."""

from __future__ import annotations

import click

from clerk.cli.connection import open_pipeline
from clerk.cli.names import NameChoice
from clerk.cli.output import dry_run_option, dry_run_prefix, json_option, print_json
from clerk.db.sites import require_site
from clerk.errors import job_error_class, remedy_for
from clerk.humanize import pluralize
from clerk.monitoring.failures import FailureFilter, FailureGroup, read_failures
from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from clerk.stage_names import stage_name


@click.command()
@click.argument("site")
@click.option(
    "--stage", type=NameChoice("stage", STAGES), help="Only this stage. Default: every stage that has failures."
)
@click.option("--failed-only", is_flag=True, help="Leave jobs alone that are scheduled for an automatic retry.")
@dry_run_option
@json_option
def retry(site: str, stage: str | None, failed_only: bool, dry_run: bool, as_json: bool) -> None:
    """Retry the failed jobs of a site, in every stage. Scheduled retries become due immediately.

    While their stage is running they are retried within it, and jobs of later stages when the run gets there.
    Otherwise a new run begins with the earliest of these stages. It processes only these jobs and what depends on
    them; documents that were processed before are not processed again.

    \b
    Examples:
      clerk retry springfield
      clerk retry springfield --stage ocr --failed-only --dry-run
    """
    with open_pipeline() as connection:
        require_site(connection, site)
        groups = [group for group in read_failures(connection, FailureFilter(site, stage)) if group.stage in STAGES]
        with connection.transaction(force_rollback=dry_run):
            retried = engine.retry_failed(connection, site, stage, failed_only)
    if as_json:
        failed = [
            {
                "stage": group.stage,
                "error_code": group.error_code,
                "units": group.units,
                "retry_helps": job_error_class(group.error_code).retry_helps,
            }
            for group in groups
        ]
        result = {"run_id": retried.run_id, "stage": retried.stage, "units": retried.units, "failures": failed}
        print_json({**result, "dry_run": dry_run})
    elif retried.units == 0:
        click.echo(f"{site}: nothing has failed.")
    else:
        for group in groups:
            click.echo(f"  {stage_name(group.stage)}: {group.units:,} with {group.error_code}")
            if not job_error_class(group.error_code).retry_helps:
                _explain_useless(group, site)
        jobs = pluralize(retried.units, "job")
        click.echo(dry_run_prefix(dry_run, f"{site}: {jobs} retried in run {retried.run_id}"))


def _explain_useless(group: FailureGroup, site: str) -> None:
    """Name the documents that a retry cannot help, and what helps."""
    names = [example.name for example in group.examples if example.name]
    more = f" and {group.units - len(names):,} more" if group.units > len(names) else ""
    documents = f" {'; '.join(names)}{more}" if names else ""
    click.echo(f"    a retry cannot help{documents}: {remedy_for(group.error_code, site)}")
