"""Checks of a site's meetings.db, and of the copy published by the deployer `local`."""

from __future__ import annotations

from clerk.archive import integrity
from clerk.publish.versions import SiteVersions
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck

_LOCAL_DEPLOYER = "local"


def find(check: SiteCheck) -> list[Repair]:
    if check.site.is_active:
        return []
    repairs = []
    if check.site.compiled and (problem := compiled_problem(check)) is not None:
        check.require_run(3)
        repairs.append(_repair(check, "archive-lost", "compilation", problem, "compile it again from the page texts"))
    is_local = check.site.published_here and check.can_see_published and _deploys_locally(check)
    if is_local and (problem := published_problem(check)) is not None:
        check.require_run(4)
        repairs.append(_repair(check, "publication-lost", "deploy", problem, "publish it again"))
    return repairs


def compiled_problem(check: SiteCheck) -> str | None:
    path = check.storage.database
    content_hash = check.site.published_hash if _deploys_locally(check) else None
    problem = integrity.find_problem(path, content_hash, check.needs_hash(path))
    return problem and f"meetings.db {problem}"


def published_problem(check: SiteCheck) -> str | None:
    published = SiteVersions(check.settings.publish_dir, check.site.subdomain)
    problem = published.find_problem(check.site.shown_hash, check.needs_hash(published.database))
    return problem and f"the published copy {problem}"


def _deploys_locally(check: SiteCheck) -> bool:
    deployers = check.site.extra_values.get("deploy")
    return (
        deployers is None
        or deployers == _LOCAL_DEPLOYER
        or (isinstance(deployers, list) and _LOCAL_DEPLOYER in deployers)
    )


def _repair(check: SiteCheck, kind: str, stage: str, problem: str, action: str) -> Repair:
    def add_reason(connection: Connection) -> bool:
        check.reasons.append(problem)
        return True

    return Repair(
        kind=kind,
        subdomain=check.site.subdomain,
        run_id=check.site.run_id,
        stage=stage,
        found=problem,
        action=action,
        why="the database says that it exists",
        apply=add_reason,
        immediate=True,
    )
