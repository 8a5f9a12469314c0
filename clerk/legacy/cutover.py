"""Empties the older system's queues: what can be done again becomes runs here, what never will be is removed.

First what is removed is written to a file, then runs are started, then Redis is changed: whoever is cut short
repeats it, and a site that has a run going gets no second one.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clerk.db.audit import log_action
from clerk.documents.storage import atomic_write
from clerk.errors import EXIT_USAGE, ClerkError, RunInProgress
from clerk.legacy import migrate, rq, tables
from clerk.legacy.rq import DEFERRED, FAILED, OldJob
from clerk.legacy.tables import Connection, OldRow
from clerk.pipeline import engine

if TYPE_CHECKING:
    from redis import Redis

COORDINATORS = {"ocr_complete_coordinator"}
OCR = {"ocr_page_job", "ocr_document_job"}
SITE_JOBS = {
    "fetch_site_job",
    *OCR,
    *COORDINATORS,
    "compile_db_job",
    "db_compilation_job",
    "extract_entities_job",
    "deploy_job",
}
"""What the older system did for a site."""
_REASON = "waited in the older system's queue"


class WorkersAlive(ClerkError):
    """RQ workers would go on with jobs that are being taken away."""

    code = "WorkersAlive"


class FileThere(ClerkError):
    """It may be the only record of what an earlier run removed."""

    code = "FileThere"
    exit_code = EXIT_USAGE


class FileRefused(ClerkError):
    """What is removed has to be on record first."""

    code = "FileRefused"


class RemovedUnreadable(ClerkError):
    """The file is not one that the cut-over wrote."""

    code = "RemovedUnreadable"
    exit_code = EXIT_USAGE


@dataclass
class Plan:
    cancel: list[OldJob] = field(default_factory=list)
    """Coordinators that wait for a failed job for ever."""
    delete: list[OldJob] = field(default_factory=list)
    """Failed OCR jobs: their documents are in the ledger, or will be fetched."""
    turn: dict[str, list[OldJob]] = field(default_factory=dict)
    """Site → its jobs that become a run."""
    left: list[tuple[OldJob, str]] = field(default_factory=list)
    """What stays in Redis, and why."""
    problems: list[str] = field(default_factory=list)
    """Places that cannot be read."""

    @property
    def removed(self) -> list[OldJob]:
        return [*self.cancel, *self.delete, *(job for found in self.turn.values() for job in found)]

    @property
    def why_left(self) -> dict[str, int]:
        return dict(Counter(f"{job.queue} {job.place}: {why}" for job, why in self.left).most_common())

    @property
    def as_if_done(self) -> Done:
        return Done(len(self.cancel), len(self.delete), {site: len(jobs) for site, jobs in self.turn.items()})

    @property
    def odd(self) -> list[ProblemJob]:
        return [ProblemJob.of(job, job.problem) for job, _ in self.left if job.problem]


@dataclass(frozen=True)
class ProblemJob:
    """A job that could not be dealt with as it should have been: by name, since somebody may want to look."""

    id: str
    queue: str
    place: str
    problem: str

    @classmethod
    def of(cls, job: OldJob, problem: str) -> ProblemJob:
        return cls(job.id, job.queue, job.place, problem)

    def __str__(self) -> str:
        return f"{self.queue} {self.place}, job {self.id}: {self.problem}"


@dataclass
class Done:
    """What became of a plan."""

    cancelled: int = 0
    deleted: int = 0
    turned: dict[str, int] = field(default_factory=dict)
    """Site → how many of its jobs became a run."""
    runs: dict[str, int | None] = field(default_factory=dict)
    """Site → its run; None where one cannot be started, and its jobs stay."""
    odd: list[ProblemJob] = field(default_factory=list)
    """What was dealt with in another way."""
    stayed: list[ProblemJob] = field(default_factory=list)
    """What is still there although it should not be."""

    @property
    def is_whole(self) -> bool:
        return not self.stayed and None not in self.runs.values()


def make_plan(connection: Redis, sites: set[str]) -> Plan:
    listed = rq.listing(connection)
    plan = Plan(problems=listed.problems)
    for job in rq.jobs(connection, listed):
        if job.problem:
            plan.left.append((job, job.problem))
        elif job.function not in SITE_JOBS:
            plan.left.append((job, f"{job.function} is none of clerk's stages"))
        elif job.place == DEFERRED and job.function in COORDINATORS:
            plan.cancel.append(job)
        elif job.place == FAILED and job.function in OCR:
            plan.delete.append(job)
        elif job.place == FAILED:
            plan.left.append((job, f"{job.function} failed; the site's next run does it again"))
        elif job.site is None:
            plan.left.append((job, "it names no site"))
        elif job.site not in sites:
            plan.left.append((job, f"no site {job.site!r} in the table"))
        else:
            plan.turn.setdefault(job.site, []).append(job)
    return plan


def require_no_workers(connection: Redis) -> None:
    if alive := rq.workers(connection):
        shown = ", ".join(alive[:3]) + (", …" if len(alive) > 3 else "")
        raise WorkersAlive(
            f"{len(alive)} workers of the older system are alive ({shown})",
            "stop them first (a worker that was killed is forgotten after some minutes), or add --force",
        )


def apply(redis: Redis, connection: Connection, root: Path, plan: Plan, file: Path) -> Done:
    done = Done()
    if not plan.removed:
        return done
    if file.exists():
        raise FileThere(f"{file} is there already", "name another file for what is removed now")
    rows = {row.subdomain: row for row in tables.read(connection).sites}
    if plan.turn:
        migrate.require_folders(root, rows.values())
    save(file, plan.removed)
    done.runs = {site: _run_for(connection, root, rows[site]) for site in plan.turn}
    instead = {job.id: why for job in plan.cancel if (why := rq.cancel(redis, job))}
    uncancelled = [job for job in plan.cancel if job.id in instead]
    turned = [job for site, found in plan.turn.items() if done.runs[site] for job in found]
    doomed = [*uncancelled, *plan.delete, *turned]
    failed = rq.delete(redis, doomed)
    done.odd = [
        ProblemJob.of(job, f"RQ cannot cancel it ({instead[job.id]}): deleted")
        for job in uncancelled
        if job.id not in failed
    ]
    done.stayed = [ProblemJob.of(job, failed[job.id]) for job in doomed if job.id in failed]
    done.cancelled = sum(job.id not in failed for job in plan.cancel)
    done.deleted = sum(job.id not in failed for job in plan.delete)
    done.turned = {site: len(plan.turn[site]) for site, run in done.runs.items() if run}
    log_action(
        connection,
        "empty Redis",
        file=str(file.absolute()),
        cancelled=done.cancelled,
        deleted=done.deleted,
        turned=sum(done.turned.values()),
    )
    return done


def _run_for(connection: Connection, root: Path, row: OldRow) -> int | None:
    """Its documents first: a run that does not know them would read them again."""
    migrated = migrate.migrate_site(connection, root, row)
    if migrated.skipped:
        return None
    if migrated.run_id is not None:
        return migrated.run_id
    try:
        return engine.start_run(connection, row.subdomain, _REASON)
    except RunInProgress:
        return _present_run(connection, row.subdomain)


def _present_run(connection: Connection, subdomain: str) -> int | None:
    row = connection.execute("select run_id from sites where subdomain = %s", [subdomain]).fetchone()
    return row[0] if row else None


def save(file: Path, jobs: list[OldJob]) -> None:
    try:
        with atomic_write(file) as output:
            for job in jobs:
                output.write(json.dumps(job.as_dict(), default=str).encode() + b"\n")
    except OSError as error:
        raise FileRefused(
            f"{file} cannot be written ({error.strerror}), so nothing was removed", "name another file"
        ) from error


def load(file: Path) -> list[OldJob]:
    try:
        # Not splitlines(): it also splits on what may stand inside a JSON string, such as U+2028.
        return [_job(json.loads(line)) for line in file.read_text("utf-8").split("\n") if line]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise RemovedUnreadable(
            f"{file} cannot be read ({error})", "name the file that `clerk legacy redis` wrote"
        ) from error


def _job(found: dict[str, Any]) -> OldJob:
    time: Callable[[str], datetime] = datetime.fromisoformat
    if found["place"] not in rq.PLACES:
        raise ValueError(f"there is no place {str(found['place'])[:50]!r}")
    return OldJob(**{**found, "created_at": time(found["created_at"]) if found["created_at"] else None})
