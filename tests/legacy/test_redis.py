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

from clerk.legacy import cutover
from tests.cli.conftest import Clerk
from tests.engine.helpers import Connection, one, rows
from tests.legacy.legacy_redis import OldRq
from tests.legacy.legacy_system import OldDisk, stuck_site

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
    logged = rows(connection, "select via, action, detail - 'file' from recent_actions")
    assert logged == [("cli", "empty Redis", {"cancelled": 1, "deleted": 2, "turned": 2})]


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


def test_looking_forgets_no_worker(old_rq: OldRq, clerk_command: Clerk) -> None:
    """RQ itself would, of one that died."""
    old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    redis: Any = old_rq.connection
    redis.sadd("rq:workers", "rq:worker:host-a.4711")
    before = contents(old_rq)
    assert "redis     0 workers alive" in clerk_command("legacy", "inspect").out
    assert clerk_command("legacy", "redis", "--dry-run").code == 0
    assert contents(old_rq) == before


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
    for line in ('{"id": 1}', '{"id": "1", "place": "nowhere"}', "[]", "no JSON"):
        Path("removed.jsonl").write_text(f"{line}\n")
        outcome = clerk_command("legacy", "redis", "--restore", "removed.jsonl")
        assert outcome.code == 2
        assert "removed.jsonl cannot be read" in outcome.err


# --- jobs that are odd ---------------------------------------------------------------------------------------


def test_as_long_to_live_as_before(connection: Connection, old_rq: OldRq, clerk_command: Clerk) -> None:
    mortal = old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    coordinator = old_rq.deferred("compilation", "ocr_complete_coordinator", mortal, subdomain="town")
    immortal = old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    redis: Any = old_rq.connection
    redis.persist(immortal.key)
    redis.pexpire(mortal.key, 86_400_000)
    redis.pexpire(mortal.dependents_key, 43_200_000)
    redis.pexpire(coordinator.key, 21_600_000)
    assert clerk_command("legacy", "redis", "--file", "removed.jsonl").code == 0
    assert not redis.exists(mortal.key)
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "3 jobs put back.\n"
    assert redis.pttl(immortal.key) == -1
    for key, life in ((mortal.key, 86_400_000), (mortal.dependents_key, 43_200_000), (coordinator.key, 21_600_000)):
        assert life - 3_600_000 < redis.pttl(key) <= life, key


def test_a_file_from_before_lives_were_recorded_can_be_restored(old_rq: OldRq, clerk_command: Clerk) -> None:
    job = old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    line = json.loads(Path("removed.jsonl").read_text())
    del line["lives"], line["problem"]
    Path("removed.jsonl").write_text(json.dumps(line) + "\n")
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "1 jobs put back.\n"
    assert in_queue(old_rq, "ocr")["failed"] == [job.id]


def broken_jobs(old_rq: OldRq) -> dict[str, Job]:
    """Each with something that RQ itself would stumble over."""
    redis: Any = old_rq.connection
    made = {
        name: old_rq.failed("ocr", "ocr_page_job", subdomain="town")
        for name in ("no data", "expired", "no hash", "no pickle", "no call", "odd call", "odd times")
    }
    redis.hdel(made["no data"].key, "data")
    redis.delete(made["expired"].key)
    redis.delete(made["no hash"].key)
    redis.set(made["no hash"].key, "text")
    redis.hset(made["no pickle"].key, "data", b"\xff\xfe")
    redis.hset(made["no call"].key, "data", pickle.dumps("nothing to call"))
    redis.hset(made["odd call"].key, "data", pickle.dumps((7, None, (), ["no", "names"])))
    redis.hset(made["odd times"].key, mapping={"created_at": "yesterday", "timeout": "long", "status": "lost"})
    redis.zadd(old_rq.queue("ocr").failed_job_registry.key, {b"\xff\xfe not text": 1})
    return made


WHY = {
    "no data": "it has no content",
    "expired": "nothing is left of it but its name",
    "no hash": "its key holds something else than a job",
    "no pickle": "its content cannot be understood",
    "no call": "its content cannot be understood",
    "odd call": "its content cannot be understood",
}


def test_jobs_that_nobody_understands_are_named_and_stay(old_rq: OldRq, clerk_command: Clerk) -> None:
    made = broken_jobs(old_rq)
    sound = old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    assert json.loads(clerk_command("legacy", "inspect", "--json").out)["redis"]["queues"]["ocr"]["failed"] == 9
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl", "--json")
    assert outcome.code == 0, outcome
    said = json.loads(outcome.out)
    assert said["deleted_failed_ocr_jobs"] == 2
    named = {odd["id"]: odd["problem"] for odd in said["odd"]}
    assert {name: named.pop(made[name].id) for name in WHY} == WHY
    assert named == {r"\xff\xfe not text": "nothing is left of it but its name"}
    left = {key.decode("utf-8", "replace") for key in old_rq.connection.zrange("rq:failed:ocr", 0, -1)}  # type: ignore[union-attr]
    assert {made[name].id for name in WHY} < left
    assert not {sound.id, made["odd times"].id} & left, "what is understood goes, whatever else is odd about it"
    shown = clerk_command("legacy", "redis").out
    assert f"ocr failed, job {made['no data'].id}: it has no content\n" in shown


