"""`clerk legacy redis`: the older system's queues, emptied into runs, and put back again."""

from __future__ import annotations

import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from rq import Worker
from rq.executions import Execution
from rq.job import Job, JobStatus

from tests.cli.conftest import Clerk
from tests.engine.driving import Connection, one, rows
from tests.legacy.old_redis import OldRq
from tests.legacy.old_system import OldDisk, stuck_site

pytestmark = pytest.mark.usefixtures("settled")


def contents(old_rq: OldRq) -> dict[Any, Any]:
    """Every key and what it holds."""
    connection: Any = old_rq.connection
    read = {
        b"hash": connection.hgetall,
        b"set": connection.smembers,
        b"string": connection.get,
        b"list": lambda key: connection.lrange(key, 0, -1),
        b"zset": lambda key: connection.zrange(key, 0, -1, withscores=True),
    }
    return {key: read[connection.type(key)](key) for key in connection.keys("*")}


def in_queue(old_rq: OldRq, name: str) -> dict[str, list[str]]:
    queue = old_rq.queue(name)
    return {
        "waiting": queue.get_job_ids(),
        "deferred": queue.deferred_job_registry.get_job_ids(cleanup=False),
        "failed": queue.failed_job_registry.get_job_ids(cleanup=False),
        "scheduled": queue.scheduled_job_registry.get_job_ids(cleanup=False),
    }


@pytest.fixture
def old_day(connection: Connection, old_disk: OldDisk, old_rq: OldRq) -> dict[str, Job]:
    """A stuck site with its failed jobs and the coordinator that waits for them, and others that wait their turn."""
    stuck_site(connection, "town")
    old_disk.text("town", "Council", "2020-01-01", "one")
    for site in ("village", "hamlet"):
        connection.execute("insert into sites (subdomain, status) values (%s, 'deployed')", [site])
        old_disk.text(site, "Council", "2020-01-01", "one")
    first = old_rq.failed("ocr", "ocr_page_job", "OSError: no tesseract", subdomain="town", run_id="r1", pdf_path="a")
    old_rq.failed("ocr", "ocr_document_job", subdomain="town", run_id="r1", backend="tesseract")
    return {
        "failed": first,
        "coordinator": old_rq.deferred("compilation", "ocr_complete_coordinator", first, subdomain="town"),
        "waiting": old_rq.waiting("fetch", "fetch_site_job", subdomain="village"),
        "scheduled": old_rq.scheduled("deploy", "deploy_job", subdomain="hamlet"),
        "finance": old_rq.waiting("finance", "finance_job", subdomain="town"),
        "nowhere": old_rq.waiting("fetch", "fetch_site_job", subdomain="no where"),
        "other failure": old_rq.failed("deploy", "deploy_job", subdomain="town"),
    }


@pytest.mark.usefixtures("old_day")
def test_a_rehearsal_counts_and_changes_nothing(connection: Connection, old_rq: OldRq, clerk_command: Clerk) -> None:
    before = contents(old_rq)
    outcome = clerk_command("legacy", "redis", "--dry-run")
    assert outcome.out.splitlines()[:3] == [
        "1 deferred coordinators would be cancelled",
        "2 failed OCR jobs would be deleted",
        "2 waiting and scheduled jobs would be turned into runs of 2 sites",
    ]
    assert outcome.out.endswith("Nothing was done.\n")
    assert contents(old_rq) == before
    assert one(connection, "select count(*) from pipeline_runs") == 0
    assert not list(Path.cwd().glob("*.jsonl"))


