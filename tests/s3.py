"""An S3 server on loopback, one per session, and a storage root that is a folder or a bucket."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from clerk.object_storage.path import ObjectPath, StoragePath, object_root
from clerk.object_storage.url import parse_bucket_url
from clerk.publish import object_pointers
from clerk.publish.versions import SiteVersions

BUCKET = "clerk-test"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "key-of-the-tests", "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests"}
_SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
server.start()
print("http://%s:%d" % server.get_host_and_port(), flush=True)
sys.stdin.read()
"""

BOTH = ("folder", "bucket")
"""STORAGES of a module whose tests run with a folder and with a bucket."""
BOTH_IF_LONG = ("folder", "bucket if --long")
"""Likewise; with a bucket only if asked for tests that take minutes."""


def parametrize_storage(metafunc: pytest.Metafunc) -> None:
    """Run the tests of a module with STORAGES once for each, except those marked `folder_only`."""
    storages = getattr(metafunc.module, "STORAGES", None)
    if storages and "storage_root" in metafunc.fixturenames:
        only_folder = metafunc.definition.get_closest_marker("folder_only") is not None
        metafunc.parametrize("storage_root", storages[:1] if only_folder else storages, indirect=True)


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    with s3_server() as endpoint:
        yield endpoint


@contextlib.contextmanager
def s3_server() -> Iterator[str]:
    """The address of an S3 server with one bucket. In a process of its own, which ends with its standard input."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _SERVER], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        endpoint = process.stdout.readline().strip()
        httpx.put(f"{endpoint}/{BUCKET}").raise_for_status()
        yield endpoint
        process.stdin.close()


def upload_storage(folder: Path, root: ObjectPath) -> None:
    """Copy a storage folder to a bucket, with what is published."""
    for path in folder.rglob("*"):
        if path.name == "current" and path.is_symlink():
            published = SiteVersions(root / "_published", path.parent.name)
            object_pointers.switch(published.link, path.readlink().name)
        elif path.is_file() and "current" not in path.parts:
            root.joinpath(*path.relative_to(folder).parts).write_bytes(path.read_bytes())


@pytest.fixture
def bucket_url(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A STORAGE_DIR of its own. Sets the credentials."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{uuid.uuid4()}?endpoint={s3_endpoint}&timeout=20"


@pytest.fixture
def storage_root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoragePath:
    """A folder or, in modules with STORAGES, a bucket. Sets STORAGE_DIR."""
    kind = getattr(request, "param", "folder")
    if kind == "bucket if --long" and not request.config.getoption("--long"):
        pytest.skip("with a bucket it takes longer: run with --long")
    if kind == "folder":
        monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
        return tmp_path / "storage"
    url: str = request.getfixturevalue("bucket_url")
    monkeypatch.setenv("STORAGE_DIR", url)
    monkeypatch.setenv("CLERK_CACHE_DIR", str(tmp_path / "cache"))
    return object_root(parse_bucket_url(url), tmp_path / "cache", 10_000_000_000)
