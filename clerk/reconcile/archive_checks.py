"""A site's meetings.db, and the copy of it that the deployer `local` published."""

from __future__ import annotations

from clerk.archive import integrity
from clerk.publish.versions import DATABASE, SiteVersions
from clerk.reconcile.repair import Connection, Repair
from clerk.reconcile.site_check import SiteCheck

_LOCAL = "local"


def find(look: SiteCheck) -> list[Repair]:
    if look.site.going:
        return []
    repairs = []
    if look.site.compiled and (problem := compiled_problem(look)) is not None:
        look.wants_run(3)
        repairs.append(_repair(look, "archive-lost", "compilation", problem, "compiled again from the page texts"))
    is_here = look.site.published_here and look.can_see_published and _is_local(look)
    if is_here and (problem := published_problem(look)) is not None:
        look.wants_run(4)
        repairs.append(_repair(look, "publication-lost", "deploy", problem, "published again"))
    return repairs


def compiled_problem(look: SiteCheck) -> str | None:
    path = look.storage.database
    content_hash = look.site.published_hash if _is_local(look) else None
    problem = integrity.find_problem(path, content_hash, look.is_in_doubt(path))
    return problem and f"meetings.db {problem}"


def published_problem(look: SiteCheck) -> str | None:
    published = SiteVersions(look.settings.publish_dir, look.site.subdomain)
    problem = published.find_problem(look.site.shown_hash, look.is_in_doubt(published.link / DATABASE))
    return problem and f"the published copy {problem}"


def _is_local(look: SiteCheck) -> bool:
    wanted = look.site.extra_values.get("deploy")
    return wanted is None or wanted == _LOCAL or (isinstance(wanted, list) and _LOCAL in wanted)


def _repair(look: SiteCheck, kind: str, stage: str, problem: str, do: str) -> Repair:
    def note(connection: Connection) -> bool:
        look.reasons.append(problem)
        return True

    return Repair(
        kind=kind,
        subdomain=look.site.subdomain,
        run_id=look.site.run_id,
        stage=stage,
        found=problem,
        do=do,
        why="the books say that it is there",
        apply=note,
        immediate=True,
    )
