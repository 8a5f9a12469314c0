"""Temporary files that dead processes left."""

from __future__ import annotations

from clerk.documents import storage_scan
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck


def find(look: SiteCheck) -> list[Repair]:
    found = storage_scan.stale_temp_files(look.storage)
    if not found:
        return []

    def remove(connection: Connection) -> bool:
        left = storage_scan.stale_temp_files(look.storage)
        for path in left:
            path.unlink(missing_ok=True)
        return bool(left)

    first = found[0].relative_to(look.storage.folder)
    return [
        Repair(
            kind="left-behind",
            subdomain=look.site.subdomain,
            run_id=look.site.run_id,
            stage=None,
            found=f"{len(found)} temporary files are older than a day (the first: {first})",
            do="removed",
            why="their processes died",
            apply=remove,
            immediate=True,
        )
    ]
