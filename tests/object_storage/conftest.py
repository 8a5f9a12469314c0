from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clerk.object_storage.bucket import Bucket
from clerk.object_storage.path import ObjectPath, object_root
from clerk.object_storage.url import parse_bucket_url
from tests.object_storage.fault_proxy import FaultProxy, fault_proxy
from tests.s3 import BUCKET


@pytest.fixture
def root(bucket_url: str, tmp_path: Path) -> ObjectPath:
    return object_root(parse_bucket_url(bucket_url), tmp_path / "cache", 10_000_000)


@pytest.fixture
def proxy(s3_endpoint: str) -> Iterator[FaultProxy]:
    with fault_proxy(s3_endpoint) as proxy:
        yield proxy


@pytest.fixture
def bucket_behind(proxy: FaultProxy, bucket_url: str) -> Callable[..., Bucket]:
    """A bucket behind the proxy, with short timeouts."""

    def make(name: str = BUCKET, timeout: float = 0.5) -> Bucket:
        prefix = parse_bucket_url(bucket_url).prefix
        return Bucket(parse_bucket_url(f"s3://{name}/{prefix}?endpoint={proxy.url}&timeout={timeout:g}"))

    return make
