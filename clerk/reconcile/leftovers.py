"""Temporary files that dead processes left."""

from __future__ import annotations

from clerk.documents import shelf
from clerk.reconcile.look import Look
from clerk.reconcile.repair import Connection, Repair


def find(look: Look) -> list[Repair]:
    found = shelf.left_behind(look.storage)
    if not found:
        return []

    def remove(connection: Connection) -> bool:
        left = shelf.left_behind(look.storage)
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
            at_once=True,
        )
    ]
