"""Storage scan: compares the files of sites with the database.

Every reconciliation makes a quick scan: a limited number of sites, first those whose run ended since their last scan,
then those scanned longest ago. It checks existence, size and time of files, and hashes only files that changed. A full
scan hashes every file of every site. A site without findings is clean as of the start of its scan. A site with findings
has had its turn as well, so that persistent problems do not keep other sites from being scanned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from psycopg.rows import class_row

from clerk.config import Settings
from clerk.pipeline import engine
from clerk.reconcile import (
    archive_checks,
    document_checks,
    sites_without_run,
    storage_guard,
    temp_files,
    untracked_documents,
)
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import RUN, SiteCheck, SiteState
from clerk.reconcile.storage_guard import StorageMissing

_MAX_SITES = 200
_TIME_LIMIT = 60.0
"""Seconds that a quick scan may take. The remaining sites are first in the next one."""

_SITES = """
select s.subdomain, s.run_id, coalesce(r.run_id is not null and r.ended_at is null, false) as is_active,
       clerk_phase(s.current_stage) as phase, s.scraper, s.extra, k.clean_at,
       coalesce(c.status = 'processed', false) as compiled,
       case when d.status = 'processed' and d.processed_at >= c.processed_at
            then local.content_hash end as published_hash,
       local.content_hash is not null as published_here,
       case when local.withdrawn_at is null then local.content_hash end as shown_hash,
       (select count(*) from reconcile_log g
        where g.subdomain = s.subdomain and g.kind = %(run)s and g.error is null
          and g.at > clerk_now() - interval '1 day') as recent_storage_runs
from sites s
left join pipeline_runs r on r.run_id = s.run_id
left join storage_scans k on k.subdomain = s.subdomain
left join content_items a on a.subdomain = s.subdomain and a.kind = 'archive'
left join content_item_pipeline_state c on c.content_item_id = a.id and c.pipeline = 'compilation'
left join content_item_pipeline_state d on d.content_item_id = a.id and d.pipeline = 'deploy'
left join lateral (
    select p.content_hash, p.withdrawn_at from publications p
    join publication_steps t on t.publication_id = p.id and t.step = 'deploy' and t.name = 'local'
    where p.subdomain = s.subdomain order by p.id desc limit 1
) local on true
where (%(site)s::text is null or s.subdomain = %(site)s)
  -- Not while a run makes progress: its files are being written.
  and not (r.run_id is not null and r.ended_at is null and s.updated_at > clerk_now() - %(threshold)s::interval
           and s.subdomain <> all (%(repaired)s))
order by coalesce(k.attempted_at > coalesce(r.ended_at, s.updated_at), false), k.attempted_at nulls first, s.subdomain
limit %(limit)s
"""
_RECORD_ATTEMPT = """
insert into storage_scans (subdomain, attempted_at) select s.subdomain, clerk_now() from sites s where s.subdomain = %s
on conflict (subdomain) do update set attempted_at = excluded.attempted_at
"""
_RECORD_CLEAN_SCAN = """
update storage_scans k
set clean_at = scanned.at, full_scan_at = case when %(full)s then scanned.at else k.full_scan_at end
from unnest(%(sites)s::text[], %(times)s::timestamptz[]) scanned (subdomain, at)
where k.subdomain = scanned.subdomain
"""


Progress = Callable[[int, int], object]


@dataclass
class StorageScan:
    """One scan. Which sites it has scanned is recorded only if its plan is applied."""

    settings: Settings
    full: bool = False
    progress: Progress = lambda done, of: None
    clean: dict[str, datetime] = field(default_factory=dict)
    """Sites without findings → start of their scan. Files that change after it are hashed by the next scan."""

    def find(
        self,
        connection: Connection,
        site: str | None,
        threshold: timedelta,
        repaired: Collection[str] = (),
        dry_run: bool = True,
    ) -> list[Repair]:
        """Repairs of one site, of the sites that are next, or (`full`) of all.

        `repaired`: sites that this reconciliation has just changed, which therefore do not count as active.
        """
        try:
            unknown = storage_guard.require_storage(connection, self.settings)
        except StorageMissing as missing:
            return [storage_guard.report(missing)]
        repairs = [_unknown_site(name) for name in unknown] if site is None else []
        can_see_published = True
        try:
            storage_guard.require_publish_dir(connection, self.settings)
        except StorageMissing as missing:
            repairs.append(storage_guard.report(missing))
            can_see_published = False
        limit = None if self.full or site else _MAX_SITES
        sites = read_sites(connection, site, threshold, limit, repaired)
        deadline = time.monotonic() + _TIME_LIMIT
        for number, state in enumerate(sites, 1):
            if not dry_run:  # before the scan: one that hangs has had its turn as well
                connection.execute(_RECORD_ATTEMPT, [state.subdomain])
            started_at = engine.now(connection)
            of_site = check_site(connection, SiteCheck(state, self.settings, self.full, can_see_published))
            repairs += of_site
            if not of_site:
                self.clean[state.subdomain] = started_at
            self.progress(number, len(sites))
            if limit is not None and time.monotonic() > deadline:
                break
        return repairs

    def record(self, connection: Connection) -> None:
        sites, times = list(self.clean), list(self.clean.values())
        connection.execute(_RECORD_CLEAN_SCAN, {"sites": sites, "times": times, "full": self.full})


def read_sites(
    connection: Connection, site: str | None, threshold: timedelta, limit: int | None, repaired: Collection[str] = ()
) -> list[SiteState]:
    with connection.cursor(row_factory=class_row(SiteState)) as cursor:
        parameters = {"site": site, "threshold": threshold, "limit": limit, "run": RUN, "repaired": list(repaired)}
        return cursor.execute(_SITES, parameters).fetchall()


def check_site(connection: Connection, check: SiteCheck) -> list[Repair]:
    try:
        with check.snapshot():
            if sites_without_run.is_without_run(check):
                return sites_without_run.find(check)
            return [
                *untracked_documents.find(connection, check),
                *document_checks.find(connection, check),
                *archive_checks.find(check),
                *check.run(),
                *temp_files.find(check),
            ]
    except OSError as error:  # a failing disk or missing permissions, not a loss
        return [_unreadable(check, error)]


def _unreadable(check: SiteCheck, error: OSError) -> Repair:
    def fail(connection: Connection) -> bool:
        raise error

    return Repair(
        kind="storage-unreadable",
        subdomain=check.site.subdomain,
        run_id=check.site.run_id,
        stage=None,
        found=f"its files are not readable ({error})",
        action="nothing",
        why="unreadable files are not necessarily lost",
        apply=fail,
        immediate=True,
    )


def _unknown_site(name: str) -> Repair:
    return Repair.report(
        "unknown-site",
        name,
        "the storage has a folder of this name, but there is no such site",
        "only an operator can decide what it is",
        "nothing: add the site, or move the folder away",
    )
