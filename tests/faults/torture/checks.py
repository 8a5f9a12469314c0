"""Checks after a torture run: the invariants, the record of the senders, and the archives of an undisturbed run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from clerk.archive.content_hash import hash_content, open_readonly
from clerk.documents.storage import SiteStorage
from clerk.object_storage.path import StoragePath
from clerk.pipeline.engine import STAGES
from clerk.publish.versions import DATABASE, SiteVersions
from tests.faults.torture.app import PLANNED_ERROR
from tests.faults.torture.environment import Session, Storage, is_worker

LOST, DOUBLED, STUCK, FAILED, INCONSISTENT = "lost", "doubled", "stuck", "failed because of faults", "inconsistent"
_BY_OPERATOR = {"RunCancelled", "Superseded", "JobCancelled", "JobDeleted", "JobAborted"}
_DEFECTS = ("claim", "run", "unit", "counters", "missing-units", "abandoned")
"""Repairs of states that no fault may cause."""

_NOT_ADVANCED = """
select t.run_id, t.phase
from pipeline_transitions t
join pipeline_runs r using (run_id)
left join faults.advance a using (run_id, phase)
where r.outcome <> 'cancelled' and (a.run_id is null or t.advanced_at is null)
"""
# A unit ends once per run, and once more for each time that it was reopened.
_ENDED_TWICE = """
select content_item_id, stage, run_id
from faults.settled
group by 1, 2, 3
having count(*) filter (where faults.is_end(became) and not faults.is_end(was))
    > 1 + count(*) filter (where faults.is_end(was) and not faults.is_end(became))
"""


@dataclass(frozen=True)
class Violation:
    kind: str
    problem: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.problem}"


@dataclass(frozen=True)
class _Result:
    job: int
    attempt: int
    status: str
    was: str
    sender: str
    sent_attempt: str
    holder: str | None


def find_violations(session: Session, record: Path) -> list[Violation]:
    """After every run has ended."""
    results = [
        _Result(*row)
        for row in session.rows(
            "select job_id, attempt, status, was, sender, sent_attempt, holder from faults.result order by id"
        )
    ]
    return [
        *_invariants(session),
        *_senders(results, _reports(record)),
        *_ledger(session, results),
        *_phases(session),
        *_failures(session),
        *_repairs(session),
    ]


def _invariants(session: Session) -> list[Violation]:
    query = "select invariant, subdomain, run_id, stage, problem from invariant_violations_full"
    found = [Violation(INCONSISTENT, " ".join(map(str, row))) for row in session.rows(query)]
    for query, kind, problem in (
        ("select run_id from pipeline_runs where ended_at is null or outcome is null", STUCK, "run {} has not ended"),
        (
            "select id || ' is ' || status from content_item_pipeline_state where not faults.is_end(status)",
            LOST,
            "in the ledger, row {}",
        ),
        ("select job_id from job_claims where settled_as is null", STUCK, "the claim of job {} is not settled"),
        (
            "select id from procrastinate_jobs where status in ('todo', 'doing') and args ->> 'run_id' is not null",
            STUCK,
            "job {} has not ended",
        ),
        *(
            (
                f"select run_id from run_history where {stage}_completed + {stage}_failed <> {stage}_total",
                INCONSISTENT,
                f"the counters of {stage} do not add up in run {{}}",
            )
            for stage in STAGES
        ),
    ):
        found += [Violation(kind, problem.format(row[0])) for row in session.rows(query)]
    return found


def _reports(record: Path) -> dict[tuple[int, int, str], str]:
    """(job, attempt, holder) → the result that the task reported."""
    reports = {}
    for line in record.read_text().splitlines():
        report = json.loads(line)
        reports[report["job"], report["attempt"], report["holder"]] = str(report["result"])
    return reports


def _senders(results: list[_Result], reports: dict[tuple[int, int, str], str]) -> list[Violation]:
    """Every accepted result was sent by the holder for its own attempt, once, and is what its task reported."""
    found = []
    for result in results:
        what = f"{result.status} of job {result.job}, attempt {result.attempt}"
        if not is_worker(result.sender):
            continue
        if result.was != "doing":
            found.append(Violation(DOUBLED, f"{what}, was accepted while the job was {result.was}"))
        elif (result.sender, result.sent_attempt) != (result.holder, str(result.attempt)):
            sender = f"{result.sender} (attempt {result.sent_attempt})"
            found.append(Violation(DOUBLED, f"{what}, was accepted from {sender}; the holder was {result.holder}"))
        elif result.status in ("succeeded", "failed"):
            reported = reports.get((result.job, result.attempt, result.sender))
            if reported is None or (reported == "ok") is not (result.status == "succeeded"):
                found.append(Violation(INCONSISTENT, f"{what}, was accepted, but its task reported {reported}"))
    counts = Counter((result.job, result.attempt) for result in results if result.was == "doing")
    found += [
        Violation(DOUBLED, f"{count} results of job {job}, attempt {attempt}, were accepted")
        for (job, attempt), count in counts.items()
        if count > 1
    ]
    return found


def _ledger(session: Session, results: list[_Result]) -> list[Violation]:
    """A unit whose last change was made by a worker's result has the state of the last accepted result of its job."""
    last = {result.job: result for result in results}
    found = []
    for item, stage, job, status, sender in session.rows(
        "select l.content_item_id, l.pipeline, l.job_id, l.status, s.sender from content_item_pipeline_state l"
        " join lateral (select s.sender from faults.settled s where s.content_item_id = l.content_item_id"
        " and s.stage = l.pipeline order by s.id desc limit 1) s on true"
    ):
        result = last.get(job)
        expected = result and {"succeeded": "processed", "failed": "failed_terminal"}.get(result.status)
        if is_worker(sender) and expected is not None and expected != status:
            found.append(Violation(LOST, f"{stage} of content item {item} is {status}; job {job} reported {expected}"))
    return found


