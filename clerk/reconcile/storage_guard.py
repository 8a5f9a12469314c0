"""Detects missing storage: an unmounted disk looks like the loss of every file."""

from __future__ import annotations

from pathlib import Path

from clerk.config import Settings
from clerk.documents.sanitize import is_subdomain
from clerk.errors import ClerkError
from clerk.object_storage.path import ObjectPath, StoragePath
from clerk.reconcile.repair import Connection, Repair

STORAGE_MISSING = "storage-missing"
_SITES = """
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
    """None of the sites that have files has a folder: more likely an unmounted disk than a loss."""

    code = "StorageMissing"


def require_storage(connection: Connection, settings: Settings) -> list[str]:
    """Raise StorageMissing, or return the folders that belong to no site."""
    folders = _folders(settings.storage_dir, "storage")
    known = dict(connection.execute(_SITES).fetchall())
    with_documents = {name for name, has_documents in known.items() if has_documents}
    if with_documents and not with_documents & folders:
        raise StorageMissing(
            f"the storage is missing: none of {len(with_documents)} sites with documents has a folder under"
            f" {settings.storage_dir}; nothing was changed",
            _mount(settings.storage_dir) + "correct STORAGE_DIR",
        )
    return sorted(folders - known.keys())


def require_publish_dir(connection: Connection, settings: Settings) -> None:
    """Raise StorageMissing if the folder is missing. Inside the storage folder it was checked with that."""
    if _is_below(settings.publish_dir, settings.storage_dir):
        return
    published = {subdomain for (subdomain,) in connection.execute(_PUBLISHED_HERE)}
    if published and not published & _folders(settings.publish_dir, "the folder of published archives"):
        raise StorageMissing(
            f"the folder of published archives is missing: none of {len(published)} published sites has a folder under"
            f" {settings.publish_dir}; nothing was changed",
            _mount(settings.publish_dir) + "correct CLERK_PUBLISH_DIR",
        )


def _mount(root: StoragePath) -> str:
    return "mount it, or " if isinstance(root, Path) else ""


def _is_below(folder: StoragePath, root: StoragePath) -> bool:
    if isinstance(folder, ObjectPath):
        return folder.is_relative_to(root)
    return isinstance(root, Path) and folder.is_relative_to(root)


def _folders(root: StoragePath, what: str) -> set[str]:
    try:
        if isinstance(root, ObjectPath):
            return {name for name in root.folder_names() if is_subdomain(name)}
        return {path.name for path in root.iterdir() if path.is_dir() and is_subdomain(path.name)}
    except FileNotFoundError:
        return set()
    except OSError as error:
        is_folder = isinstance(root, Path)
        remedy = "check disk and permissions" if is_folder else "check its address, credentials and the network"
        raise StorageMissing(f"{what} is not readable ({error}); nothing was changed", remedy) from error


def report(missing: StorageMissing) -> Repair:
    why = "a wrong setting or a missing disk is more likely than a loss of every file"
    return Repair.report(STORAGE_MISSING, None, missing.what, why, missing.remedy)
