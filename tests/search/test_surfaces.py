"""The same searches in `clerk search`, in the dashboard and in `clerk serve`, with and without the search index."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from starlette.testclient import TestClient

from clerk.archive.query import ArchiveForm
from clerk.datasette_app.app import create_app as create_serve_app
from clerk.datasette_app.site_metadata import SiteMetadata
from clerk.publish.search_index import SearchIndex
from clerk.publish.versions import current_versions
from clerk.web.app import create_app as create_dashboard
from clerk.web.db import ReadOnlyPool
from tests.archive.published import publish
from tests.cli.conftest import Clerk
from tests.search.cases import CASES, INVALID, Case, publish_sites

Search = Callable[[str, dict[str, str]], list[str]]
"""Query and filters → SITE/PAGE of each result, in order. Raises InvalidQueryShown for a query that is reported."""
SURFACES = ("command", "dashboard", "serve", "serve page")


class InvalidQueryShown(Exception):
    pass


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STORAGE_DIR", str(tmp_path / "storage"))
    monkeypatch.setenv("CLERK_PUBLISH_DIR", str(tmp_path / "published"))
    return tmp_path / "published"


@pytest.fixture
def serve(published: Path, tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_serve_app(published, tmp_path / "storage", SiteMetadata(list))) as client:
        yield client


@pytest.fixture
def dashboard(pool: ReadOnlyPool, published: Path) -> TestClient:
    return TestClient(create_dashboard(pool, publish_dir=published), base_url="http://localhost")


@pytest.fixture(params=SURFACES)
def search(request: pytest.FixtureRequest, clerk_command: Clerk, dashboard: TestClient, serve: TestClient) -> Search:
    def by_command(query: str, filters: dict[str, str]) -> list[str]:
        options = [part for name, value in filters.items() for part in (f"--{name.replace('_', '-')}", value)]
        result = clerk_command("search", *query.split(), *options, "--json")
        if result.code == 2:
            assert result.err.startswith("clerk: "), result.err
            raise InvalidQueryShown
        return [f"{hit['subdomain']}/{hit['page']}" for hit in json.loads(result.out)["hits"]]

    def by_dashboard(query: str, filters: dict[str, str]) -> list[str]:
        page = dashboard.get(f"/search?{urlencode({'q': query} | filters)}").text
        if 'role="alert"' in page:
            raise InvalidQueryShown
        return [
            "/".join(hit) for hit in re.findall(r'<a href="/sites/(\w+)"><bdi>\w+</bdi></a> · \w+, page (\d+)', page)
        ]

    def by_serve(query: str, filters: dict[str, str]) -> list[str]:
        answer = serve.get(f"/-/search.json?{urlencode({'q': query} | filters)}")
        if answer.status_code == 400:
            raise InvalidQueryShown
        return [f"{hit['subdomain']}/{hit['page']}" for hit in answer.json()["hits"]]

    def by_serve_page(query: str, filters: dict[str, str]) -> list[str]:
        answer = serve.get(f"/-/search?{urlencode({'q': query} | filters)}")
        if answer.status_code == 400:
            assert 'role="alert"' in answer.text
            raise InvalidQueryShown
        found = re.findall(r'<a href="/-/pages/(\w+)/\w+/[\d-]+/[^/]+/(\d+)">Permanent link', answer.text)
        return ["/".join(hit) for hit in found]

    return dict(zip(SURFACES, (by_command, by_dashboard, by_serve, by_serve_page), strict=True))[request.param]


def _check(search: Search, case: Case, expected: str) -> None:
    found = search(case.query, case.filters)
    if "sort" in case.filters:
        assert found == expected.split(), case
    else:
        assert sorted(found) == sorted(expected.split()), case


def test_every_case_on_every_surface(search: Search, published: Path) -> None:
    publish_sites(published)
    for case in CASES:
        _check(search, case, case.found)
    for query in INVALID:
        with pytest.raises(InvalidQueryShown):
            search(query, {})


def test_every_case_with_the_index(search: Search, published: Path) -> None:
    publish_sites(published)
    index = SearchIndex(published)
    assert index.build(current_versions(published)).updated == {"alpha": 5, "beta": 4}
    for case in CASES:
        _check(search, case, case.found)


def test_archives_without_search_terms_match_words_as_written(search: Search, published: Path) -> None:
    publish_sites(published, ArchiveForm.TEXT)
    for case in CASES:
        _check(search, case, case.found if case.older_form is None else case.older_form)


def test_the_search_box_of_a_table_has_the_same_language(serve: TestClient, published: Path) -> None:
    publish_sites(published)
    for case in CASES:
        if not case.filters:
            for site, table in (("alpha", "minutes"), ("alpha", "agendas"), ("beta", "minutes")):
                query = urlencode({"_search": case.query, "_shape": "array"})
                rows = serve.get(f"/{site}/{table}.json?{query}").json()
                kinds = {"alpha/3": "agendas"}
                expected = {
                    page for page in case.found.split()
                    if page.startswith(site) and kinds.get(page, "minutes") == table
                }  # fmt: skip
                assert {f"{site}/{row['page']}" for row in rows} == expected, (case, table)
    answer = serve.get("/alpha/minutes?_search=tree+XOR+hedge")
    assert answer.status_code == 400
    assert "XOR is an unknown operator" in answer.text


def test_paging_reaches_every_result(
    clerk_command: Clerk, dashboard: TestClient, serve: TestClient, published: Path
) -> None:
    publish(published, "alpha", *({"text": f"bike {n}", "page": n, "date": f"20{n:02}-01-01"} for n in range(1, 46)))
    by_command = []
    for number in ("1", "2", "3"):
        result = clerk_command("search", "bike", "--page", number, "--json")
        answer = json.loads(result.out)
        assert (answer["total"], answer["pages"]) == (45, 3)
        by_command += [hit["page"] for hit in answer["hits"]]
    assert sorted(by_command) == list(range(1, 46))
    assert "1 to 20 of 45 pages found in 1 archive; the next with --page 2." in clerk_command("search", "bike").out
    text = clerk_command("search", "bike", "--csv").out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 45
    assert {"citation", "path", "source_url"} <= rows[0].keys()
    for client, path in ((dashboard, "/search.csv"), (serve, "/-/search.csv"), (serve, "/alpha/search.csv")):
        answer = client.get(f"{path}?q=bike&page=2")
        assert answer.headers["content-disposition"] == 'attachment; filename="search bike.csv"'
        assert answer.text.splitlines() == text.splitlines(), path
        assert client.get(f"{path}?q=bike+AND").status_code == 400

    url, by_serve = "/-/search.json?q=bike", []
    while url:
        answer = serve.get(url).json()
        by_serve += [hit["page"] for hit in answer["hits"]]
        url = answer["next_url"]
    assert by_serve == by_command

    url, by_dashboard = "/search?q=bike", []
    while url:
        page = dashboard.get(url).text
        by_dashboard += [int(number) for number in re.findall(r"minutes, page (\d+)", page)]
        following = re.search(r'rel="next" href="([^"]*)"', page)
        url = html.unescape(following[1]) if following else ""
    assert by_dashboard == by_command


def test_facets_count_all_results_and_link_to_them(dashboard: TestClient, serve: TestClient, published: Path) -> None:
    publish_sites(published)
    facets = serve.get("/-/search.json?q=tree").json()["facets"]
    assert facets == {
        "site": {"alpha": 2, "beta": 1},
        "body": {"City Council": 3},
        "kind": {"minutes": 3},
        "year": {"2023": 1, "2018": 1, "2017": 1},
    }
    for page in (dashboard.get("/search?q=tree&sort=date").text, serve.get("/-/search?q=tree&sort=date").text):
        links = [html.unescape(link) for link in re.findall(r'<li><a href="([^"]*)"', page)]
        assert any(link.endswith("search?q=tree&site=alpha&sort=date") for link in links), links
        assert any(link.endswith("search?q=tree&year=2018&sort=date") for link in links), links
    site = serve.get("/alpha/search.json?q=tree").json()
    assert site["facets"]["site"] == {"alpha": 2}
    assert "site=" not in serve.get("/alpha/search?q=tree").text


def test_each_page_has_a_permanent_page_with_citation_and_source(serve: TestClient, published: Path) -> None:
    publish_sites(published)
    (hit,) = serve.get("/-/search.json?q=voters").json()["hits"]
    assert hit["path"] == "/-/pages/beta/minutes/2024-07-02/City%20Council/9"
    assert hit["citation"] == (
        "beta, City Council, minutes of 2 July 2024, page 9. https://beta.example/9.pdf"
    )  # fmt: skip
    page = serve.get(f"{hit['path']}?q=votes").text
    assert hit["citation"] in page
    assert 'href="https://beta.example/9.pdf"' in page
    assert "The voters <mark>voted</mark>: a <mark>vote</mark> on" in page
    for path in ("/-/pages/beta/minutes/2024-07-02/City%20Council/10", "/-/pages/none/minutes/2024-07-02/x/1",
                 "/-/pages/beta/poems/2024-07-02/City%20Council/9"):  # fmt: skip
        assert serve.get(path).status_code == 404


def test_the_command_takes_words_and_excluded_words_without_quotes(clerk_command: Clerk, published: Path) -> None:
    publish_sites(published)
    result = clerk_command("search", "hedge", "-school", "--sort", "date", "--facets")
    assert result.code == 0
    assert "beta  City Council, 2023-06-06, minutes, page 8" in result.out
    assert "page 9" not in result.out
    assert re.search(r"2023 +1", result.out)
    assert clerk_command("search", "hedge", "-hedge").code == 1
    assert "https://beta.example/9.pdf" in clerk_command("search", "voters").out
    assert clerk_command("search", "-h").code == 0
    assert "unknown operator" in clerk_command("search", "tree", "XOR", "hedge").err


def test_csv_cells_are_not_formulas(clerk_command: Clerk, published: Path) -> None:
    publish(published, "alpha", {"text": "=HYPERLINK(bike)", "meeting": "@council"})
    (row,) = csv.DictReader(io.StringIO(clerk_command("search", "bike", "--csv").out))
    assert (row["snippet"], row["meeting"]) == ("'=HYPERLINK(bike)", "'@council")


@pytest.mark.parametrize("with_index", [False, True])
def test_what_to_try_if_nothing_is_found(
    clerk_command: Clerk, dashboard: TestClient, serve: TestClient, published: Path, with_index: bool
) -> None:
    publish_sites(published)
    if with_index:
        SearchIndex(published).build(current_versions(published))

    def suggested(query: str) -> list[tuple[str, str]]:
        page = html.unescape(dashboard.get(f"/search?{query}").text)
        on_dashboard = re.findall(r'href="/search(\?[^"]*)"><bdi>[^<]*</bdi></a> <span class="muted">(\d+) page', page)
        page = html.unescape(serve.get(f"/-/search?{query}").text)
        on_serve = re.findall(r'href="/-/search(\?[^"]*)"><bdi>[^<]*</bdi></a> \((\d+) page', page)
        assert on_dashboard == on_serve
        return on_dashboard

    assert suggested("q=hegde+shcool") == [("?q=hedge+school", "1")]
    assert suggested("q=bkie+lanes") == [("?q=bike+lanes", "2")]
    assert suggested("q=orinance") == [("?q=ordinance", "2")]
    assert suggested("q=tree+budget") == [("?q=tree+OR+budget", "4")]
    assert suggested("q=tree+budget+-hedge") == [("?q=%28tree+OR+budget%29+-hedge", "3")]
    assert suggested("q=hedge&site=alpha&year=2017") == [("?q=hedge", "2")]
    assert suggested("q=hegde&site=alpha") == []
    assert suggested('q="cutting+tree"') == [("?q=cutting+tree", "2")]
    assert suggested("q=zebra") == []
    result = clerk_command("search", "tree", "budget")
    assert (result.code, "tree OR budget" in result.out) == (1, True)
