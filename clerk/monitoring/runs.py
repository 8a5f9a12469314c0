"""Read model of runs: progress of the current run of some sites, runs that failed, sites that are due."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import class_row

from clerk.humanize import pluralize
from clerk.monitoring.query import Connection

# extraction runs beside compilation, so their units count together.
_PROGRESS = """
select o.subdomain, o.run_id, o.current_stage as stage, o.outcome,
       case o.current_stage when 'fetch' then o.fetch_completed
                            when 'ocr' then o.ocr_completed
                            when 'extraction' then o.compilation_completed + o.extraction_completed
                            when 'deploy' then o.deploy_completed else 0 end as done,
       o.fetch_failed + o.ocr_failed + o.compilation_failed + o.extraction_failed + o.deploy_failed as failed,
       case o.current_stage when 'fetch' then o.fetch_total
                            when 'ocr' then o.ocr_total
                            when 'extraction' then o.compilation_total + o.extraction_total
                            when 'deploy' then o.deploy_total else 0 end as total,
       o.last_error_message as last_error,
       o.fetch_completed + o.fetch_failed + o.ocr_completed + o.ocr_failed
           + o.compilation_completed + o.compilation_failed + o.extraction_completed + o.extraction_failed
           + o.deploy_completed + o.deploy_failed as units_ended,
       case when o.phase = 1 then null
            when o.phase = 2 then o.fetch_total + 2 * o.ocr_total + 2
            when o.phase = 3 then o.fetch_total + o.ocr_total + o.compilation_total + o.extraction_total + 1
            else o.fetch_total + o.ocr_total + o.compilation_total + o.extraction_total + o.deploy_total
            end as units_expected,
       coalesce(r.skipped, 0) as skipped
from pipeline_overview o
left join current_runs r on r.subdomain = o.subdomain
where o.subdomain = any (%s)
order by o.subdomain
"""
# A PDF that was missing in storage and fetched again is no new document: its texts are older than the run.
_DOCUMENTS = """
select r.subdomain,
       count(*) filter (where f.is_fetched and not f.is_failed and d.id = d.lineage_id) as new,
       count(*) filter (where f.is_fetched and not f.is_failed and d.id <> d.lineage_id) as revised,
       count(*) filter (where f.is_failed) as failed
from current_runs r
left join site_documents d on d.subdomain = r.subdomain
cross join lateral (
    select d.fetched_at >= r.started_at and coalesce(d.ocr_processed_at >= r.started_at, true) as is_fetched,
           coalesce(d.fetch_failed_at >= r.started_at, false)
           or coalesce(d.ocr_status = 'failed_terminal' and d.ocr_run_id = r.run_id, false)
           or coalesce(d.extraction_status = 'failed_terminal' and d.extraction_run_id = r.run_id, false) as is_failed
) f
where r.subdomain = any (%s)
group by r.subdomain
"""
_FAILED_SINCE = "select distinct subdomain from run_history where outcome = 'failed' and ended_at >= %s order by 1"


@dataclass(frozen=True)
class DocumentCounts:
    """Documents of a site by what its last run found or did; each counts once."""

    new: int
    revised: int
    failed: int
    """Not downloaded, or failed in OCR or extraction."""

    def __str__(self) -> str:
        return ", ".join(f"{number:,} {name}" for name, number in vars(self).items() if number) or "none new"


@dataclass(frozen=True)
class RunProgress:
    """Progress of a site's current or last run."""

    subdomain: str
    run_id: int | None
    stage: str | None
    outcome: str | None
    done: int
    failed: int
    total: int
    last_error: str | None
    units_ended: int
    """Completed and failed units of all stages of the run."""
    units_expected: int | None
    """Units of all stages of the run, if every document passes every stage; None until the fetch has finished."""
    skipped: int = 0
    """Entries of the source that the run's fetch skipped."""
    documents: DocumentCounts | None = None
    """None while the run is active."""

    def __str__(self) -> str:
        return self.describe()

    def describe(self, command: str = "clerk") -> str:
        """`command`: how clerk is called with this database."""
        failed = f", {self.failed} failed" if self.failed else ""
        if self.outcome is not None:
            error = f" ({self.last_error})" if self.outcome == "failed" and self.last_error else ""
            skipped = f"; {pluralize(self.skipped, 'entry', 'entries')} of the source skipped" if self.skipped else ""
            hint = f" ({command} site skipped {self.subdomain})" if skipped else ""
            result = f"; documents: {self.documents}" if self.documents is not None else failed
            return f"{self.subdomain}: {self.outcome}{error}{result}{skipped}{hint}"
        return f"{self.subdomain}: {self.stage} {self.done}/{self.total}{failed}"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_progress(connection: Connection, subdomains: list[str]) -> list[RunProgress]:
    with connection.cursor(row_factory=class_row(RunProgress)) as cursor:
        return cursor.execute(_PROGRESS, [subdomains]).fetchall()


def count_documents(connection: Connection, subdomains: list[str]) -> dict[str, DocumentCounts]:
    """The documents of each site's current or last run."""
    rows = connection.execute(_DOCUMENTS, [subdomains]).fetchall()
    return {subdomain: DocumentCounts(*numbers) for subdomain, *numbers in rows}


def failed_since(connection: Connection, moment: datetime) -> list[str]:
    """Sites with a run that has failed since then."""
    return [subdomain for (subdomain,) in connection.execute(_FAILED_SINCE, [moment]).fetchall()]


def due_sites(connection: Connection, limit: int | None) -> list[str]:
    """Sites that the scheduler would start now, in its order."""
    rows = connection.execute("select subdomain from due_sites limit %s", [limit]).fetchall()
    return [subdomain for (subdomain,) in rows]
