"""Injects faults and operator actions by a seeded schedule, and measures how long the affected jobs take to end.

Each lane has a thread, a random generator of its own (seed and name of the lane) and the times of its faults. A seed
repeats kinds, targets and planned times; what the workers do at these times differs from run to run.
"""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import psycopg

from clerk.errors import ClerkError
from clerk.pipeline import engine
from clerk.reconcile.apply import reconcile, rescue_expired
from tests.faults.torture.environment import Pipeline, Postgres, Session, choose, pid_of
from tests.faults.torture.workers import Worker

_HELD_SHARE = 0.9
"""Share of kills for which a worker with a running job is chosen."""
_FREEZE_LIMIT = 20.0
_REPLIES = (b"succeeded", b"doing", b"advance_phase", b"finish_job", b"retry_job")
"""Of statements that commit. Results are in the rows, functions in the names of the columns."""


@dataclass(frozen=True)
class Lane:
    name: str
    interval: float
    """Mean seconds between two faults."""
    kinds: tuple[str, ...]


LANES = (
    Lane("kill", 1.3, ("kill",)),
    Lane("freeze", 7.0, ("freeze",)),
    Lane("postgres", 5.0, ("postgres-immediate", "postgres-sigkill", "backend-sigkill", "postgres-restart")),
    Lane("sessions", 5.0, ("terminate",)),
    Lane("network", 2.0, ("cut", "cut", "cut", "lost-reply", "lost-reply", "delay", "black-hole")),
    Lane("disk", 20.0, ("disk-full", "disk-read-only")),
    Lane("clock", 15.0, ("clock",)),
    *(
        Lane(f"operator {number}", 1.5, ("retry", "cancel", "rewind", "supersede", "pause", "retry-job", "delete-job"))
        for number in (1, 2)
    ),
)
KINDS = tuple(dict.fromkeys(kind for lane in LANES for kind in lane.kinds))
CRASHES = ("postgres-immediate", "postgres-sigkill", "backend-sigkill")


@dataclass
class _Recovery:
    kind: str
    started_at: float
    jobs: set[int]


@dataclass
class Measurements:
    injected: Counter[str] = field(default_factory=Counter)
    held_kills: int = 0
    """Kills of a worker that held a job."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Operator actions that the engine rejected, or that found no database."""
    not_injected: dict[str, str] = field(default_factory=dict)
    """Kind → why."""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    """Kind → seconds from the fault to the end of every job that it affected."""
    background: Counter[str] = field(default_factory=Counter)
    """Reconciliations, rescues and runs started by the schedulers."""
    failed_repairs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    """Of the harness itself."""


