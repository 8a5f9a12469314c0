"""Corruptions of a running system, each made in one transaction with triggers disabled, as by a restore or a script."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.engine.helpers import Connection, Worker, one

Action = Callable[["Town"], object]


@dataclass
class Town:
    """A site in the middle of a run."""

    connection: Connection
    worker: Worker
    items: list[int]
    run: int

    def sql(self, *statements: str) -> None:
        """Without accounting triggers and foreign keys."""
        with self.connection.transaction():
            self.connection.execute("set local session_replication_role = replica")
            for statement in statements:
                self.connection.execute(statement.replace("$run", str(self.run)).encode())


@dataclass(frozen=True)
class Corruption:
    name: str
    phase: int
    """The phase of the run when it happens; 5 is after its end."""
    corrupt: Action
    check: str
    """The check of `clerk verify` that reports it."""
    kind: str
    """Of the repair that corrects it."""
    prepare: Action = lambda town: None
    """What happens in the phase before the corruption."""


def sql(*statements: str) -> Action:
    return lambda town: town.sql(*statements)


def finish_one(town: Town) -> None:
    town.worker.finish(town.worker.take("ocr"))


def finish_all(town: Town) -> None:
    while job := town.worker.fetch("fetch", "ocr", "compilation", "extraction", "deploy"):
        town.worker.finish(job)


def claim_one(town: Town) -> None:
    town.worker.take("ocr")


def finish_without_triggers(town: Town) -> None:
    job = town.worker.take("ocr")
    town.sql(f"update procrastinate_jobs set status = 'succeeded', attempts = 1 where id = {job.id}")


def fail_coordinator(town: Town) -> None:
    finish_all(town)
    town.worker.finish(town.worker.take("coordinator"), "failed")


def lose_late_job(town: Town) -> None:
    """An operator retried a failed document after its run, and the job was deleted."""
    item = town.items[0]
    town.sql(
        f"update content_item_pipeline_state set status = 'failed_terminal', error_code = 'PdfBroken',"
        f" processed_at = null, reopened_at = now() where pipeline = 'ocr' and content_item_id = {item}",
        "update sites set ocr_completed = ocr_completed - 1, ocr_failed = 1",
        "update pipeline_runs r set counters = clerk_counters(s) from sites s where r.run_id = s.run_id",
    )


def forget_pause(town: Town) -> None:
    one(town.connection, "select clerk_pause_site('town', 'a test')")
    town.sql("update sites set paused_at = null, paused_by = null")


_A_UNIT = "(select min(content_item_id) from content_item_pipeline_state where pipeline = 'ocr')"
_THAT_UNIT = f"where pipeline = 'ocr' and content_item_id = {_A_UNIT}"
_OPEN_UNIT = f"update content_item_pipeline_state set status = 'pending', processed_at = null {_THAT_UNIT}"
_CLOSE_UNIT = f"update content_item_pipeline_state set status = 'processed' {_THAT_UNIT}"
_DELETE_ROW = f"delete from content_item_pipeline_state {_THAT_UNIT}"
_DELETE_ITEMS_WITHOUT_ROW = (
    "delete from content_items i where kind <> 'archive'"
    " and not exists (select from content_item_pipeline_state l where l.content_item_id = i.id)"
)
_DELETE_JOBS = "delete from procrastinate_jobs where status in ('todo', 'doing') and queue_name = '{}'"
_ZERO_COUNTERS = ", ".join(
    f"{stage}_{counter} = 0"
    for stage in ("fetch", "ocr", "compilation", "extraction", "deploy")
    for counter in ("total", "completed", "failed")
)

CORRUPTIONS = [
    # Jobs
    Corruption("fetch job deleted", 1, sql(_DELETE_JOBS.format("fetch")), "waiting", "unit"),
    Corruption("ocr jobs deleted", 2, sql(_DELETE_JOBS.format("ocr")), "waiting", "unit"),
    Corruption("ocr jobs of claimed units deleted", 2, sql(_DELETE_JOBS.format("ocr")), "waiting", "unit", claim_one),
    Corruption("compilation job deleted", 3, sql(_DELETE_JOBS.format("compilation")), "waiting", "unit"),
    Corruption("extraction jobs deleted", 3, sql(_DELETE_JOBS.format("extraction")), "waiting", "unit"),
    Corruption("deploy job deleted", 4, sql(_DELETE_JOBS.format("deploy")), "waiting", "unit"),
    Corruption("all jobs deleted", 2, sql("delete from procrastinate_jobs"), "waiting", "unit", finish_one),
    Corruption("job finished without triggers", 2, finish_without_triggers, "I8", "claim"),
    Corruption(
        "jobs cancelled without triggers",
        2,
        sql("update procrastinate_jobs set status = 'cancelled' where status = 'todo'"),
        "waiting",
        "unit",
    ),
    Corruption(
        "waiting job of an ended run",
        5,
        sql(
            "insert into procrastinate_jobs (queue_name, task_name, args) values ('ocr', 'clerk.ocr',"
            " jsonb_build_object('subdomain', 'town', 'run_id', $run, 'stage', 'ocr', 'content_item_id', "
            + _A_UNIT
            + "))"
        ),
        "waiting",
        "stale-jobs",
    ),
    Corruption("jobs paused without a pause", 2, forget_pause, "waiting", "paused-jobs"),
    Corruption("job of a late document deleted", 5, lose_late_job, "waiting", "unit"),
    # Claims
    Corruption(
        "lease expired",
        2,
        sql("update job_claims set lease_until = now() - interval '1 minute'"),
        "I7",
        "lease",
        claim_one,
    ),
    Corruption("claim deleted", 2, sql("delete from job_claims where settled_as is null"), "I7", "lease", claim_one),
    Corruption(
        "claim settled, job running",
        2,
        sql("update job_claims set settled_as = 'succeeded'"),
        "I7",
        "lease",
        claim_one,
    ),
    Corruption(
        "claim without a job",
        2,
        sql("insert into job_claims (job_id, holder, attempt, lease_until) values (0, 'x', 0, now())"),
        "I8",
        "claim",
    ),
    # Ledger
    Corruption("unit opened after its phase", 3, sql(_OPEN_UNIT), "I2", "unit"),
    Corruption("unit opened after the run", 5, sql(_OPEN_UNIT), "I1", "run"),
    Corruption("unit closed by hand", 2, sql(_CLOSE_UNIT), "I2", "counters"),
    Corruption("fetch row deleted", 1, sql("delete from content_item_pipeline_state"), "I2", "missing-units"),
    Corruption("ocr row deleted", 2, sql(_DELETE_ROW), "I2", "missing-units"),
    Corruption("ocr row of a processed document deleted", 2, sql(_DELETE_ROW), "I2", "missing-units", finish_one),
    Corruption(
        "ocr rows deleted after their phase",
        3,
        sql("delete from content_item_pipeline_state where pipeline = 'ocr'"),
        "I2",
        "missing-units",
    ),
    Corruption(
        "ocr rows deleted after the run",
        5,
        sql("delete from content_item_pipeline_state where pipeline = 'ocr'"),
        "I2",
        "missing-units",
    ),
    Corruption(
        "compilation row deleted",
        3,
        sql("delete from content_item_pipeline_state where pipeline = 'compilation'"),
        "I2",
        "missing-units",
    ),
    Corruption(
        "extraction rows deleted",
        3,
        sql("delete from content_item_pipeline_state where pipeline = 'extraction'"),
        "I2",
        "missing-units",
    ),
    Corruption(
        "deploy row deleted",
        4,
        sql("delete from content_item_pipeline_state where pipeline = 'deploy'"),
        "I2",
        "missing-units",
    ),
    Corruption("ledger emptied", 2, sql("delete from content_item_pipeline_state"), "I2", "missing-units", finish_one),
    Corruption(
        "unit given to another run",
        2,
        sql(f"update content_item_pipeline_state set run_id = null {_THAT_UNIT}"),
        "I2",
        "missing-units",
    ),
    Corruption(
        "document deleted",
        2,
        sql(
            "delete from content_item_pipeline_state where content_item_id = " + _A_UNIT,
            _DELETE_ITEMS_WITHOUT_ROW,
        ),
        "I2",
        "counters",
    ),
    # Counters
    Corruption("counters set to zero", 2, sql(f"update sites set {_ZERO_COUNTERS}"), "I2", "counters", finish_one),
    Corruption("counters too high", 2, sql("update sites set ocr_completed = ocr_total"), "I2", "counters", finish_one),
    Corruption(
        "counters too low, all units ended", 2, sql("update sites set ocr_completed = 0"), "I3", "counters", finish_all
    ),
    Corruption("counters changed after the run", 5, sql("update sites set ocr_failed = 4"), "I2", "counters"),
    # Coordinators
    Corruption("coordinator deleted", 2, sql(_DELETE_JOBS.format("coordinator")), "waiting", "coordinator", finish_all),
    Corruption("coordinator failed", 3, lambda town: None, "waiting", "coordinator", fail_coordinator),
    Corruption(
        "coordinator of deploy deleted",
        4,
        sql(_DELETE_JOBS.format("coordinator")),
        "waiting",
        "coordinator",
        finish_all,
    ),
    Corruption(
        "coordinator and transition deleted",
        2,
        sql(_DELETE_JOBS.format("coordinator"), "delete from pipeline_transitions where phase = 2"),
        "waiting",
        "coordinator",
        finish_all,
    ),
    Corruption(
        "coordinator claimed too early",
        2,
        sql("update sites set coordinator_enqueued = true"),
        "I3",
        "counters",
        finish_one,
    ),
    Corruption(
        "claim of the coordinator undone, coordinator deleted",
        2,
        sql("update sites set coordinator_enqueued = false", _DELETE_JOBS.format("coordinator")),
        "waiting",
        "coordinator",
        finish_all,
    ),
    Corruption(
        "phase recorded as advanced, coordinator deleted",
        2,
        sql("update pipeline_transitions set advanced_at = now()", _DELETE_JOBS.format("coordinator")),
        "waiting",
        "coordinator",
        finish_all,
    ),
    # Runs and sites
    Corruption("site points at no run", 3, sql("update sites set run_id = null, current_stage = null"), "I4", "run"),
    Corruption("stage changed forward", 2, sql("update sites set current_stage = 'deploy'"), "I4", "run", finish_one),
    Corruption("stage changed back", 3, sql("update sites set current_stage = 'fetch'"), "I4", "run"),
    Corruption(
        "stage changed after all units ended",
        2,
        sql(
            "update sites set current_stage = 'deploy'",
            _DELETE_JOBS.format("coordinator"),
            "delete from pipeline_transitions where phase = 2",
            "update sites set coordinator_enqueued = false",
        ),
        "I4",
        "run",
        finish_all,
    ),
    Corruption(
        "stage set to completed", 2, sql("update sites set current_stage = 'completed'"), "I4", "run", finish_one
    ),
    Corruption("stage set to null", 2, sql("update sites set current_stage = null"), "I4", "run", finish_one),
    Corruption(
        "run ended, site not",
        2,
        sql("update pipeline_runs set ended_at = now(), outcome = 'failed'"),
        "I4",
        "run",
        finish_one,
    ),
    Corruption(
        "site reopened after its run", 5, sql("update sites set current_stage = 'ocr', outcome = null"), "I4", "run"
    ),
    Corruption("outcome changed", 5, sql("update sites set outcome = 'failed'"), "I4", "run"),
    Corruption("outcome of an active run", 2, sql("update sites set outcome = 'failed'"), "I4", "run"),
    Corruption(
        "run reopened after its end",
        5,
        sql("update pipeline_runs set ended_at = null, outcome = null"),
        "I4",
        "run",
    ),
    Corruption("refresh job missing", 5, sql("update sites set dirty = true"), "waiting", "dirty"),
]

HARMLESS = [
    Corruption(
        "phase recorded as advanced too early",
        2,
        sql("insert into pipeline_transitions (run_id, phase, advanced_at) values ($run, 2, now())"),
        "",
        "",
        finish_one,
    ),
    Corruption("advances forgotten", 3, sql("update pipeline_transitions set advanced_at = null"), "", ""),
    Corruption("transitions deleted", 3, sql("delete from pipeline_transitions"), "", ""),
]
"""Transitions are history: the site's row decides where a run is, so wrong ones need no repair."""
