"""Reconciliation of a site in a bucket: what cannot be read does not count as lost."""

from __future__ import annotations

import pytest

from clerk import config
from clerk.db.connection import connect_to
from clerk.errors import BucketMissing
from clerk.object_storage.bucket import Bucket, ObjectInfo
from clerk.pipeline import host_watch
from clerk.reconcile import verify_files
from tests.reconcile.files.site_fixture import StoredSite

STORAGES = ("bucket",)


@pytest.fixture(params=["another prefix", "missing bucket", "unreachable"])
def _wrong_storage(request: pytest.FixtureRequest, site: StoredSite, monkeypatch: pytest.MonkeyPatch) -> None:
    url = site.storage.root.bucket.url.with_options
    wrong = {
        "another prefix": url.replace("?", "-other?"),
        "missing bucket": url.replace("//", "//no-such-", 1),
        "unreachable": url.partition("?")[0] + "?endpoint=http://127.0.0.1:9&timeout=0.2",
    }
    monkeypatch.setenv("STORAGE_DIR", wrong[request.param])


@pytest.mark.usefixtures("_wrong_storage")
def test_a_wrong_storage_is_reported_and_nothing_is_repaired(site: StoredSite, database_url: str) -> None:
    assert site.plan(full=True) == ["storage-missing"]
    result = site.reconcile(full=True)
    assert result.done == []
    assert result.failed == []
    assert site.all_processed
    with connect_to(database_url) as connection:
        check = verify_files.verify_files(connection, config.load(), full=True)
    assert check.unknown is not None


@pytest.fixture
def database_url(site: StoredSite) -> str:
    url = config.load().database_url
    assert url is not None
    return url


def test_a_worker_waits_until_the_bucket_is_there(site: StoredSite, monkeypatch: pytest.MonkeyPatch) -> None:
    assert host_watch.find_problem(BucketMissing, config.load()) is None
    url = site.storage.root.bucket.url.with_options
    monkeypatch.setenv("STORAGE_DIR", url.replace("//", "//no-such-", 1))
    assert isinstance(host_watch.find_problem(BucketMissing, config.load()), BucketMissing)
    folders = host_watch.folders(config.load())
    assert config.load().cache_dir in folders, "the free space of the local folder is checked"


def test_one_listing_suffices_for_the_quick_scan(site: StoredSite, monkeypatch: pytest.MonkeyPatch) -> None:
    assert site.reconcile().failed == []
    heads: list[str] = []
    info = Bucket.info

    def counted(self: Bucket, key: str) -> ObjectInfo:
        heads.append(key)
        return info(self, key)

    monkeypatch.setattr(Bucket, "info", counted)
    assert site.plan() == []
    assert not [key for key in heads if "/txt/" in key or "/pdfs/" in key], "no request per page or document"