def test_it_empties_the_queues_into_runs(
    connection: Connection, old_rq: OldRq, old_day: dict[str, Job], clerk_command: Clerk
) -> None:
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl", "--json")
    assert outcome.code == 0, outcome
    said = json.loads(outcome.out)
    assert (said["cancelled_coordinators"], said["deleted_failed_ocr_jobs"]) == (1, 2)
    assert said["turned_into_runs"] == {"hamlet": 1, "village": 1}
    assert in_queue(old_rq, "ocr")["failed"] == []
    assert in_queue(old_rq, "compilation")["deferred"] == []
    assert in_queue(old_rq, "deploy")["scheduled"] == []
    assert old_day["coordinator"].get_status(refresh=True) is JobStatus.CANCELED
    assert in_queue(old_rq, "finance")["waiting"] == [old_day["finance"].id], "none of clerk's business"
    assert in_queue(old_rq, "fetch")["waiting"] == [old_day["nowhere"].id], "no such site: somebody should look"
    assert in_queue(old_rq, "deploy")["failed"] == [old_day["other failure"].id]
    assert len(said["left"]) == 3
    found = rows(connection, "select subdomain, reason from pipeline_runs order by 1")
    assert found == [(site, "waited in the older system's queue") for site in ("hamlet", "village")]
    # Their documents are known before their runs begin, so that none is read again.
    assert one(connection, "select count(*) from content_item_pipeline_state where pipeline = 'ocr'") == 2
    lines = [json.loads(line) for line in Path("removed.jsonl").read_text().splitlines()]
    assert len(lines) == 5
    failed = next(line for line in lines if line["id"] == old_day["failed"].id)
    assert (failed["queue"], failed["place"], failed["function"]) == ("ocr", "failed", "ocr_page_job")
    assert failed["kwargs"] == {"subdomain": "town", "run_id": "r1", "pdf_path": "a"}
    assert failed["error"] == "OSError: no tesseract"


@pytest.mark.usefixtures("old_day")
def test_what_was_removed_can_be_put_back(old_rq: OldRq, clerk_command: Clerk) -> None:
    places = {name: in_queue(old_rq, name) for name in ("ocr", "compilation", "deploy", "finance")}
    waiting = set(in_queue(old_rq, "fetch")["waiting"])
    keys = {key: value for key, value in contents(old_rq).items() if key.startswith(b"rq:job:")}
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert contents(old_rq).keys() != keys.keys()
    assert (
        clerk_command("legacy", "redis", "--restore", "removed.jsonl", "--dry-run").out == "5 jobs would be put back.\n"
    )
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "5 jobs put back.\n"
    assert {name: in_queue(old_rq, name) for name in places} == places
    assert set(in_queue(old_rq, "fetch")["waiting"]) == waiting
    after = contents(old_rq)
    assert {key: after.get(key) for key in keys} == keys, "to the letter"
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "0 jobs put back.\n"


@pytest.mark.usefixtures("old_day")
def test_a_second_time_there_is_nothing_left(connection: Connection, clerk_command: Clerk) -> None:
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    said = json.loads(clerk_command("legacy", "redis", "--file", "again.jsonl", "--json").out)
    assert (said["cancelled_coordinators"], said["deleted_failed_ocr_jobs"], said["runs"]) == (0, 0, {})
    assert said["file"] is None
    assert not Path("again.jsonl").exists()
    assert clerk_command("legacy", "redis", "--file", "removed.jsonl").out.endswith("Nothing was removed.\n")
    assert one(connection, "select count(*) from pipeline_runs") == 2


@pytest.mark.usefixtures("old_day")
def test_the_record_of_an_earlier_run_is_not_overwritten(old_rq: OldRq, clerk_command: Clerk) -> None:
    Path("removed.jsonl").write_text("of an earlier run")
    before = contents(old_rq)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 2
    assert "removed.jsonl is there already: name another file" in outcome.err
    assert Path("removed.jsonl").read_text() == "of an earlier run"
    assert contents(old_rq) == before


@pytest.mark.usefixtures("old_day")
def test_without_the_older_disk_nothing_is_removed(
    old_rq: OldRq, clerk_command: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "nowhere"))
    before = contents(old_rq)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert (outcome.code, "set STORAGE_DIR" in outcome.err) == (2, True)
    assert contents(old_rq) == before
    assert not Path("removed.jsonl").exists()


def test_odd_characters_survive_the_file(old_rq: OldRq, clerk_command: Clerk) -> None:
    odd = "a\u2028b\x85c\ud800"
    old_rq.failed("ocr", "ocr_page_job", subdomain="town", pdf_path=odd)
    before = in_queue(old_rq, "ocr")
    assert clerk_command("legacy", "redis", "--file", "removed.jsonl").code == 0
    assert json.loads(Path("removed.jsonl").read_text())["kwargs"]["pdf_path"] == odd
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "1 jobs put back.\n"
    assert in_queue(old_rq, "ocr") == before


