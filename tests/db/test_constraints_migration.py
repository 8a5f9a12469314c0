"""Migration 0018 repairs rows that break its constraints, and moves the counters of runs up and down."""

from __future__ import annotations

import psycopg

from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import SqlFolder

BEFORE = 17

_ROWS = """
insert into sites (subdomain, current_stage, outcome, run_id) values
    ('consistent', 'completed', 'succeeded', 1),
    ('lost', 'completed', 'partial', 2),
    ('unknown', 'ocr', null, 4711),
    ('behind', 'completed', 'succeeded', 3),
    ('double', 'ocr', null, 7);
insert into pipeline_runs (run_id, subdomain, reason, ended_at, outcome, fetch_total, fetch_completed, fetch_failed,
                           ocr_total, ocr_completed, ocr_failed)
overriding system value values
    (1, 'consistent', 'x', now(), 'succeeded', 1, 1, 0, 9, 8, 1),
    (3, 'behind', 'x', now(), 'succeeded', 1, 1, 0, 9, 9, 0),
    (4, 'behind', 'x', null, null, null, null, null, null, null, null),
    (5, 'behind', 'x', null, null, null, null, null, null, null, null),
    (6, 'double', 'x', null, null, null, null, null, null, null, null),
    (7, 'double', 'x', null, null, null, null, null, null, null, null);
insert into content_items (subdomain, kind) values ('lost', 'archive'), ('double', 'archive');
insert into content_item_pipeline_state (content_item_id, pipeline, status, run_id)
select id, 'fetch', case subdomain when 'lost' then 'processed' else 'pending' end,
       case subdomain when 'lost' then 2 else 6 end
from content_items;
"""


def test_rows_that_break_the_constraints_are_repaired(empty: psycopg.Connection, folder: SqlFolder) -> None:
    migrator = Migrator(empty, folder)
    migrator.up(BEFORE)
    empty.execute(_ROWS)
    migrator.up(BEFORE + 1)

    sites = empty.execute("select subdomain, run_id, current_stage, outcome from sites order by 1").fetchall()
    assert sites == [
        ("behind", 5, "completed", None),
        ("consistent", 1, "completed", "succeeded"),
        ("double", 7, "ocr", None),
        ("lost", 2, "completed", "partial"),
        ("unknown", None, None, None),
    ]
    runs = empty.execute("select run_id, outcome, outcome_reason from pipeline_runs order by 1").fetchall()
    assert runs == [
        (1, "succeeded", None),
        (2, "partial", "the record of the run was missing"),
        (3, "succeeded", None),
        (4, "cancelled", "superseded by run 5"),
        (5, None, None),
        (6, "cancelled", "superseded by run 7"),
        (7, None, None),
    ]
    units = empty.execute("select run_id, status, error_code from content_item_pipeline_state order by 1").fetchall()
    assert units == [(2, "processed", None), (6, "failed_terminal", "RunEnded")]
    (next_run,) = empty.execute("select nextval('pipeline_runs_run_id_seq')").fetchone() or (0,)
    assert next_run > 7


def test_counters_are_moved_up_and_down(empty: psycopg.Connection, folder: SqlFolder) -> None:
    migrator = Migrator(empty, folder)
    migrator.up(BEFORE)
    empty.execute(_ROWS)
    counters = "select run_id, fetch_total, ocr_total, ocr_completed, ocr_failed, deploy_total from {} order by 1"
    before = [row for row in empty.execute(counters.format("pipeline_runs").encode()) if row[0] in (1, 3)]
    migrator.up(BEFORE + 1)
    assert [row for row in empty.execute(counters.format("run_history").encode()) if row[0] in (1, 3)] == before
    migrator.down(BEFORE)
    assert [row for row in empty.execute(counters.format("pipeline_runs").encode()) if row[0] in (1, 3)] == before
