"""Ways to break a running system by hand. Each is done in one transaction, past the triggers, as a restore, a stray
script or a tired operator would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from clerk.pipeline.engine import STAGES
from tests.engine.helpers import Connection, Worker, one

Move = Callable[["Town"], object]


@dataclass
class Town:
    """A site in mid-run, and hands to work and break with."""

    connection: Connection
    hand: Worker
    items: list[int]
    run: int

    def sql(self, *statements: str) -> None:
        """Nobody keeps the books meanwhile."""
        with self.connection.transaction():
            self.connection.execute("set local session_replication_role = replica")
            for statement in statements:
                self.connection.execute(statement.replace("$run", str(self.run)).encode())


@dataclass(frozen=True)
class Break:
    name: str
    phase: int
    """Where the run is when it happens; 5 is after its end."""
    how: Move
    named: str
    """The check of `clerk verify` that says so."""
    kind: str
    """Of the repair that heals it."""
    before: Move = lambda town: None
    """What has happened in that phase by then."""


def sql(*statements: str) -> Move:
    return lambda town: town.sql(*statements)


def one_done(town: Town) -> None:
    town.hand.finish(town.hand.take("ocr"))


def all_done(town: Town) -> None:
    while job := town.hand.fetch(*STAGES):
        town.hand.finish(job)


def one_claimed(town: Town) -> None:
    town.hand.take("ocr")


def finished_unbooked(town: Town) -> None:
    """The triggers were off while a worker worked: its result is nobody's."""
    job = town.hand.take("ocr")
    town.sql(f"update procrastinate_jobs set status = 'succeeded', attempts = 1 where id = {job.id}")


def older_run_left_open(town: Town) -> None:
    town.sql(
        "insert into pipeline_runs (subdomain, reason, run_id) overriding system value values ('town', 'older', 0)",
        "update content_item_pipeline_state set run_id = 0, status = 'pending' where pipeline = 'deploy'",
    )


def failed_coordinator(town: Town) -> None:
    all_done(town)
    town.hand.finish(town.hand.take("coordinator"), "failed")


def late_retry_lost(town: Town) -> None:
    """An operator retried a failed document after its run, and the job vanished."""
    item = town.items[0]
    town.sql(
        f"update content_item_pipeline_state set status = 'failed_terminal', error_code = 'PdfBroken',"
        f" processed_at = null, reopened_at = now() where pipeline = 'ocr' and content_item_id = {item}",
        "update sites set ocr_completed = ocr_completed - 1, ocr_failed = 1",
        "update pipeline_runs set ocr_completed = ocr_completed - 1, ocr_failed = 1 where run_id = $run",
    )


def paused_and_forgotten(town: Town) -> None:
    one(town.connection, "select clerk_pause_site('town', 'a test')")
    town.sql("update sites set paused_at = null, paused_by = null")


_A_UNIT = "(select min(content_item_id) from content_item_pipeline_state where pipeline = 'ocr')"
_THAT_UNIT = f"where pipeline = 'ocr' and content_item_id = {_A_UNIT}"
_OPENED = f"update content_item_pipeline_state set status = 'pending', processed_at = null {_THAT_UNIT}"
_CLOSED = f"update content_item_pipeline_state set status = 'processed' {_THAT_UNIT}"
_ROW = f"delete from content_item_pipeline_state {_THAT_UNIT}"
_ORPHANS = (
    "delete from content_items i where kind <> 'archive'"
    " and not exists (select from content_item_pipeline_state l where l.content_item_id = i.id)"
)
_JOBS = "delete from procrastinate_jobs where status in ('todo', 'doing') and queue_name = '{}'"
_COUNTERS = ", ".join(f"{stage}_{what} = 0" for stage in STAGES for what in ("total", "completed", "failed"))

