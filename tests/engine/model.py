"""A model of the engine in plain Python, without locks, clocks or SQL, with which the database is compared.

A new job has no id until the state machine has found the same job in the database.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count

PHASES = {1: ("fetch",), 2: ("ocr",), 3: ("compilation", "extraction"), 4: ("deploy",)}
PHASE_OF = {stage: phase for phase, stages in PHASES.items() for stage in stages}
ENDED = 5
MAX_ATTEMPTS = {"fetch": 5, "ocr": 3, "compilation": 5, "extraction": 3, "deploy": 8, "coordinator": 10}
OPEN = ("pending", "in_progress", "failed_retryable")
NOT_PERMANENT = ("Superseded", "RunCancelled", "RunEnded", "JobCancelled", "JobAborted", "JobDeleted")
LIVE = ("todo", "doing")
MAX_REPEATS = 3


@dataclass
class Job:
    site: str
    run: int
    queue: str
    item: int | None = None
    phase: int | None = None
    id: int = 0
    status: str = "todo"
    attempts: int = 0
    holder: str | None = None
    attempt: int | None = None
    abort_requested: bool = False
    expired: bool = False
    on_hold: bool = False

    @property
    def key(self) -> tuple[str, int, str, int]:
        return self.site, self.run, self.queue, self.item or self.phase or 0


@dataclass
class Unit:
    run: int
    job: Job
    updated: int
    status: str = "pending"
    code: str | None = None
    late: bool = False
    processed: int | None = None

    @property
    def is_permanent_failure(self) -> bool:
        return self.status == "failed_terminal" and self.code not in NOT_PERMANENT


@dataclass
class Site:
    archive: int
    documents: list[int]
    run: int | None = None
    phase: int | None = None
    claimed: bool = False
    dirty: bool = False
    paused: bool = False
    outcome: str | None = None

    @property
    def is_active(self) -> bool:
        return self.phase is not None and self.phase != ENDED


@dataclass
class Model:
    next_run: int
    sites: dict[str, Site] = field(default_factory=dict)
    ledger: dict[tuple[int, str], Unit] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    new_jobs: list[Job] = field(default_factory=list)
    outcomes: dict[int, str | None] = field(default_factory=dict)
    advances: dict[tuple[int, int], int] = field(default_factory=dict)
    repairs: dict[tuple[int, int | None], list[int]] = field(default_factory=dict)
    """When the coordinator of a phase was deferred again, and (without a phase) when stale jobs were cancelled."""
    clock: count[int] = field(default_factory=lambda: count(1))

    # Queries

    def units(self, site: str, stage: str | None = None, run: int | None = None) -> list[tuple[int, str, Unit]]:
        items = [self.sites[site].archive, *self.sites[site].documents]
        return [
            (item, pipeline, unit)
            for (item, pipeline), unit in sorted(self.ledger.items())
            if item in items and stage in (None, pipeline) and run in (None, unit.run)
        ]

    def counters(self, site: str, stage: str) -> tuple[int, int, int]:
        run = self.sites[site].run
        found = [unit.status for _, _, unit in self.units(site, stage) if unit.run == run]
        return len(found), found.count("processed"), found.count("failed_terminal")

    def complete(self, site: str, phase: int) -> bool:
        return all(
            unit.status not in OPEN
            for stage in PHASES[phase]
            for _, _, unit in self.units(site, stage, self.sites[site].run)
        )

    def unit_of(self, job: Job) -> Unit | None:
        """The unit whose ledger row names this job."""
        unit = self.ledger.get((job.item or 0, job.queue))
        return unit if unit is not None and unit.job is job and unit.run == job.run else None

    # Jobs

    def _add_job(self, job: Job) -> Job:
        job.on_hold = self.sites[job.site].paused
        self.new_jobs.append(job)
        return job

    def _to_todo(self, job: Job) -> None:
        job.status = "todo"
        job.on_hold = self.sites[job.site].paused

    def claim(self, job: Job, holder: str) -> None:
        job.status, job.holder, job.attempt, job.expired = "doing", holder, job.attempts, False
        unit = self.unit_of(job)
        if unit and unit.status in OPEN:
            unit.status, unit.updated = "in_progress", next(self.clock)

    def holds(self, job: Job, holder: str, attempt: int) -> bool:
        return job.id in self.jobs and job.status == "doing" and (job.holder, job.attempt) == (holder, attempt)

    def end_job(self, job: Job, status: str, code: str) -> None:
        if job.status == "doing":
            job.attempts += 1
        job.status, job.abort_requested, job.expired = status, False, False
        self.settle(job, status == "succeeded", code)

    def give_back(self, job: Job, code: str) -> None:
        if job.abort_requested:
            job.attempts -= 1  # Procrastinate fails it without counting the attempt
            self.end_job(job, "failed", code)
            return
        self._to_todo(job)
        job.attempts += 1
        job.expired = False
        unit = self.unit_of(job)
        if unit and unit.status in OPEN:
            unit.status, unit.code, unit.updated = "failed_retryable", code, next(self.clock)

    def duplicate_waits(self, job: Job) -> bool:
        return job.phase is not None and any(
            other is not job and other.key == job.key and other.status == "todo" for other in self.jobs.values()
        )

    def rescue(self, job: Job) -> str:
        if job.abort_requested:
            self.end_job(job, "aborted", "WorkerLost")
            return "failed"
        if job.attempts + 1 >= MAX_ATTEMPTS[job.queue] or self.duplicate_waits(job):
            self.end_job(job, "failed", "WorkerLost")
            return "failed"
        self.give_back(job, "WorkerLost")
        return "rescued"

    def delete(self, job: Job) -> None:
        del self.jobs[job.id]
        if job.status in LIVE:
            self.settle(job, False, "JobDeleted")

    def retry_by_hand(self, job: Job) -> None:
        job.attempts += job.status == "failed"
        self._to_todo(job)
        unit, site = self.unit_of(job), self.sites[job.site]
        if unit is None or unit.status in OPEN:
            return
        if site.run == job.run and site.phase == PHASE_OF[job.queue] and not site.claimed:
            unit.status, unit.processed, unit.updated = "pending", None, next(self.clock)
        elif unit.status == "failed_terminal":
            unit.late, unit.updated = True, next(self.clock)

    def settle(self, job: Job, succeeded: bool, code: str) -> None:
        unit, site = self.unit_of(job), self.sites[job.site]
        if unit is None or (unit.status not in OPEN and not unit.late):
            return  # stale
        late = unit.status not in OPEN
        if late and not succeeded:
            unit.late, unit.updated = False, next(self.clock)
            return
        now = next(self.clock)
        unit.status = "processed" if succeeded else "failed_terminal"
        unit.code, unit.processed, unit.updated = (None if succeeded else code), (now if succeeded else None), now
        if late:
            unit.late, site.dirty = False, True
            return
        phase = PHASE_OF[job.queue]
        if site.phase == phase and not site.claimed and self.complete(job.site, phase):
            self._claim_coordinator(job.site)

    # Runs

    def _claim_coordinator(self, name: str) -> None:
        site = self.sites[name]
        assert site.run is not None
        assert site.phase is not None
        site.claimed = True
        job = Job(name, site.run, "coordinator", phase=site.phase)
        if not self.duplicate_waits(job):
            self._add_job(job)

    def start(self, name: str, first_phase: int = 1, units: Iterable[int] | None = None) -> None:
        site = self.sites[name]
        if site.is_active:
            self.end(name, "cancelled", "Superseded")
        site.run, site.outcome = self.next_run, None
        self.outcomes[site.run] = None
        self.next_run += 1
        self._start_phase(name, first_phase, units)

    def _start_phase(self, name: str, phase: int, units: Iterable[int] | None = None) -> None:
        site = self.sites[name]
        assert site.run is not None
        site.phase, site.claimed = phase, False
        chosen = None if units is None else set(units)
        started = [
            (item, stage)
            for stage in PHASES[phase]
            for item in ([site.archive] if stage not in ("ocr", "extraction") else site.documents)
            if stage not in ("ocr", "extraction") or self._includes(item, stage, chosen)
        ]
        for item, stage in started:
            job = self._add_job(Job(name, site.run, stage, item=item))
            self.ledger[item, stage] = Unit(site.run, job, next(self.clock))
        if phase == 3:
            site.dirty = False
        if not started:
            self._claim_coordinator(name)

    def _includes(self, item: int, stage: str, chosen: set[int] | None) -> bool:
        own, ocr = self.ledger.get((item, stage)), self.ledger.get((item, "ocr"))
        if stage == "extraction" and (ocr is None or ocr.status != "processed"):
            return False
        if chosen is not None:
            return item in chosen
        if own is None or (own.status != "processed" and not own.is_permanent_failure):
            return True
        return stage == "extraction" and (ocr.processed or 0) > (own.processed or own.updated)  # type: ignore[union-attr]

    def end(self, name: str, outcome: str, code: str) -> None:
        site = self.sites[name]
        assert site.run is not None
        for _, _, unit in self.units(name, run=site.run):
            if unit.status in OPEN:
                unit.status, unit.code, unit.updated = "failed_terminal", code, next(self.clock)
                if unit.job.status == "todo":
                    unit.job.status = "cancelled"
                elif unit.job.status == "doing":
                    unit.job.abort_requested = True
        site.phase, site.outcome, site.claimed = ENDED, outcome, False
        self.outcomes[site.run] = outcome

    def advance(self, name: str, run: int, phase: int) -> bool:
        site = self.sites[name]
        if (site.run, site.phase) != (run, phase) or not site.claimed:
            return False
        self.advances[run, phase] = self.advances.get((run, phase), 0) + 1
        outcome = self._outcome(name, phase)
        if outcome:
            self.end(name, outcome, "RunEnded")
        else:
            self._start_phase(name, phase + 1)
        return True

    def _outcome(self, name: str, phase: int) -> str | None:
        site = self.sites[name]
        failed = {stage: self.counters(name, stage)[2] for stage in PHASE_OF}
        completed = {stage: self.counters(name, stage)[1] for stage in PHASE_OF}
        if phase == 2:
            units = {item: unit for item in site.documents if (unit := self.ledger.get((item, "ocr")))}
            readable = {item: unit for item, unit in units.items() if unit.status == "processed"}
            if not site.documents:
                return "failed" if failed["fetch"] else "no_documents"
            if not readable:
                return "failed"
            if not completed["ocr"] and not site.dirty and self._published_is_current(name, readable):
                return "failed" if failed["fetch"] else "partial" if failed["ocr"] else "unchanged"
        if phase == 3 and not completed["compilation"]:
            return "failed"
        if phase == 4:
            if not completed["deploy"]:
                return "failed"
            missing = [
                item
                for item in site.documents
                for stage in ("ocr", "extraction")
                if (unit := self.ledger.get((item, stage))) and unit.is_permanent_failure
            ]
            return "partial" if failed["fetch"] + failed["ocr"] + failed["extraction"] or missing else "succeeded"
        return None

    def _published_is_current(self, name: str, readable: dict[int, Unit]) -> bool:
        archive = self.sites[name].archive
        compiled, deployed = self.ledger.get((archive, "compilation")), self.ledger.get((archive, "deploy"))
        if not compiled or not deployed or not compiled.processed or not deployed.processed:
            return False
        return deployed.processed > compiled.processed and all(
            (unit.processed or 0) < compiled.processed and self._is_extracted(item) for item, unit in readable.items()
        )

    def _is_extracted(self, item: int) -> bool:
        """Or permanently failed."""
        unit = self.ledger.get((item, "extraction"))
        return unit is not None and (unit.status == "processed" or unit.is_permanent_failure)

    # Operators and the reconciler

    def retry(self, name: str, stage: str | None) -> tuple[int | None, str | None, int]:
        """Every failed stage, or one. The earliest decides how the run continues; the later ones follow in it."""
        site = self.sites[name]
        failed = [
            (PHASE_OF[s], s, item) for item, s, unit in self.units(name, stage) if unit.status == "failed_terminal"
        ]
        retried: dict[str, int] = {}
        for phase, failed_stage in sorted({(phase, s) for phase, s, _ in failed}):
            items = [
                item for _, s, item in failed if s == failed_stage and self.ledger[item, s].status == "failed_terminal"
            ]
            if items:
                self._retry_units(name, phase, failed_stage, items)
                retried[failed_stage] = len(items)
        return site.run, ", ".join(retried) or None, sum(retried.values())

    def _retry_units(self, name: str, phase: int, stage: str, items: list[int]) -> None:
        site = self.sites[name]
        if site.is_active and site.phase == phase and not site.claimed:
            assert site.run is not None
            for item in items:
                unit = self.ledger[item, stage]
                unit.job = self._add_job(Job(name, site.run, stage, item=item))
                unit.status, unit.run, unit.late, unit.processed = "pending", site.run, False, None
                unit.updated = next(self.clock)
        elif site.is_active and (site.phase or 0) < phase:
            for item in items:
                del self.ledger[item, stage]
        else:
            self.start(name, phase, items if stage in ("ocr", "extraction") else None)

    def rewind(self, name: str, stage: str) -> None:
        documents = self.sites[name].documents
        self.start(name, PHASE_OF[stage], documents if stage in ("ocr", "extraction") else None)

    def pause(self, name: str, paused: bool) -> None:
        self.sites[name].paused = paused
        for job in self.jobs.values():
            if job.site == name and job.status == "todo":
                job.on_hold = paused

    def refresh(self, name: str) -> bool:
        site = self.sites[name]
        if not site.dirty or site.is_active:
            return False
        self.start(name, 3)
        return True

    def reconcile(self) -> int:
        """Number of repairs. All are planned before the first is made."""
        expired = [job for _, job in sorted(self.jobs.items()) if job.status == "doing" and job.expired]
        missing = [
            name for name, site in sorted(self.sites.items()) if site.claimed and not self._has_coordinator(name)
        ]
        repeated = [name for name in missing if self._is_repeated(name, self.sites[name].run, self.sites[name].phase)]
        endable = [name for name in repeated if self._can_end(name)]
        stale = [job for job in self.jobs.values() if self._is_stale(job)]
        # After three times they are left to the workers, whose results will be stale.
        stale = [job for job in stale if not self._is_repeated(job.site, job.run, None)]
        dirty = [name for name, site in sorted(self.sites.items()) if site.dirty and not site.is_active]
        for job in expired:
            self.rescue(job)
        for name in missing:
            if name in endable:
                self.end(name, "failed", "RunEnded")
            elif name not in repeated:
                self._claim_coordinator(name)
                self._record_repair(self.sites[name].run, self.sites[name].phase)
        for job in stale:
            self.end_job(job, "cancelled", "JobCancelled")
        runs = {job.run for job in stale}
        for run in runs:
            self._record_repair(run, None)
        for name in dirty:
            self.refresh(name)
        return len(expired) + len(missing) - len(repeated) + len(endable) + len(runs) + len(dirty)

    def _record_repair(self, run: int | None, phase: int | None) -> None:
        assert run is not None
        self.repairs.setdefault((run, phase), []).append(next(self.clock))

    def _is_repeated(self, name: str, run: int | None, phase: int | None) -> bool:
        """The repair was made three times since a unit of the run last ended."""
        assert run is not None
        units = [unit for _, _, unit in self.units(name, run=run)]
        progress = max((unit.updated for unit in units if unit.status not in OPEN and not unit.late), default=0)
        return sum(at > progress for at in self.repairs.get((run, phase), [])) >= MAX_REPEATS

    def _can_end(self, name: str) -> bool:
        """No worker with a live lease processes a unit of the run."""
        units = self.units(name, run=self.sites[name].run)
        return not any(
            (unit.status in OPEN or unit.late) and unit.job.status == "doing" and not unit.job.expired
            for _, _, unit in units
        )

    def _has_coordinator(self, name: str) -> bool:
        """One that waits or runs, whether it is the newest or an older one that was retried by hand."""
        site = self.sites[name]
        return any(
            job.queue == "coordinator" and (job.run, job.phase) == (site.run, site.phase) and job.status in LIVE
            for job in (*self.jobs.values(), *self.new_jobs)
        )

    def _is_stale(self, job: Job) -> bool:
        """Waiting although its run has ended, and not late."""
        unit = self.unit_of(job)
        return job.status == "todo" and self.outcomes[job.run] is not None and not (unit and unit.late)

    def delete_finished_jobs(self) -> None:
        """Retention."""
        for job in list(self.jobs.values()):
            if job.status not in LIVE and self.outcomes[job.run] is not None:
                del self.jobs[job.id]