def _phases(session: Session) -> list[Violation]:
    found = []
    for query, kind, problem in (
        (
            "select run_id, phase, count(*) from faults.advance group by 1, 2 having count(*) > 1",
            DOUBLED,
            "run {} advanced from phase {} {} times",
        ),
        (
            "select run_id, stage, count(*) from faults.phase_start group by 1, 2 having count(*) > 1",
            DOUBLED,
            "run {} started {} {} times",
        ),
        (
            _NOT_ADVANCED,
            LOST,
            "run {} did not advance from phase {}",
        ),
        (
            "select distinct run_id, stage, counted, total from faults.excess",
            DOUBLED,
            "run {} counted more units of {} than it has: {} of {}",
        ),
        (
            _ENDED_TWICE,
            DOUBLED,
            "content item {} ended twice in {} of run {}",
        ),
    ):
        found += [Violation(kind, problem.format(*row)) for row in session.rows(query)]
    return found


def _failures(session: Session) -> list[Violation]:
    """Permanent failures that are neither planned nor an operator's."""
    query = (
        "select distinct content_item_id, stage, run_id, error_code, sender from faults.settled"
        " where became = 'failed_terminal' order by 1, 2, 3"
    )
    return [
        Violation(FAILED, f"{stage} of content item {item} in run {run}: {code} ({sender})")
        for item, stage, run, code, sender in session.rows(query)
        if code != PLANNED_ERROR and code not in _BY_OPERATOR
    ]


def _repairs(session: Session) -> list[Violation]:
    query = "select kind, subdomain, run_id, found from reconcile_log where kind = any (%s) order by at"
    return [
        Violation(INCONSISTENT, f"reconciliation repaired {kind} of {site}, run {run}: {problem}")
        for kind, site, run, problem in session.rows(query, list(_DEFECTS))
    ]


def content_hashes(storage: Storage, sites: list[str]) -> dict[str, str]:
    """Of meetings.db and its published copy."""
    hashes = {}
    for site in sites:
        published = SiteVersions(storage.publish, site).current
        paths: dict[str, StoragePath | None] = {
            "archive": SiteStorage(storage.storage, site).database,
            "published copy": published.path / DATABASE if published is not None else None,
        }
        for name, path in paths.items():
            hashes[f"{name} of {site}"] = _hash(path) if path is not None and path.exists() else "missing"
    return hashes


def _hash(path: StoragePath) -> str:
    with open_readonly(path) as connection:
        return hash_content(connection)


def compare(expected: dict[str, str], actual: dict[str, str]) -> list[Violation]:
    return [
        Violation(LOST, f"the {name} differs from the undisturbed run: {actual[name][:12]}, not {content[:12]}")
        for name, content in expected.items()
        if actual[name] != content
    ]
