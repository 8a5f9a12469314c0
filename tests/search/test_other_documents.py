"""Search covers packets, ordinances and the other kinds that share the table `other_documents`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from clerk.archive.query import ArchiveForm, parse
from clerk.archive.search import SearchRequest, search
from clerk.datasette_app.app import create_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.publish.published_search import search_published, update_index
from clerk.publish.search_index import SearchIndex
from clerk.publish.versions import SiteVersions, current_versions
from tests.archive.published import publish, remove_other_documents, write_archive
from tests.cli.conftest import Clerk

_PAGES: list[dict[str, object]] = [
    {"text": "Trees were discussed."},
    {"text": "The tree ordinance", "kind": "ordinance", "added_at": "2024-03-09T10:00:00Z"},
    {"text": "The second page about trees", "kind": "ordinance", "page": 2, "added_at": "2024-03-09T10:00:00Z"},
    {"text": "A report on each tree", "kind": "report", "added_at": "2024-03-07T10:00:00Z"},
]
_FOUND = ["minutes/1", "ordinance/1", "ordinance/2", "report/1"]


@pytest.fixture
def published(tmp_path: Path) -> Path:
    root = tmp_path / "published"
    publish(root, "alpha", *_PAGES)
    return root


@pytest.fixture
def serve(published: Path, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_app(published, tmp_path / "storage", SiteMetadata(list))) as client:
        yield client


def found(root: Path, words: str = "tree", added_since: date | None = None) -> list[str]:
    result = search_published(root, SearchRequest(parse(words), added_since=added_since))
    assert result.total == len(result.hits)
    assert result.broken == {}
    return sorted(f"{hit.kind}/{hit.page}" for hit in result.hits)


@pytest.mark.parametrize("with_index", [False, True])
def test_every_page_is_found_once_with_its_kind(published: Path, with_index: bool) -> None:
    if with_index:
        assert SearchIndex(published).build(current_versions(published)).updated == {"alpha": 4}
    assert found(published) == _FOUND
    assert found(published, added_since=date(2024, 3, 8)) == ["ordinance/1", "ordinance/2"]
    result = search_published(published, SearchRequest(parse("tree")))
    assert result.facets.as_dict() == {
        "site": {"alpha": 4},
        "body": {"City Council": 4},
        "kind": {"ordinance": 2, "minutes": 1, "report": 1},
        "year": {"2024": 4},
    }
    ordinances = search_published(published, SearchRequest(parse("tree"), kind="ordinance"))
    assert (ordinances.total, {hit.kind for hit in ordinances.hits}) == (2, {"ordinance"})
    paths = {hit.path for hit in result.hits if hit.kind == "ordinance"}
    assert paths == {f"/-/pages/alpha/ordinance/2024-03-05/City%20Council/{page}" for page in (1, 2)}


def test_the_index_follows_a_new_version_and_a_rollback(published: Path, tmp_path: Path) -> None:
    SearchIndex(published).build(current_versions(published))
    draft = tmp_path / "draft.db"
    write_archive(draft, *_PAGES[:2], {"text": "A packet with a tree", "kind": "packet"})
    versions = SiteVersions(published, "alpha")
    versions.publish(draft, keep=5)
    result = update_index(published, ["alpha"], wait=0)
    assert result is not None
    assert found(published) == ["minutes/1", "ordinance/1", "packet/1"]
    versions.switch_to(versions.previous())
    update_index(published, ["alpha"], wait=0)
    assert SearchIndex(published).versions() == current_versions(published)
    assert found(published) == _FOUND


def test_an_archive_without_search_terms_is_searched_in_its_texts(tmp_path: Path) -> None:
    database = publish(tmp_path, "alpha", *_PAGES, form=ArchiveForm.TEXT)
    result = search([("alpha", database)], SearchRequest(parse("tree")))
    assert sorted(hit.kind for hit in result.hits) == ["ordinance", "report"], "words match as written"


@pytest.mark.parametrize("form", ArchiveForm)
@pytest.mark.parametrize("with_index", [False, True])
def test_an_archive_without_the_table_is_searched_and_served(
    serve: TestClient, published: Path, form: ArchiveForm, with_index: bool
) -> None:
    remove_other_documents(publish(published, "beta", {"text": "A tree in beta"}, form=form))
    if with_index:
        assert SearchIndex(published).build(current_versions(published)).broken == {}
    assert found(published) == sorted([*_FOUND, "minutes/1"])
    assert serve.get("/beta/minutes.json?_search=tree&_shape=array").json()[0]["text"] == "A tree in beta"
    assert serve.get("/-/pages/beta/ordinance/2024-03-05/City%20Council/1").status_code == 404
    assert serve.get("/beta").status_code == 200


def test_the_pages_of_clerk_serve(serve: TestClient) -> None:
    rows = serve.get("/alpha/other_documents.json?_search=trees&kind=ordinance&_shape=array").json()
    assert [(row["kind"], row["page"]) for row in rows] == [("ordinance", 1), ("ordinance", 2)]
    assert len(serve.get("/alpha/other_documents.json?_search=trees&_shape=array").json()) == 3
    hits = serve.get("/alpha/search.json?q=tree").json()["hits"]
    assert sorted(f"{hit['kind']}/{hit['page']}" for hit in hits) == _FOUND
    for hit in hits:
        answer = serve.get(hit["path"])
        assert answer.status_code == 200
        assert f"{hit['kind']} of 5 March 2024, page {hit['page']}" in answer.text
    report = serve.get("/-/pages/alpha/report/2024-03-05/City%20Council/1").text
    assert "A report on each tree" in report
    assert 'rel="next"' not in report, "the second page is that of the ordinance"
    following = quote("/-/pages/alpha/ordinance/2024-03-05/City Council/2")
    assert following in serve.get("/-/pages/alpha/ordinance/2024-03-05/City%20Council/1").text


def test_the_command_shows_the_kind(clerk_command: Clerk, published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(published))
    hits = json.loads(clerk_command("search", "tree", "--json").out)["hits"]
    assert sorted(f"{hit['kind']}/{hit['page']}" for hit in hits) == _FOUND
