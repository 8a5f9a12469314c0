"""`clerk worker`: one process, or a small family of them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from clerk import config, logs
from clerk.app import app
from clerk.pg.connection import connect, database_url
from clerk.pg.overview import read_overview
from clerk.pg.sqlfiles import default_folder
from clerk.pg.verify import require_known_schema

WAITING_QUEUES = ("coordinator", "fetch", "deploy")
"""Their jobs mostly wait for others: many at once in one process."""
WORKING_QUEUES = ("ocr", "compilation", "extraction")
"""Their jobs use a whole core: one at a time per process, and a process per core."""
QUEUES = WAITING_QUEUES + WORKING_QUEUES
_MANY = 10
_RESTART_PAUSE = 1.0


@dataclass(frozen=True)
class Member:
    """One process of the family."""

    queues: tuple[str, ...]
    concurrency: int


def family(queues: tuple[str, ...], processes: int | None, concurrency: int | None) -> list[Member]:
    """Who does what. Coordinators get a process of their own, so that they never wait behind a long document."""
    waiting = tuple(queue for queue in queues if queue in WAITING_QUEUES)
    working = tuple(queue for queue in queues if queue in WORKING_QUEUES)
    if processes is not None and not (waiting and working and processes > 1):
        return [Member(queues, concurrency or (1 if working and not waiting else _MANY))] * processes
    members = [Member(waiting, concurrency or _MANY)] if waiting else []
    count = (processes or (os.cpu_count() or 1) + len(members)) - len(members)
    return members + ([Member(working, concurrency or 1)] * count if working else [])


@click.command()
@click.option("--queues", metavar="A,B", help=f"Which queues to read: {', '.join(QUEUES)}. Default: all.")
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
def worker(
    queues: str | None,
    processes: int | None,
    concurrency: int | None,
    burst: bool,
    log_format: str,
    grace: float | None,
) -> None:
    """Do the pipeline's work until told to stop.

    Ctrl-C or SIGTERM lets running jobs finish and takes no new ones. A process that dies is started again.

    \b
    Examples:
      clerk worker
      clerk worker --queues ocr --processes 4
      clerk worker --burst
    """
    chosen = _chosen(queues)
    members = family(chosen, processes, concurrency)
    settings = config.load()
    with database_url(settings):
        with connect(settings) as connection:
            require_known_schema(connection, default_folder())
        if len(members) == 1 and not burst:
            logs.configure(log_format)
            asyncio.run(_run(members[0], grace))
            return
        options = ["--log-format", log_format, *([] if grace is None else ["--grace", str(grace)])]
        _Family(members, options).run(until=partial(_nothing_to_do, settings, chosen) if burst else None)


def _chosen(queues: str | None) -> tuple[str, ...]:
    if queues is None:
        return QUEUES
    chosen = tuple(dict.fromkeys(queue.strip() for queue in queues.split(",") if queue.strip()))
    unknown = [queue for queue in chosen if queue not in QUEUES]
    if unknown or not chosen:
        raise click.BadParameter(
            f"{', '.join(unknown) or 'nothing'} is no queue; there are {', '.join(QUEUES)}", param_hint="--queues"
        )
    return chosen


async def _run(member: Member, grace: float | None) -> None:
    options: dict[str, Any] = {"queues": list(member.queues), "concurrency": member.concurrency}
    if grace is not None:
        options["shutdown_graceful_timeout"] = grace
    async with app.open_async():
        await app.run_worker_async(**options)


def _nothing_to_do(settings: config.Settings, queues: tuple[str, ...]) -> bool:
    """True between the last job and the next: a job that ends defers its successor in the same transaction."""
    with connect(settings) as connection:
        backlog = read_overview(connection).queues
    return not any(jobs["waiting"] + jobs["running"] for queue, jobs in backlog.items() if queue in queues)


class _Family:
    """Starts its members, passes signals on, and replaces who dies."""

    def __init__(self, members: list[Member], options: list[str]) -> None:
        self.members = members
        self.options = options
        self.stopping = False
        self.children: dict[int, subprocess.Popen[bytes]] = {}

    def run(self, until: Callable[[], bool] | None) -> None:
        """Until a signal comes or, in a burst, until there is nothing left to do."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        for index in range(len(self.members)):
            self._start(index)
        try:
            while self.children:
                if until is not None and not self.stopping and until():
                    self._stop()
                for index, child in list(self.children.items()):
                    self._look_after(index, child)
        finally:
            # Whatever went wrong here, no worker is left behind.
            self._stop()
            for child in self.children.values():
                child.wait()

    def _look_after(self, index: int, child: subprocess.Popen[bytes]) -> None:
        try:
            code = child.wait(timeout=0.2)
        except subprocess.TimeoutExpired:
            return
        del self.children[index]
        if not self.stopping:
            click.echo(f"clerk: a worker process ended with {code}: starting another.", err=True)
            time.sleep(_RESTART_PAUSE)
            self._start(index)

    def _start(self, index: int) -> None:
        member = self.members[index]
        # A session of its own: Ctrl-C reaches the parent alone, which passes it on once.
        self.children[index] = subprocess.Popen(
            [
                *(sys.executable, "-m", "clerk", "worker", "--processes", "1"),
                *("--queues", ",".join(member.queues), "--concurrency", str(member.concurrency)),
                *self.options,
            ],
            start_new_session=True,
        )

    def _stop(self, *_: object) -> None:
        self.stopping = True
        for child in self.children.values():
            child.send_signal(signal.SIGTERM)
