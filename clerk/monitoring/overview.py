"""The state of everything at a glance, read from the views that dashboards read too."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

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


@dataclass(frozen=True)
class Progress:
    """How far a site's present run is."""

    subdomain: str
    run_id: int | None
    stage: str | None
    outcome: str | None
    done: int
    failed: int
    total: int
    last_error: str | None
    units_ended: int
    """Of the whole run, in all its stages, well or not."""
    units_expected: int | None
    """Of the whole run, if each document is read and looked through once; None until the documents are known."""

    def __str__(self) -> str:
        failed = f", {self.failed} failed" if self.failed else ""
        if self.outcome is not None:
            error = f" ({self.last_error})" if self.outcome == "failed" and self.last_error else ""
            return f"{self.subdomain}: {self.outcome}{failed}{error}"
        return f"{self.subdomain}: {self.stage} {self.done}/{self.total}{failed}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_progress(connection: psycopg.Connection, subdomains: list[str]) -> list[Progress]:
    rows = connection.execute(
        """
        select o.subdomain, o.run_id, o.current_stage, o.outcome,
               case o.current_stage when 'fetch' then o.fetch_completed
                                    when 'ocr' then o.ocr_completed
                                    when 'extraction' then o.compilation_completed + o.extraction_completed
                                    when 'deploy' then o.deploy_completed else 0 end,
               o.fetch_failed + o.ocr_failed + o.compilation_failed + o.extraction_failed + o.deploy_failed,
               case o.current_stage when 'fetch' then o.fetch_total
                                    when 'ocr' then o.ocr_total
                                    when 'extraction' then o.compilation_total + o.extraction_total
                                    when 'deploy' then o.deploy_total else 0 end,
               o.last_error_message,
               o.fetch_completed + o.fetch_failed + o.ocr_completed + o.ocr_failed
                   + o.compilation_completed + o.compilation_failed + o.extraction_completed + o.extraction_failed
                   + o.deploy_completed + o.deploy_failed,
               case when o.phase = 1 then null
                    when o.phase = 2 then o.fetch_total + 2 * o.ocr_total + 2
                    when o.phase = 3 then o.fetch_total + o.ocr_total + o.compilation_total + o.extraction_total + 1
                    else o.fetch_total + o.ocr_total + o.compilation_total + o.extraction_total + o.deploy_total end
        from pipeline_overview o
        where o.subdomain = any (%s)
        order by o.subdomain
        """,
        [subdomains],
    ).fetchall()
    return [Progress(*row) for row in rows]


def failed_since(connection: psycopg.Connection, moment: datetime) -> list[str]:
    """The sites with a run that failed since then."""
    rows = connection.execute(
        "select distinct subdomain from run_history where outcome = 'failed' and ended_at >= %s order by 1", [moment]
    ).fetchall()
    return [subdomain for (subdomain,) in rows]


def due_sites(connection: psycopg.Connection, limit: int | None) -> list[str]:
    """The sites that the scheduler would start now, in its order."""
    rows = connection.execute("select subdomain from due_sites limit %s", [limit]).fetchall()
    return [subdomain for (subdomain,) in rows]


def retryable_units(connection: psycopg.Connection, subdomain: str, stage: str | None) -> list[dict[str, Any]]:
    """Failed units by stage and error."""
    rows = connection.execute(
        "select stage, coalesce(error_code, 'unknown'), count(*) from failing_documents"
        " where subdomain = %s and (%s::text is null or stage = %s) group by 1, 2 order by 1, 2",
        [subdomain, stage, stage],
    ).fetchall()
    return [{"stage": found, "error_code": code, "units": units} for found, code, units in rows]


@dataclass(frozen=True)
class Result:
    """What a site has after its last run."""

    subdomain: str
    stage: str | None
    outcome: str | None
    pages: int
    documents: int
    failing: int


def read_results(connection: psycopg.Connection, subdomains: list[str]) -> list[Result]:
    rows = connection.execute(
        """
        select s.subdomain, s.current_stage, s.outcome, coalesce(s.pages, 0),
               (select count(*) from content_items i where i.subdomain = s.subdomain and i.kind <> 'archive'),
               (select count(*) from failing_documents f where f.subdomain = s.subdomain)
        from sites s
        where s.subdomain = any (%s)
        order by s.subdomain
        """,
        [subdomains],
    ).fetchall()
    return [Result(*row) for row in rows]


@dataclass(frozen=True)
class FailingDocument:
    subdomain: str
    document: str
    error_code: str
    error_message: str


def read_failures(connection: psycopg.Connection, subdomains: list[str]) -> list[FailingDocument]:
    rows = connection.execute(
        """
        select f.subdomain, concat_ws(', ', f.meeting, f.date), coalesce(f.error_code, 'unknown'),
               coalesce(f.error_message, '')
        from failing_documents f
        where f.subdomain = any (%s)
        order by f.subdomain, f.meeting, f.date
        """,
        [subdomains],
    ).fetchall()
    return [FailingDocument(*row) for row in rows]
