"""Failover of Postgres under `clerk worker` and real documents: the archives equal those of an undisturbed run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clerk.publish.versions import SiteVersions
from tests.faults.cluster import Cluster, running_cluster
from tests.faults.pipeline import Pipeline, pipeline_on, until
from tests.faults.real_sites import Installation, write_documents

pytestmark = [pytest.mark.timeout(1800), pytest.mark.usefixtures("only_with_long")]

_SITES = ("alba", "brook", "cove")
_DOCUMENTS = 16


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    for site in _SITES:
        write_documents(tmp_path / "sources", site, _DOCUMENTS)
    return tmp_path / "sources"


@pytest.fixture
def expected(database: str, sources: Path, tmp_path: Path) -> dict[str, str]:
    """The archives of an undisturbed run."""
    undisturbed = Installation(database, tmp_path / "undisturbed", sources)
    undisturbed.folder.mkdir()
    undisturbed.add_sites(*_SITES)
    undisturbed.clerk("update", "--all")
    undisturbed.clerk("worker", "--until-idle", "--processes", "2")
    return undisturbed.content_hashes(*_SITES)


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def installation(cluster: Cluster, sources: Path, tmp_path: Path) -> Installation:
    installation = Installation(cluster.url(), tmp_path / "disturbed", sources)
    installation.folder.mkdir()
    return installation


def _processed(pipeline: Pipeline) -> int:
    count: int = pipeline.scalar(
        "select count(*) from content_item_pipeline_state where pipeline = 'ocr' and status = 'processed'"
    )
    return count


def _runs_have_ended(pipeline: Pipeline, count: int) -> bool:
    rows = pipeline.rows("select outcome from pipeline_runs")
    return len(rows) == count and all(outcome is not None for (outcome,) in rows)


def test_switchovers_under_load(
    cluster: Cluster, installation: Installation, expected: dict[str, str], tmp_path: Path
) -> None:
    with pipeline_on(cluster.url(), tmp_path) as pipeline, installation.workers() as workers:
        pids = workers.pids()
        installation.add_sites(*_SITES)
        installation.clerk("update", "--all")
        for processed in (3, 15, 30):
            until(lambda processed=processed: _processed(pipeline) >= processed, "documents")  # type: ignore[misc]
            cluster.wait_for_standby()
            cluster.switch_over()
            pipeline.reconnect()
        until(lambda: _runs_have_ended(pipeline, len(_SITES)), "the end of the runs")
        assert workers.pids() == pids
        pipeline.check_invariants()
        assert pipeline.rows("select outcome from pipeline_runs") == [("succeeded",)] * len(_SITES)
        assert pipeline.rows("select id from content_item_pipeline_state where attempt_count <> 1") == []
        assert pipeline.scalar("select count(*) from publications") == len(_SITES)
    installation.clerk("verify")
    assert installation.content_hashes(*_SITES) == expected


@pytest.mark.parametrize("lost", ["some results", "three runs"])
def test_failover_to_a_standby_that_lags(
    cluster: Cluster, installation: Installation, expected: dict[str, str], tmp_path: Path, lost: str
) -> None:
    """Results that were acknowledged, publications and a site vanish from the database; their files do not."""
    *early, late = _SITES
    with pipeline_on(cluster.url(), tmp_path) as pipeline, installation.workers() as workers:
        pids = workers.pids()
        installation.add_sites(*early)
        installation.clerk("update", "--all")
        until(lambda: _processed(pipeline) >= 4, "documents")
        cluster.wait_for_standby()
        cluster.standby.stop_receiving()
        kept = _processed(pipeline)
        installation.add_sites(late)
        installation.clerk("update", late)
        if lost == "three runs":
            until(lambda: _runs_have_ended(pipeline, len(_SITES)), "the end of the runs")
            assert installation.content_hashes(*_SITES) == expected
        else:
            until(lambda: _processed(pipeline) >= kept + 10, "more documents")

        cluster.primary.crash()
        cluster.promote()
        pipeline.reconnect()
        assert _processed(pipeline) <= kept
        assert pipeline.rows("select from sites where subdomain = %s", late) == []
        cluster.start_standby()
        installation.add_sites(late)
        installation.clerk("update", late)
        until(lambda: _runs_have_ended(pipeline, len(_SITES)), "the end of the runs")

        assert workers.pids() == pids
        pipeline.check_invariants()
        assert pipeline.rows("select outcome from pipeline_runs") == [("succeeded",)] * len(_SITES)
        assert pipeline.scalar("select count(*) from publications") == len(_SITES)
    installation.clerk("verify")
    assert installation.content_hashes(*_SITES) == expected
    for site in _SITES:
        assert len(SiteVersions(installation.storage / "_published", site).versions()) == 1
