"""`clerk legacy redis`: the older system's queues, emptied into runs here, and put back."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from clerk import config
from clerk.cli.output import dry_run_option, json_option, print_json
from clerk.db.audit import set_actor
from clerk.db.connection import connect
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.errors import EXIT_FAILURE, EXIT_OK, SettingError
from clerk.legacy import cleanup, cutover, rq, tables
from clerk.legacy.cutover import Done, Plan, ProblemJob
from clerk.legacy.rq import RestoreResult

_SHOWN = 20


@click.command("redis")
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Where to write what is removed.")
@click.option(
    "--restore", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Put back what such a file holds."
)
@click.option("--force", is_flag=True, help="Although workers of the older system are alive.")
@dry_run_option
@json_option
def redis_command(file: Path | None, restore: Path | None, force: bool, dry_run: bool, as_json: bool) -> None:
    """Empty the older system's Redis (REDIS_URL): its waiting and scheduled jobs become runs here.

    Deferred coordinators are cancelled, failed OCR jobs deleted. All of it is written to a file first (a JSON object
    per line), from which --restore puts it back. Jobs that are none of clerk's stages stay. Exit code 1: something
    could not be dealt with, and is named.

    \b
    Examples:
      clerk legacy redis --dry-run
      clerk legacy redis --file removed.jsonl
      clerk legacy redis --restore removed.jsonl
    """
    settings = config.load()
    if settings.redis_url is None:
        raise SettingError("REDIS_URL is not set", "write the older system's, such as redis://localhost:6379/0")
    if restore is not None:
        jobs = cutover.load(restore)
        with rq.connect(settings.redis_url) as redis:
            back = rq.put_back(redis, jobs, dry_run)
        _print_restored(back, dry_run, as_json)
        click.get_current_context().exit(EXIT_FAILURE if back.failed else EXIT_OK)
    with connect(settings) as connection:
        require_known_schema(connection, default_folder())
        cleanup.require_not_done(connection)
        with rq.connect(settings.redis_url) as redis:
            rq.require_rq(redis)
            if not force and not dry_run:
                cutover.require_no_workers(redis)
            plan = cutover.make_plan(redis, {row.subdomain for row in tables.read(connection).sites})
            file = file or Path(f"rq-removed-{datetime.now():%Y%m%d-%H%M%S}.jsonl")
            set_actor(connection, "cli")
            done = None if dry_run else cutover.apply(redis, connection, settings.storage_dir, plan, file)
    if as_json:
        _print_json(plan, done, file)
    else:
        _print(plan, done, file)
    click.get_current_context().exit(EXIT_OK if not plan.problems and (done is None or done.is_whole) else EXIT_FAILURE)


def _print_restored(back: RestoreResult, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json({"dry_run": dry_run, "restored": back.jobs, "failed": back.failed})
        return
    click.echo(f"{back.jobs} jobs {'would be put' if dry_run else 'put'} back.")
    _print_some([f"job {job_id}: {why}" for job_id, why in back.failed.items()])


def _print_json(plan: Plan, done: Done | None, file: Path) -> None:
    said = done or plan.as_if_done
    print_json(
        {
            "dry_run": done is None,
            "cancelled_coordinators": said.cancelled,
            "deleted_failed_ocr_jobs": said.deleted,
            "turned_into_runs": said.turned,
            "runs": None if done is None else done.runs,
            "left": plan.why_left,
            "odd": [asdict(odd) for odd in _odd(plan, done)],
            "unreadable": plan.problems,
            "file": str(file) if done is not None and plan.removed else None,
        }
    )


def _print(plan: Plan, done: Done | None, file: Path) -> None:
    would, said = "would be " if done is None else "", done or plan.as_if_done
    click.echo(f"{said.cancelled} deferred coordinators {would}cancelled")
    click.echo(f"{said.deleted} failed OCR jobs {would}deleted")
    turned = sum(said.turned.values())
    click.echo(f"{turned} waiting and scheduled jobs {would}turned into runs of {len(said.turned)} sites")
    for why, count in plan.why_left.items():
        click.echo(f"{count} left in {why}")
    _print_some([str(odd) for odd in _odd(plan, done)])
    for problem in plan.problems:
        click.echo(problem)
    for site in [site for site, run in (done.runs if done else {}).items() if run is None]:
        click.echo(f"{site}: no run could be started, its jobs stay; see `clerk migrate-stuck-sites`")
    if done is None:
        click.echo("Nothing was done.")
    else:
        click.echo(f"What was removed is in {file}." if plan.removed else "Nothing was removed.")


def _odd(plan: Plan, done: Done | None) -> list[ProblemJob]:
    return [*plan.odd, *(done.odd + done.stayed if done else [])]


def _print_some(lines: list[str]) -> None:
    for line in lines[:_SHOWN]:
        click.echo(f"  {line}")
    if len(lines) > _SHOWN:
        click.echo(f"  and {len(lines) - _SHOWN} more: --json names them all")
