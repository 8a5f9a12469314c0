"""Examples of the state machine that random operations seldom reach, in which the model differed from the engine."""

from __future__ import annotations

from typing import Any

from tests.conftest import Url
from tests.engine.test_state_machine import Machine

Step = tuple[str, tuple[Any, ...]]

END_FETCH: Step = ("finish_waiting_job", (0,))
# Then two jobs wait: 0 is the fetch of village, 1 is the coordinator of town.
CANCEL_COORDINATOR: Step = ("cancel_job", (1,))
# Of the jobs that have ended, 0 is the fetch of town.
RETRY_FIRST_COORDINATOR: Step = ("retry_by_hand", (1,))
FETCH_COORDINATOR: Step = ("fetch", (0, ("coordinator",)))
RECONCILE: Step = ("reconcile", ())


def drive(database: Url, *steps: Step) -> Machine:
    """Rules in a given order, compared after each as in a random example."""

    class MachineHere(Machine):
        url = database
        steps = 0

    machine = MachineHere()
    try:
        machine.make_sites(documents=(1, 0))
        machine.compare_with_model()
        for name, arguments in steps:
            getattr(machine, name)(*arguments)
            machine.compare_with_model()
    finally:
        machine.teardown()
    return machine


def test_an_older_coordinator_is_retried_by_hand_after_the_newest_was_cancelled(database: Url) -> None:
    machine = drive(
        database,
        END_FETCH,
        CANCEL_COORDINATOR,
        RECONCILE,
        CANCEL_COORDINATOR,
        RETRY_FIRST_COORDINATOR,
        RECONCILE,
        FETCH_COORDINATOR,
        RECONCILE,
    )
    coordinators = [job for _, job in sorted(machine.model.jobs.items()) if job.queue == "coordinator"]
    assert [job.status for job in coordinators] == ["doing", "cancelled"]


def test_a_coordinator_is_cancelled_after_each_of_three_repairs(database: Url) -> None:
    machine = drive(database, END_FETCH, *[CANCEL_COORDINATOR, RECONCILE] * 4)
    assert machine.model.sites["town"].outcome == "failed"


def test_a_job_of_an_ended_run_is_retried_by_hand_after_each_of_three_repairs(database: Url) -> None:
    # The first fetch of town succeeded before its run was superseded. Retried, it is not late, but stale.
    retry_stale_job: Step = ("retry_by_hand", (0,))
    machine = drive(database, END_FETCH, ("start", ("town", True)), *[retry_stale_job, RECONCILE] * 4)
    first, *_ = [job for _, job in sorted(machine.model.jobs.items())]
    assert (first.queue, first.status) == ("fetch", "todo"), "reconciliation leaves it to the workers"
