"""`clerk legacy redis`: empty the queues of legacy clerk, or restore them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from clerk import config
from clerk.cli.connection import open_pipeline
from clerk.cli.output import dry_run_option, json_option, print_json
from clerk.errors import EXIT_FAILURE, EXIT_OK, SettingError
from clerk.humanize import pluralize
from clerk.legacy import cleanup, cutover, rq, tables
from clerk.legacy.cutover import CutoverResult, Plan, ProblemJob
from clerk.legacy.disk import require_folder
from clerk.legacy.rq import RestoreResult

_MAX_LINES = 20


@click.command("redis")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Where to record the removed jobs.")
@click.option(
    "--restore", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Restore the jobs in such a file."
)
@click.option("--force", is_flag=True, help="Even if legacy clerk workers are alive.")
@dry_run_option
@json_option
def redis_command(file: Path | None, restore: Path | None, force: bool, dry_run: bool, as_json: bool) -> None:
    """Empty the Redis of legacy clerk (REDIS_URL).

    Waiting and scheduled jobs become runs. Deferred coordinators are cancelled and failed OCR jobs deleted. All removed
    jobs are first written to a file (a JSON object per line), from which --restore restores them. Jobs of other
    programs stay. Exit code 1: some jobs could not be handled; they are listed.

    \b
    Examples:
      clerk legacy redis --dry-run
      clerk legacy redis --file removed.jsonl
      clerk legacy redis --restore removed.jsonl
    """
    settings = config.load()
    if settings.redis_url is None:
        raise SettingError(
            "REDIS_URL is not set", "set it to the Redis of legacy clerk, such as redis://localhost:6379/0"
        )
    if restore is not None:
        jobs = cutover.load(restore)
        with rq.connect(settings.redis_url) as redis:
            restored = rq.restore(redis, jobs, dry_run)
        _print_restored(restored, dry_run, as_json)
        click.get_current_context().exit(EXIT_FAILURE if restored.failed else EXIT_OK)
    with open_pipeline(settings) as connection:
        cleanup.require_not_done(connection)
        with rq.connect(settings.redis_url) as redis:
            rq.require_rq(redis)
            if not force and not dry_run:
                cutover.require_no_workers(redis)
            plan = cutover.make_plan(redis, {row.subdomain for row in tables.read(connection).sites})
            file = file or Path(f"rq-removed-{datetime.now():%Y%m%d-%H%M%S}.jsonl")
            result = None if dry_run else cutover.apply(redis, connection, require_folder(settings), plan, file)
    if as_json:
        _print_json(plan, result, file)
    else:
        _print(plan, result, file)
    is_ok = not plan.problems and (result is None or result.is_complete)
    click.get_current_context().exit(EXIT_OK if is_ok else EXIT_FAILURE)


def _print_restored(restored: RestoreResult, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": dry_run, "restored": restored.jobs, "failed": restored.failed})
        return
    click.echo(f"{restored.jobs} jobs {'would be ' if dry_run else ''}restored.")
    _print_lines([f"job {job_id}: {error}" for job_id, error in restored.failed.items()])


def _print_json(plan: Plan, result: CutoverResult | None, file: Path) -> None:
    counts = result or plan.expected_result
    print_json(
        {
            "dry_run": result is None,
            "cancelled_coordinators": counts.cancelled,
            "deleted_failed_ocr_jobs": counts.deleted,
            "turned_into_runs": counts.converted,
            "runs": None if result is None else result.runs,
            "left": plan.left_reasons,
            "problem_jobs": [asdict(job) for job in _problem_jobs(plan, result)],
            "unreadable": plan.problems,
            "file": str(file) if result is not None and plan.removed else None,
        }
    )


def _print(plan: Plan, result: CutoverResult | None, file: Path) -> None:
    would, counts = "would be " if result is None else "", result or plan.expected_result
    click.echo(f"{counts.cancelled} deferred coordinators {would}cancelled")
    click.echo(f"{counts.deleted} failed OCR jobs {would}deleted")
    converted = sum(counts.converted.values())
    jobs = pluralize(converted, "waiting or scheduled job", "waiting and scheduled jobs")
    click.echo(f"{jobs} {would}turned into runs of {pluralize(len(counts.converted), 'site')}")
    for reason, count in plan.left_reasons.items():
        click.echo(f"{count} left in {reason}")
    _print_lines([str(job) for job in _problem_jobs(plan, result)])
    for problem in plan.problems:
        click.echo(problem)
    for site in [site for site, run in (result.runs if result else {}).items() if run is None]:
        click.echo(f"{site}: no run could be started, its jobs stay; see `clerk migrate-stuck-sites`")
    if result is None:
        click.echo("Nothing was done.")
    else:
        click.echo(f"The removed jobs are in {file}." if plan.removed else "Nothing was removed.")


def _problem_jobs(plan: Plan, result: CutoverResult | None) -> list[ProblemJob]:
    return [*plan.problem_jobs, *(result.deleted_instead + result.not_removed if result else [])]


def _print_lines(lines: list[str]) -> None:
    for line in lines[:_MAX_LINES]:
        click.echo(f"  {line}")
    if len(lines) > _MAX_LINES:
        click.echo(f"  and {len(lines) - _MAX_LINES} more: --json lists all")
