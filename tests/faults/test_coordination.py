"""Enqueuers, coordinators, schedulers and runs that die, double or overlap: scenarios 2, 3, 5, 6, 12, 20 and 21."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from clerk.errors import RunInProgress
from clerk.pipeline import engine
from tests.faults.pipeline import ROOT, Pipeline, until

# A gate inside the enqueuer's transaction: whoever inserts the job of this document waits for the test.
_GATE = """
create function faults.wait_at_the_gate() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock(4711);
    return new;
end $$;
create trigger faults_gate before insert on procrastinate_jobs
    for each row when ((new.args ->> 'content_item_id')::integer = {} and new.queue_name = 'ocr')
    execute function faults.wait_at_the_gate();
"""
_AT_THE_GATE = "select pid from pg_locks where locktype = 'advisory' and objid = 4711 and not granted"


@contextlib.contextmanager
def _gate_at(pipeline: Pipeline, document: int) -> Iterator[None]:
    pipeline.connection.execute(_GATE.format(document).encode())
    with psycopg.connect(pipeline.url, autocommit=True) as keeper:
        keeper.execute("select pg_advisory_lock(4711)")
        yield


def _enqueuer(pipeline: Pipeline) -> subprocess.Popen[bytes]:
    code = (
        "import psycopg, sys; from clerk.pipeline import engine\n"
        "with psycopg.connect(sys.argv[1], autocommit=True) as connection:\n"
        "    engine.start_run(connection, 'anytown', first_phase=2)"
    )
    return subprocess.Popen([sys.executable, "-c", code, pipeline.url], cwd=ROOT, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("dies", ["process", "session"])
def test_enqueuer_dies_after_50_of_500_jobs(pipeline: Pipeline, dies: str) -> None:
    """Scenarios 2 and 3. All jobs or none; and no member can start, let alone finish, before the total is written."""
    documents = pipeline.site(documents=500)
    pipeline.worker("ocr", concurrency=10)
    pipeline.worker("coordinator", "compilation", "extraction", "deploy", concurrency=5)
    with _gate_at(pipeline, documents[50]):
        enqueuer = _enqueuer(pipeline)
        ((session,),) = until(lambda: pipeline.all(_AT_THE_GATE), "50 of 500 jobs")
        assert pipeline.one("select count(*) from procrastinate_jobs where queue_name = 'ocr'") == 0
        assert pipeline.said() == []
        if dies == "process":
            enqueuer.kill()
        else:
            pipeline.connection.execute("select pg_terminate_backend(%s)", [session])
        enqueuer.wait()
        assert pipeline.said() == []

    gone = "select count(*) = 0 from pg_stat_activity where pid = %s"
    until(lambda: pipeline.one(gone, session), "the end of the enqueuer's session")
    if dies == "session":
        assert pipeline.one("select count(*) from procrastinate_jobs where queue_name = 'ocr'") == 0
        assert pipeline.one("select current_stage is null from sites")
        # All over again; a tenth of them is enough to see it through.
        pipeline.start(first_phase=2, units=documents[:50])
    members = 500 if dies == "process" else 50
    ((run,),) = pipeline.all("select run_id from pipeline_runs")
    assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.counters("ocr") == (members, members, 0)
    assert pipeline.one("select count(*) from procrastinate_jobs where queue_name = 'ocr'") == members
    pipeline.check()


def test_coordinator_is_cut_off_in_the_middle_of_a_phase_start(pipeline: Pipeline) -> None:
    """Scenario 2 for the enqueuer that matters most: its session dies, and it starts the phase on its next attempt."""
    documents = pipeline.site(documents=100)
    run = pipeline.start()
    with _gate_at(pipeline, documents[50]):
        pipeline.worker(concurrency=10)
        ((session,),) = until(lambda: pipeline.all(_AT_THE_GATE), "50 of 100 jobs")
        pipeline.connection.execute("select pg_terminate_backend(%s)", [session])
        until(lambda: pipeline.all("select from procrastinate_jobs where attempts = 1 and status = 'todo'"), "a retry")
    pipeline.hurry("clerk.coordinate")
    assert pipeline.until_ended(run) == "succeeded"
    assert pipeline.counters("ocr") == (100, 100, 0)
    pipeline.check()


def test_late_members_of_an_older_run_change_nothing_in_the_new_one(pipeline: Pipeline) -> None:
    """Scenario 5. One of them ends while the new run does the same document, one after the new run is over."""
    early, late, waiting = pipeline.site()
    for document in (early, late):
        pipeline.item("ocr", document, "wait:early" if document == early else "wait:late")
    old = pipeline.start(first_phase=2)
    worker = pipeline.worker("ocr", concurrency=2)
    until(lambda: len(pipeline.said()) == 2, "two members of the old run")
    with pytest.raises(RunInProgress):
        pipeline.start(first_phase=2)
    old_jobs = {item: pipeline.job("ocr", item) for item in (early, late, waiting)}

    pipeline.will(**{f"ocr:{item}": "wait:new" for item in (early, late, waiting)})
    new = pipeline.start(first_phase=2, supersede=True)
    assert pipeline.outcome(old) == "cancelled"
    assert pipeline.status(old_jobs[waiting]) == "cancelled"
    pipeline.worker(concurrency=3)
    until(lambda: len(pipeline.said("wait:new")) == 3, "three members of the new run")

    pipeline.open("early")
    until(lambda: pipeline.ignored("stale"), "the early one recorded as stale")
    assert pipeline.counters("ocr") == (3, 0, 0)
    assert pipeline.ledger("ocr", early)[0] == "in_progress"
    pipeline.open("new")
    assert pipeline.until_ended(new) == "succeeded"
    pipeline.open("late")
    until(lambda: len(pipeline.ignored("stale")) == 2, "the late one too")
    assert {job for job, _ in pipeline.ignored("stale")} == {old_jobs[early], old_jobs[late]}
    assert pipeline.counters("ocr") == (3, 3, 0)
    assert worker.lives()
    pipeline.check()


def test_dead_member_of_an_older_run_is_not_done_again(pipeline: Pipeline) -> None:
    """Scenario 5. Rescuing it must not make somebody read a document for a run that is over."""
    (document,) = pipeline.site(documents=1)
    pipeline.will(ocr="wait:never")
    pipeline.start(first_phase=2)
    worker = pipeline.worker("ocr")
    until(lambda: pipeline.said(), "a member of the old run")
    old_job = pipeline.job("ocr", document)
    worker.destroy()

    pipeline.will(ocr="ok")
    new = pipeline.start(first_phase=2, supersede=True)
    pipeline.lapse(old_job)
    assert pipeline.rescue() == 1
    assert pipeline.status(old_job) == "aborted"
    pipeline.worker()
    assert pipeline.until_ended(new) == "succeeded"
    assert len(pipeline.said(job=old_job)) == 1
    pipeline.check()


def test_coordinator_raises(pipeline: Pipeline) -> None:
    """Scenario 6. Before and after it advanced: it comes back until it is through."""
    pipeline.site(documents=2)
    pipeline.plan |= {"coordinate:2": ["transient", "ok"], "coordinated:3": ["transient", "ok"]}
    pipeline.will()
    run = pipeline.start(first_phase=2)
    pipeline.worker()

    def both_came_back() -> bool:
        """The second one may well come back when the run is over."""
        pipeline.hurry("clerk.coordinate")
        return bool(pipeline.outcome(run) and pipeline.said("stale", stage="coordinate", about=3, attempt=1))

    until(both_came_back, "the end of the run, and of both coordinators")
    assert pipeline.outcome(run) == "succeeded"
    assert [said.step for said in pipeline.said(stage="coordinate", about=2)] == ["transient", "ok", "started phase 3"]
    pipeline.check()


@pytest.mark.parametrize("moment", ["coordinate:2", "coordinated:2"], ids=["before it advanced", "after it advanced"])
def test_coordinator_is_killed(pipeline: Pipeline, moment: str) -> None:
    """Scenario 6."""
    pipeline.site(documents=2)
    pipeline.plan[moment] = ["kill", "ok"]
    pipeline.will()
    run = pipeline.start(first_phase=2)
    assert pipeline.worker("ocr", "coordinator").wait() == -9
    (job,) = {said.job for said in pipeline.said(stage="coordinate")}
    pipeline.lapse(job)
    assert pipeline.rescue() == 1
    pipeline.worker()
    assert pipeline.until_ended(run) == "succeeded"
    pipeline.check()


def test_coordinator_runs_twice(pipeline: Pipeline) -> None:
    """Scenario 6. Its twin at the same time in another worker, and again when all is over."""
    pipeline.site(documents=2)
    pipeline.item("coordinate", 2, "wait:both")
    run = pipeline.start(first_phase=2)
    for _ in range(2):
        pipeline.worker(concurrency=2)
    twin = "insert into procrastinate_jobs (queue_name, task_name, args) values ('coordinator', 'clerk.coordinate', %s)"
    arguments = psycopg.types.json.Jsonb({"subdomain": "anytown", "run_id": run, "phase": 2})
    until(lambda: pipeline.said("wait:both"), "the coordinator")
    pipeline.connection.execute(twin, [arguments])
    until(lambda: len(pipeline.said("wait:both")) == 2, "its twin")
    pipeline.open("both")
    assert pipeline.until_ended(run) == "succeeded"
    pipeline.connection.execute(twin, [arguments])
    until(lambda: len(pipeline.said("stale", about=2)) == 2, "two of three came too late")
    assert len(pipeline.said("started phase 3")) == 1
    pipeline.check()


def test_two_schedulers_start_each_site_once(pipeline: Pipeline) -> None:
    """Scenario 12. Four scheduler jobs in two workers, over sites that are all due."""
    sites = [f"town{number:02}" for number in range(30)]
    for site in sites:
        pipeline.site(site, documents=0)
    schedule = (
        "insert into procrastinate_jobs (queue_name, task_name, args)"
        """ select 'coordinator', 'clerk.schedule', '{"timestamp": 0}' from generate_series(1, 4)"""
    )
    pipeline.connection.execute(schedule)
    for _ in range(2):
        pipeline.worker("coordinator", concurrency=2)

    ended = "select count(*) from procrastinate_jobs where task_name = 'clerk.schedule' and status = 'succeeded'"
    until(lambda: pipeline.one(ended) == 4, "all schedulers done")
    assert pipeline.all("select subdomain, count(*) from pipeline_runs group by 1 order by 1") == [
        (site, 1) for site in sites
    ]
    pipeline.worker("fetch", concurrency=5)
    ended = "select count(*) from pipeline_runs where outcome = 'no_documents'"
    until(lambda: pipeline.one(ended) == 30, "all runs ended")
    pipeline.check()


def test_renamed_task_still_finds_its_queued_jobs(pipeline: Pipeline) -> None:
    """Scenario 20. Jobs under the older name are done; a name that nobody knows fails, and does not block its site."""
    renamed, unknown, other = pipeline.site()
    run = pipeline.start(first_phase=2)
    rename = "update procrastinate_jobs set task_name = %s where id = %s"
    pipeline.connection.execute(rename, ["clerk.old_ocr", pipeline.job("ocr", renamed)])
    pipeline.connection.execute(rename, ["clerk.from_the_future", pipeline.job("ocr", unknown)])
    pipeline.worker()
    assert pipeline.until_ended(run) == "partial"
    assert pipeline.ledger("ocr", renamed) == ("processed", None, 1)
    assert pipeline.ledger("ocr", unknown) == ("failed_terminal", "TaskNotFound", 1)
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)
    pipeline.check()


def test_retention_in_the_middle_of_a_run(pipeline: Pipeline) -> None:
    """Scenario 21. Ours leaves the run alone; somebody else's deletes what has ended, and the run ends all the same."""
    done, running, failed = pipeline.site()
    pipeline.item("ocr", running, "wait:retention")
    pipeline.item("ocr", failed, "permanent")
    run = pipeline.start()
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (3, 1, 1), "two members done, one failed")
    later = datetime.now(UTC) + timedelta(days=1)
    jobs = pipeline.one("select count(*) from procrastinate_jobs")
    assert engine.remove_finished_jobs(pipeline.connection, later) == 0

    removed = "delete from procrastinate_jobs where status in ('succeeded', 'failed')"
    assert pipeline.connection.execute(removed).rowcount == jobs - 1
    assert pipeline.ledger("ocr", done)[0] == "processed"
    assert pipeline.counters("ocr") == (3, 1, 1)
    pipeline.open("retention")
    assert pipeline.until_ended(run) == "partial"
    assert pipeline.counters("ocr") == (3, 2, 1)
    pipeline.check()
    assert engine.remove_finished_jobs(pipeline.connection, later) > 0
    assert pipeline.one("select count(*) from procrastinate_jobs where args ->> 'run_id' is not null") == 0
    assert pipeline.one("select count(*) from job_claims") == 0
    pipeline.check()
