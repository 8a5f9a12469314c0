"""Trace ids of runs and jobs: the same in SQL and Python, and never an error."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest
from procrastinate import jobs

from clerk.pipeline import engine
from clerk.telemetry.trace_context import run_ids, take_job_ids
from tests.faults.pipeline import Pipeline


def job(attempts: int = 0, id: int = 7, **arguments: Any) -> jobs.Job:  # noqa: A002 (Procrastinate's name)
    return jobs.Job(
        id=id,
        queue="ocr",
        lock=None,
        queueing_lock=None,
        task_name="clerk.ocr",
        task_kwargs=arguments,
        attempts=attempts,
    )


@pytest.mark.parametrize("subdomain", ["springfield", "san-josé", "日本", "a b'c\\d"])
@pytest.mark.parametrize("run_id", [1, 2**63 - 1])
def test_sql_and_python_derive_the_same_ids(connection: psycopg.Connection, subdomain: str, run_id: int) -> None:
    row = connection.execute("select clerk_traceparent(%s, %s)", [subdomain, run_id]).fetchone()
    ids = run_ids(subdomain, run_id)
    assert row == (ids.traceparent,)
    assert re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", ids.traceparent)


def test_every_unit_job_has_the_context_of_its_run(pipeline: Pipeline) -> None:
    document, _ = pipeline.add_site(documents=2)
    run_id = pipeline.start_run(first_phase=2)
    arguments = "select args ->> 'traceparent' from procrastinate_jobs where id = %s"
    expected = run_ids("anytown", run_id).traceparent
    assert pipeline.scalar(arguments, pipeline.job_id("ocr", document)) == expected
    deleted = pipeline.job_id("ocr", document)
    pipeline.connection.execute("delete from procrastinate_jobs where id = %s", [deleted])
    assert engine.retry_units(pipeline.connection, "anytown", "ocr", [document]).run_id == run_id
    assert pipeline.job_id("ocr", document) != deleted
    assert pipeline.scalar(arguments, pipeline.job_id("ocr", document)) == expected


def test_jobs_without_the_argument_belong_to_the_same_trace() -> None:
    run = run_ids("springfield", 5)
    with_argument = take_job_ids(job(subdomain="springfield", run_id=5, traceparent=run.traceparent))
    assert take_job_ids(job(subdomain="springfield", run_id=5)) == with_argument
    assert (with_argument.trace_id, with_argument.parent_id) == (run.trace_id, run.span_id)


def test_the_argument_of_another_program_wins_and_no_task_gets_it() -> None:
    foreign = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    waiting = job(subdomain="springfield", run_id=5, traceparent=foreign)
    ids = take_job_ids(waiting)
    assert (ids.trace_id, ids.parent_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")
    assert waiting.task_kwargs == {"subdomain": "springfield", "run_id": 5}


def test_every_attempt_has_its_own_span() -> None:
    spans = {take_job_ids(job(attempts, number, subdomain="a", run_id=1)) for attempts in (0, 1) for number in (1, 2)}
    assert len({ids.span_id for ids in spans}) == 4
    assert len({ids.trace_id for ids in spans}) == 1


@pytest.mark.parametrize(
    "traceparent",
    [None, 7, [], "", "00-", f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{'a' * 32}-{'0' * 16}-01", "é" * 55],
)
@pytest.mark.parametrize("arguments", [{}, {"subdomain": ["x"], "run_id": "5"}, {"run_id": 5}, {"timestamp": 0}])
def test_a_job_with_other_arguments_is_a_trace_of_its_own(traceparent: Any, arguments: dict[str, Any]) -> None:
    first = take_job_ids(job(**arguments, traceparent=traceparent))
    other = take_job_ids(job(id=8, **arguments, traceparent=traceparent))
    assert first.parent_id is None
    assert first.trace_id != other.trace_id
