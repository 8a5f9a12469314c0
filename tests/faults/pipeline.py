"""What the tests hold in their hands: a database with sites, workers as processes, and a look at the books."""

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
from clerk.pipeline.engine import STAGES

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
_PATIENCE = 60.0
_AUDIT = Path(__file__).with_name("audit.sql")


@dataclass(frozen=True)
class Said:
    """A line of the bodies' own record."""

    step: str
    stage: str
    about: int
    job: int
    attempt: int
    pid: int


class Worker:
    """A worker process. `log` is what it wrote to stderr."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        return self.process.pid

    def lives(self) -> bool:
        return self.process.poll() is None

    def said(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)
        until(lambda: Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T", "frozen")

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def wait(self) -> int:
        return self.process.wait(_PATIENCE)

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self.wait()

    def destroy(self) -> None:
        if self.lives():
            self.process.kill()
        self.process.wait()


def until(look: Callable[[], T], what: str, patience: float = _PATIENCE) -> T:
    """Wait for a state, and fail with its name if it does not come."""
    deadline = time.monotonic() + patience
    while not (seen := look()):
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)
    return seen


@dataclass
class Pipeline:
    url: str
    connection: psycopg.Connection[Any]
    folder: Path
    workers: list[Worker] = field(default_factory=list)
    plan: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.connection.execute(_AUDIT.read_bytes())
        (self.folder / "said").touch()
        self.will()

    # --- what there is -------------------------------------------------------------------------------------

    def site(self, subdomain: str = "anytown", documents: int = 3) -> list[int]:
        """A site with documents; returns their ids."""
        self.connection.execute("insert into sites (subdomain, name) values (%s, %s)", [subdomain, subdomain])
        return self.documents(subdomain, documents)

    def documents(self, subdomain: str, count: int, since: str = "2024-01-01") -> list[int]:
        return [
            row[0]
            for row in self.connection.execute(
                "insert into content_items (subdomain, kind, meeting, date)"
                " select %s, 'minutes', 'Council', %s::date + n from generate_series(1, %s) as n returning id",
                [subdomain, since, count],
            )
        ]

    def start(self, subdomain: str = "anytown", **options: Any) -> int:
        return engine.start_run(self.connection, subdomain, **options)

    def policy(self, stage: str, **values: Any) -> None:
        for column, value in values.items():
            self.connection.execute(
                psycopg.sql.SQL("update stage_policy set {} = %s where stage = %s").format(
                    psycopg.sql.Identifier(column)
                ),
                [value, stage],
            )

    # --- what bodies do ------------------------------------------------------------------------------------

    def will(self, **behaviours: str | list[str]) -> None:
        """`will(ocr="ok")`; per item through `item`."""
        self.plan |= {key: [value] if isinstance(value, str) else value for key, value in behaviours.items()}
        self._write_plan()

    def item(self, stage: str, about: int, *behaviour: str) -> None:
        self.plan[f"{stage}:{about}"] = list(behaviour)
        self._write_plan()

    def _write_plan(self) -> None:
        new = self.folder / "plan.new"
        new.write_text(json.dumps(self.plan))
        new.rename(self.folder / "plan.json")

    def open(self, gate: str) -> None:
        (self.folder / gate).touch()

    def said(self, step: str | None = None, **about: Any) -> list[Said]:
        lines = (self.folder / "said").read_text().splitlines()
        return [
            said
            for said in (Said(*json.loads(line)) for line in lines)
            if step in (None, said.step) and all(getattr(said, name) == value for name, value in about.items())
        ]

    # --- who does it ---------------------------------------------------------------------------------------

    def worker(
        self,
        *queues: str,
        url: str | None = None,
        concurrency: int = 1,
        options: tuple[str, ...] = (),
        unresponsive_after: float = 60.0,
        db_timeout: float = 300.0,
        startup_timeout: float = 600.0,
        clock: float = 0.0,
    ) -> Worker:
        """The stock command line; without queues, all of them."""
        queues = queues or (*STAGES, "coordinator")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("CLERK_", "PG"))},
            "DATABASE_URL": url or self.url,
            "FAULTS_FOLDER": str(self.folder),
            "FAULTS_CLOCK": str(clock),
            "PYTHONPATH": str(ROOT),
            "FAULTS_WORKER": json.dumps(
                {"unresponsive_after": unresponsive_after, "db_timeout": db_timeout, "startup_timeout": startup_timeout}
            ),
        }
        command = [
            *[sys.executable, "-m", "procrastinate", "--app=tests.faults.worker_app.app", "worker"],
            *[f"--queues={','.join(queues)}", f"--concurrency={concurrency}"],
            *["--fetch-job-polling-interval=0.1", "--abort-job-polling-interval=0.1", *options],
        ]
        worker = Worker(command, environment, self.folder / f"worker-{len(self.workers)}.log")
        self.workers.append(worker)
        return worker

    # --- what the books say --------------------------------------------------------------------------------

    def all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        # Without values a percent sign is just that.
        return self.connection.execute(query.encode(), values or None).fetchall()

    def one(self, query: str, *values: Any) -> Any:
        row = self.connection.execute(query.encode(), values or None).fetchone()
        assert row is not None, query
        return row[0]

    def ledger(self, stage: str, item: int) -> tuple[str, str | None, int]:
        """Status, error code and attempts of a unit."""
        status, code, attempts = self.all(
            "select status, error_code, attempt_count from content_item_pipeline_state"
            " where pipeline = %s and content_item_id = %s",
            stage,
            item,
        )[0]
        return status, code, attempts

    def job(self, stage: str, item: int) -> int:
        """The job that carries a unit now."""
        return int(
            self.one(
                "select job_id from content_item_pipeline_state where pipeline = %s and content_item_id = %s",
                stage,
                item,
            )
        )

    def status(self, job: int) -> str:
        return str(self.one("select status from procrastinate_jobs where id = %s", job))

    def counters(self, stage: str, subdomain: str = "anytown") -> tuple[int, int, int]:
        """Total, completed, failed."""
        query = f"select {stage}_total, {stage}_completed, {stage}_failed from sites where subdomain = %s"
        total, completed, failed = self.all(query, subdomain)[0]
        return total, completed, failed

    def ignored(self, why: str) -> list[tuple[int, int | None]]:
        """Job and attempt of every ignored result."""
        query = "select job_id, attempt from ignored_results where why = %s order by id"
        return [(job, attempt) for job, attempt in self.all(query, why)]

    def is_running(self, stage: str, item: int) -> bool:
        return self.status(self.job(stage, item)) == "doing"

    def outcome(self, run_id: int) -> str | None:
        outcome: str | None = self.one("select outcome from pipeline_runs where run_id = %s", run_id)
        return outcome

    def until_ended(self, run_id: int) -> str:
        return str(until(lambda: self.outcome(run_id), f"the end of run {run_id}: {self._state()}"))

    def _state(self) -> str:
        return str(self.all("select subdomain, current_stage, outcome from sites order by 1 limit 5"))

    # --- what the tests do to it ---------------------------------------------------------------------------

    def lapse(self, *jobs: int) -> None:
        """The leases of these jobs are over: what time would do."""
        self.connection.execute(
            "update job_claims set lease_until = now() - interval '1 second' where job_id = any (%s)", [list(jobs)]
        )

    def rescue(self) -> int:
        from clerk.reconcile.apply import rescue_expired

        return rescue_expired(self.connection)

    def hurry(self, task: str) -> None:
        """Whatever waits for its time is due."""
        self.connection.execute(
            "update procrastinate_jobs set scheduled_at = null where status = 'todo' and task_name = %s", [task]
        )

    def reconnect(self) -> None:
        """After a restart of the server."""
        self.connection.close()
        self.connection = psycopg.connect(self.url, autocommit=True)

    # --- the invariants ------------------------------------------------------------------------------------

    def check(self) -> None:
        """I1 to I8, once every run should have ended, by the engine's view and by a witness that does not know it."""
        # A run ends a moment before the coordinator that ended it has reported back.
        until(lambda: not self._open_jobs(), "the end of every job of the pipeline", patience=10.0)
        broken = self.all("select invariant, subdomain, run_id, stage, problem from invariant_violations")
        assert broken == []
        self._check_runs()
        self._check_witness()
        self._check_jobs()
        assert self.one("select deadlocks from pg_stat_database where datname = current_database()") == 0
        assert not [worker.log.name for worker in self.workers if worker.said("deadlock detected")]

    def _check_runs(self) -> None:
        # I4: every run has ended with an outcome, and its site says so.
        assert self.all("select run_id from pipeline_runs where ended_at is null or outcome is null") == []
        assert self.all("select subdomain from sites where run_id is not null and current_stage <> 'completed'") == []
        # I1: nothing is open.
        assert self.all("select id from content_item_pipeline_state where not faults.is_end(status)") == []
        # I2: the counters that a run ended with add up.
        for stage in STAGES:
            query = f"select run_id from pipeline_runs where {stage}_completed + {stage}_failed <> {stage}_total"
            assert self.all(query) == []
        # I5: a run publishes once, or not at all.
        assert self.all("select run_id from pipeline_runs where deploy_completed > 1") == []

    def _check_witness(self) -> None:
        twice = "select {0} from faults.{1} group by {0} having count(*) > 1"
        # I3: one advance out of each phase, one entry into each.
        assert self.all(twice.format("run_id, phase", "advance")) == []
        assert self.all(twice.format("run_id, stage", "phase_start")) == []
        not_advanced = (
            "select t.run_id, t.phase from pipeline_transitions t join pipeline_runs r using (run_id)"
            " left join faults.advance a using (run_id, phase)"
            " where r.outcome <> 'cancelled' and (a.run_id is null or t.advanced_at is null)"
        )
        assert self.all(not_advanced) == []
        # I8: one accepted result per job and attempt.
        assert self.all(twice.format("job_id, attempt", "result")) == []
        # A unit ends once per run, and once more for each time that somebody opened it again.
        ended_twice = (
            "select content_item_id, stage, run_id from faults.settled group by 1, 2, 3"
            " having count(*) filter (where faults.is_end(became) and not faults.is_end(was))"
            " > 1 + count(*) filter (where faults.is_end(was) and not faults.is_end(became))"
        )
        assert self.all(ended_twice) == []

    def _check_jobs(self) -> None:
        # I7, and nobody is left waiting: what belongs to the pipeline has ended.
        assert self._open_jobs() == []
        assert self.all("select job_id from job_claims where settled_as is null") == []

    def _open_jobs(self) -> list[tuple[Any, ...]]:
        return self.all(
            "select id, task_name, status from procrastinate_jobs"
            " where status in ('todo', 'doing') and args ->> 'run_id' is not null"
        )


@contextlib.contextmanager
def pipeline_on(url: str, folder: Path) -> Iterator[Pipeline]:
    """Every worker that was started is gone afterwards, frozen ones too."""
    pipeline = Pipeline(url, psycopg.connect(url, autocommit=True), folder)
    try:
        yield pipeline
    finally:
        for worker in pipeline.workers:
            worker.destroy()
        pipeline.connection.close()
