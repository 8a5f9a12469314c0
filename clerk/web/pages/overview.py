"""Is all well? The first page: what needs a person, the figures, and how it has been going.

Everybody who looks sees the same look. What takes long to find out is found out less often than the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

import psycopg
from psycopg import sql
from psycopg.rows import DictRow
from starlette.requests import Request
from starlette.responses import Response

from clerk.monitoring.alerts import Alert, find_alerts
from clerk.monitoring.status import PipelineStatus, SlowStats, read_slow, read_status
from clerk.pipeline.engine import STAGES
from clerk.web import charts
from clerk.web.cache import CachedValue
from clerk.web.db import Example, ReadOnlyPool, rows
from clerk.web.rendering import page

QUICK = (1.0, 10.0)
"""How long a look is shown, as `Shared` has it: seconds at least, and times as long as it took."""
SLOW = (30.0, 100.0)

_EXAMPLES = 20
_STAGES = sql.SQL("""
    select coalesce(current_stage, 'never run') as stage, count(*)::integer as sites from pipeline_overview group by 1
""")
_HOURS = sql.SQL("""
    select hour, stage, completed::integer, failed::integer from completions_per_hour
    where hour > clerk_now() - interval '24 hours'
""")
_THIS_HOUR = sql.SQL("select date_trunc('hour', clerk_now()) as hour")
_BROKEN = sql.SQL("select invariant, subdomain, stage, problem from invariant_violations limit %(most)s")
_EVENTS = sql.SQL("select at, kind, subdomain, what from recent_events limit %(most)s")
QUERIES: list[Example] = [(query, {"most": 1}) for query in (_STAGES, _HOURS, _THIS_HOUR, _BROKEN, _EVENTS)]
_SHOWN = 8
_WHERE = {
    "triggers": "/queues",
    "nothing_reads": "/queues",
    "stuck": "/sites?only=stuck",
    "dead_worker": "/queues",
    "broken": "#broken",
    "failures": "/failures",
    "failed": "/sites?only=failed",
    "queue_paused": "/queues",
    "site_paused": "/sites?only=paused",
}
"""Kind of attention → where one sees more."""

_TOLD_ONLY = {"unchecked", "queue_paused", "site_paused"}


@dataclass(frozen=True)
class HourlyStats:
    """What is found out now and then."""

    slow: SlowStats
    hours: list[charts.Hours]
    broken: list[DictRow]


@dataclass(frozen=True)
class Overview:
    condition: PipelineStatus
    attention: list[tuple[Alert, str | None]]
    """With the address at which one sees more."""
    stages: charts.Bars
    failure_rates: charts.Bars
    review: HourlyStats
    events: list[DictRow]

    @property
    def serious(self) -> bool:
        """Somebody has to do something; a pause or an unfinished check alone is only told."""
        return any(one.kind not in _TOLD_ONLY for one, _ in self.attention)

    @property
    def running(self) -> int:
        return sum(queue["running"] for queue in self.condition.queues)

    @property
    def alive(self) -> int:
        return sum(worker.alive for worker in self.condition.workers)

    @property
    def waiting(self) -> int:
        return sum(queue["waiting"] for queue in self.condition.queues)

    @property
    def oldest_waiting(self) -> datetime | None:
        since = [queue["oldest_waiting_since"] for queue in self.condition.queues if queue["oldest_waiting_since"]]
        return min(since, default=None)


def shared_front(reader: ReadOnlyPool) -> CachedValue[Overview]:
    review = CachedValue(lambda: _read_review(reader), *SLOW, behind=True)
    return CachedValue(lambda: _read_front(reader, review), *QUICK)


def show(request: Request) -> Response:
    return page("overview.html", front=request.app.state.front.get())


def _read_front(reader: ReadOnlyPool, shared_review: CachedValue[HourlyStats]) -> Overview:
    review = shared_review.get()
    with reader.reading() as connection:
        condition = read_status(connection, review.slow)
        stages = {row["stage"]: row["sites"] for row in rows(connection, _STAGES)}
        events = rows(connection, _EVENTS, {"most": _SHOWN})
    found = [(one, _WHERE.get(one.kind)) for one in find_alerts(condition)]
    return Overview(condition, found, _stage_bars(stages), _failure_bars(condition), review, events)


def _read_review(reader: ReadOnlyPool) -> HourlyStats:
    with reader.reading() as connection:
        hours = _read_hours(connection)
        slow = read_slow(connection)
    broken: list[DictRow] = []
    if slow.broken:
        with reader.reading() as connection:
            broken = rows(connection, _BROKEN, {"most": _EXAMPLES})
    return HourlyStats(slow, hours, broken)


def _read_hours(connection: psycopg.Connection) -> list[charts.Hours]:
    (this_hour,) = rows(connection, _THIS_HOUR)
    counts: dict[str, dict[datetime, tuple[int, int]]] = {}
    for row in rows(connection, _HOURS):
        counts.setdefault(row["stage"], {})[row["hour"]] = (row["completed"], row["failed"])
    names = {**{stage: stage for stage in STAGES}, "completed": "runs"}
    return [charts.hours(name, counts.get(stage, {}), this_hour["hour"]) for stage, name in names.items()]


def _stage_bars(sites: dict[str, int]) -> charts.Bars:
    values = [
        (stage, sites.get(stage, 0), f"{sites.get(stage, 0):,}", f"/sites?{urlencode({'stage': stage})}")
        for stage in ("never run", "fetch", "ocr", "extraction", "deploy", "completed")
    ]
    return charts.bars(values)


def _failure_bars(condition: PipelineStatus) -> charts.Bars:
    rates = [(stage, condition.health[f"{stage}_failure_percent"]) for stage in STAGES]
    return charts.bars(
        [
            (
                stage,
                float(rate or 0),
                "no units" if rate is None else f"{rate} %",
                f"/failures?{urlencode({'stage': stage})}",
            )
            for stage, rate in rates
        ],
        unit=" %",
    )
