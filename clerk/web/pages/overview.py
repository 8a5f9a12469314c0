"""The first page: how to begin, or what needs attention, what runs, key figures, charts, latest errors and events.

All users share one cached read; the slow statistics are cached longer than the rest.
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

from clerk.monitoring import worker_text
from clerk.monitoring.alerts import find_alerts
from clerk.monitoring.status import PipelineStatus, SlowStats, read_slow_stats, read_status
from clerk.stage_names import STAGE_NAMES, stage_name
from clerk.web import charts
from clerk.web.alert_items import AlertItem, alert_item
from clerk.web.cache import CachedValue
from clerk.web.db import ReadOnlyPool, SampleQuery, fetch_rows
from clerk.web.rendering import render

OVERVIEW_TTL = (1.0, 10.0)
"""`min_ttl` and `ttl_factor` of CachedValue."""
HOURLY_STATS_TTL = (30.0, 100.0)

_MAX_VIOLATIONS = 20
_MAX_RUNS = 8
# Those that have just made progress first; the units of a paused site wait.
_RUNS = sql.SQL("""
    select subdomain, name, current_stage, phase_total, phase_ended, percent, eta, started_at, paused, stuck
    from pipeline_overview
    where phase is not null
    order by paused, updated_at desc nulls last, subdomain
    limit %(limit)s
""")
_HOURS = sql.SQL("""
    select hour, stage, completed::integer, failed::integer from completions_per_hour
    where hour > clerk_now() - interval '24 hours'
""")
_CURRENT_HOUR = sql.SQL("select date_trunc('hour', clerk_now()) as hour")
_VIOLATIONS = sql.SQL("select invariant, subdomain, stage, problem from invariant_violations limit %(limit)s")
QUERIES: list[SampleQuery] = [(query, {"limit": 1}) for query in (_HOURS, _CURRENT_HOUR, _VIOLATIONS, _RUNS)]


@dataclass(frozen=True)
class HourlyStats:
    slow: SlowStats
    charts: list[charts.ColumnChart]
    violations: list[DictRow]


@dataclass(frozen=True)
class Overview:
    status: PipelineStatus
    alerts: list[AlertItem]
    runs: list[DictRow]
    """Sites with an active run, at most a few."""
    sites_by_stage: charts.BarChart
    failure_rates: charts.BarChart | None
    """None if no unit has ended."""
    hourly: HourlyStats

    @property
    def has_serious_alert(self) -> bool:
        return not all(item.is_minor for item in self.alerts)

    @property
    def pages_last_minute(self) -> int:
        return sum(row["pages_last_minute"] for row in self.status.stages if row["stage"] == "ocr")

    @property
    def running_jobs(self) -> int:
        return sum(queue["running"] - queue["lost"] for queue in self.status.queues)

    @property
    def waits(self) -> dict[str, str]:
        """Queue → what its jobs wait for, of those that no worker takes jobs of."""
        return {
            queue["queue"]: text
            for queue in self.status.queues
            if (text := worker_text.waits_for(self.status, queue))
            and not any(worker.takes_jobs(queue["queue"]) for worker in self.status.workers)
        }

    @property
    def live_workers(self) -> int:
        return sum(worker.alive for worker in self.status.workers)

    @property
    def waiting_jobs(self) -> int:
        return sum(queue["waiting"] for queue in self.status.queues)

    @property
    def oldest_waiting_since(self) -> datetime | None:
        times = [queue["oldest_waiting_since"] for queue in self.status.queues if queue["oldest_waiting_since"]]
        return min(times, default=None)


def cached_overview(pool: ReadOnlyPool) -> CachedValue[Overview]:
    hourly = CachedValue(lambda: _read_hourly_stats(pool), *HOURLY_STATS_TTL, stale_while_revalidate=True)
    return CachedValue(lambda: _read_overview(pool, hourly.get()), *OVERVIEW_TTL)


def show(request: Request) -> Response:
    return render("overview.html", overview=request.app.state.overview.get())


def _read_overview(pool: ReadOnlyPool, hourly: HourlyStats) -> Overview:
    with pool.transaction() as connection:
        status = read_status(connection, hourly.slow)
        runs = fetch_rows(connection, _RUNS, {"limit": _MAX_RUNS})
    alerts = [alert_item(alert) for alert in find_alerts(status)]
    return Overview(status, alerts, runs, _stage_chart(status.sites), _failure_chart(status), hourly)


def _read_hourly_stats(pool: ReadOnlyPool) -> HourlyStats:
    with pool.transaction() as connection:
        hourly_charts = _read_charts(connection)
        slow = read_slow_stats(connection)
    violations: list[DictRow] = []
    if slow.violations:
        with pool.transaction() as connection:
            violations = fetch_rows(connection, _VIOLATIONS, {"limit": _MAX_VIOLATIONS})
    return HourlyStats(slow, hourly_charts, violations)


def _read_charts(connection: psycopg.Connection) -> list[charts.ColumnChart]:
    (current,) = fetch_rows(connection, _CURRENT_HOUR)
    counts: dict[str, dict[datetime, tuple[int, int]]] = {}
    for row in fetch_rows(connection, _HOURS):
        counts.setdefault(row["stage"], {})[row["hour"]] = (row["completed"], row["failed"])
    names = {**STAGE_NAMES, "completed": "Runs"}
    return [charts.column_chart(name, counts.get(stage, {}), current["hour"]) for stage, name in names.items()]


def _stage_chart(sites: dict[str, int]) -> charts.BarChart:
    values = [
        (stage_name(stage), sites.get(stage, 0), f"{sites.get(stage, 0):,}", f"/sites?{urlencode({'stage': stage})}")
        for stage in ("never run", "fetch", "ocr", "extraction", "deploy", "completed")
    ]
    return charts.bar_chart(values)


def _failure_chart(status: PipelineStatus) -> charts.BarChart | None:
    rates = {stage: status.health[f"{stage}_failure_percent"] for stage in STAGE_NAMES}
    if all(rate is None for rate in rates.values()):
        return None
    return charts.bar_chart(
        [
            (
                stage_name(stage),
                float(rate or 0),
                "nothing ended" if rate is None else f"{rate} %",
                f"/failures?{urlencode({'stage': stage})}",
            )
            for stage, rate in rates.items()
        ],
        end=100,
    )
