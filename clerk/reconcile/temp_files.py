"""Deletes temporary files of processes that died."""

from __future__ import annotations

from clerk.documents import storage_scan
from clerk.documents.storage import relative_name
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck


def find(check: SiteCheck) -> list[Repair]:
    files = storage_scan.stale_temp_files(check.storage)
    if not files:
        return []

    def delete(connection: Connection) -> bool:
        remaining = storage_scan.stale_temp_files(check.storage)
        for path in remaining:
            path.unlink(missing_ok=True)
        return bool(remaining)

    first = relative_name(files[0], check.storage.folder)
    return [
        Repair(
            kind="temp-files",
            subdomain=check.site.subdomain,
            run_id=check.site.run_id,
            stage=None,
            found=f"{len(files)} temporary files are older than a day (first: {first})",
            action="delete them",
            why="the processes that wrote them died",
            apply=delete,
            immediate=True,
        )
    ]
