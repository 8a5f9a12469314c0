"""Cost of monitoring many sites: time, rows and pages of `clerk verify` and `clerk reconcile-pipeline --dry-run`.

The database is filled by SQL: idle sites whose last runs ended over the last 23 hours, with all their jobs, and some
sites in OCR.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

from clerk.cli.progress_reporter import ProgressReporter
from clerk.db.connection import connect_to
from clerk.db.embedded.server import Server
from clerk.db.migrations.migrate import Migrator
from clerk.db.migrations.sqlfiles import default_folder
from tests.conftest import Databases, Url, running

COMMANDS = (["verify", "--no-files"], ["reconcile-pipeline", "--dry-run", "--storage", "none"])
"""Without file checks: the generated rows have no files."""
LEDGER = "content_item_pipeline_state"

_PLACES = """
create temporary table place as
select n as site, n > %(sites)s - %(active)s as active, 'site' || n as subdomain, n as run_id,
       (n - 1) * (%(documents)s + 1) + 1 as archive, (n - 1) * (2 * %(documents)s + 3) as jobs_before,
       now() - interval '23 hours' * (1 - n::float8 / %(sites)s) as ended_at,
       interval '23 hours' / %(sites)s as lasted
from generate_series(1, %(sites)s) n
"""
_SITES = """
insert into sites (subdomain, run_id, current_stage, outcome, started_at, updated_at, fetch_total, fetch_completed,
                   ocr_total, ocr_completed, compilation_total, compilation_completed, extraction_total,
                   extraction_completed, deploy_total, deploy_completed)
select subdomain, run_id, case when active then 'ocr' else 'completed' end, case when not active then 'succeeded' end,
       ended_at - lasted, date_trunc('second', ended_at), 1, 1,
       %(documents)s, case when active then %(documents)s / 2 else %(documents)s end,
       rest, rest, rest * %(documents)s, rest * %(documents)s, rest, rest
from place, lateral (select case when active then 0 else 1 end as rest) r
"""
_RUNS = """
insert into pipeline_runs (run_id, subdomain, reason, started_at, ended_at, outcome, counters)
overriding system value
select run_id, subdomain, 'scheduled', ended_at - lasted, case when not active then ended_at end,
       case when not active then 'succeeded' end, case when not active then clerk_counters(s) end
from place
join sites s using (subdomain, run_id)
"""
_TRANSITIONS = """
insert into pipeline_transitions (run_id, phase, claimed_at, last_deferred_at, advanced_at)
select run_id, phase, at, at, at
from place, generate_series(1, 4) phase, lateral (select ended_at - lasted + lasted * phase / 4 as at) a
where phase = 1 or not active
"""
_ITEMS = """
insert into content_items (id, subdomain, kind, meeting, date, storage_key) overriding system value
select archive, subdomain, 'archive', null, null, null from place
union all
select archive + n, subdomain, 'minutes', 'Council', date '2000-01-01' + n, 'pdfs/Council/' || n || '.pdf'
from place, generate_series(1, %(documents)s) n
"""
# A unit per row: fetch, the documents' ocr, compilation, the documents' extraction, deploy.
_UNITS = """
create temporary table unit as
select p.subdomain, p.run_id, p.active, u.stage, u.item, p.jobs_before + u.n as job_id,
       case when not p.active or u.n <= 1 + %(documents)s / 2 then 'processed'
            when u.n <= 6 + %(documents)s / 2 then 'in_progress' else 'pending' end as status,
       p.ended_at - p.lasted + p.lasted * u.n / (2 * %(documents)s + 3) as at
from place p
cross join lateral (
    select n, case when n = 1 then 'fetch' when n <= %(documents)s + 1 then 'ocr'
                   when n = %(documents)s + 2 then 'compilation'
                   when n <= 2 * %(documents)s + 2 then 'extraction' else 'deploy' end as stage,
           case when n between 2 and %(documents)s + 1 then p.archive + n - 1
                when n between %(documents)s + 3 and 2 * %(documents)s + 2 then p.archive + n - %(documents)s - 2
                else p.archive end as item
    from generate_series(1, case when p.active then %(documents)s + 1 else 2 * %(documents)s + 3 end) n
) u
"""
_LEDGER = """
insert into content_item_pipeline_state (content_item_id, pipeline, status, attempt_count, last_attempt_at,
                                         processed_at, created_at, updated_at, run_id, job_id)
select item, stage, status, (status <> 'pending')::integer, at,
       case when status = 'processed' then at end, at, at, run_id, job_id
from unit
"""
_JOBS = """
insert into procrastinate_jobs (id, queue_name, task_name, args, status)
select job_id, stage, 'clerk.' || stage,
       jsonb_build_object('subdomain', subdomain, 'run_id', run_id, 'stage', stage, 'content_item_id', item),
       case status when 'processed' then 'succeeded' when 'in_progress' then 'doing'
                   else 'todo' end::procrastinate_job_status
