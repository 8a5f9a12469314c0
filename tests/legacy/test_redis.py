"""`clerk legacy redis`: empties the queues of legacy clerk into runs, and restores them."""

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

from clerk.legacy import cutover
from tests.cli.conftest import Clerk
from tests.engine.helpers import Connection, one, rows
from tests.legacy.legacy_redis import LegacyRq
from tests.legacy.legacy_system import LegacyDisk, stuck_site

pytestmark = pytest.mark.usefixtures("legacy_settings")


def contents(legacy_rq: LegacyRq) -> dict[Any, Any]:
    """Every key with its value."""
    connection: Any = legacy_rq.connection
    read = {
        b"hash": connection.hgetall,
        b"set": connection.smembers,
        b"string": connection.get,
        b"list": lambda key: connection.lrange(key, 0, -1),
        b"zset": lambda key: connection.zrange(key, 0, -1, withscores=True),
    }
    return {key: read[connection.type(key)](key) for key in connection.keys("*")}


def in_queue(legacy_rq: LegacyRq, name: str) -> dict[str, list[str]]:
    queue = legacy_rq.queue(name)
    return {
        "waiting": queue.get_job_ids(),
        "deferred": queue.deferred_job_registry.get_job_ids(cleanup=False),
        "failed": queue.failed_job_registry.get_job_ids(cleanup=False),
        "scheduled": queue.scheduled_job_registry.get_job_ids(cleanup=False),
    }


@pytest.fixture
def legacy_jobs(connection: Connection, legacy_disk: LegacyDisk, legacy_rq: LegacyRq) -> dict[str, Job]:
    """A stuck site with failed jobs and their deferred coordinator, and waiting and scheduled jobs of other sites."""
    stuck_site(connection, "town")
    legacy_disk.text("town", "Council", "2020-01-01", "one")
    for site in ("village", "hamlet"):
        connection.execute("insert into sites (subdomain, status) values (%s, 'deployed')", [site])
        legacy_disk.text(site, "Council", "2020-01-01", "one")
    first = legacy_rq.failed(
        "ocr", "ocr_page_job", "OSError: no tesseract", subdomain="town", run_id="r1", pdf_path="a"
    )
    legacy_rq.failed("ocr", "ocr_document_job", subdomain="town", run_id="r1", backend="tesseract")
    return {
        "failed": first,
        "coordinator": legacy_rq.deferred("compilation", "ocr_complete_coordinator", first, subdomain="town"),
        "waiting": legacy_rq.waiting("fetch", "fetch_site_job", subdomain="village"),
        "scheduled": legacy_rq.scheduled("deploy", "deploy_job", subdomain="hamlet"),
        "finance": legacy_rq.waiting("finance", "finance_job", subdomain="town"),
        "nowhere": legacy_rq.waiting("fetch", "fetch_site_job", subdomain="no where"),
        "other failure": legacy_rq.failed("deploy", "deploy_job", subdomain="town"),
    }


@pytest.mark.usefixtures("legacy_jobs")
def test_a_dry_run_counts_and_changes_nothing(
    connection: Connection, legacy_rq: LegacyRq, clerk_command: Clerk
) -> None:
    before = contents(legacy_rq)
    outcome = clerk_command("legacy", "redis", "--dry-run")
    assert outcome.out.splitlines()[:3] == [
        "1 deferred coordinators would be cancelled",
        "2 failed OCR jobs would be deleted",
        "2 waiting and scheduled jobs would be turned into runs of 2 sites",
    ]
    assert outcome.out.endswith("Nothing was done.\n")
    assert contents(legacy_rq) == before
    assert one(connection, "select count(*) from pipeline_runs") == 0
    assert not list(Path.cwd().glob("*.jsonl"))


