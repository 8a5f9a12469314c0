"""Seconds from the promotion of a Postgres standby to the next finished job, and the workers that exited.

Two workers process jobs of a quarter of a second all the time. The primary is stopped cleanly or killed, the standby is
promoted after a pause, and the old primary becomes its standby. Both servers and the workers run on this machine. A
socket that accepts connections and never answers simulates a host that does not respond.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.cluster import Cluster, running_cluster
from tests.faults.pipeline import Pipeline, pipeline_on, until

_DOCUMENTS = 20_000
_FINISHED = "select count(*) from procrastinate_events where type = 'succeeded' and at > to_timestamp(%s)"
_FIRST = (
    "select extract(epoch from min(at))::float8 from procrastinate_events"
    " where type = 'succeeded' and at > to_timestamp(%s)"
)


@dataclass
class Scenario:
    name: str
    is_planned: bool
    pause: float = 0.0
    """Seconds between the end of the primary and the promotion."""
    is_silent: bool = False
    """Whether the old primary's host accepts connections and does not respond."""
    failover: list[float] = field(default_factory=list)
    """Seconds from the end of the primary to the end of the promotion."""
    recovery: list[float] = field(default_factory=list)
    """Seconds from the end of the promotion to the next finished job."""


def measure(cluster: Cluster, pipeline: Pipeline, scenario: Scenario) -> None:
    now = time.time()
    until(lambda: pipeline.scalar(_FINISHED, now) >= 20, "jobs under way")
    cluster.wait_for_standby()
    began = time.time()
    if scenario.is_planned:
        cluster.primary.stop()
    else:
        cluster.primary.crash()
    with contextlib.ExitStack() as silent_host:
        if scenario.is_silent:
            silent_host.enter_context(socket.create_server(("127.0.0.1", cluster.primary.port)))
        time.sleep(scenario.pause)
        cluster.promote()
        promoted = time.time()
        pipeline.reconnect(cluster.primary.url())
        until(lambda: pipeline.scalar(_FINISHED, promoted), "the next finished job")
    scenario.failover.append(promoted - began)
    scenario.recovery.append(pipeline.scalar(_FIRST, promoted) - promoted)
    if scenario.is_planned:
        cluster.standby.follow(cluster.primary)
    else:
        cluster.start_standby()


def report(scenarios: Sequence[Scenario]) -> str:
    lines = [
        f"{'':34}{'':10}{'promoted after':>16}{'next finished job after the promotion':>40}",
        f"{'':34}{'count':>10}{'median s':>16}{'median s':>20}{'max s':>20}",
    ]
    for scenario in scenarios:
        lines.append(
            f"{scenario.name:34}{len(scenario.recovery):10}{statistics.median(scenario.failover):16.1f}"
            f"{statistics.median(scenario.recovery):20.1f}{max(scenario.recovery):20.1f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/bench failover", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="failovers of each kind (default: 5)")
    rounds = parser.parse_args().rounds
    scenarios = [
        Scenario("clean shutdown", is_planned=True),
        Scenario("crash", is_planned=False),
        Scenario("crash, promoted 30 s later", is_planned=False, pause=30.0),
        Scenario("crash, host does not respond", is_planned=False, is_silent=True),
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with running_cluster(folder) as cluster, pipeline_on(cluster.url(), folder) as pipeline:
            pipeline.add_site(documents=_DOCUMENTS)
            pipeline.set_plan(ocr="work:0.25")
            pipeline.start_run(first_phase=2)
            workers = [pipeline.worker("ocr", concurrency=4) for _ in range(2)]
            for scenario in scenarios:
                for _ in range(rounds):
                    measure(cluster, pipeline, scenario)
            exited = sum(not worker.is_alive() for worker in workers)
            fenced = len(pipeline.ignored_results("fenced"))
    print(report(scenarios))  # noqa: T201
    print(f"Workers that exited: {exited}. Results rejected by the fence: {fenced}.")  # noqa: T201


if __name__ == "__main__":
    main()
