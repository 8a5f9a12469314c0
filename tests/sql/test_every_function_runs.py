"""Postgres does not check plpgsql bodies when they are created, so every function is called once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
from psycopg.types.json import Jsonb

from clerk.db.migrations.sqlfiles import SqlFolder
from clerk.pipeline import engine
from clerk.reconcile import log
from tests.engine.helpers import (
    Connection,
    Worker,
    add_site,
    archive,
    broken_invariants,
    connect_worker,
    drain,
    expire,
    finish_phase,
    one,
    rows,
    site,
    start,
    unit,
)
from tests.helpers import until
from tests.reconcile.repair_helpers import repair_all


def call_everything(worker: Worker) -> None:
    """Runs of one site in which every function is called."""
    connection = worker.connection
    items = add_site(connection, documents=3)
    assert engine.start_next_due_site(connection) == "town"
    engine.pause_site(connection, "town", "me")
    engine.resume_site(connection, "town")
    engine.pause_queue(connection, "fetch", "me")
    engine.resume_queue(connection, "fetch")
    finish_phase(worker)
    job = worker.take("ocr")
    engine.report_progress(connection, job.id, job.attempts, 1, 2)
    expire(connection, job)
    repair_all(connection)
    assert not worker.finish(job)
    worker.check_rejected(job, "succeeded")
    worker.finish(worker.take("ocr"), "failed")
    worker.retry(worker.take("ocr"), at=datetime.now(UTC) + timedelta(hours=1))
    engine.retry_failed(connection, "town")
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        connection.execute("delete from procrastinate_jobs where status = 'todo'")
    connection.execute("update sites set ocr_completed = 1")
    repair_all(connection)
    finish_phase(worker, failing=(items[0],))
    connection.execute(
        "select procrastinate_retry_job_v2(%s, null, null, null, null)", [unit(connection, items[0])["job_id"]]
    )
    worker.finish(worker.take("ocr"))
    drain(worker)
    engine.start_refresh_run(connection, "town")
    while not site(connection)["coordinator_enqueued"]:
        worker.finish(worker.take("compilation", "extraction"))
    worker.retry(worker.take("coordinator"))
    connection.execute("delete from procrastinate_jobs where status = 'todo' and queue_name = 'coordinator'")
    repair_all(connection)
    drain(worker)
    engine.mark_files_lost(connection, items[0], "ocr", "gone")
    engine.mark_processed(connection, items[0], 1)
    engine.rewind(connection, "town", "extraction")
    engine.rewind(connection, "town", "ocr")
    connection.execute("delete from procrastinate_jobs where status = 'todo' and queue_name = 'ocr'")
    engine.cancel_run(connection, "town")
    engine.remove_finished_jobs(connection, datetime.now(UTC) + timedelta(days=1))
    engine.initialize_stage(connection, "town", "ocr", 2)
    engine.increment_completed(connection, "town", "ocr")
    engine.increment_failed(connection, "town", "ocr", "message", "Class")
    engine.should_trigger_coordinator(connection, "town", "ocr")
    engine.claim_coordinator_enqueue(connection, "town")
    start(connection, phase=4)
    assert archive(connection)
    connection.execute("update sites set weight = 2")
    corrupt_and_repair(connection, worker, items)
    slot = rows(connection, "select slot_id from clerk_reserve_host_slot('town.example', '1 s', 2, '1 minute')")[0][0]
    connection.execute("select clerk_renew_host_slot(%s, '1 minute'), clerk_release_host_slot(%s)", [slot, slot])
    connection.execute("select clerk_back_off_host('town.example', '1 minute', 'it asked us to')")
    connection.execute("insert into sites (subdomain) values ('oldtown'), ('newtown')")
    engine.import_legacy_site(connection, "oldtown", Jsonb([]), 1)
    engine.purge_site(connection, "newtown")
    engine.import_site(connection, "newtown", Jsonb([]), 1, "counters without a run")
    engine.defer_reconciliation(connection)
    connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name) values ('delivery', 'clerk.deliver_matches')"
    )
    worker.finish(worker.take("delivery"), "failed")
    engine.delete_old_matches(connection)
    connection.execute("select from clerk_sessions(); select from clerk_index_sizes()")
    connection.execute("insert into procrastinate_jobs (queue_name, task_name, lock) values ('other', 'x', 'lock')")
    worker.finish_and_fetch([worker.take("other")], "other")
    engine.settle_unit(
        connection,
        0,
        "town",
        run_id=0,
        stage="ocr",
        content_item_id=0,
        succeeded=True,
        error_code=None,
        error_message=None,
    )


def corrupt_and_repair(connection: Connection, worker: Worker, items: list[int]) -> None:
    """Call the functions that only reconciliation uses."""
    start(connection, phase=2)
    connection.execute("update sites set current_stage = 'deploy'")
    repair_all(connection)
    run = engine.rewind(connection, "town", "ocr")
    drain(worker)
    connection.execute("delete from content_item_pipeline_state where content_item_id = %s", [items[0]])
    connection.execute("insert into job_claims (job_id, holder, attempt, lease_until) values (0, 'none', 0, now())")
    connection.execute("update sites set outcome = 'failed'")
    connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name, args)"
        " values ('ocr', 'clerk.ocr', jsonb_build_object('subdomain', 'town', 'run_id', %s::bigint))",
        [run],
    )
    assert broken_invariants(connection)
    repair_all(connection)
    drain(worker)
    run = start(connection)
    log_three = (
        "insert into reconcile_log (reconciliation, kind, subdomain, run_id, found, done, why)"
        " select gen_random_uuid(), 'counters', 'town', %s, '', '', '' from generate_series(1, 3)"
    )
    connection.execute(log_three, [run])
    connection.execute("update sites set fetch_total = 9")
    repair_all(connection)
    log.delete_old(connection)


def test_every_function_runs(database: str, folder: SqlFolder) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        # A bound expression is checked when it is created, and callers inline it.
        checked = rows(connection, "select proname from pg_proc where prosqlbody is not null")
        wanted = {item.name for item in folder.objects if item.kind == "function"} - {row[0] for row in checked}
        connection.execute("select pg_stat_reset()")
        with connect_worker(database, "caller") as worker:
            worker.connection.execute("set track_functions = 'all'")
            call_everything(worker)

        def never_called() -> set[str]:
            connection.execute("select pg_stat_clear_snapshot()")
            called = rows(connection, "select funcname from pg_stat_user_functions where calls > 0")
            return wanted - {row[0] for row in called}

        # A session reports its statistics when it ends.
        until(lambda: one(connection, "select count(*) from pg_stat_activity where application_name = 'caller'") == 0)
        assert never_called() == set()