def test_the_queues_are_emptied_into_runs(
    connection: Connection, legacy_rq: LegacyRq, legacy_jobs: dict[str, Job], clerk_command: Clerk
) -> None:
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl", "--json")
    assert outcome.code == 0, outcome
    output = json.loads(outcome.out)
    assert (output["cancelled_coordinators"], output["deleted_failed_ocr_jobs"]) == (1, 2)
    assert output["turned_into_runs"] == {"hamlet": 1, "village": 1}
    assert in_queue(legacy_rq, "ocr")["failed"] == []
    assert in_queue(legacy_rq, "compilation")["deferred"] == []
    assert in_queue(legacy_rq, "deploy")["scheduled"] == []
    assert legacy_jobs["coordinator"].get_status(refresh=True) is JobStatus.CANCELED
    assert in_queue(legacy_rq, "finance")["waiting"] == [legacy_jobs["finance"].id], "not a job of clerk"
    assert in_queue(legacy_rq, "fetch")["waiting"] == [legacy_jobs["nowhere"].id], "unknown site"
    assert in_queue(legacy_rq, "deploy")["failed"] == [legacy_jobs["other failure"].id]
    assert len(output["left"]) == 3
    runs = rows(connection, "select subdomain, reason from pipeline_runs order by 1")
    assert runs == [(site, "waiting in the queue of legacy clerk") for site in ("hamlet", "village")]
    # The documents are imported before the runs start, so OCR is not repeated.
    assert one(connection, "select count(*) from content_item_pipeline_state where pipeline = 'ocr'") == 2
    lines = [json.loads(line) for line in Path("removed.jsonl").read_text().splitlines()]
    assert len(lines) == 5
    failed = next(line for line in lines if line["id"] == legacy_jobs["failed"].id)
    assert (failed["queue"], failed["status"], failed["function"]) == ("ocr", "failed", "ocr_page_job")
    assert failed["kwargs"] == {"subdomain": "town", "run_id": "r1", "pdf_path": "a"}
    assert failed["error"] == "OSError: no tesseract"
    logged = rows(connection, "select via, action, detail - 'file' from recent_actions")
    assert logged == [("cli", "empty Redis", {"cancelled": 1, "deleted": 2, "converted": 2})]


