"""Databases of legacy clerk in each of the forms in which they occur, with the most unusual rows.

Each form is plain SQL, so it does not change when clerk's own migrations change.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

STAGES = ("fetch", "ocr", "compilation", "extraction", "deploy")
COUNTERS = tuple(f"{stage}_{kind}" for stage in STAGES for kind in ("total", "completed", "failed"))

_SITES = """
    create table sites (
        subdomain varchar primary key, name varchar, state varchar, kind varchar, scraper varchar,
        pages integer, start_year integer, extra varchar, country varchar, lat varchar, lng varchar,
        status varchar, extraction_status varchar {extraction_default},
        last_updated varchar, last_deployed varchar, last_extracted varchar
    );
"""
_PIPELINE = """
    alter table sites
        add column current_stage varchar,
        add column started_at {time},
        add column updated_at {time},
        {counters},
        add column coordinator_enqueued boolean {flag},
        add column last_error_stage varchar,
        add column last_error_message {message},
        add column last_error_at {time};
"""
_INDEXES = """
    create index idx_sites_current_stage on sites (current_stage);
    create index idx_sites_updated_at on sites (updated_at);
    create index idx_sites_coordinator_enqueued on sites (subdomain, coordinator_enqueued)
        where coordinator_enqueued = false;
"""
# The raw script also documents two of its columns.
_RAW_SCRIPT_COMMENTS = """
    comment on column sites.current_stage is 'fetch, ocr, compilation, extraction, deploy or completed';
    comment on column sites.coordinator_enqueued is 'claimed by the last job of a stage';
"""
_FINANCE = """
    alter table sites
        add column has_finance_data boolean not null default false,
        add column finance_last_updated timestamptz,
        add column finance_source varchar(100),
        add column finance_coverage_start date,
        add column finance_coverage_end date,
        add column finance_record_count integer,
        add column finance_data_types json;
"""
_FINANCE_INDEXES = """
    create index idx_sites_has_finance_data on sites (has_finance_data);
    create index idx_sites_finance_metadata on sites (has_finance_data, finance_last_updated, state);
    comment on column sites.finance_source is 'where the finance data comes from';
    comment on column sites.finance_record_count is 'number of finance records';
"""
_SQLITE_ERA = """
    alter table sites
        add column ocr_class varchar, add column docker_port integer, add column save_agendas boolean,
        add column site_db varchar, add column "Odd Name" text;
    create table feed_entries (id serial primary key, subdomain varchar, title text, "published at" varchar);
    insert into feed_entries (subdomain, title, "published at") values ('springfield', 'Ratssitzung “am” 3. März', '');
"""
_PROGRESS = """
    create table site_progress (
        {key} varchar primary key, current_stage varchar,
        stage_total integer not null default 0, stage_completed integer not null default 0,
        started_at timestamptz, updated_at timestamptz
    );
    insert into site_progress values ('springfield', 'ocr', 12, 11, '2024-05-01 10:00+00', '2024-05-02 10:00+00');
    create table job_tracking (
        rq_job_id varchar primary key, {key} varchar not null, job_type varchar not null, stage varchar,
        created_at timestamptz default now()
    );
    create index ix_job_tracking_{key} on job_tracking ({key});
    insert into job_tracking values ('a1', 'springfield', 'ocr-page', 'ocr', '2024-05-01 10:00+00');
"""
# The last revisions add a column to job_tracking, and then drop the table.
_RUN_ID = """
    alter table job_tracking add column run_id varchar;
    create index ix_job_tracking_run_id on job_tracking (run_id);
"""
_ALEMBIC_VERSION = """
    create table alembic_version (version_num varchar(32) primary key);
    insert into alembic_version values ('{revision}');
"""

# Dates as text and sometimes empty, quotes, non-Latin scripts, invalid JSON.
_ROWS = """
    insert into sites (subdomain, name, state, kind, scraper, pages, start_year, extra, country, lat, lng,
                       status, extraction_status, last_updated, last_deployed, last_extracted,
                       ocr_class, docker_port, save_agendas, site_db, "Odd Name")
    values
        ('springfield', 'Springfield', 'IL', 'city-council', 'legistar', 1200, 2009, '{"id": 7}', 'us',
         '39.8', '-89.6',
         'needs_ocr', 'pending', '2024-05-01T10:00:00', '', null, 'tesseract', 5001, true, 'springfield.db', 'x'),
        ('o''brien', 'O''Brien "the" Hälsö, 議会', '', 'school-board', null, null, null, '', null, '', '',
         'deployed', 'completed', '', '2024-02-30T99:00:00', '', null, null, null, null, null),
        ('zürich.gemeinde', 'Zürich', 'ZH', 'Gemeinderat', 'custom', 0, -1, 'not json', 'ch', 'n/a', 'n/a',
         'no_documents', null, null, null, null, 'none', 0, false, '', ''),
        ('emptyville', null, null, null, null, null, null, null, null, null, null,
         null, null, null, null, null, null, null, null, null, null);
