"""Workers without Procrastinate's loop: each has a connection with its own application_name.

Fetch, finish and retry use the statements of `clerk.pipeline.job_manager`.
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
from clerk.pipeline.job_manager import _CHECK_REJECTED_RESULT, _FINISH, _FINISH_AND_FETCH, _FINISH_JOBS, _RETRY

Connection = psycopg.Connection[Any]
PHASE_OF = {"fetch": 1, "ocr": 2, "compilation": 3, "extraction": 3, "deploy": 4}


@dataclass(frozen=True)
class Job:
    """A job as its worker fetched it. The row may have changed since."""

    id: int
    attempts: int
    queue: str
    args: Any

    @property
    def is_unit(self) -> bool:
        return self.queue in STAGES


class Worker:
    """A worker process: name, connection and Procrastinate's worker id."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.name = one(connection, "select current_setting('application_name')")
        self.number = one(connection, "select worker_id from procrastinate_register_worker_v1()")

    def fetch(self, *queues: str) -> Job | None:
        fetched = self.finish_and_fetch([], *queues)[1]
        return fetched[0] if fetched else None

    def finish_and_fetch(self, jobs: list[Job], *queues: str, slots: int = 1) -> tuple[set[int], list[Job]]:
        """Report successes of one attempt number and claim new jobs; returns the accepted ids and the jobs."""
        parameters = {
            "jobs": [job.id for job in jobs],
            "attempt": jobs[0].attempts if jobs else 0,
            "queues": list(queues) or None,
            "worker_id": self.number,
            "slots": slots,
        }
        while True:
            try:
                answer = self.connection.execute(_FINISH_AND_FETCH, parameters).fetchall()
                break
            except (errors.LockNotAvailable, errors.UniqueViolation):
                # A row was locked for 100 ms, or another worker claimed a job with the same lock: as in completer.py.
                if jobs:
                    return self.finish_all(jobs), []
        found = [dict(zip(_FETCHED, row, strict=True)) for row in answer]
        accepted = {row["id"] for row in found if row["status"] == "succeeded"}
        fetched = [row for row in found if row["status"] == "doing"]
        return accepted, [Job(row["id"], row["attempts"], row["queue_name"], row["args"]) for row in fetched]

    def take(self, *queues: str) -> Job:
        job = self.fetch(*queues)
        assert job is not None, f"no job waits in {queues or 'any queue'}"
        return job

    def finish(self, job: Job, status: str = "succeeded", code: str = "", message: str = "") -> bool:
        """False if the database rejected it (P0001)."""
        return self._report(_FINISH, job, code, message, status=status)

    def finish_all(self, jobs: list[Job]) -> set[int]:
        """Report successes of one attempt number in one statement; returns the accepted ids."""
        found = rows(self.connection, _FINISH_JOBS, {"jobs": [job.id for job in jobs], "attempt": jobs[0].attempts})
        return {row[0] for row in found}

    def retry(self, job: Job, at: datetime | None = None, code: str = "", message: str = "") -> bool:
        delay = None if at is None else (at - datetime.now(UTC)).total_seconds()
        return self._report(
            _RETRY,
            job,
            code,
            message,
            delay=delay,
            uncounted="0",
            new_priority=None,
            new_queue_name=None,
            new_lock=None,
        )

    def check_rejected(self, job: Job, status: str) -> str:
        """`mine` or `fenced`, for a result that was rejected."""
        parameters = {"job_id": job.id, "attempt": job.attempts, "status": status}
        return str(one(self.connection, _CHECK_REJECTED_RESULT, parameters))

    def coordinate(self, job: Job) -> str:
        """Do the work of a coordinator or refresh job, and finish it."""
        if "phase" in job.args:
            result = one(
                self.connection,
                "select clerk_advance_phase(%s, %s, %s)",
                [job.args["subdomain"], job.args["run_id"], job.args["phase"]],
            )
        else:
            result = one(self.connection, "select clerk_start_refresh_run(%s)", [job.args["subdomain"]])
        self.finish(job)
        return str(result)

    def _report(self, statement: Any, job: Job, code: str, message: str, **more: Any) -> bool:
        parameters = {"job_id": job.id, "attempt": str(job.attempts), "error_code": code, "error_message": message}
        parameters["traceback"] = f"Traceback of {code}" if code else ""
        try:
            self.connection.execute(statement, {**parameters, **more})
        except errors.RaiseException:
            return False
        return True


