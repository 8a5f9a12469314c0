"""What the storage says against the books: which sites are looked at, and when it is better not to look at all.

Quick, with every reconciliation: a bounded number of sites, those first whose run ended since they were last looked
at, then the longest unlooked-at; files by existence, size and time, and by hash where in doubt. Whole: every site,
every file by its hash. A site in which nothing was found is in order as of that look. Whatever was found, its turn is
over: sites whose trouble lasts do not keep the others from theirs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from psycopg.rows import class_row

from clerk.config import Settings
from clerk.pipeline import engine
from clerk.reconcile import archive_checks, document_checks, storage_guard, temp_files, untracked_documents
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import RUN, SiteCheck, SiteState
from clerk.reconcile.storage_guard import StorageMissing

_SITES_AT_A_TIME = 200
_QUICK_SECONDS = 60.0
"""A quick look ends after so long; the sites that are left come first the next time."""

_SITES = """
select s.subdomain, s.run_id, coalesce(r.run_id is not null and r.ended_at is null, false) as going,
       clerk_phase(s.current_stage) as phase, s.scraper, s.extra, k.clean_at,
       coalesce(c.status = 'processed', false) as compiled,
       case when d.status = 'processed' and d.processed_at >= c.processed_at
            then local.content_hash end as published_hash,
       local.content_hash is not null as published_here,
       case when local.withdrawn_at is null then local.content_hash end as shown_hash,
       (select count(*) from reconcile_log g
        where g.subdomain = s.subdomain and g.kind = %(run)s and g.error is null
          and g.at > clerk_now() - interval '1 day') as runs_of_ours
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
  -- A run that moved just now is alive: its files are being written.
  and not (r.run_id is not null and r.ended_at is null and s.updated_at > clerk_now() - %(threshold)s::interval
           and s.subdomain <> all (%(mended)s))
order by coalesce(k.attempted_at > coalesce(r.ended_at, s.updated_at), false), k.attempted_at nulls first, s.subdomain
limit %(most)s
"""
_TRIED = """
insert into storage_scans (subdomain, attempted_at) select s.subdomain, clerk_now() from sites s where s.subdomain = %s
on conflict (subdomain) do update set attempted_at = excluded.attempted_at
"""
_LOOKED = """
update storage_scans k
set clean_at = seen.at, full_scan_at = case when %(whole)s then seen.at else k.full_scan_at end
from unnest(%(sites)s::text[], %(times)s::timestamptz[]) seen (subdomain, at)
where k.subdomain = seen.subdomain
"""


Progress = Callable[[int, int], object]


@dataclass
class StorageScan:
    """Of the storage with the books, once. Only if its plan is to be applied it is recorded whose turn it was."""

    settings: Settings
    whole: bool = False
    progress: Progress = lambda done, of: None
    in_order: dict[str, datetime] = field(default_factory=dict)
    """Sites in whose files nothing was found → when we began to look: what changes after that is in doubt again."""

    def find(
        self,
        connection: Connection,
        site: str | None,
        threshold: timedelta,
        mended: Collection[str] = (),
        for_real: bool = False,
    ) -> list[Repair]:
        """Repairs for one site, or for those whose turn it is, or (`whole`) for all, with the hash of every file.

        `mended`: sites whose books have just been put right; that they moved does not mean that they are alive.
        """
        try:
            strange = storage_guard.require_storage(connection, self.settings)
        except StorageMissing as missing:
            return [storage_guard.report(missing)]
        repairs = [_unknown(name) for name in strange] if site is None else []
        can_see_published = True
        try:
            storage_guard.require_publish_dir(connection, self.settings)
        except StorageMissing as missing:
            repairs.append(storage_guard.report(missing))
            can_see_published = False
        most = None if self.whole or site else _SITES_AT_A_TIME
        sites = read_sites(connection, site, threshold, most, mended)
        ends = time.monotonic() + _QUICK_SECONDS
        for number, facts in enumerate(sites, 1):
            if for_real:  # before, not after: a look that never comes back has had its turn too
                connection.execute(_TRIED, [facts.subdomain])
            began = engine.now(connection)
            found = check_site(connection, SiteCheck(facts, self.settings, self.whole, can_see_published))
            repairs += found
            if not found:
                self.in_order[facts.subdomain] = began
            self.progress(number, len(sites))
            if most is not None and time.monotonic() > ends:
                break
        return repairs

    def record(self, connection: Connection) -> None:
        sites, times = list(self.in_order), list(self.in_order.values())
        connection.execute(_LOOKED, {"sites": sites, "times": times, "whole": self.whole})


def read_sites(
    connection: Connection, site: str | None, threshold: timedelta, most: int | None, mended: Collection[str] = ()
) -> list[SiteState]:
    with connection.cursor(row_factory=class_row(SiteState)) as cursor:
        asked = {"site": site, "threshold": threshold, "most": most, "run": RUN, "mended": list(mended)}
        return cursor.execute(_SITES, asked).fetchall()


def check_site(connection: Connection, look: SiteCheck) -> list[Repair]:
    try:
        return [
            *untracked_documents.find(connection, look),
            *document_checks.find(connection, look),
            *archive_checks.find(look),
            *look.run(),
            *temp_files.find(look),
        ]
    except OSError as error:  # not a loss: a disk that fails, rights
        return [_unreadable(look, error)]


def _unreadable(look: SiteCheck, error: OSError) -> Repair:
    def give_up(connection: Connection) -> bool:
        raise error

    return Repair(
        kind="storage-unreadable",
        subdomain=look.site.subdomain,
        run_id=look.site.run_id,
        stage=None,
        found=f"its files cannot be read ({error})",
        do="nothing",
        why="what cannot be read is not lost yet",
        apply=give_up,
        immediate=True,
    )


def _unknown(name: str) -> Repair:
    return Repair.report(
        "unknown-site",
        name,
        "the storage has its folder, the database does not know it",
        "only its operator knows what it is",
        "nothing: add the site, or move the folder away",
    )
