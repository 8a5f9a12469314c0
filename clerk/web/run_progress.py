"""What a site's active run does now: the current documents, pages per minute, and when the stage will be done."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from clerk.web.db import SampleQuery, fetch_rows

_MAX_JOBS = 10
_WINDOW = timedelta(minutes=5)
"""That of the view site_throughput."""
_JOBS = sql.SQL("""
    select r.job_id, r.stage, r.progress, r.progress_total, r.claimed_at, r.running_for, r.has_lease, r.host,
           d.id as document, d.meeting, d.date, count(*) over () as total
    from running_jobs r
    left join site_documents d on d.subdomain = r.subdomain and d.id = case
        when r.content_item_id ~ '^[0-9]{{1,18}}$' then r.content_item_id::bigint end
    where r.subdomain = %(subdomain)s
    order by r.claimed_at, r.job_id limit %(jobs)s
""").format()
_THROUGHPUT = sql.SQL("""
    select clerk_now() as now, coalesce(sum(pages) filter (where stage = 'ocr'), 0)::bigint as pages
    from site_throughput where subdomain = %(subdomain)s
""")
QUERIES: list[SampleQuery] = [(query, {"subdomain": "", "jobs": 1}) for query in (_JOBS, _THROUGHPUT)]


@dataclass(frozen=True)
class RunProgress:
    jobs: list[DictRow]
    """The running jobs, the longest-running first."""
    running: int
    pages_per_minute: float | None
    """Of OCR; None in other stages, and before the first page."""
    left: timedelta | None
    """Until the stage is done, at its rate so far."""


def read_progress(connection: psycopg.Connection, site: DictRow) -> RunProgress | None:
    """`site`: a row of pipeline_overview. None without an active run."""
    if site["phase"] is None:
        return None
    values = {"subdomain": site["subdomain"], "jobs": _MAX_JOBS}
    jobs = fetch_rows(connection, _JOBS, values)
    throughput = fetch_rows(connection, _THROUGHPUT, values)[0]
    now: datetime = throughput["now"]
    pages = None
    if site["current_stage"] == "ocr" and site["phase_began_at"] is not None:
        pages = pages_per_minute(throughput["pages"], jobs, now - site["phase_began_at"])
    left = site["eta"] - now if site["eta"] is not None and site["eta"] > now else None
    return RunProgress(jobs, jobs[0]["total"] if jobs else 0, pages, left)


def pages_per_minute(finished: int, jobs: Iterable[DictRow], phase_age: timedelta) -> float | None:
    """Pages of documents that ended in the window, and of those being read, over the window or the age of the phase.

    Of a document that has been read for longer than the window, a proportional part counts.
    """
    window = max(min(_WINDOW, phase_age), timedelta(seconds=10))
    pages = float(finished)
    for job in jobs:
        if job["stage"] == "ocr" and job["progress"] and job["running_for"]:
            pages += job["progress"] * min(1.0, window / max(job["running_for"], timedelta(seconds=1)))
    return pages / (window.total_seconds() / 60) if pages else None
