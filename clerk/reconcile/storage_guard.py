"""Is the storage there at all? A disk that is not mounted looks like the loss of everything, and is none."""

from __future__ import annotations

from pathlib import Path

from clerk.config import Settings
from clerk.documents.sanitize import is_subdomain
from clerk.errors import ClerkError
from clerk.reconcile.repair import Connection, Repair

STORAGE_MISSING = "storage-missing"
_KNOWN = """
select s.subdomain, exists (
    select from content_items i
    left join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'
    where i.subdomain = s.subdomain and (i.sha256 is not null or l.status = 'processed')
)
from sites s
"""
_PUBLISHED_HERE = """
select distinct p.subdomain from publications p
join publication_steps t on t.publication_id = p.id and t.step = 'deploy' and t.name = 'local'
"""


class StorageMissing(ClerkError):
    """Not one of the sites that have files has a folder: a disk that is not mounted, more likely than a loss."""

    code = "StorageMissing"


def require_storage(connection: Connection, settings: Settings) -> list[str]:
    """Raises StorageMissing, or returns the folders of sites that nobody knows."""
    folders = _folders(settings.storage_dir, "storage")
    known = dict(connection.execute(_KNOWN).fetchall())
    stocked = {name for name, has_documents in known.items() if has_documents}
    if stocked and not stocked & folders:
        raise StorageMissing(
            f"storage is not there: none of {len(stocked)} sites with documents has a folder under"
            f" {settings.storage_dir}, and nothing was touched",
            "mount it, or mend STORAGE_DIR",
        )
    return sorted(folders - known.keys())


def require_publish_dir(connection: Connection, settings: Settings) -> None:
    """Raises StorageMissing. Within the storage it is on the storage's disk, and was looked for there."""
    if settings.publish_dir.is_relative_to(settings.storage_dir):
        return
    published = {subdomain for (subdomain,) in connection.execute(_PUBLISHED_HERE)}
    if published and not published & _folders(settings.publish_dir, "the folder of published archives"):
        raise StorageMissing(
            f"the folder of published archives is not there: none of {len(published)} sites that were published has"
            f" a folder under {settings.publish_dir}, and nothing was touched",
            "mount it, or mend CLERK_PUBLISH_DIR",
        )


def _folders(root: Path, what: str) -> set[str]:
    try:
        return {path.name for path in root.iterdir() if path.is_dir() and is_subdomain(path.name)}
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise StorageMissing(f"{what} cannot be read ({error}), and nothing was touched", "mend it") from error


def report(missing: StorageMissing) -> Repair:
    return Repair.report(
        STORAGE_MISSING, None, str(missing), "a disk that is not mounted is more likely than a loss of everything"
    )
