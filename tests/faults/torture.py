"""Fault injection: random faults against a pipeline for some minutes, then a check of the invariants I1 to I8.

Uses real workers, its own Postgres, and stage tasks that fail by plan. Workers are killed, suspended until their jobs
are rescued, and disconnected from the database; runs are started, superseded, cancelled, retried and paused; jobs are
deleted; and reconciliations run. A seed repeats the order of the actions, not their exact timing.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.errors import ClerkError
from clerk.pipeline import engine
from tests.conftest import NO_FSYNC, Databases, running
from tests.faults.pipeline import Pipeline, Worker, pipeline_on
from tests.reconcile.repair_helpers import repair_all

_WORKERS = 3
_BEHAVIOURS = (
    (["pages:" + "." * 20], 12),
    (["ok"], 4),
    (["transient", "ok"], 2),
    (["permanent"], 1),
    (["pages:....x"], 1),
    (["kill", "ok"], 1),
)
"""Behaviour of each attempt at the OCR of a document, and its weight."""
_SETTLE_TIMEOUT = 300.0


class FaultInjector:
    def __init__(self, pipeline: Pipeline, rng: random.Random, sites: int, documents: int) -> None:
        self.pipeline, self.rng = pipeline, rng
        self.sites = [f"town{number}" for number in range(sites)]
        behaviours, weights = zip(*_BEHAVIOURS, strict=True)
        for site in self.sites:
            for document in pipeline.add_site(site, documents):
                pipeline.plan[f"ocr:{document}"] = rng.choices(behaviours, weights)[0]
        pipeline.set_plan()
        self.working = [pipeline.worker(concurrency=2) for _ in range(_WORKERS)]
        self.frozen: list[Worker] = []
        self.counts: Counter[str] = Counter()

    def inject(self) -> None:
        actions = (
            *(self.start,) * 6,
            *(self.kill, self.freeze, self.thaw, self.disconnect, self.reconcile),
            *(self.supersede, self.cancel, self.retry, self.pause, self.resume, self.delete_job),
        )
        action = self.rng.choice(actions)
        try:
            action()
        except ClerkError as error:  # the engine rejected the action
            self.counts[f"{action.__name__} rejected ({error.code})"] += 1
        else:
            self.counts[action.__name__] += 1

    # --- faults of workers

    def kill(self) -> None:
        worker = self.rng.choice(self.working)
        worker.kill()
        self._rescue_jobs_of(worker)
        self.working[self.working.index(worker)] = self.pipeline.worker(concurrency=2)

    def freeze(self) -> None:
        worker = self.rng.choice(self.working)
        if not worker.is_alive():  # killed by a document
            return self.kill()
        worker.freeze()
        self.frozen.append(worker)
        self.working[self.working.index(worker)] = self.pipeline.worker(concurrency=2)
        return self._rescue_jobs_of(worker)

    def thaw(self) -> None:
        if self.frozen:
            zombie = self.frozen.pop(0)
            zombie.thaw()
            self.working.append(zombie)
        while len(self.working) > 2 * _WORKERS:
            self.working.pop(0).kill()

    def disconnect(self) -> None:
        self.pipeline.rows(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            " and datname = current_database() order by random() limit 2"
        )

    def _rescue_jobs_of(self, worker: Worker) -> None:
        """What happens when its leases expire."""
        held = "select job_id from job_claims where settled_as is null and holder like %s"
        self.pipeline.expire_leases(*(job for (job,) in self.pipeline.rows(held, f"% {worker.pid} %")))
        self.pipeline.rescue()

    # --- operator actions

    def _random_site(self) -> str:
        return self.rng.choice(self.sites)

    def start(self) -> None:
        self.pipeline.start_run(self._random_site())

    def supersede(self) -> None:
        self.pipeline.start_run(self._random_site(), supersede=True)

    def cancel(self) -> None:
        engine.cancel_run(self.pipeline.connection, self._random_site())

    def retry(self) -> None:
        engine.retry_failed(self.pipeline.connection, self._random_site())

    def pause(self) -> None:
        engine.pause_site(self.pipeline.connection, self._random_site(), "torture")

    def resume(self) -> None:
        for site in self.sites:
            engine.resume_site(self.pipeline.connection, site)

    def delete_job(self) -> None:
        self.pipeline.connection.execute(
            "delete from procrastinate_jobs where id = (select id from procrastinate_jobs where status = 'todo'"
            " and args ->> 'run_id' is not null order by random() limit 1 for update skip locked)"
        )

    def reconcile(self) -> None:
        repair_all(self.pipeline.connection)

    # --- end

    def runs(self) -> tuple[int, int]:
        """Number of ended runs, and of all runs."""
        return self.pipeline.rows("select count(*) filter (where outcome is not null), count(*) from pipeline_runs")[0]

    def settle(self, progress: ProgressReporter) -> None:
        """Stop injecting faults, and wait until workers and reconciliation have ended all runs."""
        while self.frozen:
            self.thaw()
        self.resume()
        deadline = time.monotonic() + _SETTLE_TIMEOUT
        while self.pipeline.rows("select 1 from sites where current_stage <> 'completed' or dirty limit 1"):
            assert time.monotonic() < deadline, f"not settled: {self.pipeline.rows('select * from pipeline_overview')}"
            for worker in [worker for worker in self.working if not worker.is_alive()]:
                self.working.remove(worker)
                self._rescue_jobs_of(worker)
            while len(self.working) < _WORKERS:
                self.working.append(self.pipeline.worker(concurrency=2))
            repair_all(self.pipeline.connection)
            progress.update("runs", *self.runs())
            time.sleep(0.3)


def torture(url: str, folder: Path, options: argparse.Namespace, progress: ProgressReporter) -> Counter[str]:
    with connect_to(url) as connection:
        Migrator(connection, default_folder()).up()
    with pipeline_on(url, folder) as pipeline:
        rng = random.Random(options.seed)  # noqa: S311 (not for secrets)
        injector = FaultInjector(pipeline, rng, options.sites, options.documents)
        started_at, duration = time.monotonic(), 60 * options.minutes
        while (elapsed := time.monotonic() - started_at) < duration:
            injector.inject()
            ended, runs = injector.runs()
            lines = [f"{count:6,}  {action}" for action, count in injector.counts.most_common()]
            actions = injector.counts.total()
            expected = max(actions, round(actions * duration / max(elapsed, 1.0)))
            progress.update(
                "actions", actions, expected, [(line,) for line in (*lines, f"{ended:,} of {runs:,} runs ended")]
            )
            time.sleep(rng.uniform(0, 0.2))
        injector.settle(progress)
        pipeline.check_invariants()
        injector.counts["runs"] = injector.runs()[1]
        return injector.counts


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long faults are injected (default: 1)")
    parser.add_argument("--sites", type=int, default=5, help="number of sites (default: 5)")
    parser.add_argument("--documents", type=int, default=30, help="documents per site (default: 30)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="default: random")  # noqa: S311 (not for secrets)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    options = parser.parse_args()
    out = sys.stdout.write
    with tempfile.TemporaryDirectory(prefix="clerk-torture-") as name, ProgressReporter(options.quiet) as progress:
        folder = Path(name)
        with running(Server(folder / "postgres", options=NO_FSYNC)) as server:
            databases = Databases(server)
            try:
                counts = torture(databases.create(), folder, options, progress)
            except AssertionError as error:
                out(f"FAILED with --seed {options.seed}: {error}\n")
                sys.exit(1)
            finally:
                databases.drop_all()
    out(f"I1 to I8 hold after {counts.pop('runs'):,} runs (--seed {options.seed}): ")
    out(", ".join(f"{count:,} {action}" for action, count in counts.most_common()) + "\n")


if __name__ == "__main__":
    main()
