"""`clerk legacy inspect`: the contents of the database, the disk and the Redis, and where they disagree."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from clerk.documents.sanitize import is_subdomain
from clerk.errors import ClerkError
from clerk.legacy import disk, rq, tables
from clerk.legacy.disk import LegacySite
from clerk.legacy.tables import Connection, LegacyTables


@dataclass
class Disk:
    root: str
    sites: int
    documents: int
    text_files: int
    states: dict[str, int]
    """text, pdf or nothing → number of documents"""


@dataclass
class LegacyInspection:
    database: dict[str, Any]
    disk: Disk
    redis: dict[str, Any] | None
    """None: REDIS_URL is not set. Only the key `problem`: it cannot be read."""
    disagreements: list[str]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(connection: Connection, root: Path, redis_url: str | None) -> LegacyInspection:
    """Compare the database, the disk and Redis. What cannot be read is listed among the disagreements."""
    legacy = tables.read(connection)
    problems = [] if (missing := disk.missing_pdf_tool()) is None else [f"{missing}; pages of PDFs were not counted"]
    try:
        on_disk = {name: disk.scan(root / name) for name in disk.list_site_folders(root)}
    except OSError as error:
        on_disk = {}
        if legacy.sites or not isinstance(error, FileNotFoundError):
            problems.append(f"{root} cannot be read ({error.strerror})")
    return LegacyInspection(
        _database(legacy), _disk(root, on_disk), _redis(redis_url), problems + _disagreements(legacy, on_disk)
    )


def _redis(url: str | None) -> dict[str, Any] | None:
    if url is None:
        return None
    try:
        with rq.connect(url) as connected:
            rq.require_rq(connected)
            return rq.summarize(connected)
    except ClerkError as error:
        return {"problem": str(error)}


def _database(legacy: LegacyTables) -> dict[str, Any]:
    return {
        "variant": legacy.variant,
        "description": tables.VARIANTS[legacy.variant],
        "alembic_revision": legacy.revision,
        "sites": len(legacy.sites),
        "stuck": len(legacy.stuck),
        "stuck_by": {source: legacy.stuck_by(source) for source in ("site_progress", "current_stage", "status")},
        "job_tracking": legacy.job_tracking,
    }


def _disk(root: Path, sites: dict[str, LegacySite]) -> Disk:
    documents = [document for site in sites.values() for document in site.documents]
    states = Counter(str(document.state()[0]) for document in documents)
    return Disk(str(root), len(sites), len(documents), sum(site.text_files for site in sites.values()), dict(states))


def _disagreements(legacy: LegacyTables, on_disk: dict[str, LegacySite]) -> list[str]:
    lines = [f"{name}: in site_progress, but not in sites" for name in legacy.orphaned_progress]
    for site in legacy.sites:
        if site.has_run:
            continue
        stages = {**site.stages}
        if site.progress and not site.progress.is_running and stages:
            stages["site_progress"] = site.progress.stage or "nothing"
        if site.stages and "status" not in stages and site.status:
            stages["status"] = site.status
        if len(set(stages.values())) > 1:
            lines.append(f"{site.subdomain}: " + ", ".join(f"{source} is {stage}" for source, stage in stages.items()))
        if not is_subdomain(site.subdomain):
            lines.append(f"{site.subdomain}: its name cannot be a folder name")
        elif site.subdomain not in on_disk:
            lines.append(f"{site.subdomain}: in the table, but not on disk")
    known = {site.subdomain for site in legacy.sites}
    lines += [f"{disk.printable(name)}: on disk, but not in the table" for name in on_disk if name not in known]
    lines += [f"{disk.printable(name)}: {problem}" for name, site in on_disk.items() for problem in site.problems]
    return lines
