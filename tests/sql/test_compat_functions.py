"""Public helper functions for scripts of legacy clerk: they change counters, not the ledger."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread

import pytest

from clerk.pipeline import engine
from clerk.pipeline.engine import STAGES
from tests.engine.helpers import Connection, Worker, add_site, counters, one, site


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_from_initialize_to_claim(connection: Connection, stage: str) -> None:
    add_site(connection)
    connection.execute(
        "update sites set coordinator_enqueued = true, ocr_failed = 5, deploy_completed = 5, fetch_failed = 5"
    )

    engine.initialize_stage(connection, "town", stage, 2)

    assert (site(connection)["current_stage"], counters(connection, stage)) == (stage, (2, 0, 0))
    assert site(connection)["coordinator_enqueued"] is False
    assert not engine.should_trigger_coordinator(connection, "town", stage)
    engine.increment_completed(connection, "town", stage)
    assert not engine.should_trigger_coordinator(connection, "town", stage)
    engine.increment_failed(connection, "town", stage, "no trailer", "PdfBroken")
    assert counters(connection, stage) == (2, 1, 1)
    assert site(connection)["last_error_stage"] == stage
    assert site(connection)["last_error_message"] == "PdfBroken: no trailer"
    assert site(connection)["last_error_at"] is not None
    assert engine.should_trigger_coordinator(connection, "town", stage)
    assert engine.claim_coordinator_enqueue(connection, "town")
    assert not engine.claim_coordinator_enqueue(connection, "town")
    assert not engine.should_trigger_coordinator(connection, "town", stage)
    assert one(connection, "select count(*) from content_item_pipeline_state") == 0
    assert one(connection, "select count(*) from procrastinate_jobs") == 0


def test_both_stages_of_the_phase_must_have_ended(connection: Connection) -> None:
    add_site(connection)
    engine.initialize_stage(connection, "town", "compilation", 1)
    engine.initialize_stage(connection, "town", "extraction", 1)
    engine.increment_completed(connection, "town", "extraction")
    assert not engine.should_trigger_coordinator(connection, "town", "extraction")
    engine.increment_failed(connection, "town", "compilation", "x" * 600, "Broken")
    assert engine.should_trigger_coordinator(connection, "town", "compilation")
    assert engine.should_trigger_coordinator(connection, "town", "extraction")
    assert site(connection)["last_error_message"] == ("Broken: " + "x" * 600)[:500]


def test_unknown_site_and_stage(connection: Connection) -> None:
    add_site(connection)
    assert not engine.should_trigger_coordinator(connection, "nowhere", "ocr")
    assert not engine.should_trigger_coordinator(connection, "town", "nap")
    assert not engine.claim_coordinator_enqueue(connection, "nowhere")


def test_concurrent_increments_and_one_claim(connection: Connection, new_worker: Callable[[str], Worker]) -> None:
    add_site(connection)
    engine.initialize_stage(connection, "town", "ocr", 100)
    barrier = Barrier(4)
    claims: list[bool] = []

    def count(worker: Worker) -> None:
        barrier.wait()
        for _ in range(25):
            engine.increment_completed(worker.connection, "town", "ocr")
        barrier.wait()
        claims.append(engine.claim_coordinator_enqueue(worker.connection, "town"))

    threads = [Thread(target=count, args=[new_worker(f"worker {number}")]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters(connection, "ocr") == (100, 100, 0)
    assert sorted(claims) == [False, False, False, True]
