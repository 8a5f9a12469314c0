"""Plans of the queries that every job runs, behind a long queue.

With 100,000 waiting jobs of 2,000 sites each in its own and in another queue, and 20,000 paused ones, the next job is
read from an index. Neither a worker, nor a site that joins, nor the rescue of every minute reads all jobs or the whole
ledger.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from clerk.db.migrations.sqlfiles import SqlFolder
from tests.conftest import Databases, Url
from tests.engine.helpers import Connection, Worker, add_site, connect_worker, one, rows

WAITING = 100_000
SITES = 2_000
PAUSED = 20_000
TABLES = {"procrastinate_jobs", "content_item_pipeline_state"}


@contextmanager
def rolled_back(connection: Connection) -> Iterator[None]:
    with connection.transaction(force_rollback=True):
        yield


def fill_queue(url: Url) -> None:
    """Jobs of one site behind 100,000 fetch and 100,000 ocr jobs, paused jobs, and a ledger of 20,000 units."""
    with psycopg.connect(url, autocommit=True) as connection:
        add_site(connection, "fill_queue", documents=WAITING // 5)
        with connection.transaction():
            connection.execute("set local session_replication_role = replica")
            connection.execute(
                "insert into procrastinate_jobs (queue_name, task_name, args, scheduled_at, turn)"
                " select 'ocr', 'clerk.ocr', '{\"subdomain\": \"paused\"}', clerk_paused_until(), null"
                " from generate_series(1, %s)",
                [PAUSED],
            )
            for queue in ("fetch", "ocr"):
                connection.execute(
                    "insert into procrastinate_jobs (queue_name, task_name, args, turn)"
                    " select %(queue)s::text, 'clerk.' || %(queue)s::text,"
                    " jsonb_build_object('subdomain', 'site' || n / %(per_site)s, 'run_id', 1, 'n', n),"
                    " case %(queue)s::text when 'ocr' then 1 + 1000000 * (n %% %(per_site)s) else 0 end"
                    " from generate_series(0, %(waiting)s - 1) n",
                    {"queue": queue, "waiting": WAITING, "per_site": WAITING // SITES},
                )
            connection.execute(
                "insert into content_item_pipeline_state (content_item_id, pipeline, status, run_id)"
                " select id, 'ocr', case when id %% 100 = 0 then 'failed_terminal' else 'processed' end, 1"
                " from content_items where subdomain = %s",
                ["fill_queue"],
            )
        add_site(connection, "town", documents=3)
        connection.execute("select clerk_start_run('town', p_first_phase => 3)")
        connection.execute("vacuum analyze")


def rows_read(connection: Connection, table: str) -> dict[str, int]:
    """Rows of a table that this transaction has read: by sequential scan, by index."""
    found = rows(
        connection,
        "select seq_tup_read, coalesce(idx_tup_fetch, 0) from pg_stat_xact_user_tables where relname = %s",
        [table],
    )
    return {"sequentially": found[0][0], "by index": found[0][1]}


QUEUES = [
    ["deploy"],
    ["compilation"],
    ["coordinator"],
    ["ocr"],
    ["deploy", "coordinator"],
    ["fetch", "ocr", "deploy"],
    [],
]


def fetch_reads_a_few_rows(url: Url, queues: list[str], analysed: bool) -> None:
    """Counted over several executions: the first use custom plans, later ones a generic plan."""
    with connect_worker(url, "fetcher") as worker, rolled_back(worker.connection):
        if not analysed:
            worker.connection.execute("delete from pg_statistic where starelid = 'procrastinate_jobs'::regclass")
        for _ in range(8):
            worker.fetch(*queues)
        read = rows_read(worker.connection, "procrastinate_jobs")
    assert read["sequentially"] == 0, (queues, analysed)
    assert read["by index"] < 300, (queues, analysed)


def a_site_that_joins_reads_a_few_rows(url: Url) -> None:
    with connect_worker(url, "joining") as worker, rolled_back(worker.connection):
        add_site(worker.connection, "village", documents=3)
        for _ in range(8):
            worker.connection.execute("select clerk_start_run('village', p_supersede => true, p_first_phase => 2)")
        read = rows_read(worker.connection, "procrastinate_jobs")
        turns = "select array_agg(turn order by turn) from waiting_jobs where subdomain = 'village'"
        assert one(worker.connection, turns) == [1, 1_000_001, 2_000_001]
    assert read["sequentially"] == 0
    assert read["by index"] < 300


def stock_fetch_reads_everything(url: Url) -> None:
    """The reason for clerk_fetch_jobs. If this fails, Procrastinate has improved."""
    with connect_worker(url, "stock") as worker, rolled_back(worker.connection):
        stock = "select id from procrastinate_fetch_job_v2(array['coordinator'], %s)"
        for _ in range(8):
            one(worker.connection, stock, [worker.number])
        read = rows_read(worker.connection, "procrastinate_jobs")
    assert read["sequentially"] + read["by index"] > WAITING


def test_fetch_returns_the_same_job_as_procrastinate(connection: Connection) -> None:
    """By priority, then age; not before its scheduled time; one job at a time per lock."""
    worker = Worker(connection)
    connection.execute(
        "insert into procrastinate_jobs (queue_name, task_name, priority, lock, scheduled_at)"
        " select (array['fetch', 'ocr', 'deploy', 'coordinator', 'compilation'])[1 + n % 5], 'x', n % 3,"
        " case when n % 4 = 0 then 'lock ' || n % 3 end, case when n % 7 = 0 then now() + interval '1 hour' end"
        " from generate_series(1, 60) n"
    )
    for queues in QUEUES:
        ours, theirs = [], []
        with rolled_back(connection):
            while job := worker.fetch(*queues):
                ours.append(job.id)
        stock = "select id from procrastinate_fetch_job_v2(%s::varchar[], %s)"
        with rolled_back(connection):
            while job_id := one(connection, stock, [queues or None, worker.number]):
                theirs.append(job_id)
        assert ours == theirs, queues


def all_changes_of_a_unit_read_a_few_rows(url: Url) -> None:
    """Fetch, progress, retry, fetch, finish; then the coordinator and the next phase."""
    with connect_worker(url, "worker") as worker, rolled_back(worker.connection):
        job = worker.take("compilation")
        one(worker.connection, "select clerk_report_progress(%s, %s, 1, 2)", [job.id, job.attempts])
        worker.retry(job)
        worker.finish(worker.take("compilation"))
        worker.coordinate(worker.take("coordinator"))
        worker.finish(worker.take("deploy"))
        for table in TABLES:
            read = rows_read(worker.connection, table)
            assert read["sequentially"] == 0, table
            assert read["by index"] < 300, table


def plan_of(connection: Connection, query: str) -> dict[str, Any]:
    found = one(connection, f"explain (format json) {query}")
    parsed = json.loads(found) if isinstance(found, str) else found
    plan = parsed[0]["Plan"]
    assert isinstance(plan, dict)
    return plan


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", []):
        yield from nodes(child)


def scans(plan: dict[str, Any]) -> list[str]:
    return [node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"]


def reconciler_scans_no_big_table(url: Url, view: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        plan = plan_of(connection, f"select * from {view}")
        assert not TABLES & set(scans(plan)), json.dumps(plan, indent=1)
        with rolled_back(connection):
            rows(connection, f"select * from {view}")
            assert sum(rows_read(connection, "procrastinate_jobs").values()) < 300, view


def test_behind_a_long_queue(server: Url, template: str) -> None:
    """One test, so that parallel test processes do not fill the queue twice."""
    databases = Databases(server)
    url = databases.create(template)
    try:
        fill_queue(url)
        for queues in QUEUES:
            fetch_reads_a_few_rows(url, queues, analysed=True)
            fetch_reads_a_few_rows(url, queues, analysed=False)
        a_site_that_joins_reads_a_few_rows(url)
        stock_fetch_reads_everything(url)
        all_changes_of_a_unit_read_a_few_rows(url)
        for view in ("expired_claims", "missing_coordinators", "orphaned_units"):
            reconciler_scans_no_big_table(url, view)
    finally:
        databases.drop_all()


LARGE = 20_000
BATCH = 50


@pytest.mark.parametrize("guarded", [True, False], ids=["with the guard", "without it"])
def test_plans_cached_on_empty_tables_are_good_for_large_ones(
    connection: Connection, database: Url, folder: SqlFolder, guarded: bool
) -> None:
    """A worker's first batch plans its statements when claims and ledger are empty, and no ANALYZE follows."""
    if not guarded:
        text = next(item.sql for item in folder.objects if item.name == "clerk_settle_units")
        # Then an index on open units matches, and is as cheap as any on an empty table.
        without = text.replace(
            "l.status not in ('processed', 'failed_terminal')", "l.status in ('pending', 'in_progress')"
        )
        assert without != text
        connection.execute(without.encode())
    # An ANALYZE by autovacuum would discard the cached plans.
    for table in (*TABLES, "job_claims", "sites"):
        connection.execute(f"alter table {table} set (autovacuum_enabled = false)".encode())
    add_site(connection, "first", documents=2)
    connection.execute("select clerk_start_run('first', p_first_phase => 2)")
    with connect_worker(database, "worker") as worker:
        _, held = worker.finish_and_fetch([], "ocr", slots=2)
        assert len(worker.finish_and_fetch(held, "ocr", slots=2)[0]) == 2

        add_site(connection, "large", documents=LARGE)
        connection.execute("select clerk_start_run('large', p_first_phase => 2)")
        connection.execute(
            "insert into job_claims (job_id, holder, attempt, lease_until, settled_as)"
            " select -n, 'history', 0, now(), 'succeeded' from generate_series(1, %s) n",
            [LARGE],
        )
        with rolled_back(worker.connection):
            _, held = worker.finish_and_fetch([], "ocr", slots=BATCH)
            accepted, _ = worker.finish_and_fetch(held, "ocr", slots=BATCH)
            assert len(accepted) == BATCH
            read = {table: sum(rows_read(worker.connection, table).values()) for table in (*TABLES, "job_claims")}
    assert read["procrastinate_jobs"] < 20 * BATCH
    assert read["job_claims"] < 20 * BATCH
    assert (read["content_item_pipeline_state"] < 20 * BATCH) is guarded


def test_functions_of_every_job_are_never_compiled(connection: Connection) -> None:
    """After an ANALYZE of a long queue Postgres would compile the fetch at every call, for ten times its cost."""
    hot = [
        "clerk_fetch_jobs",
        "clerk_first_turn",
        "clerk_finish_jobs",
        "clerk_settle_units",
        "clerk_record_change",
        "clerk_record_insert",
    ]
    settings = "select proname::text, proconfig from pg_proc where proname = any (%s)"
    found = dict(rows(connection, settings, [hot]))
    assert sorted(found) == sorted(hot)
    for name, config in found.items():
        assert {"jit=off", "enable_seqscan=off", "plan_cache_mode=force_generic_plan"} <= set(config), name


def test_the_order_of_jobs_is_never_sorted(connection: Connection) -> None:
    """With statistics from a time when few jobs were due, Postgres prefers to read all jobs by another index, and
    to sort them."""
    for name in ("clerk_fetch_jobs", "clerk_first_turn"):
        config = one(connection, "select proconfig from pg_proc where proname = %s", [name])
        assert {"enable_sort=off", "enable_incremental_sort=off", "enable_bitmapscan=off"} <= set(config), name
