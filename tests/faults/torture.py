"""Breaks a pipeline at random for a while, lets it come to rest, and asks whether the books still add up (I1 to I8).

Real workers, a Postgres of its own, stage bodies that fail as planned. Workers are killed, frozen until their jobs are
given to others, and cut off from the database; operators start, supersede, cancel, retry, pause and delete meanwhile,
and reconcilers run. A seed repeats the order of what is done, not the exact moments.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from clerk.cli.progress import Progress
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from clerk.errors import ClerkError
from clerk.pipeline import engine
from tests.conftest import NO_FSYNC, Databases, running
from tests.faults.pipeline import Pipeline, Worker, pipeline_on
from tests.reconcile.repair_helpers import heal

_WORKERS = 3
_BODIES = (
    (["pages:" + "." * 20], 12),
    (["ok"], 4),
    (["transient", "ok"], 2),
    (["permanent"], 1),
    (["pages:....x"], 1),
    (["kill", "ok"], 1),
)
"""What the OCR of a document does at each attempt, and how often it is that."""
_COMES_TO_REST_WITHIN = 300.0


class Torturer:
    def __init__(self, pipeline: Pipeline, dice: random.Random, sites: int, documents: int) -> None:
        self.pipeline, self.dice = pipeline, dice
        self.sites = [f"town{number}" for number in range(sites)]
        bodies, weights = zip(*_BODIES, strict=True)
        for site in self.sites:
            for document in pipeline.site(site, documents):
                pipeline.plan[f"ocr:{document}"] = dice.choices(bodies, weights)[0]
        pipeline.will()
        self.working = [pipeline.worker(concurrency=2) for _ in range(_WORKERS)]
        self.frozen: list[Worker] = []
        self.done: Counter[str] = Counter()

    def break_something(self) -> None:
        acts = (
            *(self.start,) * 6,
            *(self.kill, self.freeze, self.thaw, self.cut_off, self.reconcile),
            *(self.supersede, self.cancel, self.retry, self.pause, self.resume, self.delete_a_job),
        )
        act = self.dice.choice(acts)
        try:
            act()
        except ClerkError as refused:  # an operator is told so, and nothing has happened
            self.done[f"{act.__name__} refused ({type(refused).__name__})"] += 1
        else:
            self.done[act.__name__] += 1

    # --- what happens to workers

    def kill(self) -> None:
        worker = self.dice.choice(self.working)
        worker.destroy()
        self._give_up(worker)
        self.working[self.working.index(worker)] = self.pipeline.worker(concurrency=2)

    def freeze(self) -> None:
        worker = self.dice.choice(self.working)
        if not worker.lives():  # a document took it down
            return self.kill()
        worker.freeze()
        self.frozen.append(worker)
        self.working[self.working.index(worker)] = self.pipeline.worker(concurrency=2)
        return self._give_up(worker)

    def thaw(self) -> None:
        if self.frozen:
            zombie = self.frozen.pop(0)
            zombie.thaw()
            self.working.append(zombie)
        while len(self.working) > 2 * _WORKERS:
            self.working.pop(0).destroy()

    def cut_off(self) -> None:
        self.pipeline.all(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            " and datname = current_database() order by random() limit 2"
        )

    def _give_up(self, worker: Worker) -> None:
        """What the end of its leases would do in a minute."""
        held = "select job_id from job_claims where settled_as is null and holder like %s"
        self.pipeline.lapse(*(job for (job,) in self.pipeline.all(held, f"% {worker.pid} %")))
        self.pipeline.rescue()

    # --- what operators do

    def _site(self) -> str:
        return self.dice.choice(self.sites)

    def start(self) -> None:
        self.pipeline.start(self._site())

    def supersede(self) -> None:
        self.pipeline.start(self._site(), supersede=True)

    def cancel(self) -> None:
        engine.cancel_run(self.pipeline.connection, self._site())

    def retry(self) -> None:
        engine.retry_failed(self.pipeline.connection, self._site())

    def pause(self) -> None:
        engine.pause_site(self.pipeline.connection, self._site(), "torture")

    def resume(self) -> None:
        for site in self.sites:
            engine.resume_site(self.pipeline.connection, site)

    def delete_a_job(self) -> None:
        self.pipeline.connection.execute(
            "delete from procrastinate_jobs where id = (select id from procrastinate_jobs where status = 'todo'"
            " and args ->> 'run_id' is not null order by random() limit 1 for update skip locked)"
        )

    def reconcile(self) -> None:
        heal(self.pipeline.connection)

    # --- and then

    def runs(self) -> tuple[int, int]:
        """Ended, and all."""
        return self.pipeline.all("select count(*) filter (where outcome is not null), count(*) from pipeline_runs")[0]

    def come_to_rest(self, progress: Progress) -> None:
        """Nobody does anything bad any more: time passes, workers work, the reconciler comes by."""
        while self.frozen:
            self.thaw()
        self.resume()
        deadline = time.monotonic() + _COMES_TO_REST_WITHIN
        while self.pipeline.all("select 1 from sites where current_stage <> 'completed' or dirty limit 1"):
            assert time.monotonic() < deadline, f"not at rest: {self.pipeline.all('select * from pipeline_overview')}"
            for worker in [worker for worker in self.working if not worker.lives()]:
                self.working.remove(worker)
                self._give_up(worker)
            while len(self.working) < _WORKERS:
                self.working.append(self.pipeline.worker(concurrency=2))
            heal(self.pipeline.connection)
            progress.show("runs", *self.runs())
            time.sleep(0.3)


def torture(url: str, folder: Path, asked: argparse.Namespace, progress: Progress) -> Counter[str]:
    with connect_to(url) as connection:
        Migrator(connection, default_folder()).up()
    with pipeline_on(url, folder) as pipeline:
        dice = random.Random(asked.seed)  # noqa: S311 (not for secrets)
        torturer = Torturer(pipeline, dice, asked.sites, asked.documents)
        began, length = time.monotonic(), 60 * asked.minutes
        while (passed := time.monotonic() - began) < length:
            torturer.break_something()
            ended, runs = torturer.runs()
            what = [f"{count:6,}  {act}" for act, count in torturer.done.most_common()]
            # How many there will be follows from the time that is left.
            blows = torturer.done.total()
            expected = max(blows, round(blows * length / max(passed, 1.0)))
            progress.show("blows", blows, expected, [*what, f"{ended:,} of {runs:,} runs ended"])
            time.sleep(dice.uniform(0, 0.2))
        torturer.come_to_rest(progress)
        pipeline.check()
        torturer.done["runs"] = torturer.runs()[1]
        return torturer.done


def main() -> None:
    parser = argparse.ArgumentParser(prog="bin/torture", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long things are broken (default: 1)")
    parser.add_argument("--sites", type=int, default=5)
    parser.add_argument("--documents", type=int, default=30, help="per site (default: 30)")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))  # noqa: S311 (not for secrets)
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    asked = parser.parse_args()
    out = sys.stdout.write
    with tempfile.TemporaryDirectory(prefix="clerk-torture-") as name, Progress(asked.quiet) as progress:
        folder = Path(name)
        with running(Server(folder / "postgres", options=NO_FSYNC)) as server:
            databases = Databases(server)
            try:
                done = torture(databases.create(), folder, asked, progress)
            except AssertionError as broken:
                out(f"BROKEN with --seed {asked.seed}: {broken}\n")
                sys.exit(1)
            finally:
                databases.drop_all()
    out(f"I1 to I8 hold after {done.pop('runs'):,} runs (--seed {asked.seed}): ")
    out(", ".join(f"{count:,} {act}" for act, count in done.most_common()) + "\n")


if __name__ == "__main__":
    main()