BREAKS = [
    # Jobs
    Break("fetch job deleted", 1, sql(_JOBS.format("fetch")), "waiting", "unit"),
    Break("ocr jobs deleted", 2, sql(_JOBS.format("ocr")), "waiting", "unit"),
    Break("ocr jobs of claimed units deleted", 2, sql(_JOBS.format("ocr")), "waiting", "unit", one_claimed),
    Break("compilation job deleted", 3, sql(_JOBS.format("compilation")), "waiting", "unit"),
    Break("extraction jobs deleted", 3, sql(_JOBS.format("extraction")), "waiting", "unit"),
    Break("deploy job deleted", 4, sql(_JOBS.format("deploy")), "waiting", "unit"),
    Break("all jobs deleted", 2, sql("delete from procrastinate_jobs"), "waiting", "unit", one_done),
    Break("a result that no trigger saw", 2, finished_unbooked, "I8", "claim"),
    Break(
        "job cancelled unseen",
        2,
        sql("update procrastinate_jobs set status = 'cancelled' where status = 'todo'"),
        "waiting",
        "unit",
    ),
    Break(
        "a waiting job of a run that is over",
        5,
        sql(
            "insert into procrastinate_jobs (queue_name, task_name, args) values ('ocr', 'clerk.ocr',"
            " jsonb_build_object('subdomain', 'town', 'run_id', $run, 'stage', 'ocr', 'content_item_id', "
            + _A_UNIT
            + "))"
        ),
        "waiting",
        "stale",
    ),
    Break("jobs held back without a pause", 2, paused_and_forgotten, "waiting", "stranded"),
    Break("late document's job deleted", 5, late_retry_lost, "waiting", "unit"),
    # Claims
    Break(
        "lease over",
        2,
        sql("update job_claims set lease_until = now() - interval '1 minute'"),
        "I7",
        "lease",
        one_claimed,
    ),
    Break("claim deleted", 2, sql("delete from job_claims where settled_as is null"), "I7", "lease", one_claimed),
    Break(
        "claim settled, job running",
        2,
        sql("update job_claims set settled_as = 'succeeded'"),
        "I7",
        "lease",
        one_claimed,
    ),
    Break(
        "claim without a job",
        2,
        sql("insert into job_claims (job_id, holder, attempt, lease_until) values (0, 'x', 0, now())"),
        "I8",
        "claim",
    ),
    # Ledger
    Break(
        "a unit opened after its phase",
        3,
        sql(_OPENED),
        "I2",
        "unit",
    ),
    Break(
        "a unit opened after the run",
        5,
        sql(_OPENED),
        "I1",
        "end",
    ),
    Break(
        "a unit closed by hand",
        2,
        sql(_CLOSED),
        "I2",
        "counters",
    ),
    Break("fetch row deleted", 1, sql("delete from content_item_pipeline_state"), "I2", "members"),
    Break(
        "ocr row deleted",
        2,
        sql(_ROW),
        "I2",
        "members",
    ),
    Break(
        "ocr row of a read document deleted",
        2,
        sql(_ROW),
        "I2",
        "members",
        one_done,
    ),
    Break(
        "ocr rows deleted after their phase",
        3,
        sql("delete from content_item_pipeline_state where pipeline = 'ocr'"),
        "I2",
        "members",
    ),
    Break(
        "ocr rows deleted after the run",
        5,
        sql("delete from content_item_pipeline_state where pipeline = 'ocr'"),
        "I2",
        "members",
    ),
    Break(
        "compilation row deleted",
        3,
        sql("delete from content_item_pipeline_state where pipeline = 'compilation'"),
        "I2",
        "members",
    ),
    Break(
        "extraction rows deleted",
        3,
        sql("delete from content_item_pipeline_state where pipeline = 'extraction'"),
        "I2",
        "members",
    ),
    Break(
        "deploy row deleted",
        4,
        sql("delete from content_item_pipeline_state where pipeline = 'deploy'"),
        "I2",
        "members",
    ),
    Break("ledger emptied", 2, sql("delete from content_item_pipeline_state"), "I2", "members", one_done),
    Break(
        "unit given to another run",
        2,
        sql(f"update content_item_pipeline_state set run_id = null {_THAT_UNIT}"),
        "I2",
        "members",
    ),
    Break(
        "a document deleted",
        2,
        sql(
            "delete from content_item_pipeline_state where content_item_id = " + _A_UNIT,
            _ORPHANS,
        ),
        "I2",
        "counters",
    ),
    # Counters
    Break("counters set to nothing", 2, sql(f"update sites set {_COUNTERS}"), "I2", "counters", one_done),
    Break("counters too high", 2, sql("update sites set ocr_completed = ocr_total"), "I2", "counters", one_done),
    Break("counters too low, all done", 2, sql("update sites set ocr_completed = 0"), "I2", "transition", all_done),
    Break("counters changed after the run", 5, sql("update sites set ocr_failed = 4"), "I2", "counters"),
    # Coordinators and transitions
    Break("coordinator deleted", 2, sql(_JOBS.format("coordinator")), "waiting", "coordinator", all_done),
    Break("coordinator failed for good", 3, lambda town: None, "waiting", "coordinator", failed_coordinator),
    Break("coordinator of deploy deleted", 4, sql(_JOBS.format("coordinator")), "waiting", "coordinator", all_done),
    Break(
        "coordinator and transition deleted",
        2,
        sql(_JOBS.format("coordinator"), "delete from pipeline_transitions where phase = 2"),
        "waiting",
        "coordinator",
        all_done,
    ),
    Break(
        "coordinator claimed too early",
        2,
        sql("update sites set coordinator_enqueued = true"),
        "I3",
        "transition",
        one_done,
    ),
    Break(
        "claim of the coordinator undone, coordinator gone",
        2,
        sql("update sites set coordinator_enqueued = false", _JOBS.format("coordinator")),
        "waiting",
        "coordinator",
        all_done,
    ),
    Break(
        "phase marked as over too early",
        2,
        sql("insert into pipeline_transitions (run_id, phase, advanced_at) values ($run, 2, now())"),
        "I3",
        "transition",
        one_done,
    ),
    Break(
        "phase marked as over, coordinator gone",
        2,
        sql("update pipeline_transitions set advanced_at = now()", _JOBS.format("coordinator")),
        "I3",
        "transition",
        all_done,
    ),
    Break("end of a phase forgotten", 3, sql("update pipeline_transitions set advanced_at = null"), "I3", "transition"),
    Break("transitions deleted", 3, sql("delete from pipeline_transitions"), "I3", "transition"),
    # Runs and sites
    Break(
        "run deleted", 2, sql("delete from pipeline_runs", "delete from pipeline_transitions"), "I4", "run", one_done
    ),
    Break(
        "run deleted after its end",
        5,
        sql("delete from pipeline_runs", "delete from pipeline_transitions"),
        "I4",
        "run",
    ),
    Break("site points at a run that never was", 2, sql("update sites set run_id = 4711"), "I4", "run", one_done),
    Break("site points at no run", 3, sql("update sites set run_id = null, current_stage = null"), "I4", "run"),
    Break("stage changed forward", 2, sql("update sites set current_stage = 'deploy'"), "I4", "stage", one_done),
    Break("stage changed back", 3, sql("update sites set current_stage = 'fetch'"), "I4", "stage"),
    Break(
        "stage changed while all is done",
        2,
        sql(
            "update sites set current_stage = 'deploy'",
            _JOBS.format("coordinator"),
            "delete from pipeline_transitions where phase = 2",
            "update sites set coordinator_enqueued = false",
        ),
        "I4",
        "stage",
        all_done,
    ),
    Break("stage set to completed", 2, sql("update sites set current_stage = 'completed'"), "I4", "stage", one_done),
    Break("stage set to nothing", 2, sql("update sites set current_stage = null"), "I4", "stage", one_done),
    Break(
        "run ended, site not",
        2,
        sql("update pipeline_runs set ended_at = now(), outcome = 'failed'"),
        "I4",
        "end",
        one_done,
    ),
    Break("site reopened after its run", 5, sql("update sites set current_stage = 'ocr', outcome = null"), "I4", "end"),
    Break("outcome changed", 5, sql("update sites set outcome = 'failed'"), "I4", "end"),
    Break(
        "run reopened after its end", 5, sql("update pipeline_runs set ended_at = null, outcome = null"), "I4", "end"
    ),
    Break("older run not ended", 3, older_run_left_open, "I4", "end"),
    Break("refresh forgotten", 5, sql("update sites set dirty = true"), "waiting", "dirty"),
]
