"""Failover to a standby: planned, after the primary's end, and with results that the standby never received."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.cluster import Cluster, running_cluster
from tests.faults.pipeline import pipeline_on, until


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_switchover(cluster: Cluster, tmp_path: Path) -> None:
    """No worker exits, no job is repeated, and the listener follows to the new primary."""
    with pipeline_on(cluster.url, tmp_path) as pipeline:
        held, *others = pipeline.add_site(documents=12)
        pipeline.plan_item("ocr", held, "query,wait:switched,query")
        run = pipeline.start_run()
        workers = [pipeline.worker("ocr", concurrency=2), pipeline.worker(concurrency=2)]
        until(lambda: pipeline.counters("ocr") == (12, 11, 0), "all but one document")

        cluster.wait_for_standby()
        cluster.switch_over()
        pipeline.reconnect()
        pipeline.open_gate("switched")
        assert pipeline.wait_for_end(run) == "succeeded"

        assert [worker.is_alive() for worker in workers] == [True, True]
        for item in (held, *others):
            assert pipeline.ledger("ocr", item) == ("processed", None, 1)
            assert len(pipeline.steps("done", stage="ocr", item=item)) == 1
        assert pipeline.ignored_results("fenced") == []
        pipeline.check_invariants()
        assert [worker.stop() for worker in workers] == [0, 0]
