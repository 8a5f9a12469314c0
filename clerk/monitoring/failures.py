"""What has failed and not been mended: by class of error and age, with examples; and the retry of such a group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import psycopg

from clerk.errors import PipelineError
from clerk.pipeline import engine

Connection = psycopg.Connection[Any]

AGES = ("1 h", "24 h", "7 d", "older")
_EXAMPLES = 3
_GROUPED = """
select coalesce(f.error_code, 'unknown'), f.stage, count(*),
       count(*) filter (where f.status = 'failed_terminal'),
       count(distinct f.subdomain),
       count(*) filter (where a.age < interval '1 hour'),
       count(*) filter (where a.age >= interval '1 hour' and a.age < interval '24 hours'),
       count(*) filter (where a.age >= interval '24 hours' and a.age < interval '7 days'),
       count(*) filter (where a.age >= interval '7 days')
from failing_documents f
cross join lateral (select clerk_now() - coalesce(f.last_attempt_at, '-infinity') as age) a
where (%(site)s::text is null or f.subdomain = %(site)s) and (%(stage)s::text is null or f.stage = %(stage)s)
  and (%(error)s::text is null or f.error_code = %(error)s)
group by 1, 2
order by 3 desc, 1, 2
"""
_EXAMPLE = """
select f.subdomain, coalesce(concat_ws(' ', f.meeting, f.date), ''), coalesce(f.error_message, '')
from failing_documents f
where (%(site)s::text is null or f.subdomain = %(site)s) and f.stage = %(stage)s and f.error_code = %(error)s
order by f.last_attempt_at desc nulls last, f.content_item_id
limit %(most)s
"""
_TO_RETRY = """
select f.subdomain, f.stage, array_agg(f.content_item_id order by f.content_item_id)
from failing_documents f
where f.status = 'failed_terminal'
  and (%(site)s::text is null or f.subdomain = %(site)s) and (%(stage)s::text is null or f.stage = %(stage)s)
  and (%(error)s::text is null or f.error_code = %(error)s)
group by f.subdomain, f.stage
order by f.subdomain, clerk_phase(f.stage), f.stage
"""


@dataclass(frozen=True)
class Group:
    """Which failures are meant; None: all of them."""

    site: str | None = None
    stage: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Example:
    site: str
    document: str
    message: str


@dataclass(frozen=True)
class Failures:
    """Of one class of error in one stage."""

    error_code: str
    stage: str
    units: int
    permanent: int
    """Of those; the others are tried again by themselves."""
    sites: int
    by_age: dict[str, int]
    """Since the last attempt: within the hour, before that within the day, and so on. Each counts in one place."""
    examples: list[Example] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Retry:
    """What became of the failures of one site."""

    site: str
    units: dict[str, int]
    """Stage → documents tried again."""
    run_id: int | None
    problem: str | None = None


def read_failures(connection: Connection, group: Group) -> list[Failures]:
    """The most frequent first."""
    found = []
    for code, stage, units, for_good, sites, *ages in connection.execute(_GROUPED, asdict(group)).fetchall():
        asked = {"site": group.site, "stage": stage, "error": code, "most": _EXAMPLES}
        examples = [Example(*row) for row in connection.execute(_EXAMPLE, asked).fetchall()]
        found.append(Failures(code, stage, units, for_good, sites, dict(zip(AGES, ages, strict=True)), examples))
    return found


def retry_group(connection: Connection, group: Group, dry_run: bool) -> Iterator[Retry]:
    """A transaction per site, all its stages in it. One that cannot be is told, and the others go on."""
    sites: dict[str, dict[str, list[int]]] = {}
    for site, stage, items in connection.execute(_TO_RETRY, asdict(group)).fetchall():
        sites.setdefault(site, {})[stage] = items
    for site, stages in sites.items():
        units: dict[str, int] = {}
        run_id = None
        try:
            with connection.transaction(force_rollback=dry_run):
                # In the order of the stages: a run that starts with the first takes the later ones along.
                for stage, items in stages.items():
                    retried = engine.retry_units(connection, site, stage, items)
                    units[stage], run_id = retried.units, retried.run_id
        except PipelineError as error:
            yield Retry(site, {}, None, str(error))
        except psycopg.errors.LockNotAvailable:
            yield Retry(site, {}, None, "somebody else is changing it right now: try again.")
        else:
            yield Retry(site, units, run_id)
