"""`clerk worker`: one process, or a small family of them."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from clerk import config, logs
from clerk.app import app
from clerk.db.connection import connect, database_url
from clerk.db.migrations.sqlfiles import default_folder
from clerk.db.migrations.verify import require_known_schema
from clerk.errors import EXIT_FAILURE, EXIT_OK
from clerk.monitoring.overview import read_overview
from clerk.monitoring.presence import live_workers
from clerk.pipeline.engine import QUEUES
from clerk.process.supervisor import ProcessSpec, Supervisor

IO_QUEUES = ("coordinator", "fetch", "deploy")
"""Their jobs mostly wait for others: many at once in one process."""
CPU_QUEUES = ("ocr", "compilation", "extraction")
"""Their jobs use a whole core: one at a time per process, and a process per core."""
_MANY = 10


@dataclass(frozen=True)
class ProcessPlan:
    """What one process does of the work."""

    queues: tuple[str, ...]
    concurrency: int


def plan_processes(queues: tuple[str, ...], processes: int | None, concurrency: int | None) -> list[ProcessPlan]:
    """Who does what. Coordinators get a process of their own, so that they never wait behind a long document."""
    waiting = tuple(queue for queue in queues if queue in IO_QUEUES)
    working = tuple(queue for queue in queues if queue in CPU_QUEUES)
    if processes is not None and not (waiting and working and processes > 1):
        return [ProcessPlan(queues, concurrency or (1 if working and not waiting else _MANY))] * processes
    found = [ProcessPlan(waiting, concurrency or _MANY)] if waiting else []
    count = (processes or (os.cpu_count() or 1) + len(found)) - len(found)
    return found + ([ProcessPlan(working, concurrency or 1)] * count if working else [])


def worker_specs(parts: list[ProcessPlan], options: list[str]) -> list[ProcessSpec]:
    """The processes that do these shares."""
    return [
        ProcessSpec(
            "worker",
            (
                *("worker", "--processes", "1", "--queues", ",".join(part.queues)),
                *("--concurrency", str(part.concurrency), *options),
            ),
        )
        for part in parts
    ]


@click.command()
@click.option("--queues", metavar="A,B", help=f"Which queues to read: {', '.join(QUEUES)}, or all, the default.")
@click.option("--processes", type=click.IntRange(min=1), help="How many processes. Default: what suits this machine.")
@click.option("--concurrency", type=click.IntRange(min=1), help="Jobs at once in each process.")
@click.option("--burst", is_flag=True, help="Stop when nothing waits or runs any more.")
@click.option(
    "--log-format",
    type=click.Choice(["human", "json"]),
    default="human",
    show_default=True,
    help="How log lines are written.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="On stop, wait this long for running jobs, then ask them to stop too. Default: as long as they take.",
)
@click.option("--check", is_flag=True, help="Start nothing: say whether a worker of this machine is alive.")
def worker(
    queues: str | None,
    processes: int | None,
    concurrency: int | None,
    burst: bool,
    log_format: str,
    grace: float | None,
    check: bool,
) -> None:
    """Do the pipeline's work until told to stop.

    Ctrl-C or SIGTERM lets running jobs finish and takes no new ones; Ctrl-C twice stops at once. A process that dies
    or hangs is started again. --check is for health checks: exit code 0 if a worker of this machine has spoken to the
    database within the last minute, 1 if not.

    \b
    Examples:
      clerk worker
      clerk worker --queues ocr --processes 4
      clerk worker --burst
      clerk worker --check
    """
    chosen = _chosen(queues)
    parts = plan_processes(chosen, processes, concurrency)
    settings = config.load()
    if check:
        with connect(settings) as connection:
            alive = live_workers(connection, socket.gethostname())
        click.echo(f"{alive} worker {'process' if alive == 1 else 'processes'} of this machine spoke within a minute.")
        click.get_current_context().exit(EXIT_OK if alive else EXIT_FAILURE)
    with database_url(settings):
        with connect(settings) as connection:
            require_known_schema(connection, default_folder())
        logs.configure(log_format)
        if len(parts) == 1 and not burst:
            asyncio.run(_run(parts[0], grace))
            return
        options = ["--log-format", log_format, *([] if grace is None else ["--grace", str(grace)])]
        Supervisor(worker_specs(parts, options)).run(partial(_nothing_to_do, settings, chosen) if burst else None)


def _chosen(queues: str | None) -> tuple[str, ...]:
    if queues in (None, "all"):
        return QUEUES
    chosen = tuple(dict.fromkeys(queue.strip() for queue in queues.split(",") if queue.strip()))
    unknown = [queue for queue in chosen if queue not in QUEUES]
    if unknown or not chosen:
        raise click.BadParameter(
            f"{', '.join(unknown) or 'nothing'} is no queue; there are {', '.join(QUEUES)}", param_hint="--queues"
        )
    return chosen


async def _run(share: ProcessPlan, grace: float | None) -> None:
    options: dict[str, Any] = {"queues": list(share.queues), "concurrency": share.concurrency}
    if grace is not None:
        options["shutdown_graceful_timeout"] = grace
    async with app.open_async():
        await app.run_worker_async(**options)


def _nothing_to_do(settings: config.Settings, queues: tuple[str, ...]) -> bool:
    """True between the last job and the next: a job that ends defers its successor in the same transaction."""
    with connect(settings) as connection:
        backlog = read_overview(connection).queues
    return not any(jobs["waiting"] + jobs["running"] for queue, jobs in backlog.items() if queue in queues)
