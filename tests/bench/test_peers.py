"""The benchmark's side of the peers. That each peer runs is checked by running the benchmark, which needs PyPI."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as RedisConnectionError

from tests.bench import peers
from tests.bench.peers.worker_report import Counts, Options, Report


def options(reports: Path) -> Options:
    return Options(
        "work", "", sites=2, units_per_site=3, concurrency=1, threads=False, tuned=False, reports=str(reports)
    )


def test_units_are_enqueued_site_after_site(tmp_path: Path) -> None:
    assert options(tmp_path).site_of_each_unit() == [0, 0, 0, 1, 1, 1]


def test_a_report_loses_no_job_of_concurrent_threads(tmp_path: Path) -> None:
    report = Report(options(tmp_path))

    def run_jobs() -> None:
        for _ in range(1000):
            with report.unit():
                pass
            report.count_coordinator()

    threads = [threading.Thread(target=run_jobs) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report.write()
    total = peers.sum_reports(tmp_path)
    assert (total.units, total.coordinators) == (8000, 8000)
    assert 0 < total.first_start < total.last_end


def test_reports_are_added_up_and_idle_workers_do_not_count_as_the_first_to_start(tmp_path: Path) -> None:
    for name, counts in {
        "1": {"units": 2, "coordinators": 1, "first_start": 5.0, "last_end": 7.0},
        "2": {"units": 3, "coordinators": 0, "first_start": 4.0, "last_end": 6.0},
        "3": {"units": 0, "coordinators": 0, "first_start": 0.0, "last_end": 0.0},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(counts))
    assert peers.sum_reports(tmp_path) == Counts(units=5, coordinators=1, first_start=4.0, last_end=7.0)


def test_a_worker_that_ends_is_reported_with_its_output(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", "raise SystemExit('no such queue')"]
    with (
        pytest.raises(SystemExit, match=r"(?s)ended with status 1.*no such queue"),
        peers.running_workers(command, 1, log) as workers,
    ):
        peers.wait_for(lambda: False, 60, workers, log)


def test_an_unreachable_index_is_reported_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_NO_CACHE", "1")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(SystemExit, match=r"(?s)was not created.*check that PyPI"):
        peers.prepare_environments(tmp_path, ["huey"])


@pytest.mark.skipif(shutil.which("redis-server") is None, reason="bin/setup --for-tests installs redis-server")
def test_the_redis_server_starts_empty_and_ends() -> None:
    with peers.redis_server() as url, Redis.from_url(url) as connection:
        assert connection.dbsize() == 0
    with Redis.from_url(url) as connection, pytest.raises(RedisConnectionError):
        connection.ping()
