"""What an operator wants to know before the cut-over: the database, the disk and the Redis, and where they disagree."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clerk.documents.sanitize import is_subdomain
from clerk.errors import ClerkError
from clerk.legacy import disk, rq, tables
from clerk.legacy.disk import OldSite
from clerk.legacy.tables import Connection, OldTables


@dataclass
class Disk:
    root: str
    sites: int
    documents: int
    text_files: int
    holding: dict[str, int]
    """text, pdf or nothing → documents"""


@dataclass
class Inspection:
    database: dict[str, Any]
    disk: Disk
    redis: dict[str, Any] | None
    """None: not asked for. With `problem` and nothing else: it could not be looked at."""
    disagreements: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(connection: Connection, root: Path, redis_url: str | None) -> Inspection:
    """What cannot be looked at is a finding like any other, and the rest is reported all the same."""
    found = tables.read(connection)
    problems = [] if (missing := disk.missing_program()) is None else [f"{missing}; pages of PDFs were not counted"]
    try:
        on_disk = {name: disk.scan(root / name) for name in disk.site_folders(root)}
    except OSError as error:
        on_disk = {}
        if found.sites or not isinstance(error, FileNotFoundError):
            problems.append(f"{root} cannot be read ({error.strerror})")
    return Inspection(
        _database(found), _disk(root, on_disk), _redis(redis_url), problems + _disagreements(found, on_disk)
    )


def _redis(url: str | None) -> dict[str, Any] | None:
    if url is None:
        return None
    try:
        with rq.connect(url) as connected:
            rq.require_rq(connected)
            return rq.summary(connected)
    except ClerkError as error:
        return {"problem": str(error)}


def _database(found: OldTables) -> dict[str, Any]:
    return {
        "form": found.form,
        "about": tables.FORMS[found.form],
        "alembic_revision": found.revision,
        "sites": len(found.sites),
        "stuck": len(found.stuck),
        "stuck_by": {who: found.stuck_by(who) for who in ("site_progress", "current_stage", "status")},
        "job_tracking": found.job_tracking,
    }


def _disk(root: Path, sites: dict[str, OldSite]) -> Disk:
    documents = [document for site in sites.values() for document in site.documents]
    holding = Counter(str(document.holding()[0]) for document in documents)
    return Disk(str(root), len(sites), len(documents), sum(site.text_files for site in sites.values()), dict(holding))


def _disagreements(found: OldTables, on_disk: dict[str, OldSite]) -> list[str]:
    said = [f"{name}: in site_progress, and not in sites" for name in found.progress_of_no_site]
    for site in found.sites:
        if site.is_ours:
            continue
        words = {**site.words}
        if site.progress and not site.progress.is_going and words:
            words["site_progress"] = site.progress.stage or "nothing"
        if site.words and "status" not in words and site.status:
            words["status"] = site.status
        if len(set(words.values())) > 1:
            said.append(f"{site.subdomain}: " + ", ".join(f"{who} says {word}" for who, word in words.items()))
        if not is_subdomain(site.subdomain):
            said.append(f"{site.subdomain}: a name that cannot be a folder here")
        elif site.subdomain not in on_disk:
            said.append(f"{site.subdomain}: in the table, and not on disk")
    known = {site.subdomain for site in found.sites}
    said += [f"{disk.shown(name)}: on disk, and not in the table" for name in on_disk if name not in known]
    said += [f"{disk.shown(name)}: {problem}" for name, site in on_disk.items() for problem in site.problems]
    return said
