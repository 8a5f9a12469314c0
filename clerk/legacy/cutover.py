"""`clerk legacy redis`: empties the queues of legacy clerk. Waiting jobs become runs; jobs that cannot run are removed.

Order: write the removed jobs to a file, start the runs, change Redis. After an interruption the command can be
repeated: a site with an active run gets no second one.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clerk.db.audit import log_action
from clerk.documents.storage import atomic_write
from clerk.errors import EXIT_USAGE, ClerkError, RunInProgress
from clerk.legacy import migrate, rq, tables
from clerk.legacy.rq import DEFERRED, FAILED, LegacyJob
from clerk.legacy.tables import Connection, LegacyRow
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
"""Functions of legacy clerk's site jobs."""
_REASON = "waiting in the queue of legacy clerk"


class WorkersAlive(ClerkError):
    """RQ workers would run jobs while they are being removed."""

    code = "WorkersAlive"


class RemovedFileExists(ClerkError):
    """The file may be the only record of jobs that were removed earlier."""

    code = "RemovedFileExists"
    exit_code = EXIT_USAGE


class RemovedFileNotWritable(ClerkError):
    """The removed jobs cannot be recorded, so none is removed."""

    code = "RemovedFileNotWritable"


class InvalidRemovedFile(ClerkError):
    """The file was not written by the cut-over."""

    code = "InvalidRemovedFile"
    exit_code = EXIT_USAGE


@dataclass
class Plan:
    cancel: list[LegacyJob] = field(default_factory=list)
    """Deferred coordinators: they depend on a failed job and would wait forever."""
    delete: list[LegacyJob] = field(default_factory=list)
    """Failed OCR jobs: the import enters their documents into the ledger, or the next fetch does."""
    convert: dict[str, list[LegacyJob]] = field(default_factory=dict)
    """Site → its jobs that become a run."""
    left: list[tuple[LegacyJob, str]] = field(default_factory=list)
    """Jobs that stay in Redis, with the reason."""
    problems: list[str] = field(default_factory=list)
    """Queues and registries that cannot be read."""

    @property
    def removed(self) -> list[LegacyJob]:
        return [*self.cancel, *self.delete, *(job for jobs in self.convert.values() for job in jobs)]

    @property
    def left_reasons(self) -> dict[str, int]:
        return dict(Counter(f"{job.queue} {job.status}: {reason}" for job, reason in self.left).most_common())

    @property
    def expected_result(self) -> CutoverResult:
        return CutoverResult(
            len(self.cancel), len(self.delete), {site: len(jobs) for site, jobs in self.convert.items()}
        )

    @property
    def problem_jobs(self) -> list[ProblemJob]:
        return [ProblemJob.of(job, job.problem) for job, _ in self.left if job.problem]


@dataclass(frozen=True)
class ProblemJob:
    """A job that could not be handled as planned."""

    id: str
    queue: str
    status: str
    problem: str

    @classmethod
    def of(cls, job: LegacyJob, problem: str) -> ProblemJob:
        return cls(job.id, job.queue, job.status, problem)

    def __str__(self) -> str:
        return f"{self.queue} {self.status}, job {self.id}: {self.problem}"


@dataclass
class CutoverResult:
    """The result of applying a plan."""

    cancelled: int = 0
    deleted: int = 0
    converted: dict[str, int] = field(default_factory=dict)
    """Site → number of its jobs that became a run."""
    runs: dict[str, int | None] = field(default_factory=dict)
    """Site → its run; None if no run could be started, and its jobs stay in Redis."""
    deleted_instead: list[ProblemJob] = field(default_factory=list)
    """Coordinators that RQ could not cancel, so they were deleted."""
    not_removed: list[ProblemJob] = field(default_factory=list)
    """Jobs that could not be removed."""

    @property
    def is_complete(self) -> bool:
        return not self.not_removed and None not in self.runs.values()


