"""Migration 0026 numbers the jobs that wait, so that they take turns with those of sites that start later."""

from __future__ import annotations

import psycopg

from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder

BEFORE = 25

_JOBS = """
insert into procrastinate_jobs (queue_name, task_name, attempts, args, scheduled_at)
select queue, 'x', attempts, jsonb_build_object('subdomain', site, 'content_item_id', 1), scheduled_at
from (values (1, 'ocr', 0, 'city', null::timestamptz),
             (2, 'ocr', 0, 'city', null),
             (3, 'ocr', 0, 'town', null),
             (4, 'ocr', 1, 'town', null),
             (5, 'ocr', 0, 'paused', timestamptz '9000-01-01 00:00:00+00'),
             (6, 'extraction', 0, 'town', null),
             (7, 'deploy', 0, 'town', null)) as job (place, queue, attempts, site, scheduled_at)
order by place
"""


def test_waiting_jobs_are_numbered_and_the_way_back(empty: psycopg.Connection, folder: SqlFolder) -> None:
    migrator = Migrator(empty, folder)
    migrator.up(BEFORE)
    empty.execute(_JOBS)
    migrator.up(BEFORE + 1)
    turns = [row[0] for row in empty.execute("select turn from procrastinate_jobs order by id").fetchall()]
    assert turns == [1, 1_000_001, 1, 0, None, 1, 0]

    migrator.down(BEFORE)
    found = empty.execute("select indexdef from pg_indexes where indexname = 'idx_procrastinate_jobs_queue_todo'")
    assert "(queue_name, priority DESC, id)" in str(found.fetchone())
    assert empty.execute("select count(*) from procrastinate_jobs").fetchone() == (7,)
