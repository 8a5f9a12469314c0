"""Read model of failed units and deliveries, grouped by error code, stage and age; and the retry of such a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import psycopg

from clerk.errors import JOB_ERRORS, PipelineError
from clerk.humanize import source_file
from clerk.monitoring.query import Connection
from clerk.pipeline import engine
from clerk.saved_searches import jobs
from clerk.stage_names import stage_name

DELIVERY = "delivery"
"""The stage under which failures of saved searches are listed: their matching and their deliveries."""
FAILURE_STAGES = (*engine.STAGES, DELIVERY)
AGES = ("1 h", "24 h", "7 d", "older")
_MAX_EXAMPLES = 3
_GROUPS = """
select coalesce(f.error_code, 'unknown'), f.stage, count(*),
       count(*) filter (where f.status = 'failed_terminal'),
       count(distinct f.subdomain),
       count(*) filter (where a.age < interval '1 hour'),
       count(*) filter (where a.age >= interval '1 hour' and a.age < interval '24 hours'),
       count(*) filter (where a.age >= interval '24 hours' and a.age < interval '7 days'),
       count(*) filter (where a.age >= interval '7 days' or a.age is null)
from (
    select error_code, stage, status, subdomain, last_attempt_at from failing_documents
    union all
    select error_code, 'delivery', status, subdomain, last_attempt_at from failing_deliveries
) f
cross join lateral (select clerk_now() - f.last_attempt_at as age) a
where (%(site)s::text is null or f.subdomain = %(site)s) and (%(stage)s::text is null or f.stage = %(stage)s)
  and (%(error)s::text is null or f.error_code = %(error)s)
group by 1, 2
order by 3 desc, 1, 2
"""
_DELIVERY_EXAMPLES = """
select coalesce(f.subdomain, ''), concat_ws(', ', 'alert ' || f.saved_search, f.destination),
       coalesce(f.error_message, '')
from failing_deliveries f
where (%(site)s::text is null or f.subdomain = %(site)s) and f.error_code = %(error)s
order by f.last_attempt_at desc nulls last, f.delivery_id
limit %(limit)s
"""
_EXAMPLES = """
select f.subdomain, coalesce(concat_ws(' ', f.meeting, f.date), ''), coalesce(f.error_message, ''), i.source_url
from failing_documents f
left join site_documents i on i.id = f.content_item_id
where (%(site)s::text is null or f.subdomain = %(site)s) and f.stage = %(stage)s and f.error_code = %(error)s
order by f.last_attempt_at desc nulls last, f.content_item_id
limit %(limit)s
"""
_FAILED_UNITS = """
select f.subdomain, f.stage, array_agg(f.content_item_id order by f.content_item_id)
from failing_documents f
where f.status = 'failed_terminal'
  and (%(site)s::text is null or f.subdomain = %(site)s) and (%(stage)s::text is null or f.stage = %(stage)s)
  and (%(error)s::text is null or f.error_code = %(error)s)
group by f.subdomain, f.stage
order by f.subdomain, clerk_phase(f.stage), f.stage
"""
_SELECTED_UNITS = """
select i.subdomain, u.stage, u.item, l.status, coalesce(nullif(concat_ws(' ', i.meeting, i.date), ''), i.kind)
from unnest(%(stages)s::text[], %(items)s::bigint[]) as u (stage, item)
left join content_items i on i.id = u.item
left join content_item_pipeline_state l on l.content_item_id = u.item and l.pipeline = u.stage
order by i.subdomain, clerk_phase(u.stage), u.stage, u.item
"""


@dataclass(frozen=True)
class FailureFilter:
    """Selects failures; a field that is None selects all."""

    site: str | None = None
    stage: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class FailureExample:
    site: str
    """Empty for a delivery of a saved search."""
    document: str
    message: str
    source_url: str | None = None
    """Address or file at the source; None for a unit of the whole site."""

    @property
    def name(self) -> str:
        """The document with its file, which has to be replaced or inspected."""
        return " ".join(filter(None, (self.document, f"({source_file(self.source_url)})" if self.source_url else "")))


@dataclass(frozen=True)
class FailureGroup:
    """The failed units, or deliveries, of one stage with one error code."""

    error_code: str
    stage: str
    units: int
    permanent: int
    """Units that failed permanently; the others are retried automatically."""
    sites: int
    by_age: dict[str, int]
    """Age of the last attempt, one of AGES → units. Each unit counts in one age only."""
    examples: list[FailureExample]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class RetryResult:
    """Result of the retry of one site's failures."""

    site: str
    """Empty for the deliveries of saved searches."""
    units: dict[str, int]
    """Stage → units that are retried."""
    run_id: int | None
    problem: str | None = None


