"""The search index over all sites: updates, replacement, and what happens when it is out of date."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from clerk.archive.query import parse
from clerk.archive.search import SearchRequest, Sort
from clerk.archive.search import search as search_archives
from clerk.publish import published_search
from clerk.publish.index_documents import IndexUnavailable
from clerk.publish.published_search import search_published, update_index
from clerk.publish.search_index import SearchIndex
from clerk.publish.versions import SiteVersions, current_versions
from tests.archive.published import write_archive
from tests.cli.conftest import Clerk


def publish_version(root: Path, site: str, *texts: str) -> None:
    draft = root / f".{site}.db"
    draft.unlink(missing_ok=True)
    write_archive(draft, *({"text": text, "page": number} for number, text in enumerate(texts, 1)))
    SiteVersions(root, site).publish(draft, keep=5)


def found(root: Path, words: str, site: str | None = None) -> list[str]:
    hits = search_published(root, SearchRequest(parse(words)), site).hits
    return sorted(f"{hit.subdomain}/{hit.page}" for hit in hits)


@pytest.fixture
def indexed(tmp_path: Path) -> Path:
    """Two sites, both indexed."""
    publish_version(tmp_path, "alpha", "bike lanes", "budget")
    publish_version(tmp_path, "beta", "bike racks")
    SearchIndex(tmp_path).build(current_versions(tmp_path))
    return tmp_path


def test_the_index_answers_without_searching_the_archives(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    search = search_archives

    def record(archives: list[tuple[str, Path]], *arguments: object) -> object:
        searched.extend(name for name, _ in archives)
        return search(archives, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(published_search, "search", record)
    assert found(indexed, "bike") == ["alpha/1", "beta/1"]
    assert found(indexed, "bikes", "beta") == ["beta/1"]
    assert searched == []
    assert found(indexed, '"bike lan*"') == ["alpha/1"]
    assert searched == ["alpha", "beta"], "tantivy expands a prefix in a phrase to 50 words only"


def test_a_new_version_is_found_before_and_after_the_update(indexed: Path) -> None:
    publish_version(indexed, "alpha", "bike lanes", "tree")
    publish_version(indexed, "gamma", "tree")
    for _ in range(2):
        assert found(indexed, "tree") == ["alpha/2", "gamma/1"]
        assert found(indexed, "budget") == []
        assert found(indexed, "bike") == ["alpha/1", "beta/1"]
        result = update_index(indexed, ["alpha", "gamma"], wait=0)
    assert result is not None
    assert result.updated == {}, "the second update had nothing to do"
    assert SearchIndex(indexed).versions() == current_versions(indexed)


def test_a_rollback_and_a_removed_site(indexed: Path) -> None:
    publish_version(indexed, "alpha", "tree")
    update_index(indexed, ["alpha"], wait=0)
    versions = SiteVersions(indexed, "alpha")
    versions.switch_to(versions.previous())
    assert found(indexed, "tree") == []
    assert found(indexed, "budget") == ["alpha/2"]
    SiteVersions(indexed, "beta").link.unlink()
    assert found(indexed, "bike") == ["alpha/1"]
    result = SearchIndex(indexed).update(current_versions(indexed), wait=0, forget_others=True)
    assert (result.updated, result.removed) == ({"alpha": 2}, ["beta"])
    assert found(indexed, "bike") == ["alpha/1"]


def test_totals_pages_and_order(tmp_path: Path) -> None:
    publish_version(tmp_path, "alpha", *(f"bike {number}" for number in range(50)))
    SearchIndex(tmp_path).build(current_versions(tmp_path))
    first = search_published(tmp_path, SearchRequest(parse("bike"), sort=Sort.DATE, limit=20))
    last = search_published(tmp_path, SearchRequest(parse("bike"), sort=Sort.DATE, limit=20, offset=40))
    everything = search_published(tmp_path, SearchRequest(parse("bike"), limit=None))
    assert (first.total, len(first.hits), len(last.hits), len(everything.hits)) == (50, 20, 10, 50)
    assert not {hit.page for hit in first.hits} & {hit.page for hit in last.hits}
    assert first.facets.as_dict() == {
        "site": {"alpha": 50},
        "body": {"City Council": 50},
        "kind": {"minutes": 50},
        "year": {"2024": 50},
    }


def test_a_broken_archive_keeps_what_is_indexed(indexed: Path) -> None:
    publish_version(indexed, "alpha", "tree")
    current = SiteVersions(indexed, "alpha").current
    assert current is not None
    (current.path / "meetings.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    result = update_index(indexed, ["alpha"], wait=0)
    assert result is not None
    assert list(result.broken) == ["alpha"]
    answer = search_published(indexed, SearchRequest(parse("bike")))
    assert [hit.subdomain for hit in answer.hits] == ["beta"]
    assert list(answer.broken) == ["alpha"]


def test_a_damaged_index_is_not_used(indexed: Path, caplog: pytest.LogCaptureFixture) -> None:
    (SearchIndex(indexed).folder / "meta.json").write_text("{}")
    assert found(indexed, "bike") == ["alpha/1", "beta/1"]
    assert "the search index cannot be used" in caplog.text


def test_only_one_process_writes(indexed: Path) -> None:
    publish_version(indexed, "alpha", "tree")
    with (indexed / ".search-index.lock").open("w") as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        with pytest.raises(IndexUnavailable, match="another process"):
            update_index(indexed, ["alpha"], wait=0)
    assert found(indexed, "tree") == ["alpha/1"]


def test_without_tantivy_the_archives_are_searched(indexed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    assert found(indexed, "bike") == ["alpha/1", "beta/1"]
    assert update_index(indexed, ["alpha"], wait=0) is None


def test_the_commands(clerk_command: Clerk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(tmp_path))
    publish_version(tmp_path, "alpha", "bike")
    assert "There is no search index" in clerk_command("search-index", "status").out
    assert clerk_command("search-index", "update").code == 2
    assert "1 site would be indexed" in clerk_command("search-index", "build", "--dry-run").out
    assert clerk_command("search-index", "build", "--quiet").out == "1 site indexed, with 1 page.\n"
    publish_version(tmp_path, "alpha", "bike", "tree")
    assert json.loads(clerk_command("search-index", "status", "--json").out)["due"] == ["alpha"]
    assert clerk_command("search-index", "update", "--quiet").out == "1 site indexed, with 2 pages.\n"
    assert "1 site, all current." in clerk_command("search-index", "status").out
    assert clerk_command("search-index", "remove").code == 0
    assert not (tmp_path / ".search-index").exists()
    assert found(tmp_path, "tree") == ["alpha/2"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_user_who_may_only_read_searches_the_index() -> None:
    """Like the dashboard and `clerk serve` under systemd."""
    program = (
        "import os, sys, tantivy; from pathlib import Path\n"
        "from clerk.archive.query import parse\n"
        "from clerk.archive.search import SearchRequest\n"
        "from clerk.publish import index_query\n"
        "from clerk.publish.search_index import open_index\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(open_index(Path(sys.argv[1])).search(SearchRequest(parse('bike')), None).total)"
    )
    # Not tmp_path: each start of another pytest makes the folder of all its sessions private again.
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        publish_version(folder, "alpha", "bike lanes")
        SearchIndex(folder).build(current_versions(folder))
        done = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1\n", "")
