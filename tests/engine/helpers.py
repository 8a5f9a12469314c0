"""Workers without Procrastinate's loop: each is a connection under a name of its own, and says what a real one says.

Fetch, finish and retry are the very statements of `clerk.pipeline.job_manager`, so what holds here holds for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg import errors

from clerk.pipeline.engine import STAGES
from clerk.pipeline.job_manager import _CHECK_REJECTED_RESULT, _FETCH, _FINISH, _RETRY

Connection = psycopg.Connection[Any]
PHASE_OF = {"fetch": 1, "ocr": 2, "compilation": 3, "extraction": 3, "deploy": 4}


@dataclass(frozen=True)
class Job:
    """A job as its worker knows it: with the attempt it was given, whatever became of the row since."""

    id: int
    attempts: int
    queue: str
    args: Any

    @property
    def is_unit(self) -> bool:
        return self.queue in STAGES


class Worker:
    """One process: one name, one connection, and Procrastinate's number."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name = one(connection, "select current_setting('application_name')")
        self.number = one(connection, "select worker_id from procrastinate_register_worker_v1()")

    def fetch(self, *queues: str) -> Job | None:
        asked = {"queues": list(queues) or None, "worker_id": self.number, "slots": 1}
        row = self.connection.execute(_FETCH, asked).fetchone()
        if row is None:
            return None
        found = dict(zip(_FETCHED, row, strict=True))
        return Job(found["id"], found["attempts"], found["queue_name"], found["args"])

    def take(self, *queues: str) -> Job:
        job = self.fetch(*queues)
        assert job is not None, f"nothing waits in {queues or 'any queue'}"
        return job

    def finish(self, job: Job, status: str = "succeeded", code: str = "", message: str = "") -> bool:
        """False if the database refused it (P0001)."""
        return self._say(_FINISH, job, code, message, status=status)

    def retry(self, job: Job, at: datetime | None = None, code: str = "", message: str = "") -> bool:
        delay = None if at is None else (at - datetime.now(UTC)).total_seconds()
        return self._say(_RETRY, job, code, message, delay=delay, new_priority=None, new_queue_name=None, new_lock=None)

    def whose(self, job: Job, status: str) -> str:
        """What a refused worker is told: `mine` or `fenced`."""
        asked = {"job_id": job.id, "attempt": job.attempts, "status": status}
        return str(one(self.connection, _CHECK_REJECTED_RESULT, asked))

    def coordinate(self, job: Job) -> str:
        """The body of a coordinator, or of a refresh, and its end."""
        if "phase" in job.args:
            said = one(
                self.connection,
                "select clerk_advance_phase(%s, %s, %s)",
                [job.args["subdomain"], job.args["run_id"], job.args["phase"]],
            )
        else:
            said = one(self.connection, "select clerk_start_refresh_run(%s)", [job.args["subdomain"]])
        self.finish(job)
        return str(said)

    def _say(self, statement: Any, job: Job, code: str, message: str, **more: Any) -> bool:
        said = {"job_id": job.id, "attempt": str(job.attempts), "error_code": code, "error_message": message}
        try:
            self.connection.execute(statement, {**said, **more})
        except errors.RaiseException:
            return False
        return True


_FETCHED = (
    "id status task_name priority lock queueing_lock args scheduled_at queue_name attempts worker_id".split()  # noqa: SIM905
)


@contextmanager
def worker(url: str, name: str) -> Iterator[Worker]:
    with psycopg.connect(url, autocommit=True, application_name=name) as connection:
        yield Worker(connection)


def one(connection: Connection, query: Any, arguments: Any = None) -> Any:
    """The single value of a query that has a row."""
    row = connection.execute(query, arguments).fetchone()
    assert row is not None
    return row[0]


def rows(connection: Connection, query: Any, arguments: Any = None) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(query, arguments).fetchall()]


def add_site(connection: Connection, subdomain: str = "town", documents: int = 2) -> list[int]:
    """A site with documents that nobody has read; returns their ids."""
    connection.execute("insert into sites (subdomain, name, scraper) values (%s, %s, 'x')", [subdomain, subdomain])
    return add_documents(connection, subdomain, documents)


def add_documents(connection: Connection, subdomain: str, documents: int) -> list[int]:
    return [
        row[0]
        for row in rows(
            connection,
            "insert into content_items (subdomain, kind, meeting, date)"
            " select %(site)s::text, 'minutes', 'Council',"
            " date '2000-01-01' + (select count(*) from content_items where subdomain = %(site)s::text)::integer + n"
            " from generate_series(1, %(documents)s) n returning id",
            {"site": subdomain, "documents": documents},
        )
    ]


def start(connection: Connection, subdomain: str = "town", phase: int = 1) -> int:
    """A run; with a phase, one that has got there with every unit before it succeeding."""
    run = int(one(connection, "select clerk_start_run(%s, p_supersede => true)", [subdomain]))
    if phase > 1:
        helper = Worker(connection)
        while site(connection, subdomain)["phase"] < phase:
            job = next_job_of(helper, run)
            if job.queue == "coordinator":
                helper.coordinate(job)
            else:
                helper.finish(job)
    return run