def test_a_coordinator_that_rq_cannot_cancel_is_deleted(
    old_rq: OldRq, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One has a status that RQ does not know, one is cancelled already, one expires under our hands."""
    first = old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    odd, cancelled, expiring, sound = (
        old_rq.deferred("compilation", "ocr_complete_coordinator", first, subdomain="town") for _ in range(4)
    )
    redis: Any = old_rq.connection
    redis.hset(odd.key, "status", "lost")
    redis.hdel(sound.key, "origin")
    redis.hset(cancelled.key, "status", "canceled")
    before = in_queue(old_rq, "compilation")["deferred"]
    contents_before = redis.hgetall(odd.key)
    fetch = Job.fetch

    def expire_and_fetch(job_id: str, **more: Any) -> Job:
        if job_id == expiring.id:
            redis.delete(expiring.key)
        return fetch(job_id, **more)

    monkeypatch.setattr(Job, "fetch", expire_and_fetch)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 0, outcome
    assert "4 deferred coordinators cancelled\n" in outcome.out
    for job, why in ((odd, "ValueError: 'lost'"), (cancelled, "InvalidJobOperation: "), (expiring, "NoSuchJobError: ")):
        assert f"compilation deferred, job {job.id}: RQ cannot cancel it ({why}" in outcome.out
        assert not redis.exists(job.key)
    assert in_queue(old_rq, "compilation")["deferred"] == []
    assert sound.get_status(refresh=True) is JobStatus.CANCELED
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl").out == "5 jobs put back.\n"
    assert sorted(in_queue(old_rq, "compilation")["deferred"]) == sorted(before)
    assert redis.hgetall(odd.key) == contents_before


def test_a_place_that_is_something_else_is_named_and_the_rest_goes_on(old_rq: OldRq, clerk_command: Clerk) -> None:
    old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    redis: Any = old_rq.connection
    redis.set("rq:queue:ocr", "no list")
    redis.set("rq:scheduled:ocr", "no sorted set")
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 1
    assert "1 failed OCR jobs deleted\n" in outcome.out
    for place in ("waiting", "scheduled"):
        assert f"ocr {place} cannot be read (WRONGTYPE" in outcome.out
        assert f"ocr {place} cannot be read (WRONGTYPE" in clerk_command("legacy", "inspect").out
    assert json.loads(clerk_command("legacy", "redis", "--json").out)["unreadable"] != []


def test_what_cannot_be_removed_is_named(old_rq: OldRq, clerk_command: Clerk, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (old_rq.failed("ocr", "ocr_page_job", subdomain="town") for _ in range(2))
    redis: Any = old_rq.connection
    save = cutover.save

    def save_and_disturb(file: Path, jobs: list[Any]) -> None:
        save(file, jobs)
        redis.rename("rq:failed:ocr", "rq:failed:elsewhere")
        redis.set("rq:failed:ocr", "no sorted set")

    monkeypatch.setattr(cutover, "save", save_and_disturb)
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 1
    assert outcome.out.count("it cannot be removed (WRONGTYPE") == 2
    assert "0 failed OCR jobs deleted\n" in outcome.out
    assert all(f"job {job.id}: " in outcome.out for job in (first, second))


def test_a_site_that_cannot_be_taken_over_keeps_its_jobs(
    connection: Connection, old_disk: OldDisk, old_rq: OldRq, clerk_command: Clerk
) -> None:
    for site in ("O'Brien Township", "village"):
        connection.execute("insert into sites (subdomain, status) values (%s, 'deployed')", [site])
    old_disk.text("village", "Council", "2020-01-01", "one")
    job = old_rq.waiting("fetch", "fetch_site_job", subdomain="O'Brien Township")
    old_rq.waiting("fetch", "fetch_site_job", subdomain="village")
    nameless = old_rq.waiting("fetch", "fetch_site_job", pdf_path="x")
    outcome = clerk_command("legacy", "redis", "--file", "removed.jsonl")
    assert outcome.code == 1
    assert "1 waiting and scheduled jobs turned into runs of 1 sites\n" in outcome.out
    assert "O'Brien Township: no run could be started, its jobs stay" in outcome.out
    assert "1 left in fetch waiting: it names no site\n" in outcome.out
    assert in_queue(old_rq, "fetch")["waiting"] == [job.id, nameless.id]
    assert clerk_command("legacy", "redis", "--restore", "removed.jsonl", "--dry-run").out == (
        "1 jobs would be put back.\n"
    ), "one never left"


def test_what_cannot_be_put_back_is_named_and_the_rest_is(old_rq: OldRq, clerk_command: Clerk) -> None:
    jobs = [old_rq.failed("ocr", "ocr_page_job", subdomain="town") for _ in range(3)]
    clerk_command("legacy", "redis", "--file", "removed.jsonl")
    lines = {line["id"]: line for line in map(json.loads, Path("removed.jsonl").read_text().splitlines())}
    lines[jobs[0].id]["keys"][jobs[0].key] = "bm8gZHVtcA=="
    lines[jobs[1].id]["keys"][jobs[1].key] = "no base64!"
    Path("removed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines.values()))
    outcome = clerk_command("legacy", "redis", "--restore", "removed.jsonl")
    assert outcome.code == 1
    assert outcome.out.startswith("1 jobs put back.\n")
    for job in jobs[:2]:
        assert f"job {job.id}: it cannot be put back (" in outcome.out
    assert in_queue(old_rq, "ocr")["failed"] == [jobs[2].id]


def test_without_a_record_nothing_is_removed(old_rq: OldRq, clerk_command: Clerk) -> None:
    """And the file's trouble is not blamed on the Redis."""
    old_rq.failed("ocr", "ocr_page_job", subdomain="town")
    Path("no folder").touch()
    outcome = clerk_command("legacy", "redis", "--file", "no folder/removed.jsonl")
    assert outcome.code == 1
    assert "no folder/removed.jsonl cannot be written (File exists), so nothing was removed" in outcome.err
    assert len(in_queue(old_rq, "ocr")["failed"]) == 1
