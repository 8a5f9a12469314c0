"""Random operations from several connections, each compared with a model in Python.

After every step ledger, counters, claims, coordinators and jobs must equal the model, and no invariant may be violated.
At the end workers process all jobs, and every run must have ended.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from psycopg import sql

from clerk.errors import RunInProgress
from clerk.pipeline import engine
from tests.conftest import Url
from tests.engine import helpers
from tests.engine.helpers import Worker, broken_invariants, one, rows
from tests.engine.model import PHASE_OF, Job, Model, Site
from tests.reconcile.repair_helpers import repair_all
from tests.sql.conftest import TABLES

MIN_STEPS = 2_000
SITES = st.sampled_from(["town", "village"])
STAGES = st.sampled_from(list(PHASE_OF))
PICK = st.integers(min_value=0, max_value=10_000)
SELDOM = st.integers(min_value=0, max_value=3).map(lambda number: number == 3)
"""Actions that end a run are made less often than drawn; otherwise most runs would be cancelled."""


class Machine(RuleBasedStateMachine):
    url: ClassVar[Url]
    steps: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        self.open = contextlib.ExitStack()
        names = ("operator", "first", "second", "third")
        self.operator, *self.workers = [
            self.open.enter_context(helpers.connect_worker(self.url, name)) for name in names
        ]
        self.db = self.operator.connection
        self.claims: list[tuple[Worker, helpers.Job]] = []
        """Attempts that workers have not finished, including those of frozen workers whose job was rescued."""
        with self.db.transaction():
            self.db.execute("set local session_replication_role = replica")
            for table in TABLES:
                self.db.execute(sql.SQL("delete from {}").format(sql.Identifier(table)))
        for worker in (self.operator, *self.workers):
            self.db.execute(
                "insert into procrastinate_workers (id) overriding system value values (%s)", [worker.number]
            )
        self.seen_job = one(self.db, "select nextval('procrastinate_jobs_id_seq')")
        self.model = Model(one(self.db, "select nextval(pg_get_serial_sequence('pipeline_runs', 'run_id'))") + 1)

    @initialize(documents=st.tuples(st.integers(0, 3), st.integers(0, 2)))
    def make_sites(self, documents: tuple[int, int]) -> None:
        for name, number in zip(("town", "village"), documents, strict=True):
            items = helpers.add_site(self.db, name, number)
            archive = one(
                self.db, "insert into content_items (subdomain, kind) values (%s, 'archive') returning id", [name]
            )
            self.model.sites[name] = Site(archive, items)
            self.start(name, False)

    # Comparison after each step

    @invariant()
    def compare_with_model(self) -> None:
        type(self).steps += 1
        self._match_new_jobs()
        self._keep_leases()
        model = self.model
        assert self._ledger() == {
            key: (unit.status, unit.run, unit.job.id, unit.code, unit.late) for key, unit in model.ledger.items()
        }
        assert self._jobs() == {
            job.id: (job.status, job.attempts, job.abort_requested, job.on_hold and job.status == "todo")
            for job in model.jobs.values()
        }
        for name, site in model.sites.items():
            row = helpers.site(self.db, name)
            phase = None if row["current_stage"] is None else row["phase"]
            assert (row["run_id"], phase) == (site.run, site.phase)
            assert (row["coordinator_enqueued"], row["dirty"], row["outcome"]) == (
                site.claimed,
                site.dirty,
                site.outcome,
            )
            for stage in PHASE_OF:
                assert helpers.counters(self.db, stage, name) == model.counters(name, stage), (name, stage)
        assert dict(rows(self.db, "select run_id, outcome from pipeline_runs")) == model.outcomes
        advanced = rows(self.db, "select run_id, phase from pipeline_transitions where advanced_at is not null")
        assert sorted(advanced) == sorted(model.advances)
        assert set(model.advances.values()) <= {1}
        expired = sorted(job.id for job in model.jobs.values() if job.expired and job.status == "doing")
        broken = broken_invariants(self.db)
        assert [row for row in broken if row[0] != "I7"] == []
        assert len(broken) == len(expired)

    def _keep_leases(self) -> None:
        """Leases end by the rules only. On a loaded machine an example may take longer than a lease."""
        expired = [job.id for job in self.model.jobs.values() if job.expired]
        self.db.execute(
            "update job_claims set lease_until = now() + interval '1 hour' where settled_as is null"
            " and job_id <> all (%s)",
            [expired],
        )

    def _match_new_jobs(self) -> None:
        """Match new jobs of the model with those in the database, and take over their ids."""
        found = rows(
            self.db,
            "select id, args ->> 'subdomain', (args ->> 'run_id')::bigint, queue_name,"
            " coalesce(args ->> 'content_item_id', args ->> 'phase')::bigint from procrastinate_jobs"
            " where id > %s and task_name <> 'clerk.refresh' order by id",
            [self.seen_job],
        )
        by_key = {job.key: job for job in self.model.new_jobs}
        assert sorted(row[1:] for row in found) == sorted(by_key)
        for job_id, *key in found:
            site, run, queue, number = key
            job = by_key[site, run, queue, number]
            job.id = job_id
            self.model.jobs[job_id] = job
            self.seen_job = max(self.seen_job, job_id)
        self.model.new_jobs.clear()

    def _ledger(self) -> dict[tuple[int, str], Any]:
        found = rows(
            self.db,
            "select content_item_id, pipeline, status, run_id, job_id, error_code, reopened_at is not null"
            " from content_item_pipeline_state",
        )
        return {(item, stage): tuple(more) for item, stage, *more in found}

    def _jobs(self) -> dict[int, Any]:
        found = rows(
            self.db,
            "select id, status::text, attempts, abort_requested,"
            " coalesce(scheduled_at = clerk_paused_until(), false)"
            " from procrastinate_jobs where task_name <> 'clerk.refresh'",
        )
        return {
            job_id: (status, attempts, asked and status == "doing", held and status == "todo")
            for job_id, status, attempts, asked, held in found
        }

    # Workers

    @rule(pick=PICK, queues=st.sampled_from([(), ("ocr",), ("coordinator",), ("fetch", "ocr", "deploy")]))
    def fetch(self, pick: int, queues: tuple[str, ...]) -> None:
        self._fetch(pick, queues)

    def _fetch(self, pick: int, queues: tuple[str, ...]) -> helpers.Job | None:
        worker = self.workers[pick % len(self.workers)]
        job = worker.fetch(*queues)
        if job is None:
            assert not [
                j
                for j in self.model.jobs.values()
                if j.status == "todo" and not j.on_hold and (not queues or j.queue in queues)
            ]
            return None
        if "run_id" not in job.args:
            assert worker.finish(job)
            assert (engine.start_refresh_run(self.db, job.args["subdomain"]) is not None) is self.model.refresh(
                job.args["subdomain"]
            )
            return job
        claimed = self.model.jobs[job.id]
        assert (claimed.status, claimed.attempts, claimed.on_hold) == ("todo", job.attempts, False)
        self.model.claim(claimed, worker.name)
        self.claims.append((worker, job))
        return job

    @rule(number=st.integers(5, 25), failing=st.sets(st.integers(0, 25), max_size=5))
    def work_on(self, number: int, failing: set[int]) -> None:
        """Workers process several jobs, some of which fail. Without this rule no run would reach its later phases."""
        for name, site in self.model.sites.items():
            if not site.is_active:
                self.add_document(name)
                self.start(name, False)
                self.compare_with_model()
        self._work(number, failing)

    @rule(failing=st.sampled_from([0, 1, 2, 3]))
    def work_briefly(self, failing: int) -> None:
        self._work(3, {failing})

    def _work(self, number: int, failing: set[int]) -> None:
        for step in range(number):
            fetched = self._fetch(step, ())
            self.compare_with_model()
            if not self.claims:
                break
            if fetched is not None and "run_id" not in fetched.args:
                continue
            _, job = self.claims[-1]
            if not job.is_unit:
                self._advance(job, 1)
            self.finish(len(self.claims) - 1, step not in failing)
            self.compare_with_model()

    @rule(pick=PICK, succeeds=st.booleans())
    def finish(self, pick: int, succeeds: bool) -> None:
        """By the holder, or by a worker that was frozen while its job was rescued."""
        if not self.claims:
            return
        worker, job = self.claims.pop(pick % len(self.claims))
        known = self.model.jobs.get(job.id)
        mine = known is not None and self.model.holds(known, worker.name, job.attempts)
        status = "succeeded" if succeeds else "failed"
        assert worker.finish(job, status, "" if succeeds else "PdfBroken") is mine
        if known is not None and mine:
            self.model.end_job(known, status, "PdfBroken")
        else:
            assert worker.check_rejected(job, status) == "fenced"

    @rule(pick=PICK, slots=st.integers(0, 3))
    def finish_batch(self, pick: int, slots: int) -> None:
        """All successes of one worker and attempt number in one statement, some of them of jobs that were rescued."""
        if not self.claims:
            return
        worker, picked = self.claims[pick % len(self.claims)]
        batch = [job for holder, job in self.claims if holder is worker and job.attempts == picked.attempts]
        # A job may be held twice by this process, if it was rescued and claimed again with the same attempt number.
        batch = list({job.id: job for job in batch}.values())
        self.claims = [(holder, job) for holder, job in self.claims if holder is not worker or job not in batch]
        known = [self.model.jobs.get(job.id) for job in batch]
        mine = [k for k, job in zip(known, batch, strict=True) if k and self.model.holds(k, worker.name, job.attempts)]
        accepted, fetched = worker.finish_and_fetch(batch, "ocr", "extraction", slots=slots)
        assert accepted == {job.id for job in mine}
        for ended in sorted(mine, key=lambda job: job.id):
            self.model.end_job(ended, "succeeded", "")
        for job in batch:
            if job.id not in accepted:
                assert worker.check_rejected(job, "succeeded") == "fenced"
        self._match_new_jobs()
        for fetched_job in fetched:
            claimed = self.model.jobs[fetched_job.id]
            assert (claimed.status, claimed.attempts, claimed.on_hold) == ("todo", fetched_job.attempts, False)
            self.model.claim(claimed, worker.name)
            self.claims.append((worker, fetched_job))

    @rule(pick=PICK)
    def give_back(self, pick: int) -> None:
        if not self.claims:
            return
        place = pick % len(self.claims)
        worker, job = self.claims[place]
        known = self.model.jobs.get(job.id)
        if known is not None and self.model.duplicate_waits(known):
            return  # unique_violation, tested with the job manager
        del self.claims[place]
        mine = known is not None and self.model.holds(known, worker.name, job.attempts)
        assert worker.retry(job, code="Timeout") is mine
        if known is not None and mine:
            self.model.give_back(known, "Timeout")
        else:
            assert worker.check_rejected(job, "todo") == "fenced"

    @rule(pick=PICK, times=st.integers(1, 2))
    def coordinate(self, pick: int, times: int) -> None:
        """A coordinator advances its phase, once or twice. Other rules finish its job."""
        held = [job for _, job in self.claims if not job.is_unit]
        if not held:
            return
        self._advance(held[pick % len(held)], times)

    def _advance(self, job: helpers.Job, times: int) -> None:
        args = job.args
        for _ in range(times):
            accepted = self.model.advance(args["subdomain"], args["run_id"], args["phase"])
            result = engine.advance_phase(self.db, args["subdomain"], args["run_id"], args["phase"])
            assert (result != "stale") is accepted
            self._match_new_jobs()

    @rule(pick=PICK)
    def expire_lease(self, pick: int) -> None:
        running = [job for job in self.model.jobs.values() if job.status == "doing"]
        if running:
            job = running[pick % len(running)]
            self.db.execute("update job_claims set lease_until = now() - interval '1 s' where job_id = %s", [job.id])
            job.expired = True

    @rule(pick=PICK)
    def rescue(self, pick: int) -> None:
        running = [job for job in self.model.jobs.values() if job.status == "doing"]
        if running:
            job = running[pick % len(running)]
            expected = self.model.rescue(job) if job.expired else "left alone"
            assert engine.rescue_job(self.db, job.id) == expected

    @rule(pick=PICK, successor=st.sampled_from(["waits", "runs", "failed", "succeeded"]), retries=st.booleans())
    def zombie(self, pick: int, successor: str, retries: bool) -> None:
        """A frozen worker whose job was rescued continues while the next attempt waits, runs, failed or succeeded."""
        held = [
            (worker, job)
            for worker, job in self.claims
            if (known := self.model.jobs.get(job.id)) and self.model.holds(known, worker.name, job.attempts)
        ]
        if not held:
            return
        worker, job = held[pick % len(held)]
        known = self.model.jobs[job.id]
        helpers.expire(self.db, job)
        assert engine.rescue_job(self.db, job.id) == self.model.rescue(known)
        self.compare_with_model()
        if successor != "waits" and known.status == "todo" and not known.on_hold:
            # The successor may be any process, also the zombie itself.
            other = self.workers[(pick // 7) % len(self.workers)]
            other.connection.execute(
                "update procrastinate_jobs set status = 'doing', worker_id = %s where id = %s", [other.number, job.id]
            )
            self.model.claim(known, other.name)
            again = replace(job, attempts=known.attempts)
            if successor == "runs":
                self.claims.append((other, again))
            else:
                assert other.finish(again, successor, "PdfBroken")
                self.model.end_job(known, successor, "PdfBroken")
            self.compare_with_model()
        self.claims.remove((worker, job))
        if retries:
            assert not worker.retry(job)
            assert worker.check_rejected(job, "todo") == "fenced"
        else:
            assert not worker.finish(job)
            assert worker.check_rejected(job, "succeeded") == "fenced"

    # Manual changes of single jobs

    def _pick(self, pick: int, *statuses: str) -> Job | None:
        found = [job for _, job in sorted(self.model.jobs.items()) if job.status in statuses]
        return found[pick % len(found)] if found else None

    @rule(pick=PICK)
    def cancel_job(self, pick: int) -> None:
        if job := self._pick(pick, "todo"):
            assert one(self.db, "select procrastinate_cancel_job_v1(%s, false, false)", [job.id]) == job.id
            self.model.end_job(job, "cancelled", "JobCancelled")

    @rule(pick=PICK)
    def finish_waiting_job(self, pick: int) -> None:
        if job := self._pick(pick, "todo"):
            self.db.execute("select procrastinate_finish_job_v1(%s, 'succeeded', false)", [job.id])
            self.model.end_job(job, "succeeded", "")

    @rule(pick=PICK)
    def delete_job(self, pick: int) -> None:
        if job := self._pick(pick, "todo", "doing", "succeeded", "failed", "cancelled", "aborted"):
            self.db.execute("delete from procrastinate_jobs where id = %s", [job.id])
            self.model.delete(job)

    @rule(pick=PICK)
    def retry_by_hand(self, pick: int) -> None:
        job = self._pick(pick, "failed", "succeeded", "cancelled", "aborted")
        if job is None or self.model.duplicate_waits(job):
            return
        if job.status == "failed":
            self.db.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job.id])
        else:
            self.db.execute("update procrastinate_jobs set status = 'todo' where id = %s", [job.id])
        self.model.retry_by_hand(job)

    # Whole sites

    @rule(site=SITES, supersede=SELDOM)
    def start(self, site: str, supersede: bool) -> None:
        if self.model.sites[site].is_active and not supersede:
            with pytest.raises(RunInProgress):
                engine.start_run(self.db, site)
            return
        self.model.start(site)
        assert engine.start_run(self.db, site, supersede=supersede) == self.model.sites[site].run

    @rule(site=SITES)
    def add_document(self, site: str) -> None:
        documents = self.model.sites[site].documents
        if len(documents) < 6:
            documents += helpers.add_documents(self.db, site, 1)

    @rule(site=SITES, chosen_action=SELDOM)
    def cancel(self, site: str, chosen_action: bool) -> None:
        if not chosen_action:
            return
        is_active = self.model.sites[site].is_active
        assert engine.cancel_run(self.db, site) == (self.model.sites[site].run if is_active else None)
        if is_active:
            self.model.end(site, "cancelled", "RunCancelled")

    @rule(site=SITES, stage=st.none() | STAGES, failed_only=st.booleans())
    def retry(self, site: str, stage: str | None, failed_only: bool) -> None:
        expected = self.model.retry(site, stage)
        done = engine.retry_failed(self.db, site, stage, failed_only)
        assert (done.run_id, done.stage, done.units) == expected

    @rule(site=SITES, stage=STAGES, chosen_action=SELDOM)
    def rewind(self, site: str, stage: str, chosen_action: bool) -> None:
        if not chosen_action:
            return
        self.model.rewind(site, stage)
        assert engine.rewind(self.db, site, stage) == self.model.sites[site].run

    @rule(site=SITES, chosen_action=SELDOM)
    def pause_or_resume(self, site: str, chosen_action: bool) -> None:
        paused = not self.model.sites[site].paused
        if paused and not chosen_action:
            return
        done = engine.pause_site(self.db, site, "a test") if paused else engine.resume_site(self.db, site)
        assert done
        self.model.pause(site, paused)

    @rule(site=SITES)
    def refresh(self, site: str) -> None:
        expected = self.model.refresh(site)
        assert (engine.start_refresh_run(self.db, site) is not None) is expected

    @rule()
    def reconcile(self) -> None:
        assert len(repair_all(self.db)) == self.model.reconcile()

    @rule()
    def retention(self) -> None:
        one(self.db, "select clerk_remove_finished_jobs(now() + interval '1 day')")
        self.model.delete_finished_jobs()

    # Teardown

    def teardown(self) -> None:
        with self.open:
            if self.model.sites:
                self._drain()

    def _drain(self) -> None:
        """From any state, workers and reconciliation bring every run to its end."""
        for site in self.model.sites:
            engine.resume_site(self.db, site)
        self.db.execute("update job_claims set lease_until = now() - interval '1 s'")
        for _ in range(20):
            self.db.execute("update procrastinate_jobs set scheduled_at = null where task_name = 'clerk.refresh'")
            if not helpers.drain(self.workers[0]) + len(repair_all(self.db)):
                break
        assert repair_all(self.db) == []
        assert rows(self.db, "select * from pipeline_runs where ended_at is null") == []
        assert rows(self.db, "select * from procrastinate_jobs where status in ('todo', 'doing')") == []
        assert rows(self.db, "select subdomain from sites where dirty or current_stage <> 'completed'") == []
        assert broken_invariants(self.db) == []


@pytest.mark.timeout(3600)  # with --long
def test_the_engine_equals_its_model(database: Url, request: pytest.FixtureRequest) -> None:
    long = bool(request.config.getoption("--long"))

    class MachineHere(Machine):
        url = database
        steps = 0

    run_state_machine_as_test(
        MachineHere,
        settings=settings(
            max_examples=400 if long else 40,
            stateful_step_count=100 if long else 60,
            derandomize=not long,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
            print_blob=True,
        ),
    )
    assert MachineHere.steps >= (20 * MIN_STEPS if long else MIN_STEPS)