def next_job_of(helper: Worker, run: int) -> Job:
    """The first waiting job of a run, claimed; others' jobs stay where they are."""
    row = helper.connection.execute(
        "update procrastinate_jobs set status = 'doing', worker_id = %s where id = ("
        " select id from procrastinate_jobs where status = 'todo' and args ->> 'run_id' = %s order by id limit 1)"
        " returning id, attempts, queue_name, args",
        [helper.number, str(run)],
    ).fetchone()
    assert row is not None, f"no job of run {run} waits"
    return Job(*row)


def site(connection: Connection, subdomain: str = "town") -> dict[str, Any]:
    """The site's row, and its phase."""
    row = one(
        connection,
        "select to_jsonb(s) || jsonb_build_object('phase', coalesce(clerk_phase(current_stage), 5))"
        " from sites s where subdomain = %s",
        [subdomain],
    )
    assert isinstance(row, dict)
    return row


def counters(connection: Connection, stage: str, subdomain: str = "town") -> tuple[int, int, int]:
    """Total, completed, failed."""
    found = site(connection, subdomain)
    return found[f"{stage}_total"], found[f"{stage}_completed"], found[f"{stage}_failed"]


def unit(connection: Connection, item: int, stage: str = "ocr") -> dict[str, Any]:
    """A row of the ledger."""
    row = one(
        connection,
        "select to_jsonb(l) from content_item_pipeline_state l where content_item_id = %s and pipeline = %s",
        [item, stage],
    )
    assert isinstance(row, dict)
    return row


def archive(connection: Connection, subdomain: str = "town") -> int:
    return int(one(connection, "select id from content_items where subdomain = %s and kind = 'archive'", [subdomain]))


def coordinators(connection: Connection, run: int, phase: int) -> int:
    """How many jobs there are, in whichever status, that would end this phase."""
    return int(
        one(
            connection,
            "select count(*) from procrastinate_jobs where task_name = 'clerk.coordinate'"
            " and args ->> 'run_id' = %s and args ->> 'phase' = %s",
            [str(run), str(phase)],
        )
    )


def job_status(connection: Connection, job_id: int) -> str | None:
    found = rows(connection, "select status::text from procrastinate_jobs where id = %s", [job_id])
    return str(found[0][0]) if found else None


def ignored(connection: Connection) -> list[str]:
    """Why results were ignored, oldest first."""
    return [str(row[0]) for row in rows(connection, "select why from ignored_results order by id")]


def broken_invariants(connection: Connection) -> list[tuple[Any, ...]]:
    """I1 to I8. That nobody goes on is no breach of those: see `waiting_in_vain`."""
    query = "select invariant, subdomain, run_id, stage, problem from invariant_violations where invariant <> 'waiting'"
    return rows(connection, query)


def waiting_in_vain(connection: Connection) -> list[str]:
    found = rows(connection, "select problem from invariant_violations where invariant = 'waiting' order by 1")
    return [str(row[0]) for row in found]


def drain(helper: Worker, status: str = "succeeded") -> int:
    """Do all that waits, every unit with the same end; returns how many jobs."""
    done = 0
    while job := helper.fetch():
        if job.is_unit:
            helper.finish(job, status)
        else:
            helper.coordinate(job)
        done += 1
        assert done < 10_000, "this never ends"
    return done


def finish_phase(hand: Worker, failing: tuple[int, ...] = ()) -> None:
    """All units of the present phase end, those of some items as failed; then the coordinator runs."""
    while job := hand.fetch(*STAGES):
        failed = job.args["content_item_id"] in failing
        assert hand.finish(job, "failed" if failed else "succeeded", "PdfBroken" if failed else "")
    hand.coordinate(hand.take("coordinator"))


def run_with(hand: Worker, *failing_stages: str, items: tuple[int, ...] = ()) -> str:
    """A run of the town in which some stages fail, for some items or for all; returns how it ended."""
    one(hand.connection, "select clerk_start_run('town')")
    while job := hand.fetch():
        if job.queue == "coordinator":
            hand.coordinate(job)
            continue
        failed = job.queue in failing_stages and (not items or job.args["content_item_id"] in items)
        hand.finish(job, "failed" if failed else "succeeded", "PdfBroken" if failed else "")
    assert broken_invariants(hand.connection) == []
    reason = one(hand.connection, "select outcome_reason from pipeline_runs order by run_id desc limit 1")
    return f"{site(hand.connection)['outcome']}: {reason}"


def waiting(connection: Connection, queue: str) -> list[int]:
    """Content items with a waiting job in a queue."""
    found = rows(
        connection,
        "select (args ->> 'content_item_id')::integer from procrastinate_jobs"
        " where status = 'todo' and queue_name = %s order by 1",
        [queue],
    )
    return [row[0] for row in found]


def expire(connection: Connection, job: Job) -> None:
    """Its worker has not been heard of for too long."""
    connection.execute("update job_claims set lease_until = now() - interval '1 second' where job_id = %s", [job.id])
