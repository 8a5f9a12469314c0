"""The state of everything at a glance, read from the views that dashboards read too."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg


@dataclass(frozen=True)
class Overview:
    stages: dict[str, int]
    """Stage → number of sites in it; `never run` for those without one."""
    queues: dict[str, dict[str, int]]
    """Queue → waiting, scheduled and running jobs."""


def read_overview(connection: psycopg.Connection) -> Overview:
    stages = connection.execute(
        "select coalesce(current_stage, 'never run'), count(*) from pipeline_overview group by 1 order by 2 desc, 1"
    ).fetchall()
    queues = connection.execute("select queue, waiting, scheduled, running from queue_backlog order by 1").fetchall()
    return Overview(
        dict(stages),
        {queue: {"waiting": waiting, "scheduled": later, "running": now} for queue, waiting, later, now in queues},
    )
