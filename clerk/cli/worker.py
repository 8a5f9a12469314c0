"""`clerk worker`: one worker process, or a supervisor with several."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import click
import psycopg

from clerk import config
from clerk.db.connection import connect, database_url, require_database, wait_until_ready
from clerk.errors import (
    EXIT_FAILURE,
    EXIT_OK,
    ClerkError,
    DatabaseUnreachable,
    InvalidPluginResult,
    PluginMissing,
    ToolMissing,
)
from clerk.host import count_cores
from clerk.humanize import join_words, pluralize
from clerk.monitoring.workers import find_host_problem
from clerk.pipeline.engine import CPU_QUEUES, QUEUES
from clerk.process import parent_death
from clerk.process.supervisor import ProcessSpec, Supervisor
from clerk.suggestions import require_known

logger = logging.getLogger(__name__)

IO_QUEUES = tuple(queue for queue in QUEUES if queue not in CPU_QUEUES)
"""Their jobs wait for the network most of the time: one process runs many. Of CPU_QUEUES it runs one per core."""
_IO_CONCURRENCY = 10

processes_option = click.option(
    "--processes",
    type=click.IntRange(min=1),
    help="Number of worker processes. Default: one per core that it may use, and one for I/O bound queues.",
)
until_idle_option = click.option("--until-idle", is_flag=True, help="Stop when no job waits or runs.")
log_format_option = click.option(
    "--log-format",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="Format of the log lines.",
)


@dataclass(frozen=True)
class ProcessPlan:
    """Queues and concurrency of one worker process."""

    queues: tuple[str, ...]
    concurrency: int

    @property
    def cpu_concurrency(self) -> int | None:
        """Jobs of CPU_QUEUES at a time, if the process also has other queues: one per core."""
        is_mixed = any(queue in CPU_QUEUES for queue in self.queues) and any(q in IO_QUEUES for q in self.queues)
        return min(self.concurrency, count_cores()) if is_mixed else None


def plan_processes(queues: tuple[str, ...], processes: int | None, concurrency: int | None) -> list[ProcessPlan]:
    """Distribute queues over processes. Queue coordinator never shares a process with OCR, which takes long."""
    io_queues = tuple(queue for queue in queues if queue in IO_QUEUES)
    cpu_queues = tuple(queue for queue in queues if queue in CPU_QUEUES)
    if processes is not None and not (io_queues and cpu_queues and processes > 1):
        return [ProcessPlan(queues, concurrency or (_IO_CONCURRENCY if io_queues else 1))] * processes
    plans = [ProcessPlan(io_queues, concurrency or _IO_CONCURRENCY)] if io_queues else []
    count = (processes or count_cores() + len(plans)) - len(plans)
    return plans + ([ProcessPlan(cpu_queues, concurrency or 1)] * count if cpu_queues else [])


def describe_plans(plans: list[ProcessPlan]) -> str:
    """The processes, their queues and how many jobs each runs at a time."""
    parts = []
    for plan, count in Counter(plans).items():
        jobs = f"{pluralize(plan.concurrency, 'job')} at a time"
        if plan.cpu_concurrency:
            cpu_queues = join_words([queue for queue in plan.queues if queue in CPU_QUEUES])
            jobs += f", at most {plan.cpu_concurrency} of {cpu_queues} (one per core)"
        parts.append(f"{count} for {', '.join(plan.queues)}: {jobs}{' each' if count > 1 else ''}")
    cores = f"{pluralize(count_cores(), 'core')} can be used"
    return f"{pluralize(len(plans), 'process', 'processes')}, {cores}; {'; '.join(parts)}"


def worker_specs(plans: list[ProcessPlan], options: list[str]) -> list[ProcessSpec]:
    return [
        ProcessSpec(
            "worker",
            (
                *("worker", "--processes", "1", "--queues", ",".join(plan.queues)),
                *("--concurrency", str(plan.concurrency), *options),
            ),
        )
        for plan in plans
    ]


@click.command()
@click.option("--queues", metavar="A,B", help=f"Queues to process: {', '.join(QUEUES)}, or all, the default.")
@processes_option
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    help="Number of concurrent jobs in each process. A process for all queues runs OCR, compilation and extraction for"
    " one document per core.",
)
@until_idle_option
@log_format_option
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="On stop, cancel jobs that still run after this time. Default: wait until they have finished.",
)
@click.option(
    "--check",
    is_flag=True,
    help="Start nothing; report whether a worker of this machine, and of --queues if given, is alive.",
)
def worker(
    queues: str | None,
    processes: int | None,
    concurrency: int | None,
    until_idle: bool,
    log_format: str,
    grace: float | None,
    check: bool,
) -> None:
    """Process the jobs of the pipeline until stopped.

    Ctrl-C or SIGTERM stops it when the running jobs have finished; a second Ctrl-C stops immediately. A process that
    dies or hangs is restarted. --check is for health checks: exit code 0 if a worker of this machine (or container) is
    registered and had a heartbeat within the last minute, 1 if not, 3 if the database cannot be reached.

    \b
    Examples:
      clerk worker
      clerk worker --queues ocr --processes 4
      clerk worker --until-idle
      clerk worker --check
      clerk worker --check --queues ocr
    """
    selected = _parse_queues(queues)
    plans = plan_processes(selected, processes, concurrency)
    settings = config.load()
    if check:
        _check(settings, selected if queues else ())
    # Imported here because the imports take a second, which --check, run every few seconds, does not need.
    from clerk import logs
    from clerk.cli.connection import open_pipeline

    if not parent_death.is_child():
        require_ocr(settings, selected)
    require_database(settings)
    with database_url(settings) as url:
        direct_url = settings.direct_database_url or url
        wait_until_ready(direct_url, settings.database_timeout, settings.direct_database_setting)
        with open_pipeline(settings):
            pass  # only checks the schema
        logs.configure(log_format)
        if not parent_death.is_child():
            logger.info("starting %s", describe_plans(plans))
        if len(plans) == 1 and not until_idle:
            asyncio.run(_run(plans[0], grace))
            return
        options = ["--log-format", log_format, *([] if grace is None else ["--grace", str(grace)])]
        supervisor = Supervisor(worker_specs(plans, options))
        supervisor.run(partial(_is_idle, settings, selected) if until_idle else None)


def _check(settings: config.Settings, queues: tuple[str, ...]) -> NoReturn:
    host = socket.gethostname()
    with connect(settings) as connection:
        try:
            problem = find_host_problem(connection, host, queues)
        except psycopg.errors.UndefinedTable:
            problem = "the database is not migrated, so no worker can run"
    click.echo(f"Not healthy: {problem}." if problem else f"A worker of this machine ({host}) is alive.")
    sys.exit(EXIT_FAILURE if problem else EXIT_OK)


def require_ocr(settings: config.Settings, queues: tuple[str, ...]) -> None:
    """Stop a command that would run OCR on a machine without its programs: every document would fail to start.

    If they are removed later, the workers stop taking OCR jobs until they are back.
    """
    if "ocr" not in queues:
        return
    from clerk.ocr.engines import find_engine

    others = ",".join(queue for queue in QUEUES if queue != "ocr")
    try:
        find_engine(settings).require_installed()
    except ToolMissing as error:
        remedy = f"install it, or leave OCR to other machines: clerk worker --queues {others}"
        raise ClerkError(f"OCR is not possible on this machine, {error}", remedy) from error
    except (PluginMissing, InvalidPluginResult) as error:
        raise ClerkError(str(error), "correct CLERK_OCR_ENGINE, or install the plugin") from error


def _parse_queues(value: str | None) -> tuple[str, ...]:
    if value in (None, "all"):
        return QUEUES
    selected = tuple(dict.fromkeys(queue.strip() for queue in value.split(",") if queue.strip()))
    for queue in selected:
        require_known("queue", queue, QUEUES)
    if not selected:
        raise click.BadParameter(f"no queue is named; the queues are {', '.join(QUEUES)}", param_hint="--queues")
    return selected


async def _run(plan: ProcessPlan, grace: float | None) -> None:
    from clerk.app import app

    options: dict[str, Any] = {
        "queues": list(plan.queues),
        "concurrency": plan.concurrency,
        "cpu_concurrency": plan.cpu_concurrency,
    }
    if grace is not None:
        options["shutdown_graceful_timeout"] = grace
    async with app.open_async():
        await app.run_worker_async(**options)


def _is_idle(settings: config.Settings, queues: tuple[str, ...]) -> bool:
    """A finished job defers its successor in the same transaction, so the queues are never empty between two jobs."""
    from clerk.monitoring.status import read_queues

    try:
        with connect(settings) as connection:
            rows = read_queues(connection)
    except DatabaseUnreachable as error:
        logger.warning("cannot tell whether the queues are empty: %s", error)
        return False  # the workers wait for the database too
    return not any(row["waiting"] + row["running"] for row in rows if row["queue"] in queues)
