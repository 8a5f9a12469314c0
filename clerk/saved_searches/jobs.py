"""The jobs of saved searches, inserted in the transaction that creates the row of their matching or delivery."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from clerk.pipeline.engine import DELIVERY_QUEUE

Connection = psycopg.Connection[Any]

MATCH_TASK = "clerk.match_publication"
DELIVER_TASK = "clerk.deliver_matches"

# A trigger records the error of a failed job in the row that names it (clerk_record_delivery_error).
_INSERT_JOB = """
insert into procrastinate_jobs (queue_name, task_name, lock, queueing_lock, args) values (%s, %s, %s, %s, %s)
on conflict (queueing_lock) where status = 'todo' do nothing
returning id
"""
# Not locked by another transaction: that one has just created or retried the row.
_LOST_MATCHINGS = """
select m.publication_id, p.subdomain
from publication_matchings m
join publications p on p.id = m.publication_id
where m.status in ('pending', 'failed_retryable')
  and not exists (select from procrastinate_jobs j where j.id = m.job_id and j.status in ('todo', 'doing'))
for update of m skip locked
"""
_LOST_DELIVERIES = """
select d.id
from saved_search_deliveries d
where d.status in ('pending', 'failed_retryable')
  and not exists (select from procrastinate_jobs j where j.id = d.job_id and j.status in ('todo', 'doing'))
for update of d skip locked
"""
_FAILED = """
select f.publication_id, f.subdomain, f.delivery_id
from failing_deliveries f
where f.status = 'failed_terminal' and f.step <> 'query' and (%(error)s::text is null or f.error_code = %(error)s)
  and (%(site)s::text is null or f.subdomain = %(site)s)
"""


def request_matching(connection: Connection, publication_id: int, subdomain: str) -> None:
    """Defer the matching of a publication. Does nothing if it was requested before."""
    with connection.transaction():
        inserted = connection.execute(
            "insert into publication_matchings (publication_id, created_at) values (%s, clerk_now())"
            " on conflict do nothing",
            [publication_id],
        )
        if inserted.rowcount:
            defer_matching(connection, publication_id, subdomain)


def defer_matching(connection: Connection, publication_id: int, subdomain: str) -> None:
    # One at a time per site: the second finds only the pages that the first has not recorded.
    lock = f"{MATCH_TASK}:{subdomain}"
    job_id = _insert(connection, MATCH_TASK, {"publication_id": publication_id}, f"{MATCH_TASK}:{publication_id}", lock)
    connection.execute(
        "update publication_matchings set job_id = coalesce(%s, job_id), status = 'pending' where publication_id = %s",
        [job_id, publication_id],
    )


def defer_delivery(connection: Connection, delivery_id: int) -> None:
    job_id = _insert(connection, DELIVER_TASK, {"delivery_id": delivery_id}, f"{DELIVER_TASK}:{delivery_id}", None)
    connection.execute(
        "update saved_search_deliveries set job_id = coalesce(%s, job_id), status = 'pending' where id = %s",
        [job_id, delivery_id],
    )


def redefer_lost(connection: Connection) -> int:
    """Defer the matchings and deliveries again whose job was deleted. Returns how many there were."""
    with connection.transaction():
        matchings = connection.execute(_LOST_MATCHINGS).fetchall()
        for publication_id, subdomain in matchings:
            defer_matching(connection, publication_id, subdomain)
        deliveries = connection.execute(_LOST_DELIVERIES).fetchall()
        for (delivery_id,) in deliveries:
            defer_delivery(connection, delivery_id)
    return len(matchings) + len(deliveries)


def retry_failed(connection: Connection, error: str | None = None, site: str | None = None) -> int:
    """Defer what failed permanently again, all of it or with this error code. Returns how many there were."""
    failed = connection.execute(_FAILED, {"error": error, "site": site}).fetchall()
    for publication_id, subdomain, delivery_id in failed:
        if delivery_id is None:
            defer_matching(connection, publication_id, subdomain)
        else:
            defer_delivery(connection, delivery_id)
    return len(failed)


def _insert(
    connection: Connection, task: str, arguments: dict[str, int], queueing_lock: str, lock: str | None
) -> int | None:
    """The new job's id; None if such a job is waiting already."""
    row = connection.execute(_INSERT_JOB, [DELIVERY_QUEUE, task, lock, queueing_lock, Jsonb(arguments)]).fetchone()
    return None if row is None else int(row[0])