_FETCHED = (
    "id status task_name priority lock queueing_lock args scheduled_at queue_name attempts worker_id".split()  # noqa: SIM905
)


@contextmanager
def connect_worker(url: str, name: str) -> Iterator[Worker]:
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
    """A site with new documents; returns their ids."""
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
    """Start a run, and bring it to `phase` with every earlier unit succeeding."""
    run = int(one(connection, "select clerk_start_run(%s, p_supersede => true)", [subdomain]))
    if phase > 1:
        worker = Worker(connection)
        while site(connection, subdomain)["phase"] < phase:
            job = next_job_of(worker, run)
            if job.queue == "coordinator":
                worker.coordinate(job)
            else:
                worker.finish(job)
    return run


def next_job_of(worker: Worker, run: int) -> Job:
    """Claim the first waiting job of a run."""
    row = worker.connection.execute(
        "update procrastinate_jobs set status = 'doing', worker_id = %s where id = ("
        " select id from procrastinate_jobs where status = 'todo' and args ->> 'run_id' = %s order by id limit 1)"
        " returning id, attempts, queue_name, args",
        [worker.number, str(run)],
    ).fetchone()
    assert row is not None, f"no job of run {run} waits"
    return Job(*row)


def site(connection: Connection, subdomain: str = "town") -> dict[str, Any]:
    """The row of a site, and its phase (5: completed)."""
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
    """Number of coordinator jobs of a phase, in any status."""
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
    """Violations of I1 to I8. For the check `waiting`, see `waiting_problems`."""
    query = "select invariant, subdomain, run_id, stage, problem from invariant_violations where invariant <> 'waiting'"
    return rows(connection, query)


def waiting_problems(connection: Connection) -> list[str]:
    found = rows(connection, "select problem from invariant_violations where invariant = 'waiting' order by 1")
    return [str(row[0]) for row in found]


def drain(worker: Worker, status: str = "succeeded") -> int:
    """Process all waiting jobs, every unit with the same status; returns how many jobs."""
    done = 0
    while job := worker.fetch():
        if job.is_unit:
            worker.finish(job, status)
        else:
            worker.coordinate(job)
        done += 1
        assert done < 10_000, "more jobs than expected"
    return done


def finish_phase(worker: Worker, failing: tuple[int, ...] = ()) -> None:
    """End all units of the current phase, those of some items as failed, and run the coordinator."""
    while job := worker.fetch(*STAGES):
        failed = job.args["content_item_id"] in failing
        assert worker.finish(job, "failed" if failed else "succeeded", "PdfBroken" if failed else "")
    worker.coordinate(worker.take("coordinator"))


def run_with(worker: Worker, *failing_stages: str, items: tuple[int, ...] = ()) -> str:
    """A run of `town` in which some stages fail, for some items or for all; returns outcome and reason."""
    one(worker.connection, "select clerk_start_run('town')")
    while job := worker.fetch():
        if job.queue == "coordinator":
            worker.coordinate(job)
            continue
        failed = job.queue in failing_stages and (not items or job.args["content_item_id"] in items)
        worker.finish(job, "failed" if failed else "succeeded", "PdfBroken" if failed else "")
    assert broken_invariants(worker.connection) == []
    reason = one(worker.connection, "select outcome_reason from pipeline_runs order by run_id desc limit 1")
    return f"{site(worker.connection)['outcome']}: {reason}"


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
    """Expire the lease of a job."""
    connection.execute("update job_claims set lease_until = now() - interval '1 second' where job_id = %s", [job.id])