def known_codes(connection: Connection) -> list[str]:
    """The error codes of this version, and others that failed units have, such as those of an earlier version."""
    rows = connection.execute(
        "select error_code from failing_documents union select error_code from failing_deliveries"
    ).fetchall()
    return sorted({*JOB_ERRORS, "unknown", *(code for (code,) in rows if code)})


def read_failures(connection: Connection, selected: FailureFilter) -> list[FailureGroup]:
    """The largest group comes first."""
    groups = []
    for code, stage, units, permanent, sites, *ages in connection.execute(_GROUPS, asdict(selected)).fetchall():
        values = {"site": selected.site, "stage": stage, "error": code, "limit": _MAX_EXAMPLES}
        query = _DELIVERY_EXAMPLES if stage == DELIVERY else _EXAMPLES
        examples = [FailureExample(*row) for row in connection.execute(query, values).fetchall()]
        by_age = dict(zip(AGES, ages, strict=True))
        groups.append(FailureGroup(code, stage, units, permanent, sites, by_age, examples))
    return groups


def retry_failures(connection: Connection, selected: FailureFilter, dry_run: bool) -> Iterator[RetryResult]:
    """Retry the permanently failed units, one transaction per site. A site that fails does not stop the others."""
    sites: dict[str, dict[str, list[int]]] = {}
    for site, stage, items in connection.execute(_FAILED_UNITS, asdict(selected)).fetchall():
        sites.setdefault(site, {})[stage] = items
    yield from _retry_sites(connection, sites, dry_run)
    if selected.stage in (None, DELIVERY):
        with connection.transaction(force_rollback=dry_run):
            retried = jobs.retry_failed(connection, selected.error, selected.site)
        if retried:
            yield RetryResult("", {DELIVERY: retried}, None)


def retry_selected(
    connection: Connection, units: Iterable[tuple[str, int]], dry_run: bool
) -> tuple[list[RetryResult], list[str]]:
    """Retry single units, given by stage and document. Returns the results by site, and what is not retried and why."""
    chosen = sorted(set(units))
    rows = connection.execute(_SELECTED_UNITS, {"stages": [s for s, _ in chosen], "items": [i for _, i in chosen]})
    sites: dict[str, dict[str, list[int]]] = {}
    not_retried = []
    for site, stage, item, status, name in rows.fetchall():
        if status == "failed_terminal":
            sites.setdefault(site, {}).setdefault(stage, []).append(item)
        elif site is None:
            not_retried.append(f"document {item} in {stage_name(stage)}: there is no such document")
        else:
            reason = "is retried automatically" if status == "failed_retryable" else "has not failed any more"
            not_retried.append(f"{name} of {site} in {stage_name(stage)}: it {reason}")
    return list(_retry_sites(connection, sites, dry_run)), not_retried


def _retry_sites(
    connection: Connection, sites: dict[str, dict[str, list[int]]], dry_run: bool
) -> Iterator[RetryResult]:
    """`sites`: by site and stage, in the order of the stages, the documents to retry."""
    for site, stages in sites.items():
        units: dict[str, int] = {}
        run_id = None
        try:
            with connection.transaction(force_rollback=dry_run):
                # In the order of the stages: the run that the first one starts includes the later ones.
                for stage, items in stages.items():
                    unit_retry = engine.retry_units(connection, site, stage, items)
                    units[stage], run_id = unit_retry.units, unit_retry.run_id
        except PipelineError as error:
            yield RetryResult(site, {}, None, str(error))
        except psycopg.errors.LockNotAvailable:
            yield RetryResult(site, {}, None, "another transaction is changing the site: try again.")
        else:
            yield RetryResult(site, units, run_id)
