"""Takes over a site that is in a stage and has no run: its counters were set by a script, by hand or by legacy clerk.

Its documents come from its folder, as `clerk migrate-stuck-sites` reads it: complete texts are counted, the rest is
processed. The counters of the site are only a claim, and are replaced.
"""

from __future__ import annotations

from psycopg.types.json import Jsonb

from clerk.documents.storage import SiteStorage
from clerk.legacy import migrate
from clerk.object_storage.path import ObjectPath
from clerk.pipeline import engine
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck

_KIND = "no-run"
_STAGES = {1: "fetch", 2: "ocr", 3: "extraction", 4: "deploy"}
_DEFER_UNITS = "select clerk_redefer_unit(content_item_id, stage) from orphaned_units where subdomain = %s"


def is_without_run(check: SiteCheck) -> bool:
    return check.site.run_id is None and check.site.phase is not None


def find(check: SiteCheck) -> list[Repair]:
    subdomain, stage = check.site.subdomain, _STAGES[check.site.phase or 1]
    found = f"it is in stage {stage} and has no run"
    root = check.settings.storage_dir
    if isinstance(root, ObjectPath):
        return [
            Repair.report(
                _KIND,
                subdomain,
                found,
                "its files are in a bucket, which legacy clerk did not have",
                "nothing: start a run with `clerk update`",
            )
        ]
    storage = SiteStorage(root, subdomain)
    stored = migrate.import_files(storage, dry_run=True)
    if not stored.is_complete:
        return [
            Repair.report(
                _KIND,
                subdomain,
                f"{found}; {stored.problems[0]}",
                "not all of its files can be used",
                "nothing: correct the files, or start a run with `clerk update`",
            )
        ]

    def take_over(connection: Connection) -> bool:
        migrate.require_pdf_tool()
        stored = migrate.import_files(storage, dry_run=False)
        if not stored.is_complete:
            raise OSError(stored.problems[0])
        documents = Jsonb([document.as_dict() for document in stored.documents])
        phase = stored.first_phase(stage)
        if engine.import_site(connection, subdomain, documents, phase, "counters without a run") is None:
            return False
        connection.execute(_DEFER_UNITS, [subdomain])
        engine.redefer_coordinator(connection, subdomain)
        return True

    statuses, total = stored.statuses, len(stored.documents)
    counted = (
        f"{statuses['processed']} of {total} documents on disk have their texts" if total else "no document is on disk"
    )
    return [
        Repair(
            kind=_KIND,
            subdomain=subdomain,
            run_id=None,
            stage=stage,
            found=f"{found}; {counted}",
            action="open a run, count these texts and continue" if total else "open a run that begins with fetch",
            why="its counters were set by a script, by hand or by legacy clerk",
            apply=take_over,
        )
    ]
