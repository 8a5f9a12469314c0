"""`clerk db maintain`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from clerk.cli.connection import open_migrator
from clerk.cli.output import dry_run_option, json_option, print_json, show, table
from clerk.cli.progress_reporter import ProgressReporter, quiet_option
from clerk.db.maintenance import DEFAULT_MIN_BYTES, DEFAULT_THRESHOLD, Maintenance, Step, StepResult
from clerk.db.migrations.verify import require_known_migrations
from clerk.errors import EXIT_FAILURE
from clerk.humanize import format_bytes, pluralize


@click.command()
@click.option(
    "--threshold",
    type=click.FloatRange(min=1, max=100),
    default=DEFAULT_THRESHOLD,
    show_default=True,
    metavar="PERCENT",
    help="Rebuild indexes of which this part is unused.",
)
@click.option(
    "--min-mb",
    type=click.FloatRange(min=0),
    default=DEFAULT_MIN_BYTES / 1e6,
    show_default=True,
    metavar="MB",
    help="Leave indexes alone that would shrink by less.",
)
@click.option(
    "--lock-timeout",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait so long for older transactions, three times for each index.",
)
@quiet_option
@dry_run_option
@json_option
def maintain(threshold: float, min_mb: float, lock_timeout: float, quiet: bool, dry_run: bool, as_json: bool) -> None:
    """Vacuum tables with many dead rows, rebuild bloated indexes.

    The largest waste first. Workers keep running: reads and writes are not blocked. Can be interrupted: the next call
    drops the unfinished index and continues. Only one call runs at a time. Needs the owner of the tables, as `clerk db
    up` does, and disk space for a second copy of the largest bloated index. How much of an index is unused is an
    estimate: see the view index_bloat.

    With CLERK_MAINTAIN_HOUR workers do the same every day.

    Exit code 0: done, 1: a step could not be done, because of a long transaction for example.

    \b
    Examples:
      clerk db maintain --dry-run
      clerk db maintain
      clerk db maintain --threshold 30 --min-mb 1
    """
    with open_migrator() as migrator, ProgressReporter(quiet) as progress:
        require_known_migrations(migrator.connection, migrator.folder)
        maintenance = Maintenance(migrator.connection, threshold, int(min_mb * 1e6), lock_timeout, report=progress.note)
        plan = maintenance.plan() if dry_run else []
        results = [] if dry_run else list(maintenance.run(progress.update))
    if as_json:
        print_json({"dry_run": dry_run, "steps": [asdict(step) for step in plan] or [_as_dict(r) for r in results]})
    elif dry_run:
        _print_plan(plan)
    else:
        _print_results(results)
    if any(result.error for result in results):
        click.get_current_context().exit(EXIT_FAILURE)


def _print_plan(plan: list[Step]) -> None:
    if plan:
        show(table([(step.action, step.name, format_bytes(step.size_bytes), step.why) for step in plan], right={2}))
        click.echo("Nothing was done.")
    else:
        click.echo("There is nothing to do.")


def _print_results(results: list[StepResult]) -> None:
    for result in results:
        step = result.step
        if result.error:
            click.echo(f"{step.action} {step.name}: not done: {result.error}")
        else:
            sizes = f"{format_bytes(step.size_bytes)} → {format_bytes(result.size_after)}"
            click.echo(f"{step.action} {step.name}: {sizes} in {result.seconds:.1f} s")
    freed = sum(result.step.size_bytes - result.size_after for result in results if not result.error)
    done = sum(result.error is None for result in results)
    if results:
        click.echo(f"{pluralize(done, 'step')} of {len(results):,} done, {format_bytes(max(freed, 0))} freed.")
    else:
        click.echo("There is nothing to do.")


def _as_dict(result: StepResult) -> dict[str, Any]:
    return {
        **asdict(result.step),
        "size_after": result.size_after,
        "seconds": round(result.seconds, 3),
        "error": result.error,
    }