"""
_PIPELINE_ROWS = """
    update sites set current_stage = 'ocr', started_at = '2024-05-01 10:00:00', updated_at = '2024-05-02 10:00:00.5',
        fetch_total = 1, fetch_completed = 1, fetch_failed = 0, ocr_total = 12, ocr_completed = 11, ocr_failed = 0,
        coordinator_enqueued = false where subdomain = 'springfield';
    update sites set current_stage = 'ocr_complete', ocr_total = 4, ocr_completed = -1, deploy_failed = -2000000000,
        coordinator_enqueued = true, last_error_stage = 'ocr', last_error_message = 'Exception: ' || repeat('é', 600),
        last_error_at = '2024-03-31 02:30:00' where subdomain = 'o''brien';
    update sites set current_stage = '', extraction_total = 3, extraction_completed = 2 where subdomain = 'emptyville';
    update sites set current_stage = 'completed' where subdomain = 'zürich.gemeinde';
"""
_FINANCE_ROWS = """
    update sites set has_finance_data = true, finance_last_updated = '2024-01-01 00:00+00', finance_source = 'CSV',
        finance_coverage_start = '2019-01-01', finance_record_count = 12, finance_data_types = '["a",  "\\u0000"]'
    where subdomain = 'springfield';
"""
# What an administrator may have changed in the table.
_ADMINISTRATOR_CHANGES = """
    alter table sites set (fillfactor = 90, autovacuum_enabled = true);
    comment on table sites is 'legacy clerk''s table';
    comment on column sites.status is 'see the wiki';
    comment on column sites.docker_port is 'unused';
    alter table sites add constraint sites_start_year_check check (start_year > -2);
"""


@dataclass(frozen=True)
class Baseline:
    name: str
    sql: str

    def build(self, connection: psycopg.Connection) -> None:
        connection.execute("set timezone = 'UTC'")
        connection.execute(self.sql.encode())
        connection.execute("reset timezone")


def _sites(*, extraction_default: str) -> str:
    return _SITES.format(extraction_default=extraction_default)


def _pipeline(*, time: str, counter: str, flag: str, message: str = "text") -> str:
    counters = ", ".join(f"add column {name} integer {counter}" for name in COUNTERS)
    return _PIPELINE.format(time=time, counters=counters, flag=flag, message=message)


ALEMBIC = Baseline(
    "alembic",
    _sites(extraction_default="default 'pending'")
    + _pipeline(time="timestamptz", counter="not null default 0", flag="not null default false")
    + _INDEXES
    + _FINANCE
    + _FINANCE_INDEXES
    + _SQLITE_ERA
    + _PROGRESS.format(key="subdomain")
    + _ALEMBIC_VERSION.format(revision="f3d4e5b6c7a8")
    + _ROWS
    + _PIPELINE_ROWS
    + _FINANCE_ROWS
    + _ADMINISTRATOR_CHANGES,
)
EARLY_ALEMBIC = Baseline(
    "alembic before the pipeline",
    _sites(extraction_default="default 'pending'")
    + _SQLITE_ERA
    + _PROGRESS.format(key="site_id")
    + _ALEMBIC_VERSION.format(revision="c27bd77144ce")
    + _ROWS
    + _ADMINISTRATOR_CHANGES,
)
LATE_ALEMBIC = Baseline(
    "alembic with run ids",
    _sites(extraction_default="default 'pending'")
    + _pipeline(time="timestamptz", counter="not null default 0", flag="not null default false")
    + _INDEXES
    + _FINANCE
    + _FINANCE_INDEXES
    + _SQLITE_ERA
    + _PROGRESS.format(key="subdomain")
    + _RUN_ID
    + _ALEMBIC_VERSION.format(revision="bf2f44a2e00c")
    + _ROWS
    + _PIPELINE_ROWS
    + _FINANCE_ROWS,
)
LAST_ALEMBIC = Baseline(
    "alembic without job_tracking",
    LATE_ALEMBIC.sql + "drop table job_tracking; update alembic_version set version_num = 'f33eeb46479b';",
)
CREATE_ALL = Baseline(
    "create_all",
    _sites(extraction_default="")
    + _pipeline(time="timestamptz", counter="", flag="", message="varchar")
    + _FINANCE
    + _SQLITE_ERA
    + _PROGRESS.format(key="subdomain")
    + _ROWS
    + _PIPELINE_ROWS
    + _FINANCE_ROWS
    + _ADMINISTRATOR_CHANGES,
)
RAW_SCRIPT = Baseline(
    "raw script",
    _sites(extraction_default="default 'pending'")
    + _pipeline(time="timestamp", counter="default 0", flag="default false")
    + _INDEXES
    + _RAW_SCRIPT_COMMENTS
    + _SQLITE_ERA
    + _PROGRESS.format(key="subdomain")
    + _ROWS
    + _PIPELINE_ROWS
    + "update sites set fetch_total = null, deploy_completed = null, coordinator_enqueued = null"
    " where subdomain = 'emptyville';" + _ADMINISTRATOR_CHANGES,
)
ALEMBIC_EMPTY = Baseline(
    "alembic, without rows",
    _sites(extraction_default="default 'pending'")
    + _pipeline(time="timestamptz", counter="not null default 0", flag="not null default false")
    + _INDEXES
    + _PROGRESS.format(key="subdomain")
    + _ALEMBIC_VERSION.format(revision="f3d4e5b6c7a8")
    + "delete from site_progress; delete from job_tracking;",
)
BASELINES = (ALEMBIC, EARLY_ALEMBIC, LATE_ALEMBIC, LAST_ALEMBIC, CREATE_ALL, RAW_SCRIPT)