@pytest.mark.usefixtures("legacy_jobs")
def test_removed_jobs_can_be_restored(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    queues = {name: in_queue(legacy_rq, name) for name in ("ocr", "compilation", "deploy", "finance")}
    waiting = set(in_queue(legacy_rq, "fetch")["waiting"])
    keys = {key: value for key, value in contents(legacy_rq).items() if key.startswith(b"rq:job:")}
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert contents(legacy_rq).keys() != keys.keys()
    assert (
        clerk_command("legacy", "redis", "--restore", "removed.jsonl", "--dry-run").out == "5 jobs would be restored.\n"
    )
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "5 jobs restored.\n"
    assert {name: in_queue(legacy_rq, name) for name in queues} == queues
    assert set(in_queue(legacy_rq, "fetch")["waiting"]) == waiting
    after = contents(legacy_rq)
    assert {key: after.get(key) for key in keys} == keys, "byte for byte"
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "0 jobs restored.\n"


@pytest.mark.usefixtures("legacy_jobs")
def test_repeating_the_command_finds_nothing(connection: Connection, clerk_command: Clerk) -> None:
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    output = json.loads(clerk_command("legacy", "redis", "--file", "second.jsonl", "--json").out)
    assert (output["cancelled_coordinators"], output["deleted_failed_ocr_jobs"], output["runs"]) == (0, 0, {})
    assert output["file"] is None
    assert not Path("second.jsonl").exists()
    assert clerk_command("legacy", "redis", "--file", "removed.jsonl").out.endswith("Nothing was removed.\n")
    assert one(connection, "select count(*) from pipeline_runs") == 2


@pytest.mark.usefixtures("legacy_jobs")
def test_an_existing_file_is_not_overwritten(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    Path("removed.jsonl").write_text("of an earlier run")
    before = contents(legacy_rq)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 2
    assert "removed.jsonl already exists: name another file" in outcome.err
    assert Path("removed.jsonl").read_text() == "of an earlier run"
    assert contents(legacy_rq) == before


@pytest.mark.usefixtures("legacy_jobs")
def test_without_the_legacy_disk_nothing_is_removed(
    legacy_rq: LegacyRq, clerk_command: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "nowhere"))
    before = contents(legacy_rq)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert (outcome.code, "set STORAGE_DIR" in outcome.err) == (2, True)
    assert contents(legacy_rq) == before
    assert not Path("removed.jsonl").exists()


def test_special_characters_survive_the_file(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    special = "a\u2028b\x85c\ud800"
    legacy_rq.failed("ocr", "ocr_page_job", subdomain="town", pdf_path=special)
    before = in_queue(legacy_rq, "ocr")
    assert clerk_command("legacy", "redis", "--file", "removed.jsonl").code == 0
    assert json.loads(Path("removed.jsonl").read_text())["kwargs"]["pdf_path"] == special
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "1 jobs restored.\n"
    assert in_queue(legacy_rq, "ocr") == before


def test_a_stuck_site_with_a_waiting_job_gets_one_run(
    connection: Connection, legacy_disk: LegacyDisk, legacy_rq: LegacyRq, clerk_command: Clerk
) -> None:
    stuck_site(connection, "town")
    legacy_disk.text("town", "Council", "2020-01-01", "one")
    legacy_rq.waiting("ocr", "ocr_page_job", subdomain="town")
    legacy_rq.waiting("ocr", "ocr_page_job", subdomain="town")
    assert clerk_command("legacy", "redis").code == 0
    assert rows(connection, "select reason from pipeline_runs") == [("migrated from legacy clerk",)]
    assert clerk_command("migrate-stuck-sites").out == "No site is stuck.\n"


def test_a_started_job_becomes_a_run_and_is_restored_as_waiting(
    connection: Connection, legacy_disk: LegacyDisk, legacy_rq: LegacyRq, clerk_command: Clerk
) -> None:
    legacy_disk.root.mkdir()
    connection.execute("insert into sites (subdomain) values ('town')")
    job = legacy_rq.waiting("fetch", "fetch_site_job", subdomain="town")
    queue = legacy_rq.queue("fetch")
    queue.remove(job)
    job.set_status(JobStatus.STARTED)
    with legacy_rq.connection.pipeline() as pipe:
        Execution.create(job, ttl=600, pipeline=pipe)
        pipe.execute()
    assert queue.started_job_registry.get_job_ids(cleanup=False) == [job.id]
    assert "turned into runs of 1 site" in clerk_command("legacy", "redis", "--file", "removed.jsonl").out
    assert queue.started_job_registry.get_job_ids(cleanup=False) == []
    assert one(connection, "select count(*) from pipeline_runs") == 1
    clerk_command("legacy", "redis", "--restore", "removed.jsonl")
    assert in_queue(legacy_rq, "fetch")["waiting"] == [job.id]


def test_it_refuses_while_workers_are_alive(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    worker = Worker(["ocr"], connection=legacy_rq.connection, name="host-a.4711")
    worker.register_birth()  # type: ignore[no-untyped-call]
    try:
        before = contents(legacy_rq)
        refused = clerk_command("legacy", "redis")
        assert refused.code == 1
        assert "1 legacy clerk workers are alive (host-a.4711)" in refused.err
        assert contents(legacy_rq) == before
        assert "1 failed OCR jobs deleted" in clerk_command("legacy", "redis", "--force").out
    finally:
        worker.register_death()  # type: ignore[no-untyped-call]


def test_inspection_does_not_remove_dead_workers(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    """RQ's own functions remove them."""
    legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    redis: Any = legacy_rq.connection
    redis.sadd("rq:workers", "rq:worker:host-a.4711")
    before = contents(legacy_rq)
    assert "redis     0 workers alive" in clerk_command("legacy", "inspect").out
    assert clerk_command("legacy", "redis", "--dry-run").code == 0
    assert contents(legacy_rq) == before


def test_a_redis_of_another_program_is_not_changed(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    legacy_rq.connection.set("session:1", "x")
    before = contents(legacy_rq)
    outcome = clerk_command("legacy", "redis")
    assert outcome.code == 1
    assert "the Redis has no RQ queue" in outcome.err
    legacy_rq.connection.set("rq:queues", "not a set")
    outcome = clerk_command("legacy", "redis")
    assert outcome.code == 1
    assert "the Redis has other data under the keys of RQ" in outcome.err
    legacy_rq.connection.delete("rq:queues")
    assert contents(legacy_rq) == before


class MaliciousPickle:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


def test_a_malicious_pickle_is_not_loaded(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    job = legacy_rq.waiting("ocr", "ocr_page_job", subdomain="town")
    data = pickle.dumps(("clerk.workers.ocr_page_job", None, (), {"subdomain": MaliciousPickle()}))
    legacy_rq.connection.hset(job.key, "data", zlib.compress(data))
    outcome = clerk_command("legacy", "redis")
    assert "1 left in ocr waiting: its content cannot be decoded" in outcome.out
    assert not Path("executed").exists()
    assert in_queue(legacy_rq, "ocr")["waiting"] == [job.id]


@pytest.mark.parametrize("name", ["data", "exc_info"])
def test_a_decompression_bomb_is_reported_and_stays(legacy_rq: LegacyRq, clerk_command: Clerk, name: str) -> None:
    """RQ would decompress it completely, so it is not given to RQ either."""
    job = legacy_rq.waiting("ocr", "ocr_page_job", subdomain="town")
    legacy_rq.connection.hset(job.key, name, zlib.compress(bytes(20_000_000)))
    outcome = clerk_command("legacy", "redis")
    assert "1 left in ocr waiting: its content has more than 16,000,000 bytes" in outcome.out
    assert in_queue(legacy_rq, "ocr")["waiting"] == [job.id]


def test_an_unreachable_redis_is_exit_code_3(clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://:s3cret@localhost:1/0")
    outcome = clerk_command("legacy", "redis")
    assert outcome.code == 3
    assert "s3cret" not in outcome.err
    assert outcome.err.count("\n") == 1


def test_wrong_usage_is_exit_code_2(clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert clerk_command("legacy", "redis").code == 2, "REDIS_URL is not set"
    monkeypatch.setenv("REDIS_URL", "http://localhost")
    assert clerk_command("legacy", "redis").code == 2


@pytest.mark.usefixtures("legacy_rq")
def test_an_invalid_file_is_not_restored(clerk_command: Clerk) -> None:
    for line in ('{"id": 1}', '{"id": "1", "status": "nowhere"}', "[]", "no JSON"):
        Path("removed.jsonl").write_text(f"{line}\n")
        outcome = clerk_command("legacy", "redis", "--restore", "removed.jsonl")
        assert outcome.code == 2
        assert "removed.jsonl cannot be read" in outcome.err


# --- invalid jobs --------------------------------------------------------------------------------------------


def test_the_time_to_live_is_restored(connection: Connection, legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    expiring = legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    coordinator = legacy_rq.deferred("compilation", "ocr_complete_coordinator", expiring, subdomain="town")
    permanent = legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    redis: Any = legacy_rq.connection
    redis.persist(permanent.key)
    redis.pexpire(expiring.key, 86_400_000)
    redis.pexpire(expiring.dependents_key, 43_200_000)
    redis.pexpire(coordinator.key, 21_600_000)
    assert clerk_command("legacy", "redis", "--file", "removed.jsonl").code == 0
    assert not redis.exists(expiring.key)
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "3 jobs restored.\n"
    assert redis.pttl(permanent.key) == -1
    for key, ttl in ((expiring.key, 86_400_000), (expiring.dependents_key, 43_200_000), (coordinator.key, 21_600_000)):
        assert ttl - 3_600_000 < redis.pttl(key) <= ttl, key


def test_a_file_without_ttls_can_be_restored(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    job = legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    line = json.loads(Path("removed.jsonl").read_text())
    del line["ttls"], line["problem"]
    Path("removed.jsonl").write_text(json.dumps(line) + "\n")
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "1 jobs restored.\n"
    assert in_queue(legacy_rq, "ocr")["failed"] == [job.id]


def broken_jobs(legacy_rq: LegacyRq) -> dict[str, Job]:
    """Jobs with invalid data that make RQ itself fail."""
    redis: Any = legacy_rq.connection
    made = {
        name: legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
        for name in ("no data", "expired", "no hash", "no pickle", "no call", "invalid call", "invalid times")
    }
    redis.hdel(made["no data"].key, "data")
    redis.delete(made["expired"].key)
    redis.delete(made["no hash"].key)
    redis.set(made["no hash"].key, "text")
    redis.hset(made["no pickle"].key, "data", b"\xff\xfe")
    redis.hset(made["no call"].key, "data", pickle.dumps("nothing to call"))
    redis.hset(made["invalid call"].key, "data", pickle.dumps((7, None, (), ["no", "names"])))
    redis.hset(made["invalid times"].key, mapping={"created_at": "yesterday", "timeout": "long", "status": "lost"})
    redis.zadd(legacy_rq.queue("ocr").failed_job_registry.key, {b"\xff\xfe not text": 1})
    return made


PROBLEMS = {
    "no data": "it has no content",
    "expired": "only its id is left",
    "no hash": "its key is not a job",
    "no pickle": "its content cannot be decoded",
    "no call": "its content cannot be decoded",
    "invalid call": "its content cannot be decoded",
}


def test_undecodable_jobs_are_reported_and_stay(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    made = broken_jobs(legacy_rq)
    valid = legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    assert json.loads(clerk_command("legacy", "inspect", "--json").out)["redis"]["queues"]["ocr"]["failed"] == 9
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl", "--json")
    assert outcome.code == 0, outcome
    output = json.loads(outcome.out)
    assert output["deleted_failed_ocr_jobs"] == 2
    named = {job["id"]: job["problem"] for job in output["problem_jobs"]}
    assert {name: named.pop(made[name].id) for name in PROBLEMS} == PROBLEMS
    assert named == {r"\xff\xfe not text": "only its id is left"}
    left = {key.decode("utf-8", "replace") for key in legacy_rq.connection.zrange("rq:failed:ocr", 0, -1)}  # type: ignore[union-attr]
    assert {made[name].id for name in PROBLEMS} < left
    assert not {valid.id, made["invalid times"].id} & left, "decodable jobs are removed"
    shown = clerk_command("legacy", "redis").out
    assert f"ocr failed, job {made['no data'].id}: it has no content\n" in shown


def test_a_coordinator_that_rq_cannot_cancel_is_deleted(
    legacy_rq: LegacyRq, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has an unknown status, one is already cancelled, one expires meanwhile."""
    first = legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    invalid, cancelled, expiring, valid = (
        legacy_rq.deferred("compilation", "ocr_complete_coordinator", first, subdomain="town") for _ in range(4)
    )
    redis: Any = legacy_rq.connection
    redis.hset(invalid.key, "status", "lost")
    redis.hdel(valid.key, "origin")
    redis.hset(cancelled.key, "status", "canceled")
    before = in_queue(legacy_rq, "compilation")["deferred"]
    contents_before = redis.hgetall(invalid.key)
    fetch = Job.fetch

    def expire_and_fetch(job_id: str, **more: Any) -> Job:
        if job_id == expiring.id:
            redis.delete(expiring.key)
        return fetch(job_id, **more)

    monkeypatch.setattr(Job, "fetch", expire_and_fetch)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 0, outcome
    assert "4 deferred coordinators cancelled\n" in outcome.out
    for job, why in (
        (invalid, "ValueError: 'lost'"),
        (cancelled, "InvalidJobOperation: "),
        (expiring, "NoSuchJobError: "),
    ):
        assert f"compilation deferred, job {job.id}: RQ cannot cancel it ({why}" in outcome.out
        assert not redis.exists(job.key)
    assert in_queue(legacy_rq, "compilation")["deferred"] == []
    assert valid.get_status(refresh=True) is JobStatus.CANCELED
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "5 jobs restored.\n"
    assert sorted(in_queue(legacy_rq, "compilation")["deferred"]) == sorted(before)
    assert redis.hgetall(invalid.key) == contents_before


def test_an_unreadable_queue_is_reported_and_the_rest_is_emptied(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    redis: Any = legacy_rq.connection
    redis.set("rq:queue:ocr", "no list")
    redis.set("rq:scheduled:ocr", "no sorted set")
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 1
    assert "1 failed OCR jobs deleted\n" in outcome.out
    for status in ("waiting", "scheduled"):
        assert f"ocr {status} cannot be read (WRONGTYPE" in outcome.out
        assert f"ocr {status} cannot be read (WRONGTYPE" in clerk_command("legacy", "inspect").out
    assert json.loads(clerk_command("legacy", "redis", "--json").out)["unreadable"] != []


def test_jobs_that_cannot_be_removed_are_reported(
    legacy_rq: LegacyRq, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (legacy_rq.failed("ocr", "ocr_page_job", subdomain="town") for _ in range(2))
    redis: Any = legacy_rq.connection
    save = cutover.save

    def save_and_disturb(file: Path, jobs: list[Any]) -> None:
        save(file, jobs)
        redis.rename("rq:failed:ocr", "rq:failed:elsewhere")
        redis.set("rq:failed:ocr", "no sorted set")

    monkeypatch.setattr(cutover, "save", save_and_disturb)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 1
    assert outcome.out.count("cannot be removed (WRONGTYPE") == 2
    assert "0 failed OCR jobs deleted\n" in outcome.out
    assert all(f"job {job.id}: " in outcome.out for job in (first, second))


def test_a_site_that_cannot_be_imported_keeps_its_jobs(
    connection: Connection, legacy_disk: LegacyDisk, legacy_rq: LegacyRq, clerk_command: Clerk
) -> None:
    for site in ("O'Brien Township", "village"):
        connection.execute("insert into sites (subdomain, status) values (%s, 'deployed')", [site])
    legacy_disk.text("village", "Council", "2020-01-01", "one")
    job = legacy_rq.waiting("fetch", "fetch_site_job", subdomain="O'Brien Township")
    legacy_rq.waiting("fetch", "fetch_site_job", subdomain="village")
    nameless = legacy_rq.waiting("fetch", "fetch_site_job", pdf_path="x")
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 1
    assert "1 waiting or scheduled job turned into runs of 1 site\n" in outcome.out
    assert "O'Brien Township: no run could be started, its jobs stay" in outcome.out
    assert "1 left in fetch waiting: it names no site\n" in outcome.out
    assert in_queue(legacy_rq, "fetch")["waiting"] == [job.id, nameless.id]
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl", "--dry-run").out == (
        "1 jobs would be restored.\n"
    ), "the other was not removed"


def test_jobs_that_cannot_be_restored_are_reported_and_the_rest_is_restored(
    legacy_rq: LegacyRq, clerk_command: Clerk
) -> None:
    jobs = [legacy_rq.failed("ocr", "ocr_page_job", subdomain="town") for _ in range(3)]
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    lines = {line["id"]: line for line in map(json.loads, Path("removed.jsonl").read_text().splitlines())}
    lines[jobs[0].id]["keys"][jobs[0].key] = "bm8gZHVtcA=="
    lines[jobs[1].id]["keys"][jobs[1].key] = "no base64!"
    Path("removed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines.values()))
    outcome = clerk_command("legacy", "redis", "--restore", "removed.jsonl")
    assert outcome.code == 1
    assert outcome.out.startswith("1 jobs restored.\n")
    for job in jobs[:2]:
        assert f"job {job.id}: cannot be restored (" in outcome.out
    assert in_queue(legacy_rq, "ocr")["failed"] == [jobs[2].id]


def test_without_a_writable_file_nothing_is_removed(legacy_rq: LegacyRq, clerk_command: Clerk) -> None:
    """The error names the file, not the Redis."""
    legacy_rq.failed("ocr", "ocr_page_job", subdomain="town")
    Path("no folder").touch()
    outcome = clerk_command("legacy", "redis", "--file", "no folder/removed.jsonl")
    assert outcome.code == 1
    assert "no folder/removed.jsonl cannot be written (File exists), so nothing was removed" in outcome.err
    assert len(in_queue(legacy_rq, "ocr")["failed"]) == 1
