"""A small site in a bucket: a real worker fetches, processes, compiles and publishes it; every reader reads it.

Two machines: each has a cache of its own and no other local files.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from clerk import config
from clerk.cli import cli
from clerk.datasette_app.app import create_app as create_serve_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.documents.storage import SiteStorage
from clerk.object_storage.path import StoragePath
from clerk.plugins import manager
from clerk.web.app import create_app as create_dashboard
from clerk.web.db import ReadOnlyPool
from tests.archive.helpers import add_site
from tests.conftest import Url
from tests.ocr import pdfs
from tests.reconcile.files.site_fixture import StoredSite, process_documents

STORAGES = ("bucket",)


@pytest.fixture
def site(
    database: Url,
    connection: psycopg.Connection[Any],
    storage_root: StoragePath,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[StoredSite]:
    monkeypatch.setenv("DATABASE_URL", database)
    manager._load.cache_clear()
    add_site(connection)
    site = StoredSite(connection, SiteStorage(storage_root, "springfield"), tmp_path)
    site.set_source(tmp_path / "source")
    yield site
    manager._load.cache_clear()


def _run(*arguments: str) -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def _move_to_another_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> config.Settings:
    monkeypatch.setenv("CLERK_CACHE_DIR", str(tmp_path / name))
    return config.load()


def test_a_site_from_its_source_to_its_readers(
    site: StoredSite, database: Url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process_documents(site)
    first = site.published.current
    assert first is not None
    assert first.pages == 4
    assert _run("search", "bridge")["total"] == 4

    settings = _move_to_another_machine(monkeypatch, tmp_path, "second machine")
    site.add_to_source("Town Council/2024-04-02.pdf", pdfs.digital(1, ("The ferry", *pdfs.MINUTES)))
    assert site.update() == "succeeded"
    second = site.published.current
    assert second is not None
    assert (second.pages, second.name > first.name) == (5, True)
    assert _run("search", "ferry")["total"] == 1

    with TestClient(create_serve_app(settings.publish_dir, settings.storage_dir, SiteMetadata(list))) as serve:
        assert "ferry" in serve.get("/-/search?q=ferry").text
        page = serve.get("/springfield/agendas.json?_shape=array").json()[0]
        image = serve.get(f"/-/images/springfield{page['page_image']}")
        assert (image.status_code, image.content[:4]) == (200, b"\x89PNG")
        assert serve.get("/springfield.db").content.startswith(b"SQLite format 3")
    document = site.document("2024-03-05")
    with ReadOnlyPool(database) as pool:
        dashboard = create_dashboard(pool, None, settings.storage_dir, settings.publish_dir)
        with TestClient(dashboard, base_url="http://localhost") as client:
            path = f"/sites/springfield/documents/{document.id}"
            assert "1.png" in client.get(path).text
            assert client.get(f"{path}/pages/1.png").content.startswith(b"\x89PNG")
            content = site.storage.pdf(document).read_bytes()
            assert client.get(f"{path}/document.pdf").content == content
            assert "ferry" in client.get("/search?q=ferry").text

    assert _run("rollback", "springfield")["to"] == first.name
    assert site.published.current == first
    assert site.plan(full=True) == [], "a version that was rolled back stays rolled back"
    assert all(check["ok"] for check in _run("verify", "--full")["checks"])
    assert _run("build-all")["pages"] == 5
    assert _run("site", "remove", "springfield", "--files", "--yes")["files_deleted"]
    assert not site.storage.folder.is_dir()