from unit
order by job_id
"""
_CLAIMS = """
insert into job_claims (job_id, holder, attempt, claimed_at, lease_until, settled_as, settled_at, settled_by)
select job_id, 'a worker', 0, at, case when status = 'processed' then at else now() + interval '1 hour' end,
       case when status = 'processed' then 'succeeded' end, case when status = 'processed' then at end, 'a worker'
from unit
where status <> 'pending'
"""
_EVENTS = """
insert into procrastinate_events (job_id, type, at)
select job_id, type, at
from unit, unnest(array['deferred', 'started', 'succeeded']::procrastinate_job_event_type[]) type
where type = 'deferred' or status = 'processed' or status = 'in_progress' and type = 'started'
order by job_id, type
"""
_SEQUENCES = """
select setval(pg_get_serial_sequence('content_items', 'id'), (select max(id) from content_items)),
       setval(pg_get_serial_sequence('pipeline_runs', 'run_id'), (select max(run_id) from pipeline_runs)),
       setval('procrastinate_jobs_id_seq', (select max(id) from procrastinate_jobs))
"""


def fill(connection: psycopg.Connection, sites: int, documents: int, active: int) -> None:
    """Insert sites with `documents` each: 2 * documents + 3 units, fewer for active runs."""
    parameters = {"sites": sites, "documents": documents, "active": active}
    with connection.transaction():
        connection.execute("set local session_replication_role = replica")
        for statement in (_PLACES, _SITES, _RUNS, _TRANSITIONS, _ITEMS, _UNITS, _LEDGER, _JOBS, _CLAIMS, _EVENTS):
            connection.execute(statement.encode(), parameters)
        connection.execute(_SEQUENCES)
        connection.execute("drop table unit, place")
    connection.execute("vacuum analyze")


_READ = """
select t.relname, t.seq_scan, t.seq_tup_read + coalesce(t.idx_tup_fetch, 0),
       io.heap_blks_hit + io.heap_blks_read + coalesce(io.idx_blks_hit + io.idx_blks_read, 0)
from pg_stat_user_tables t
join pg_statio_user_tables io using (relid)
"""


def read_so_far(url: Url) -> dict[str, tuple[int, int, int]]:
    """Table → sequential scans, rows and pages. Uses a new session: sessions report their statistics when they end."""
    with psycopg.connect(url) as connection:
        return {table: (scans, rows, pages) for table, scans, rows, pages in connection.execute(_READ)}


def measure(url: Url, command: list[str]) -> dict[str, Any]:
    before, started = read_so_far(url), time.monotonic()
    completed = subprocess.run(
        [sys.executable, "-m", "clerk", *command],
        env={**os.environ, "DATABASE_URL": url},
        capture_output=True,
        text=True,
    )
    seconds, after = time.monotonic() - started, read_so_far(url)
    difference = {table: tuple(a - b for a, b in zip(after[table], before[table], strict=True)) for table in after}
    return {
        "seconds": round(seconds, 2),
        "exit code": completed.returncode,
        "last line": (completed.stdout + completed.stderr).strip().splitlines()[-1:],
        "sequential scans of the ledger": difference[LEDGER][0],
        "rows of the ledger": difference[LEDGER][1],
        "rows": sum(rows for _, rows, _ in difference.values()),
        "pages": sum(pages for _, _, pages in difference.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="bin/bench operate", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sites", type=int, default=10_000, help="default: 10,000")
    parser.add_argument("--documents", type=int, default=49, help="per site (default: 49, which is 101 units)")
    parser.add_argument("--active", type=int, default=100, help="sites with an active run (default: 100)")
    parser.add_argument("--json", action="store_true", help="print JSON for programs")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    arguments = parser.parse_args()
    results: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        running(Server(Path(folder) / "postgres")) as server,
        ProgressReporter(arguments.quiet) as progress,
    ):
        os.environ |= {"STORAGE_DIR": str(Path(folder) / "storage"), "CLERK_HOME": folder}
        url = Databases(server).create()
        with connect_to(url) as connection:
            Migrator(connection, default_folder()).up()
            fill(connection, arguments.sites, arguments.documents, arguments.active)
            (units,) = connection.execute("select count(*) from content_item_pipeline_state").fetchone() or (0,)
        results["ledger"] = units
        for number, command in enumerate(COMMANDS):
            progress.update("commands", number, len(COMMANDS))
            measure(url, command)  # warms the cache: these commands run every few minutes
            results[" ".join(["clerk", *command])] = measure(url, command)
    if arguments.json:
        print(json.dumps(results, indent=2))  # noqa: T201
        return
    print(f"{arguments.sites:,} sites, {results.pop('ledger'):,} units in the ledger")  # noqa: T201
    for command_line, figures in results.items():
        print(command_line + ": " + ", ".join(f"{name} {value}" for name, value in figures.items()))  # noqa: T201


if __name__ == "__main__":
    main()