def make_plan(connection: Redis, sites: set[str]) -> Plan:
    listed = rq.list_jobs(connection)
    plan = Plan(problems=listed.problems)
    for job in rq.read_jobs(connection, listed):
        if job.problem:
            plan.left.append((job, job.problem))
        elif job.function not in SITE_JOBS:
            plan.left.append((job, f"{job.function} does not belong to a stage of clerk"))
        elif job.status == DEFERRED and job.function in COORDINATORS:
            plan.cancel.append(job)
        elif job.status == FAILED and job.function in OCR:
            plan.delete.append(job)
        elif job.status == FAILED:
            plan.left.append((job, f"{job.function} failed; the site's next run repeats it"))
        elif job.site is None:
            plan.left.append((job, "it names no site"))
        elif job.site not in sites:
            plan.left.append((job, f"no site {job.site!r} in the table"))
        else:
            plan.convert.setdefault(job.site, []).append(job)
    return plan


def require_no_workers(connection: Redis) -> None:
    if alive := rq.list_workers(connection):
        shown = ", ".join(alive[:3]) + (", …" if len(alive) > 3 else "")
        raise WorkersAlive(
            f"{len(alive)} legacy clerk workers are alive ({shown})",
            "stop them (Redis forgets a killed worker after some minutes), or add --force",
        )


def apply(redis: Redis, connection: Connection, root: Path, plan: Plan, file: Path) -> CutoverResult:
    result = CutoverResult()
    if not plan.removed:
        return result
    if file.exists():
        raise RemovedFileExists(f"{file} already exists", "name another file for the removed jobs")
    rows = {row.subdomain: row for row in tables.read(connection).sites}
    if plan.convert:
        migrate.require_folders(root, rows.values())
    save(file, plan.removed)
    result.runs = {site: _start_run(connection, root, rows[site]) for site in plan.convert}
    cancel_errors = {job.id: error for job in plan.cancel if (error := rq.cancel(redis, job))}
    not_cancelled = [job for job in plan.cancel if job.id in cancel_errors]
    converted = [job for site, jobs in plan.convert.items() if result.runs[site] for job in jobs]
    to_delete = [*not_cancelled, *plan.delete, *converted]
    failed = rq.delete(redis, to_delete)
    result.deleted_instead = [
        ProblemJob.of(job, f"RQ cannot cancel it ({cancel_errors[job.id]}): deleted")
        for job in not_cancelled
        if job.id not in failed
    ]
    result.not_removed = [ProblemJob.of(job, failed[job.id]) for job in to_delete if job.id in failed]
    result.cancelled = sum(job.id not in failed for job in plan.cancel)
    result.deleted = sum(job.id not in failed for job in plan.delete)
    result.converted = {site: len(plan.convert[site]) for site, run in result.runs.items() if run}
    log_action(
        connection,
        "empty Redis",
        file=str(file.absolute()),
        cancelled=result.cancelled,
        deleted=result.deleted,
        converted=sum(result.converted.values()),
    )
    return result


def _start_run(connection: Connection, root: Path, row: LegacyRow) -> int | None:
    """Import the site's documents, then start its run. Without the import the run would process them again."""
    migrated = migrate.migrate_site(connection, root, row)
    if migrated.skipped:
        return None
    if migrated.run_id is not None:
        return migrated.run_id
    try:
        return engine.start_run(connection, row.subdomain, _REASON)
    except RunInProgress:
        return _current_run(connection, row.subdomain)


def _current_run(connection: Connection, subdomain: str) -> int | None:
    row = connection.execute("select run_id from sites where subdomain = %s", [subdomain]).fetchone()
    return row[0] if row else None


def save(file: Path, jobs: list[LegacyJob]) -> None:
    try:
        with atomic_write(file) as output:
            for job in jobs:
                output.write(json.dumps(job.as_dict(), default=str).encode() + b"\n")
    except OSError as error:
        raise RemovedFileNotWritable(
            f"{file} cannot be written ({error.strerror}), so nothing was removed", "name another file"
        ) from error


def load(file: Path) -> list[LegacyJob]:
    try:
        # Not splitlines(): it also splits at characters inside JSON strings, such as U+2028.
        return [_load_job(json.loads(line)) for line in file.read_text("utf-8").split("\n") if line]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InvalidRemovedFile(
            f"{file} cannot be read ({error})", "name the file that `clerk legacy redis` wrote"
        ) from error


def _load_job(fields: dict[str, Any]) -> LegacyJob:
    if fields["status"] not in rq.STATUSES:
        raise ValueError(f"{str(fields['status'])[:50]!r} is not a status")
    created_at = fields["created_at"]
    return LegacyJob(**{**fields, "created_at": datetime.fromisoformat(created_at) if created_at else None})