def test_a_stuck_site_with_a_waiting_job_gets_one_run(
    connection: Connection, old_disk: OldDisk, old_rq: OldRq, clerk_command: Clerk
) -> None:
    stuck_site(connection, "town")
    old_disk.text("town", "Council", "2020-01-01", "one")
    old_rq.waiting("ocr", "ocr_page_job", subdomain="town")
    old_rq.waiting("ocr", "ocr_page_job", subdomain="town")
    assert clerk_command("legacy", "redis").code == 0
    assert rows(connection, "select reason from pipeline_runs") == [("migrated from the older system",)]
    assert clerk_command("migrate-stuck-sites").out == "No site is stuck.\n"


def test_a_job_whose_worker_died_becomes_a_run_and_comes_back_as_waiting(
    connection: Connection, old_disk: OldDisk, old_rq: OldRq, clerk_command: Clerk
) -> None:
    old_disk.root.mkdir()
    connection.execute("insert into sites (subdomain) values ('town')")
    job = old_rq.waiting("fetch", "fetch_site_job", subdomain="town")
    queue = old_rq.queue("fetch")
    queue.remove(job)
    job.set_status(JobStatus.STARTED)
    with old_rq.connection.pipeline() as pipe:
        Execution.create(job, ttl=600, pipeline=pipe)
        pipe.execute()
    assert queue.started_job_registry.get_job_ids(cleanup=False) == [job.id]
    assert "turned into runs of 1 sites" in clerk_command("legacy", "redis", "--file", "removed.jsonl").out
    assert queue.started_job_registry.get_job_ids(cleanup=False) == []
    assert one(connection, "select count(*) from pipeline_runs") == 1
    clerk_command("legacy", "redis", "--restore", "removed.jsonl")
    assert in_queue(old_rq, "fetch")["waiting"] == [job.id]


def test_it_refuses_while_workers_live(old_rq: OldRq, clerk_command: Clerk) -> None:
    old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    worker = Worker(["ocr"], connection=old_rq.connection, name="host-a.4711")
    worker.register_birth()  # type: ignore[no-untyped-call]
    try:
        before = contents(old_rq)
        refused = clerk_command("legacy", "redis")
        assert refused.code == 1
        assert "1 workers of the older system are alive (host-a.4711)" in refused.err
        assert contents(old_rq) == before
        assert "1 failed OCR jobs deleted" in clerk_command("legacy", "redis", "--force").out
    finally:
        worker.register_death()  # type: ignore[no-untyped-call]


def test_a_redis_of_something_else_is_left_alone(old_rq: OldRq, clerk_command: Clerk) -> None:
    old_rq.connection.set("session:1", "x")
    before = contents(old_rq)
    outcome = clerk_command("legacy", "redis")
    assert outcome.code == 1
    assert "the Redis holds no queue of RQ" in outcome.err
    old_rq.connection.set("rq:queues", "not a set")
    outcome = clerk_command("legacy", "redis")
    assert outcome.code == 1
    assert "the Redis holds something else under RQ's names" in outcome.err
    old_rq.connection.delete("rq:queues")
    assert contents(old_rq) == before


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


def test_a_job_that_would_run_code_is_not_understood(old_rq: OldRq, clerk_command: Clerk) -> None:
    job = old_rq.waiting("ocr", "ocr_page_job", subdomain="town")
    data = pickle.dumps(("clerk.workers.ocr_page_job", None, (), {"subdomain": Bomb()}))
    old_rq.connection.hset(job.key, "data", zlib.compress(data))
    outcome = clerk_command("legacy", "redis")
    assert "1 left in ocr waiting: its content cannot be understood" in outcome.out
    assert not Path("exploded").exists()
    assert in_queue(old_rq, "ocr")["waiting"] == [job.id]


def test_a_redis_that_does_not_answer_is_exit_code_3(clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:s3cret@localhost:1/0")
    outcome = clerk_command("legacy", "redis")
    assert outcome.code == 3
    assert "s3cret" not in outcome.err
    assert outcome.err.count("\n") == 1


def test_wrong_usage_is_exit_code_2(clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clerk_command("legacy", "redis").code == 2, "REDIS_URL is not set"
    monkeypatch.setenv("REDIS_URL", "http://localhost")
    assert clerk_command("legacy", "redis").code == 2


@pytest.mark.usefixtures("old_rq")
def test_a_file_that_is_none_of_ours_is_not_restored(clerk_command: Clerk) -> None:
    Path("removed.jsonl").write_text('{"id": 1}\n')
    outcome = clerk_command("legacy", "redis", "--restore", "removed.jsonl")
    assert outcome.code == 2
    assert "removed.jsonl cannot be read" in outcome.err
