"""Enqueuers, coordinators, schedulers and runs that fail, run twice or overlap: scenarios 2, 3, 5, 6, 12, 20 and 21."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from clerk.errors import RunInProgress
from clerk.pipeline import engine
from clerk.pipeline.tasks import coordinator
from tests.faults.pipeline import ROOT, Pipeline, until

# A gate inside the enqueuer's transaction: the insert of this document's job waits for the test.
_GATE = """
create function faults.wait_at_gate() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock(4711);
    return new;
end $$;
create trigger faults_gate before insert on procrastinate_jobs
    for each row when ((new.args ->> 'content_item_id')::integer = {} and new.queue_name = 'ocr')
    execute function faults.wait_at_gate();
"""
_WAITING_AT_GATE = "select pid from pg_locks where locktype = 'advisory' and objid = 4711 and not granted"


@contextlib.contextmanager
def _gate_at(pipeline: Pipeline, document: int) -> Iterator[None]:
    pipeline.connection.execute(_GATE.format(document).encode())
    with psycopg.connect(pipeline.url, autocommit=True) as holder:
        holder.execute("select pg_advisory_lock(4711)")
        yield


def _enqueuer(pipeline: Pipeline) -> subprocess.Popen[bytes]:
    code = (
        "import psycopg, sys; from clerk.pipeline import engine\n"
        "with psycopg.connect(sys.argv[1], autocommit=True) as connection:\n"
        "    engine.start_run(connection, 'anytown', first_phase=2)"
    )
    return subprocess.Popen([sys.executable, "-c", code, pipeline.url], cwd=ROOT, stderr=subprocess.DEVNULL)


@pytest.mark.parametrize("killed", ["process", "session"])
def test_enqueuer_is_killed_after_50_of_500_jobs(pipeline: Pipeline, killed: str) -> None:
    """Scenarios 2 and 3. All jobs are enqueued or none; no unit can start before the total is committed."""
    documents = pipeline.add_site(documents=500)
    pipeline.worker("ocr", concurrency=10)
    pipeline.worker("coordinator", "compilation", "extraction", "deploy", concurrency=5)
    with _gate_at(pipeline, documents[50]):
        enqueuer = _enqueuer(pipeline)
        ((session,),) = until(lambda: pipeline.rows(_WAITING_AT_GATE), "50 of 500 jobs")
        assert pipeline.scalar("select count(*) from procrastinate_jobs where queue_name = 'ocr'") == 0
        assert pipeline.steps() == []
        if killed == "process":
            enqueuer.kill()
        else:
            pipeline.connection.execute("select pg_terminate_backend(%s)", [session])
        enqueuer.wait()
        assert pipeline.steps() == []

    has_ended = "select count(*) = 0 from pg_stat_activity where pid = %s"
    until(lambda: pipeline.scalar(has_ended, session), "the end of the enqueuer's session")
    if killed == "session":
        assert pipeline.scalar("select count(*) from procrastinate_jobs where queue_name = 'ocr'") == 0
        assert pipeline.scalar("select current_stage is null from sites")
        # Start again, with a tenth of the documents to save time.
        pipeline.start_run(first_phase=2, units=documents[:50])
    units = 500 if killed == "process" else 50
    ((run,),) = pipeline.rows("select run_id from pipeline_runs")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.counters("ocr") == (units, units, 0)
    assert pipeline.scalar("select count(*) from procrastinate_jobs where queue_name = 'ocr'") == units
    pipeline.check_invariants()


def test_coordinator_loses_its_session_while_it_starts_a_phase(pipeline: Pipeline) -> None:
    """Scenario 2 for a coordinator: its next attempt starts the phase."""
    documents = pipeline.add_site(documents=100)
    run = pipeline.start_run()
    with _gate_at(pipeline, documents[50]):
        pipeline.worker(concurrency=10)
        ((session,),) = until(lambda: pipeline.rows(_WAITING_AT_GATE), "50 of 100 jobs")
        pipeline.connection.execute("select pg_terminate_backend(%s)", [session])
        until(lambda: pipeline.rows("select from procrastinate_jobs where attempts = 1 and status = 'todo'"), "a retry")
    pipeline.clear_schedule("clerk.coordinate")
    assert pipeline.wait_for_end(run) == "succeeded"
    assert pipeline.counters("ocr") == (100, 100, 0)
    pipeline.check_invariants()


def test_units_of_a_superseded_run_change_nothing_in_the_new_one(pipeline: Pipeline) -> None:
    """Scenario 5. One ends while the new run processes the same document, one after the new run has ended."""
    early, late, waiting = pipeline.add_site()
    for document in (early, late):
        pipeline.plan_item("ocr", document, "wait:early" if document == early else "wait:late")
    old = pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr", concurrency=2)
    until(lambda: len(pipeline.steps()) == 2, "two units of the old run")
    with pytest.raises(RunInProgress):
        pipeline.start_run(first_phase=2)
    old_jobs = {item: pipeline.job_id("ocr", item) for item in (early, late, waiting)}

    pipeline.set_plan(**{f"ocr:{item}": "wait:new" for item in (early, late, waiting)})
    new = pipeline.start_run(first_phase=2, supersede=True)
    assert pipeline.outcome(old) == "cancelled"
    assert pipeline.job_status(old_jobs[waiting]) == "cancelled"
    pipeline.worker(concurrency=3)
    until(lambda: len(pipeline.steps("wait:new")) == 3, "three units of the new run")

    pipeline.open_gate("early")
    until(lambda: pipeline.ignored_results("stale"), "the early result recorded as stale")
    assert pipeline.counters("ocr") == (3, 0, 0)
    assert pipeline.ledger("ocr", early)[0] == "in_progress"
    pipeline.open_gate("new")
    assert pipeline.wait_for_end(new) == "succeeded"
    pipeline.open_gate("late")
    until(lambda: len(pipeline.ignored_results("stale")) == 2, "the late result recorded as stale")
    assert {job for job, _ in pipeline.ignored_results("stale")} == {old_jobs[early], old_jobs[late]}
    assert pipeline.counters("ocr") == (3, 3, 0)
    assert worker.is_alive()
    pipeline.check_invariants()


def test_rescued_job_of_a_superseded_run_is_not_repeated(pipeline: Pipeline) -> None:
    """Scenario 5. A document must not be processed for a run that has ended."""
    (document,) = pipeline.add_site(documents=1)
    pipeline.set_plan(ocr="wait:never")
    pipeline.start_run(first_phase=2)
    worker = pipeline.worker("ocr")
    until(lambda: pipeline.steps(), "a unit of the old run")
    old_job = pipeline.job_id("ocr", document)
    worker.kill()

    pipeline.set_plan(ocr="ok")
    new = pipeline.start_run(first_phase=2, supersede=True)
    pipeline.expire_leases(old_job)
    assert pipeline.rescue() == 1
    assert pipeline.job_status(old_job) == "aborted"
    pipeline.worker()
    assert pipeline.wait_for_end(new) == "succeeded"
    assert len(pipeline.steps(job=old_job)) == 1
    pipeline.check_invariants()


def test_coordinator_raises(pipeline: Pipeline) -> None:
    """Scenario 6. An error before and after it advanced the phase: it is retried until it succeeds."""
    pipeline.add_site(documents=2)
    pipeline.plan |= {"coordinate:2": ["transient", "ok"], "coordinated:3": ["transient", "ok"]}
    pipeline.set_plan()
    run = pipeline.start_run(first_phase=2)
    pipeline.worker()

    def both_retried() -> bool:
        """The second coordinator may be retried after the run has ended."""
        pipeline.clear_schedule("clerk.coordinate")
        return bool(pipeline.outcome(run) and pipeline.steps("stale", stage="coordinate", item=3, attempt=1))

    until(both_retried, "the end of the run, and of both coordinators")
    assert pipeline.outcome(run) == "succeeded"
    assert [step.name for step in pipeline.steps(stage="coordinate", item=2)] == ["transient", "ok", "started phase 3"]
    pipeline.check_invariants()


@pytest.mark.parametrize("moment", ["coordinate:2", "coordinated:2"], ids=["before it advanced", "after it advanced"])
def test_coordinator_is_killed(pipeline: Pipeline, moment: str) -> None:
    """Scenario 6."""
    pipeline.add_site(documents=2)
    pipeline.plan[moment] = ["kill", "ok"]
    pipeline.set_plan()
    run = pipeline.start_run(first_phase=2)
    assert pipeline.worker("ocr", "coordinator").wait() == -9
    (job,) = {step.job for step in pipeline.steps(stage="coordinate")}
    pipeline.expire_leases(job)
    assert pipeline.rescue() == 1
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.check_invariants()


def test_coordinator_runs_twice(pipeline: Pipeline) -> None:
    """Scenario 6. At the same time in another worker, and once more after the run has ended."""
    pipeline.add_site(documents=2)
    pipeline.plan_item("coordinate", 2, "wait:both")
    run = pipeline.start_run(first_phase=2)
    for _ in range(2):
        pipeline.worker(concurrency=2)
    insert_duplicate = (
        "insert into procrastinate_jobs (queue_name, task_name, args) values ('coordinator', 'clerk.coordinate', %s)"
    )
    arguments = psycopg.types.json.Jsonb({"subdomain": "anytown", "run_id": run, "phase": 2})
    until(lambda: pipeline.steps("wait:both"), "the coordinator")
    pipeline.connection.execute(insert_duplicate, [arguments])
    until(lambda: len(pipeline.steps("wait:both")) == 2, "its duplicate")
    pipeline.open_gate("both")
    assert pipeline.wait_for_end(run) == "succeeded"
    pipeline.connection.execute(insert_duplicate, [arguments])
    until(lambda: len(pipeline.steps("stale", item=2)) == 2, "two of three were stale")
    assert len(pipeline.steps("started phase 3")) == 1
    pipeline.check_invariants()


def test_two_schedulers_start_each_site_once(pipeline: Pipeline) -> None:
    """Scenario 12. Four scheduler jobs in two workers; all sites are due."""
    sites = [f"town{number:02}" for number in range(30)]
    for site in sites:
        pipeline.add_site(site, documents=0)
    schedule = (
        "insert into procrastinate_jobs (queue_name, task_name, args)"
        """ select 'coordinator', 'clerk.schedule', '{"timestamp": 0}' from generate_series(1, 4)"""
    )
    pipeline.connection.execute(schedule)
    for _ in range(2):
        pipeline.worker("coordinator", concurrency=2)

    ended = "select count(*) from procrastinate_jobs where task_name = 'clerk.schedule' and status = 'succeeded'"
    until(lambda: pipeline.scalar(ended) == 4, "all schedulers done")
    assert pipeline.rows("select subdomain, count(*) from pipeline_runs group by 1 order by 1") == [
        (site, 1) for site in sites
    ]
    pipeline.worker("fetch", concurrency=5)
    ended = "select count(*) from pipeline_runs where outcome = 'no_documents'"
    until(lambda: pipeline.scalar(ended) == 30, "all runs ended")
    pipeline.check_invariants()


def test_a_renamed_task_runs_jobs_queued_under_its_old_name(pipeline: Pipeline) -> None:
    """Scenario 20. A job of an unknown task fails, and does not block its site."""
    renamed, unknown, other = pipeline.add_site()
    run = pipeline.start_run(first_phase=2)
    rename = "update procrastinate_jobs set task_name = %s where id = %s"
    pipeline.connection.execute(rename, ["clerk.old_ocr", pipeline.job_id("ocr", renamed)])
    pipeline.connection.execute(rename, ["clerk.from_the_future", pipeline.job_id("ocr", unknown)])
    pipeline.worker()
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.ledger("ocr", renamed) == ("processed", None, 1)
    assert pipeline.ledger("ocr", unknown) == ("failed_terminal", "TaskNotFound", 1)
    assert pipeline.ledger("ocr", other) == ("processed", None, 1)
    pipeline.check_invariants()


def test_retention_in_the_middle_of_a_run(pipeline: Pipeline) -> None:
    """Scenario 21. Retention keeps the run's jobs. If they are deleted by other means, the run ends nevertheless."""
    done, running, failed = pipeline.add_site()
    pipeline.plan_item("ocr", running, "wait:retention")
    pipeline.plan_item("ocr", failed, "permanent")
    run = pipeline.start_run()
    pipeline.worker(concurrency=2)
    until(lambda: pipeline.counters("ocr") == (3, 1, 1), "one unit processed, one failed")
    later = datetime.now(UTC) + timedelta(days=1)
    jobs = pipeline.scalar("select count(*) from procrastinate_jobs")
    assert engine.remove_finished_jobs(pipeline.connection, later) == 0

    removed = "delete from procrastinate_jobs where status in ('succeeded', 'failed')"
    assert pipeline.connection.execute(removed).rowcount == jobs - 1
    assert pipeline.ledger("ocr", done)[0] == "processed"
    assert pipeline.counters("ocr") == (3, 1, 1)
    pipeline.open_gate("retention")
    assert pipeline.wait_for_end(run) == "partial"
    assert pipeline.counters("ocr") == (3, 2, 1)
    pipeline.check_invariants()
    assert engine.remove_finished_jobs(pipeline.connection, later) > 0
    assert pipeline.scalar("select count(*) from procrastinate_jobs where args ->> 'run_id' is not null") == 0
    assert pipeline.scalar("select count(*) from job_claims") == 0
    pipeline.check_invariants()


def test_coordinators_of_one_process_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "_MAX_WAIT", 60.0)
    entered = threading.Event()

    def enter() -> None:
        with coordinator._take_turn():
            entered.set()

    with coordinator._take_turn():
        second = threading.Thread(target=enter)
        second.start()
        assert not entered.wait(0.1)
    assert entered.wait(60.0)
    second.join()


def test_a_coordinator_that_waits_does_not_hold_up_other_sites(pipeline: Pipeline) -> None:
    documents = pipeline.add_site(documents=10)
    pipeline.add_site("othertown", documents=3)
    with _gate_at(pipeline, documents[5]):
        pipeline.worker(concurrency=10)
        first = pipeline.start_run()
        until(lambda: pipeline.rows(_WAITING_AT_GATE), "a coordinator that waits")
        assert pipeline.wait_for_end(pipeline.start_run("othertown")) == "succeeded"
        assert pipeline.rows(_WAITING_AT_GATE)
    assert pipeline.wait_for_end(first) == "succeeded"
    pipeline.check_invariants()
