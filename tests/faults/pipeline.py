"""Test fixture: a database with sites, worker processes whose tasks follow a plan, and checks of the invariants."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from clerk.pipeline import engine
from clerk.pipeline.engine import QUEUES, STAGES

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
_TIMEOUT = 180.0
"""Seconds. Long, because tests must also pass on a busy machine; a test that passes waits for a state, not for this."""
_AUDIT = Path(__file__).with_name("audit.sql")


@dataclass(frozen=True)
class Step:
    """A step that a task recorded."""

    name: str
    stage: str
    item: int
    """The content item, or the phase of a coordinator."""
    job: int
    attempt: int
    pid: int


class Worker:
    """A worker process. `log` has its stdout and stderr."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def has_logged(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)
        until(lambda: Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "frozen")

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def wait(self) -> int:
        return self.process.wait(_TIMEOUT)

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        if self.is_alive():
            self.process.kill()
        self.process.wait()


def until(condition: Callable[[], T], description: str) -> T:
    """Wait until `condition` returns a true value, and return it."""
    deadline = time.monotonic() + _TIMEOUT
    while not (value := condition()):
        assert time.monotonic() < deadline, f"timeout while waiting for: {description}"
        time.sleep(0.01)
    return value


@dataclass
class Pipeline:
    url: str
    connection: psycopg.Connection[Any]
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    plan: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection.execute(_AUDIT.read_bytes())
        (self.folder / "steps").touch()
        self.set_plan()

    # --- sites and runs

    def add_site(self, subdomain: str = "anytown", documents: int = 3) -> list[int]:
        """Returns the ids of its documents."""
        self.connection.execute("insert into sites (subdomain, name) values (%s, %s)", [subdomain, subdomain])
        return self.add_documents(subdomain, documents)

    def add_documents(self, subdomain: str, count: int, since: str = "2024-01-01") -> list[int]:
        return [
            row[0]
            for row in self.connection.execute(
                "insert into content_items (subdomain, kind, meeting, date)"
                " select %s, 'minutes', 'Council', %s::date + n from generate_series(1, %s) as n returning id",
                [subdomain, since, count],
            )
        ]

    def start_run(self, subdomain: str = "anytown", **options: Any) -> int:
        return engine.start_run(self.connection, subdomain, **options)

    def set_policy(self, stage: str, **values: Any) -> None:
        for column, value in values.items():
            self.connection.execute(
                psycopg.sql.SQL("update stage_policy set {} = %s where stage = %s").format(
                    psycopg.sql.Identifier(column)
                ),
                [value, stage],
            )

    # --- the plan that tasks follow: see worker_app.py

    def set_plan(self, **behaviours: str | list[str]) -> None:
        """The behaviour of a stage, as in `set_plan(ocr="ok")`."""
        self.plan |= {key: [value] if isinstance(value, str) else value for key, value in behaviours.items()}
        self._write_plan()

    def plan_item(self, stage: str, item: int, *attempts: str) -> None:
        """The behaviour of each attempt at one unit."""
        self.plan[f"{stage}:{item}"] = list(attempts)
        self._write_plan()

    def _write_plan(self) -> None:
        new = self.folder / "plan.new"
        new.write_text(json.dumps(self.plan))
        new.rename(self.folder / "plan.json")

    def open_gate(self, gate: str) -> None:
        (self.folder / gate).touch()

    def steps(self, name: str | None = None, **fields: Any) -> list[Step]:
        """The recorded steps with this name and these fields."""
        lines = (self.folder / "steps").read_text().splitlines()
        return [
            step
            for step in (Step(*json.loads(line)) for line in lines)
            if name in (None, step.name) and all(getattr(step, field) == value for field, value in fields.items())
        ]

    # --- workers

    def worker(
        self,
        *queues: str,
        url: str | None = None,
        app: str = "tests.faults.worker_app.app",
        concurrency: int = 1,
        options: tuple[str, ...] = (),
        unresponsive_after: float = 60.0,
        db_timeout: float = 300.0,
        startup_timeout: float = 600.0,
        probe_interval: float = 0.1,
        cpu_concurrency: int | None = None,
        deadlines: tuple[float, float] | None = None,
        variables: dict[str, str] | None = None,
        clock: float = 0.0,
    ) -> Worker:
        """A `procrastinate worker`; without queues, for all of them."""
        queues = queues or QUEUES
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("CLERK_", "PG"))},
            "DATABASE_URL": url or self.url,
            "FAULTS_FOLDER": str(self.folder),
            "FAULTS_CLOCK": str(clock),
            "PYTHONPATH": str(ROOT),
            "FAULTS_DEADLINES": json.dumps(deadlines),
            "FAULTS_WORKER": json.dumps(
                {
                    "unresponsive_after": unresponsive_after,
                    "db_timeout": db_timeout,
                    "startup_timeout": startup_timeout,
                    "probe_interval": probe_interval,
                    "cpu_concurrency": cpu_concurrency,
                }
            ),
            **(variables or {}),
        }
        command = [
            *[sys.executable, "-m", "procrastinate", f"--app={app}", "worker"],
            *[f"--queues={','.join(queues)}", f"--concurrency={concurrency}"],
            *["--fetch-job-polling-interval=0.1", "--abort-job-polling-interval=0.1", *options],
        ]
        worker = Worker(command, environment, self.folder / f"worker-{len(self.workers)}.log")
        self.workers.append(worker)
        return worker

    # --- queries

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        # None instead of an empty list, so that percent signs in the query need no escaping.
        return self.connection.execute(query.encode(), values or None).fetchall()

    def scalar(self, query: str, *values: Any) -> Any:
        row = self.connection.execute(query.encode(), values or None).fetchone()
        assert row is not None, query
        return row[0]

    def ledger(self, stage: str, item: int) -> tuple[str, str | None, int]:
        """Status, error code and attempts of a unit."""
        status, code, attempts = self.rows(
            "select status, error_code, attempt_count from content_item_pipeline_state"
            " where pipeline = %s and content_item_id = %s",
            stage,
            item,
        )[0]
        return status, code, attempts

    def job_id(self, stage: str, item: int) -> int:
        """The current job of a unit."""
        return int(
            self.scalar(
                "select job_id from content_item_pipeline_state where pipeline = %s and content_item_id = %s",
                stage,
                item,
            )
        )

    def job_status(self, job: int) -> str:
        return str(self.scalar("select status from procrastinate_jobs where id = %s", job))

    def counters(self, stage: str, subdomain: str = "anytown") -> tuple[int, int, int]:
        """Total, completed, failed."""
        query = f"select {stage}_total, {stage}_completed, {stage}_failed from sites where subdomain = %s"
        total, completed, failed = self.rows(query, subdomain)[0]
        return total, completed, failed

    def ignored_results(self, why: str) -> list[tuple[int, int | None]]:
        """Job and attempt of every ignored result."""
        query = "select job_id, attempt from ignored_results where why = %s order by id"
        return [(job, attempt) for job, attempt in self.rows(query, why)]

    def is_running(self, stage: str, item: int) -> bool:
        return self.job_status(self.job_id(stage, item)) == "doing"

    def outcome(self, run_id: int) -> str | None:
        outcome: str | None = self.scalar("select outcome from pipeline_runs where run_id = %s", run_id)
        return outcome

    def wait_for_end(self, run_id: int) -> str:
        """Returns the outcome."""
        return str(until(lambda: self.outcome(run_id), f"the end of run {run_id}: {self._state()}"))

    def _state(self) -> str:
        return str(self.rows("select subdomain, current_stage, outcome from sites order by 1 limit 5"))

    # --- time, rescue and restarts

    def expire_leases(self, *jobs: int) -> None:
        self.connection.execute(
            "update job_claims set lease_until = now() - interval '1 second' where job_id = any (%s)", [list(jobs)]
        )

    def rescue(self) -> int:
        from clerk.reconcile.apply import rescue_expired

        return rescue_expired(self.connection)

    def clear_schedule(self, task: str) -> None:
        """Make the waiting jobs of a task due now."""
        self.connection.execute(
            "update procrastinate_jobs set scheduled_at = null where status = 'todo' and task_name = %s", [task]
        )

    def reconnect(self, url: str | None = None) -> None:
        """After a restart of the server, or a failover."""
        self.connection.close()
        self.connection = psycopg.connect(url or self.url, autocommit=True)

    # --- invariants

    def check_invariants(self) -> None:
        """I1 to I8, after every run has ended: by the engine's view, and by the independent records of audit.sql."""
        # A run ends shortly before the job of the coordinator that ended it.
        until(lambda: not self._open_jobs(), "the end of every job of the pipeline")
        broken = self.rows("select invariant, subdomain, run_id, stage, problem from invariant_violations")
        assert broken == []
        self._check_runs()
        self._check_audit()
        self._check_jobs()
        assert self.scalar("select deadlocks from pg_stat_database where datname = current_database()") == 0
        assert not [worker.log.name for worker in self.workers if worker.has_logged("deadlock detected")]

    def _check_runs(self) -> None:
        # I4: every run has ended with an outcome, and its site is completed.
        assert self.rows("select run_id from pipeline_runs where ended_at is null or outcome is null") == []
        assert self.rows("select subdomain from sites where run_id is not null and current_stage <> 'completed'") == []
        # I1: no unit is open.
        assert self.rows("select id from content_item_pipeline_state where not faults.is_end(status)") == []
        # I2: the counters of every ended run add up.
        for stage in STAGES:
            query = f"select run_id from run_history where {stage}_completed + {stage}_failed <> {stage}_total"
            assert self.rows(query) == []
        # I5: a run deploys at most once.
        assert self.rows("select run_id from run_history where deploy_completed > 1") == []

    def _check_audit(self) -> None:
        duplicates = "select {0} from faults.{1} group by {0} having count(*) > 1"
        # I3: one advance out of each phase, one entry into each.
        assert self.rows(duplicates.format("run_id, phase", "advance")) == []
        assert self.rows(duplicates.format("run_id, stage", "phase_start")) == []
        not_advanced = (
            "select t.run_id, t.phase from pipeline_transitions t join pipeline_runs r using (run_id)"
            " left join faults.advance a using (run_id, phase)"
            " where r.outcome <> 'cancelled' and (a.run_id is null or t.advanced_at is null)"
        )
        assert self.rows(not_advanced) == []
        # I8: one accepted result per job and attempt.
        assert self.rows(duplicates.format("job_id, attempt", "result")) == []
        # A unit ends once per run, and once more for each time that it was reopened.
        ended_twice = (
            "select content_item_id, stage, run_id from faults.settled group by 1, 2, 3"
            " having count(*) filter (where faults.is_end(became) and not faults.is_end(was))"
            " > 1 + count(*) filter (where faults.is_end(was) and not faults.is_end(became))"
        )
        assert self.rows(ended_twice) == []

    def _check_jobs(self) -> None:
        # I7: no job of the pipeline is open, and no claim is unsettled.
        assert self._open_jobs() == []
        # A worker may just run a periodic job.
        until(lambda: not self.rows("select job_id from job_claims where settled_as is null"), "no unsettled claim")

    def _open_jobs(self) -> list[tuple[Any, ...]]:
        return self.rows(
            "select id, task_name, status from procrastinate_jobs"
            " where status in ('todo', 'doing') and args ->> 'run_id' is not null"
        )


@contextlib.contextmanager
def pipeline_on(url: str, folder: Path) -> Iterator[Pipeline]:
    """Kills all workers at the end, including frozen ones."""
    pipeline = Pipeline(url, psycopg.connect(url, autocommit=True), folder)
    try:
        yield pipeline
    finally:
        for worker in pipeline.workers:
            worker.kill()
        pipeline.connection.close()
