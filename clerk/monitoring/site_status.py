"""One site in detail: its documents, how each was read, how long the stages take, and the runs so far."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

Connection = psycopg.Connection[Any]
Row = dict[str, Any]

_DOCUMENTS_LISTED = 20
_RUNS_LISTED = 10

_COUNTS = """
select count(*) as documents,
       count(*) filter (where l.status = 'processed') as read,
       count(*) filter (where l.status = 'failed_terminal') as failed,
       count(*) filter (where l.status in ('pending', 'in_progress', 'failed_retryable')) as open,
       count(*) filter (where l.status is null) as new,
       coalesce(sum(i.page_count) filter (where l.status = 'processed'), 0) as pages
from content_items i
left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
where i.subdomain = %(site)s and i.kind in ('minutes', 'agenda') and i.superseded_at is null
"""
# Failed and open ones first, each with the stage that has most to say about it.
_DOCUMENTS = """
select i.id, i.kind, i.meeting, i.date, i.page_count as pages, coalesce(l.pipeline, 'fetch') as stage,
       coalesce(l.status, 'new') as status, l.attempt_count as attempts, l.error_code, l.error_message,
       l.last_attempt_at, l.processed_at,
       case when c.settled_as is not null then c.settled_at - c.claimed_at end as took
from content_items i
left join lateral (
    select l.* from content_item_pipeline_state l
    where l.content_item_id = i.id and l.pipeline in ('ocr', 'extraction')
    order by case l.status when 'failed_terminal' then 0 when 'processed' then 2 else 1 end, l.pipeline desc
    limit 1
) l on true
left join job_claims c on c.job_id = l.job_id
where i.subdomain = %(site)s and i.kind in ('minutes', 'agenda') and i.superseded_at is null
order by case l.status when 'failed_terminal' then 0 when 'processed' then 3 else 1 end, i.date desc, i.meeting, i.id
limit %(most)s
"""
_PHASES = """
select p.phase, coalesce(before.advanced_at, case when p.phase = 1 then r.started_at end) as began_at,
       own.advanced_at as ended_at
from sites s
join pipeline_runs r on r.run_id = s.run_id
cross join generate_series(1, 4) as p (phase)
left join pipeline_transitions before on before.run_id = r.run_id and before.phase = p.phase - 1
left join pipeline_transitions own on own.run_id = r.run_id and own.phase = p.phase
where s.subdomain = %(site)s
order by p.phase
"""
_RUNS = """
select run_id, reason, started_at, ended_at, coalesce(ended_at, clerk_now()) - started_at as took, outcome,
       outcome_reason, ocr_completed, ocr_failed, skipped, skipped_examples
from pipeline_runs where subdomain = %(site)s order by started_at desc, run_id desc limit %(most)s
"""


@dataclass(frozen=True)
class SiteStatus:
    counts: Row
    documents: list[Row]
    """Failed and open ones first."""
    phases: dict[int, Row]
    """Of the present run: when each began and ended."""
    runs: list[Row]
    """The newest first."""
    run_count: int

    def as_dict(self) -> Row:
        return asdict(self)


def read_site_status(connection: Connection, subdomain: str, everything: bool = False) -> SiteStatus:
    """Cut to what fits on a screen unless told; documents that failed or are open come first."""
    (counts,) = _rows(connection, _COUNTS, subdomain)
    (runs,) = _rows(connection, "select count(*) as runs from pipeline_runs where subdomain = %(site)s", subdomain)
    return SiteStatus(
        counts,
        _rows(connection, _DOCUMENTS, subdomain, None if everything else _DOCUMENTS_LISTED),
        {row["phase"]: row for row in _rows(connection, _PHASES, subdomain)},
        _rows(connection, _RUNS, subdomain, None if everything else _RUNS_LISTED),
        runs["runs"],
    )


def _rows(connection: Connection, query: LiteralString, subdomain: str, most: int | None = None) -> list[Row]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, {"site": subdomain, "most": most}).fetchall()
