"""What the storage says against the books: which sites are looked at, and when it is better not to look at all.

Quick, with every reconciliation: a bounded number of sites, those first whose run ended since they were last looked
at, then the longest unlooked-at; files by existence, size and time, and by hash where in doubt. Whole: every site,
every file by its hash. A site in which nothing is found counts as looked at; any other is looked at again next time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from psycopg.rows import class_row

from clerk.config import Settings
from clerk.documents.names import is_subdomain
from clerk.errors import ClerkError
from clerk.reconcile import archives, documents, leftovers, strangers
from clerk.reconcile.look import RUN, Look, SiteFacts
from clerk.reconcile.repair import Connection, Repair

logger = logging.getLogger(__name__)

_SITES_AT_A_TIME = 200
_QUICK_SECONDS = 60.0
"""A quick look ends after so long; the sites that are left come first the next time."""

_SITES = """
select s.subdomain, s.run_id, coalesce(r.run_id is not null and r.ended_at is null, false) as going,
       clerk_phase(s.current_stage) as phase, s.scraper, s.extra, k.looked_at,
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
left join storage_looks k on k.subdomain = s.subdomain
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
  and not (r.run_id is not null and r.ended_at is null and s.updated_at > clerk_now() - %(threshold)s::interval)
order by coalesce(k.looked_at > coalesce(r.ended_at, s.updated_at), false), k.looked_at nulls first, s.subdomain
limit %(most)s
"""
_KNOWN = """
select s.subdomain, exists (
    select from content_items i
    left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
    where i.subdomain = s.subdomain and (i.sha256 is not null or l.status = 'processed')
)
from sites s
"""
_LOOKED = """
insert into storage_looks as k (subdomain, looked_at, whole_at)
select s.subdomain, clerk_now(), case when %(whole)s then clerk_now() end
from sites s where s.subdomain = any (%(sites)s)
on conflict (subdomain) do update set looked_at = excluded.looked_at, whole_at = coalesce(excluded.whole_at, k.whole_at)
"""


class StorageMissing(ClerkError):
    """Not one of the sites that have documents has a folder: a disk that is not mounted, more likely than a loss."""


Progress = Callable[[int, int], object]


@dataclass
class Comparison:
    """Of the storage with the books, once. What it found in order is recorded only if its plan is applied."""

    settings: Settings
    whole: bool = False
    progress: Progress = lambda done, of: None
    in_order: list[str] = field(default_factory=list)
    """Sites in whose files nothing was found."""

    def find(self, connection: Connection, site: str | None, threshold: timedelta) -> list[Repair]:
        """Repairs for one site, or for those whose turn it is, or (`whole`) for all, with the hash of every file."""
        try:
            strange = require_storage(connection, self.settings)
        except StorageMissing as missing:
            return [_refusal(missing)]
        repairs = [_unknown(name) for name in strange] if site is None else []
        most = None if self.whole or site else _SITES_AT_A_TIME
        sites = read_sites(connection, site, threshold, most)
        ends = time.monotonic() + _QUICK_SECONDS
        for number, facts in enumerate(sites, 1):
            found = look_at(connection, Look(facts, self.settings, self.whole))
            repairs += found
            if not found:
                self.in_order.append(facts.subdomain)
            self.progress(number, len(sites))
            if most is not None and time.monotonic() > ends:
                break
        return repairs

    def record(self, connection: Connection) -> None:
        connection.execute(_LOOKED, {"sites": self.in_order, "whole": self.whole})


def read_sites(connection: Connection, site: str | None, threshold: timedelta, most: int | None) -> list[SiteFacts]:
    with connection.cursor(row_factory=class_row(SiteFacts)) as cursor:
        asked = {"site": site, "threshold": threshold, "most": most, "run": RUN}
        return cursor.execute(_SITES, asked).fetchall()


def look_at(connection: Connection, look: Look) -> list[Repair]:
    try:
        return [
            *strangers.find(connection, look),
            *documents.find(connection, look),
            *archives.find(look),
            *look.run(),
            *leftovers.find(look),
        ]
    except OSError as error:  # not a loss: a disk that fails, rights
        return [_unreadable(look, error)]


def require_storage(connection: Connection, settings: Settings) -> list[str]:
    """Raises StorageMissing, or returns the folders of sites that nobody knows."""
    root = settings.storage_dir
    try:
        folders = {path.name for path in root.iterdir() if path.is_dir() and is_subdomain(path.name)}
    except FileNotFoundError:
        folders = set()
    except OSError as error:
        raise StorageMissing(f"storage cannot be read ({error}), and nothing was touched", "mend it") from error
    known = dict(connection.execute(_KNOWN).fetchall())
    stocked = {name for name, has_documents in known.items() if has_documents}
    if stocked and not stocked & folders:
        raise StorageMissing(
            f"storage is not there: none of {len(stocked)} sites with documents has a folder under {root},"
            " and nothing was touched",
            "mount it, or mend STORAGE_DIR",
        )
    return sorted(folders - known.keys())


def _refusal(missing: StorageMissing) -> Repair:
    def refuse(connection: Connection) -> bool:
        raise missing

    return Repair(
        kind="storage-missing",
        subdomain=None,
        run_id=None,
        stage=None,
        found=missing.what,
        do="nothing",
        why="a disk that is not mounted is more likely than a loss of everything",
        apply=refuse,
        at_once=True,
    )


def _unreadable(look: Look, error: OSError) -> Repair:
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
        at_once=True,
    )


def _unknown(name: str) -> Repair:
    logger.warning("the storage has a folder of the site %s, which the database does not know", name)
    return Repair(
        kind="unknown-site",
        subdomain=name,
        run_id=None,
        stage=None,
        found="the storage has its folder, the database does not know it",
        do="nothing: add the site, or move the folder away",
        why="only its operator knows what it is",
        apply=lambda connection: False,
        at_once=True,
    )