class Injector:
    def __init__(
        self, postgres: Postgres, pipeline: Pipeline, seed: int, kinds: Iterable[str], pace: float = 1.0
    ) -> None:
        """`pace` divides the intervals between faults."""
        self.postgres, self.pipeline, self.seed, self.pace = postgres, pipeline, seed, pace
        self.kinds = set(kinds)
        self.measurements = Measurements()
        self._stop = threading.Event()
        self._stop_background = threading.Event()
        self._lock = threading.Lock()
        self._open: list[_Recovery] = []
        self._retired: list[Worker] = []
        self._lanes = [
            self._thread(self._schedule, "scheduler 1"),
            self._thread(self._schedule, "scheduler 2"),
            self._thread(self._demand, "demand"),
        ]
        """End with the faults: they start runs."""
        for lane in LANES:
            if kinds := tuple(kind for kind in lane.kinds if kind in self.kinds):
                self._lanes.append(self._thread(self._run_lane, lane.name, lane, kinds))
        self._background = [
            self._thread(self._reconcile, "reconciler 1"),
            self._thread(self._reconcile, "reconciler 2"),
            self._thread(self._monitor, "monitor"),
        ]

    # --- threads

    def start(self) -> None:
        for thread in (*self._background, *self._lanes):
            thread.start()

    def stop_faults(self) -> None:
        """Ends the faults, and starts no more runs. Reconciliation goes on."""
        self._stop.set()
        for thread in self._lanes:
            thread.join()
        for proxy in self.pipeline.proxies:
            proxy.delay = 0.0
        # The reply of a pause may have been lost.
        with contextlib.closing(self._session("resume")) as session:
            session.rows("select clerk_resume_site(subdomain) from sites")

    def stop(self) -> None:
        self._stop.set()
        self._stop_background.set()
        for thread in (*self._lanes, *self._background):
            if thread.is_alive():
                thread.join()
        for worker in self._retired:
            worker.kill()

    def _thread(self, run: Callable[..., None], name: str, *arguments: object) -> threading.Thread:
        return threading.Thread(target=self._guarded, args=[run, *(arguments or [name])], name=name, daemon=True)

    def _guarded(self, run: Callable[..., None], *arguments: object) -> None:
        try:
            run(*arguments)
        except BaseException as error:  # noqa: BLE001 (shown in the report, which is then red)
            self.measurements.errors.append(f"{threading.current_thread().name}: {type(error).__name__}: {error}")

    def _session(self, name: str) -> Session:
        return Session(self.pipeline.url, f"torture {name}")

    def _run_lane(self, lane: Lane, kinds: tuple[str, ...]) -> None:
        rng = random.Random(f"{self.seed} {lane.name}")  # noqa: S311 (not for secrets)
        with contextlib.closing(self._session(lane.name)) as session:
            due = time.monotonic()
            while True:
                due = max(due + lane.interval / self.pace * rng.uniform(0.5, 1.5), time.monotonic())
                if self._stop.wait(max(due - time.monotonic(), 0)):
                    return
                self._inject(rng.choice(kinds), rng, session)

    def _inject(self, kind: str, rng: random.Random, session: Session) -> None:
        inject: Callable[[random.Random, Session], set[int] | None] = getattr(self, "_" + kind.replace("-", "_"))
        started_at = time.monotonic()
        try:
            jobs = inject(rng, session)
        except ClerkError as error:
            self._count_rejected(kind, error.code)
        except psycopg.errors.RaiseException as error:  # the other operator was faster
            self._count_rejected(kind, type(error).__name__)
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            session.close()
            self._count_rejected(kind, type(error).__name__)
        else:
            if jobs is not None:
                with self._lock:
                    self.measurements.injected[kind] += 1
                    if jobs:
                        self._open.append(_Recovery(kind, started_at, set(jobs)))

    def _count_rejected(self, kind: str, why: str) -> None:
        with self._lock:
            self.measurements.rejected[f"{kind}: {why}"] += 1

    def _held(self, session: Session, pids: Iterable[int] | None = None) -> dict[int, set[int]]:
        """Worker's pid → the jobs that it holds."""
        rows = session.rows(
            "select c.holder, c.job_id from job_claims c join procrastinate_jobs j on j.id = c.job_id"
            " where c.settled_as is null and j.status = 'doing' order by c.job_id"
        )
        held: dict[int, set[int]] = {}
        for holder, job in rows:
            if (pid := pid_of(holder)) is not None and (pids is None or pid in pids):
                held.setdefault(pid, set()).add(job)
        return held

    def _all_held(self, session: Session) -> set[int]:
        return set().union(*self._held(session).values())

    def _worker_with_job(self, rng: random.Random, session: Session) -> Worker | None:
        held = self._held(session)
        workers = self.pipeline.working()
        worker: Worker | None = choose(rng, [worker for worker in workers if worker.pid in held] or workers)
        return worker

    # --- workers. Each kind returns the affected jobs, or None if nothing was injected.

    def _kill(self, rng: random.Random, session: Session) -> set[int] | None:
        if rng.random() < _HELD_SHARE:
            worker = self._worker_with_job(rng, session)
        else:
            worker = choose(rng, self.pipeline.working())
        if worker is None:
            return None
        self.pipeline.remove(worker)
        jobs = self._held(session, [worker.pid]).get(worker.pid, set())
        self.measurements.held_kills += bool(jobs)
        return jobs

    def _freeze(self, rng: random.Random, session: Session) -> set[int] | None:
        worker = self._worker_with_job(rng, session)
        if worker is None:
            return None
        worker.freeze()
        self.pipeline.supervise()
        jobs = self._held(session, [worker.pid]).get(worker.pid, set())
        deadline = time.monotonic() + _FREEZE_LIMIT
        # Until each of its jobs has another holder or has ended.
        while jobs & self._held(session, [worker.pid]).get(worker.pid, set()) or jobs & self._waiting(session, jobs):
            if time.monotonic() > deadline or self._stop.is_set():
                break
            time.sleep(0.05)
        worker.thaw()
        surplus = self.pipeline.working()[: -(self.pipeline.workload.workers + 1)]
        for old in surplus:
            self._retire(old)
        return jobs

    def _waiting(self, session: Session, jobs: set[int]) -> set[int]:
        query = (
            "select id from procrastinate_jobs where id = any (%s) and status = 'todo'"
            " and coalesce(scheduled_at <= now(), true)"
        )
        return {job for (job,) in session.rows(query, list(jobs))}

    def _clock(self, rng: random.Random, session: Session) -> set[int] | None:
        self.pipeline.start_worker(clock=rng.choice([-3600.0, 3600.0]))
        self._retire(self.pipeline.working()[0])
        return set()

    def _retire(self, worker: Worker) -> None:
        """An ordinary stop."""
        self.pipeline.release(worker)
        worker.send(signal.SIGTERM)
        self._retired = [old for old in self._retired if old.is_alive()] + [worker]

    # --- Postgres

    def _postgres_immediate(self, rng: random.Random, session: Session) -> set[int]:
        jobs = self._all_held(session)
        self.postgres.crash(signal.SIGQUIT)
        return jobs

    def _postgres_sigkill(self, rng: random.Random, session: Session) -> set[int]:
        jobs = self._all_held(session)
        self.postgres.crash(signal.SIGKILL)
        return jobs

    def _backend_sigkill(self, rng: random.Random, session: Session) -> set[int] | None:
        jobs = self._all_held(session)
        pid = choose(rng, [pid for pid, _ in self._sessions(session)])
        if pid is None:
            return None
        self.postgres.crash_backend(pid)
        return jobs

    def _postgres_restart(self, rng: random.Random, session: Session) -> set[int]:
        jobs = self._all_held(session)
        self.postgres.restart()
        return jobs

    def _terminate(self, rng: random.Random, session: Session) -> set[int] | None:
        sessions = self._sessions(session)
        ended = rng.sample(sessions, min(3, len(sessions)))
        if not ended:
            return None
        held = self._held(session, {pid for _, name in ended if (pid := pid_of(name)) is not None})
        session.rows("select pg_terminate_backend(pid) from unnest(%s::integer[]) pid", [pid for pid, _ in ended])
        return set().union(*held.values())

    def _sessions(self, session: Session) -> list[tuple[int, str]]:
        return [
            (pid, name)
            for pid, name in session.rows(
                "select pid, application_name from pg_stat_activity where datname = current_database()"
                " and pid <> pg_backend_pid() and backend_type = 'client backend' order by backend_start"
            )
        ]

    # --- network

    def _slot(self, rng: random.Random, session: Session) -> tuple[int, set[int]]:
        """A proxy, and the jobs of the workers behind it."""
        slot = rng.randrange(len(self.pipeline.proxies))
        pids = [worker.pid for worker in self.pipeline.working() if worker.slot == slot]
        return slot, set().union(*self._held(session, pids).values())

    def _cut(self, rng: random.Random, session: Session) -> set[int] | None:
        slot, jobs = self._slot(rng, session)
        return jobs if self.pipeline.proxies[slot].close_connections() else None

    def _black_hole(self, rng: random.Random, session: Session) -> set[int] | None:
        slot, jobs = self._slot(rng, session)
        return jobs if self.pipeline.proxies[slot].black_hole_connections() else None

    def _delay(self, rng: random.Random, session: Session) -> set[int]:
        slot, jobs = self._slot(rng, session)
        self.pipeline.proxies[slot].delay = rng.uniform(0.1, 0.5)
        self._stop.wait(rng.uniform(1.0, 3.0))
        self.pipeline.proxies[slot].delay = 0.0
        return jobs

    def _lost_reply(self, rng: random.Random, session: Session) -> set[int] | None:
        slot, jobs = self._slot(rng, session)
        proxy = self.pipeline.proxies[slot]
        cut = proxy.lose_response(b"", rng.choice(_REPLIES))
        if cut.done.wait(3.0):
            return jobs
        proxy.withdraw(cut)
        return jobs if cut.done.is_set() else None

    # --- disk

    def _disk_full(self, rng: random.Random, session: Session) -> set[int] | None:
        return self._disk("disk-full", rng, session)

    def _disk_read_only(self, rng: random.Random, session: Session) -> set[int] | None:
        return self._disk("disk-read-only", rng, session)

    def _disk(self, kind: str, rng: random.Random, session: Session) -> set[int] | None:
        storage = self.pipeline.storage
        if not storage.is_mounted:
            self.measurements.not_injected[kind] = "only root can mount a small file system"
            return None
        jobs = self._all_held(session)
        with storage.full() if kind == "disk-full" else storage.read_only():
            self._stop.wait(rng.uniform(1.0, 3.0))
            jobs |= self._all_held(session)
        return jobs

    # --- operators

    def _site(self, rng: random.Random) -> str:
        site: str = rng.choice(self.pipeline.workload.names)
        return site

    def _retry(self, rng: random.Random, session: Session) -> set[int]:
        engine.retry_failed(session.connection, self._site(rng))
        return set()

    def _cancel(self, rng: random.Random, session: Session) -> set[int]:
        engine.cancel_run(session.connection, self._site(rng))
        return set()

    def _rewind(self, rng: random.Random, session: Session) -> set[int]:
        engine.rewind(session.connection, self._site(rng), rng.choice(["fetch", "ocr", "extraction", "deploy"]))
        return set()

    def _supersede(self, rng: random.Random, session: Session) -> set[int]:
        engine.start_run(session.connection, self._site(rng), supersede=True)
        return set()

    def _pause(self, rng: random.Random, session: Session) -> set[int]:
        site = self._site(rng)
        engine.pause_site(session.connection, site, "torture")
        self._stop.wait(rng.uniform(0.2, 1.5))
        session.rows("select clerk_resume_site(%s)", site)
        return set()

    def _retry_job(self, rng: random.Random, session: Session) -> set[int] | None:
        """As with `procrastinate retry`, whatever phase the run has reached."""
        jobs = session.rows(
            "select j.id from procrastinate_jobs j join content_item_pipeline_state l on l.job_id = j.id"
            " where j.status = 'failed' and l.pipeline = 'ocr' order by j.id"
        )
        if not jobs:
            return None
        job = rng.choice(jobs)[0]
        session.connection.execute("select procrastinate_retry_job_v2(%s, null, null, null, null)", [job])
        return set()

    def _delete_job(self, rng: random.Random, session: Session) -> set[int] | None:
        jobs = session.rows(
            "select id, task_name = 'clerk.coordinate' from procrastinate_jobs"
            " where status = 'todo' and args ->> 'run_id' is not null order by id"
        )
        # A coordinator waits only for moments, unless its site is paused.
        jobs = [job for job in jobs if job[1]] or jobs
        if not jobs:
            return None
        session.connection.execute(
            "delete from procrastinate_jobs where id = (select id from procrastinate_jobs where id = %s"
            " and status = 'todo' for update skip locked)",
            [rng.choice(jobs)[0]],
        )
        return set()

    # --- background

    def _repeat(self, name: str, interval: float, stop: threading.Event, run: Callable[[Session], None]) -> None:
        with contextlib.closing(self._session(name)) as session:
            while not stop.wait(interval):
                try:
                    run(session)
                except (psycopg.OperationalError, psycopg.InterfaceError):
                    session.close()
                except ClerkError as error:
                    self._count_rejected(name, error.code)

    def _reconcile(self, name: str) -> None:
        def run(session: Session) -> None:
            rescued = rescue_expired(session.connection)
            result = reconcile(session.connection, None, threshold=timedelta(0))
            with self._lock:
                self.measurements.background["jobs rescued"] += rescued
                self.measurements.background["reconciliations"] += not result.busy
                self.measurements.background["reconciliations that found another one"] += result.busy
                self.measurements.failed_repairs += [f"{repair.found}: {error}" for repair, error in result.failed]

        self._repeat(name, 0.4, self._stop_background, run)

    def _schedule(self, name: str) -> None:
        def run(session: Session) -> None:
            while not self._stop.is_set() and engine.start_next_due_site(session.connection):
                with self._lock:
                    self.measurements.background["runs started by a scheduler"] += 1

        self._repeat(name, 0.5, self._stop, run)

    def _demand(self, name: str) -> None:
        """Repeats the OCR of sites that are idle: a run without new documents has little to do."""
        rng = random.Random(f"{self.seed} demand")  # noqa: S311 (not for secrets)

        def run(session: Session) -> None:
            idle = session.rows(
                "select subdomain from sites s where not exists (select from pipeline_runs r"
                " where r.subdomain = s.subdomain and r.ended_at is null) order by 1"
            )
            for (site,) in idle:
                if rng.random() < 0.5:
                    engine.rewind(session.connection, site, "ocr")

        self._repeat(name, 0.3, self._stop, run)

    def _monitor(self, name: str) -> None:
        def run(session: Session) -> None:
            self.pipeline.supervise()
            with self._lock:
                affected = set().union(*(recovery.jobs for recovery in self._open))
            if not affected:
                return
            query = "select id from procrastinate_jobs where id = any (%s) and status in ('todo', 'doing')"
            unfinished = {job for (job,) in session.rows(query, list(affected))}
            now = time.monotonic()
            with self._lock:
                for recovery in list(self._open):
                    if not recovery.jobs & unfinished & affected:
                        self._open.remove(recovery)
                        self.measurements.seconds.setdefault(recovery.kind, []).append(now - recovery.started_at)

        self._repeat(name, 0.2, self._stop_background, run)
