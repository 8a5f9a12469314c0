"""A machine that is cut off from Postgres and the storage: the others take over, and it continues when it is back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers import until
from tests.hosts.cluster import Cluster, cluster
from tests.hosts.network import Host, unsupported

_TEN_MINUTES = 600.0


@pytest.fixture
def machines(pytestconfig: pytest.Config, tmp_path: Path) -> Iterator[Cluster]:
    if not pytestconfig.getoption("--long"):
        pytest.skip("takes minutes: --long")
    if reason := unsupported():
        pytest.skip(reason)
    with cluster(3, tmp_path / "cluster", round_trip=1.0) as started:
        yield started


@pytest.mark.timeout(1800)
def test_a_host_cut_off_for_ten_minutes(machines: Cluster) -> None:
    names = machines.add_sites("town", sites=3, documents=8, pages=2, scans=6)
    for host in machines.hosts:
        machines.start_workers(host, processes=2)
    machines.start_runs(names)
    lost = machines.hosts[1]
    held = until(lambda: _held(machines, lost))

    lost.cut()
    was_cut = time.monotonic()
    machines.wait(names)
    settled = machines.query(
        "select count(*), count(*) filter (where status = 'processed') from content_item_pipeline_state"
        " where job_id = any(%s)",
        held,
    )[0]
    assert settled[0] == settled[1] > 0, "the other hosts have not taken over every job"
    _check(machines, names)

    until(lambda: time.monotonic() - was_cut > _TEN_MINUTES, 2 * _TEN_MINUTES)
    more = machines.add_sites("later", sites=3, documents=8, pages=2, scans=8)
    lost.reconnect()
    machines.start_runs(more)
    until(lambda: _held(machines, lost))
    machines.wait(more)
    _check(machines, names + more)


def _held(machines: Cluster, host: Host) -> list[int]:
    """The jobs of documents that a host is working on."""
    return [
        row[0] for row in machines.query("select job_id from running_jobs where host = %s and stage = 'ocr'", host.name)
    ]


def _check(machines: Cluster, names: list[str]) -> None:
    assert machines.query("select * from invariant_violations_full") == []
    rows = machines.query(
        "select s.subdomain, s.outcome, count(*) from sites s"
        " join content_items i using (subdomain)"
        " join content_item_pipeline_state l on l.content_item_id = i.id and l.pipeline = 'ocr'"
        " where s.subdomain = any(%s) and l.status = 'processed' group by 1, 2",
        names,
    )
    assert sorted(rows) == sorted((name, "succeeded", 8) for name in names)
    published = machines.query(
        "select subdomain, count(*) from publications where subdomain = any(%s) group by 1", names
    )
    assert sorted(published) == sorted((name, 1) for name in names), "published more than once"
